"""The benchmarks' own arithmetic: which peer a goal is held against, by which clock, and what is served to whom."""

from __future__ import annotations

from pathlib import Path

from benchmarks import agent_files, agent_work, processes, workload
from benchmarks.contestants import with_plugin
from benchmarks.harness import Bench, Contestant, Entry, Goal, Outcome, Race, Role, Row, Sample, Scale, run_race
from benchmarks.rows.agent_files import SharedProcess
from benchmarks.table import render
from toolstead import Toolstead, tool
from toolstead.testing import memory_stead


def entry(name: str, role: Role, *samples: Sample) -> Entry:
    contestant = Contestant(name=name, role=role, measure=dict)
    return Entry(contestant=contestant, samples=dict(enumerate(samples)))


def told(row: Row, *entries: Entry) -> str:
    return render([Outcome(row=row, entries=entries, rounds=1)], [])


def test_a_goal_is_held_against_the_best_of_the_rivals_by_its_own_clock() -> None:
    goal = Goal(against="rivals", rivals=("slow", "quick"), limit=3, by="wall")
    text = told(
        Row(key="k", title="a row", goals=(goal,)),
        entry("ours", "ours", Sample(cpu=1, wall=1)),
        entry("slow", "peer", Sample(cpu=2, wall=9)),
        entry("quick", "peer", Sample(cpu=8, wall=4)),
        entry("other", "peer", Sample(cpu=1, wall=2)),
    )
    assert "goal ≥3× under slow or quick: met, 4.00× in wall time against quick (8.00× in CPU time)" in text


def test_a_goal_just_missed_is_told() -> None:
    goal = Goal(against="rivals", rivals=("peer",), limit=3)
    row = Row(key="k", title="a row", goals=(goal,))
    ours, peer = entry("ours", "ours", Sample(cpu=1, wall=1)), entry("peer", "peer", Sample(cpu=2.9, wall=9))
    assert "behind, 2.90× in CPU time against peer" in told(row, ours, peer)
    assert "goal ≥3× under peer: not measured" in told(row, ours)


def test_a_budget_is_held_against_the_time_of_the_first_of_ours() -> None:
    row = Row(key="k", title="a row", goals=(Goal(against="budget", limit=0.005),))
    first, second = entry("first", "ours", Sample(cpu=0.001, wall=1)), entry("second", "ours", Sample(cpu=1, wall=1))
    assert "goal ≤5.00 ms: met, 1.00 ms, 0.20× the budget" in told(row, first, second)
    assert "goal ≤5.00 ms: behind, 1.00 s, 200× the budget" in told(row, second, first)


def test_one_process_measures_the_contestants_of_a_round_that_share_it() -> None:
    runs: list[int] = []

    def run() -> dict[str, dict[str, Sample]]:
        runs.append(len(runs))
        return {who: {"k": Sample(cpu=len(runs), wall=1)} for who in ("one", "other")}

    shared = SharedProcess(run)
    contestants = tuple(shared.contestant(who, who, "") for who in ("one", "other"))
    (outcome,) = run_race(Race(rows=(Row(key="k", title="a row"),), contestants=contestants, rounds=3))
    assert len(runs) == 3
    for one in outcome.entries:
        assert [one.samples[number].cpu for number in range(3)] == [1, 2, 3], one.contestant.name


async def test_the_agents_file_of_the_rows_is_valid_and_shows_what_they_expect() -> None:
    tools = [tool(agent_work.add), *(tool(function) for function in workload.many(20))]
    async with memory_stead(*tools) as stead:
        agent_files.write_file(stead._parts.places.user / "agents")
        agents = await stead.agents()
        assert agents.find_findings() == []
        offered = {one.name for one in agents.explain_tools(agents.read_agent(agent_files.NAME)) if one.is_offered}
    assert {*agent_files.OWN, agent_work.ADD, workload.READ} <= offered
    assert sum(name.startswith("tool_") for name in offered) == agent_files.count_numbered(20) == 15


def test_ratios_are_of_the_clock_that_the_row_names() -> None:
    entries = (entry("ours", "ours", Sample(cpu=1, wall=1)), entry("peer", "peer", Sample(cpu=2, wall=5)))
    assert "| peer | 2.00 s | 5.00 s | – | 5.00, wall |" in told(Row(key="k", title="a row", by="wall"), *entries)
    assert "| peer | 2.00 s | 5.00 s | – | 2.00 |" in told(Row(key="k", title="a row"), *entries)


def test_the_rejection_of_the_first_round_is_shown() -> None:
    samples = [Sample(cpu=1, wall=1, rejection=f"rejected in round {number}") for number in (1, 2)]
    text = told(Row(key="k", title="a row"), entry("ours", "ours", *samples))
    assert "- a row: rejected in round 1" in text
    assert "round 2" not in text


async def test_a_plugin_brings_the_same_tools_to_the_shipped_commands(tmp_path: Path) -> None:
    bench = Bench(scale=Scale(), project=tmp_path, home=tmp_path / "home")
    for tools, name in ((None, "repeat"), (3, workload.many_name(2))):
        environ = processes.environment(with_plugin(bench, tools).home)
        async with Toolstead(project=tmp_path, environ=environ) as stead:
            names = [info.name for info in stead.registry.list_tools() if info.name.startswith(workload.PLUGIN)]
            assert len(names) == (tools or 1)
            result = await stead.call(workload.name_in_plugin(name), workload.REPEAT_ARGUMENTS)
            assert result.text == workload.REPEAT_ANSWER
            assert (await stead.call(workload.name_in_plugin(name), {"text": 7})).is_error
