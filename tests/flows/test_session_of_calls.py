"""A tool that an agent calls is told the session it is called from, through the public doors."""

from __future__ import annotations

from pathlib import Path

from toolstead import Tool, ToolMeta, Toolstead
from toolstead.plugins.decorator import tool

SCRIPT = """
- when: .
  call: [{tool: which_session, input: {}}]
- say: "{{result}}"
"""


def which_session() -> Tool:
    @tool(name="which_session")
    async def which(meta: ToolMeta) -> str:
        """Say which session this call came from."""
        return str(meta.session_id)

    return which


async def test_a_tool_knows_the_session_on_every_turn_and_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    scripted = {"script": "script.yaml", "folder": str(tmp_path / "conversations")}
    told: list[str | None] = []
    for _ in range(2):
        environ = {"TOOLSTEAD_HOME": str(tmp_path / "home")}
        async with Toolstead(
            tmp_path, settings={"runtime": {"scripted": scripted}}, environ=environ, watch=False
        ) as stead:
            stead.registry.register(which_session())
            told += [(await stead.invoke(text, thread_id="t")).result for text in ("first", "second")]
            kept = (await (await stead.conversations()).store.read_thread("t")).session_id
            assert kept is not None
    assert told == [kept.partition(":")[2]] * 4
