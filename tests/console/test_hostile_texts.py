"""What a model, a tool, a file or a person has written is never more than text, or a link that says where it leads.

Thousands of texts that attack pages go through every place that the console shows texts of others in. The audit sees
what a page would do with one that works: a message, a request elsewhere, a violation of the policy.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.console.payloads import is_attack, read_payloads
from tests.console.stage import Stage, run_stage, until
from tests.waiting import PATIENCE
from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator.endings import create_message_event, create_start_event, end_with_error
from toolstead.orchestrator.store import Ending, Store
from toolstead.types.event import NewEvent
from toolstead.types.run import Run
from toolstead.types.thread import Message, Thread

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [pytest.mark.requires("browser", "git", "models", "npm"), pytest.mark.promise("T2")]

OF_A_THREAD = 75
TALL = 12_000
MOST_LOOKS = 200
PLAIN = ("javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "\x01javascript:alert(1)", "vbscript:x")
PLAIN += ("data:text/html,<script>alert(1)</script>", "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==")
PLAIN += ("blob:http://127.0.0.1/1", "file:///etc/passwd", "&#106;avascript:alert(1)", "javascript&colon;alert(1)")
"""What no link may lead to."""

LOOK = """
(() => {
  const found = [];
  const tags = "P BR STRONG EM DEL CODE PRE BLOCKQUOTE UL OL LI H1 H2 H3 H4 H5 H6 HR A SPAN TABLE THEAD TBODY TR TH TD";
  const allowed = new Set(tags.split(" "));
  const kept = new Set(["href", "target", "rel", "class", "start", "align"]);
  const odd = "iframe frame frameset object embed applet base meta link style marquee video source math template";
  const forbidden = new Set([...odd.split(" "), "noscript", "script"]);
  const places = new Set(["href", "src", "action", "background", "poster"]);
  const runs = /^[\\s\\x00-\\x1f]*(javascript|vbscript|data:text|file|blob):?/i;
  const note = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 200)}`);
  for (const element of document.body.querySelectorAll("*")) {
    if (element.matches("body > noscript, body > script[src^='/assets/']")) continue;
    if (forbidden.has(element.localName)) note("tag", element);
    for (const { name, value } of element.attributes) {
      if (/^on|^(srcdoc|formaction|xlink:href)$/i.test(name)) note("attribute", element);
      if (places.has(name) && runs.test(value)) note("address", element);
    }
    if (element.localName === "a" && element.getAttribute("href")) {
      if (!["http:", "https:", "mailto:"].includes(element.protocol)) note("protocol", element);
      if (element.host !== location.host) {
        if (!element.rel.includes("noopener") || element.target !== "_blank") note("opener", element);
        const next = element.nextElementSibling;
        const said = next?.classList.contains("link-host") ? next.textContent : "";
        if (said !== `(${element.protocol === "mailto:" ? "mail" : element.host})`) note("says no host", element);
      }
    }
    if (element.closest(".markdown") && !element.classList.contains("markdown")) {
      if (!allowed.has(element.tagName)) note("markdown tag", element);
      for (const { name } of element.attributes) if (!kept.has(name)) note("markdown attribute", element);
    }
  }
  return [...new Set(found)].slice(0, 10);
})()
"""


@pytest.fixture(scope="module")
def payloads() -> list[str]:
    return read_payloads()


@pytest.fixture(scope="module")
def stage(_shielded_session: None, tmp_path_factory: pytest.TempPathFactory, payloads: list[str]) -> Iterator[Stage]:
    with run_stage(tmp_path_factory.mktemp("hostile")) as running:
        running.stop()
        _write_files(running, [text for text in payloads if is_attack(text)])
        with ThreadPoolExecutor() as worker:  # playwright has an event loop in this one
            worker.submit(asyncio.run, _fill_database(running, payloads)).result()
        running.start()
        yield running


@pytest.fixture
def hostile(browser: Any, stage: Stage, open_context: Any) -> Page:
    context: BrowserContext = open_context()
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": TALL})
    page.on("dialog", lambda dialog: (_ for _ in ()).throw(AssertionError(f"a dialog: {dialog.message}")))
    page.goto(stage.login)
    return page


def test_there_are_thousands_of_attacks(payloads: list[str]) -> None:
    assert len(payloads) > 3_000
    assert sum(map(is_attack, payloads)) > 2_000


def test_no_text_of_a_conversation_is_more_than_text(hostile: Page, stage: Stage, payloads: list[str]) -> None:
    chunks = list(_cut(payloads))
    for number, chunk in enumerate(chunks):
        _open(hostile, f"/chat/thread_{number:04}")
        expect(hostile.get_by_text(f"the last of {number}", exact=True)).to_be_visible()
        seen = _look_through(hostile)
        assert seen >= len(chunk) * 4, f"only {seen} entries of thread {number} were shown"


def test_a_link_of_markdown_leads_to_the_web_or_is_text(hostile: Page) -> None:
    _open(hostile, "/chat/thread_links")
    expect(hostile.get_by_text("the last of links", exact=True)).to_be_visible()
    links = hostile.locator(".transcript a").evaluate_all("(all) => all.map((one) => one.href)")
    assert sorted(set(links)) == ["http://example.com/a?b=c", "https://example.org/", "mailto:a@example.com"]
    assert hostile.locator(".transcript img").count() == 0


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/chat",
        "/runs?all=true",
        "/tools",
        "/editor",
        "/agents",
        "/tasks",
        "/approvals",
        "/plugins",
        "/sessions",
        "/events",
        "/settings",
        "/trust",
        "/try",
    ],
)
def test_no_screen_runs_what_others_wrote(hostile: Page, stage: Stage, address: str) -> None:
    callers: list[threading.Thread] = []
    if address == "/approvals":
        for text in ("<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"):
            arguments = {"input": {"target": "production", "version": text}}
            asked = ("POST", "/api/tools/careful__deploy/call", arguments)
            callers.append(threading.Thread(target=stage.ask, args=asked, daemon=True))
            callers[-1].start()
        until(lambda: len(stage.ask("GET", "/api/approvals")["approvals"]) >= 2)
    _open(hostile, address)
    expect(hostile.locator("main .loading")).to_have_count(0)
    for opener in hostile.locator("main [aria-expanded=false]:not(.tree-row), main .event-row").all()[:30]:
        if opener.is_visible():
            opener.click()
    assert hostile.evaluate(LOOK) == []
    for approval in stage.ask("GET", "/api/approvals")["approvals"]:
        stage.ask("POST", f"/api/approvals/{approval['id']}", {"decision": "deny"})
    for caller in callers:
        caller.join(PATIENCE)


def test_no_page_of_a_tool_an_agent_or_a_run_runs_what_its_author_wrote(hostile: Page, stage: Stage) -> None:
    tools = [
        f"/tools/{tool['name']}"
        for tool in stage.ask("GET", "/api/tools")["tools"]
        if tool["name"].startswith("hostile")
    ]
    agents = ["/agents/hostile"]
    runs = [f"/runs/run_{number:04}" for number in range(12)]
    files = ["/editor/hostile1", "/plugins/hostile"]
    assert len(tools) >= 30, "the others are quarantined"
    for address in (*tools, *agents, *runs, *files):
        _open(hostile, address)
        expect(hostile.locator("main .loading")).to_have_count(0)
        assert hostile.evaluate(LOOK) == [], address
        for tab in hostile.get_by_role("tablist").first.get_by_role("tab").all():  # those inside come and go
            tab.click()
            expect(hostile.locator("main .loading")).to_have_count(0)
            assert hostile.evaluate(LOOK) == [], (address, tab.inner_text())


def _open(page: Page, address: str) -> None:
    """Go to a screen as its links do, without loading the page again."""
    page.evaluate("(address) => { history.pushState(null, '', address); }", address)


def _look_through(page: Page) -> int:
    """Look at a conversation from its end to its beginning; how many entries it has."""
    seen: set[str] = set()
    view = page.locator(".transcript")
    for _ in range(MOST_LOOKS):
        assert page.evaluate(LOOK) == []
        seen.update(view.locator(".transcript-row").evaluate_all("(all) => all.map((one) => one.dataset.index)"))
        if "0" in seen:
            break
        view.evaluate("(box) => { box.scrollTop -= box.clientHeight * 0.8; }")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return len(seen)


def _cut(payloads: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(payloads), OF_A_THREAD):
        yield payloads[start : start + OF_A_THREAD]


async def _fill_database(stage: Stage, payloads: Sequence[str]) -> None:
    store = await open_store(stage.config / "data" / "toolstead.db")
    try:
        for number, chunk in enumerate(_cut(payloads)):
            events = [event for index, text in enumerate(chunk) for event in _say_everywhere(f"{number}_{index}", text)]
            await _add_thread(store, stage, f"{number:04}", chunk, events=events, last=f"the last of {number}")
        good = (
            "[a](http://example.com/a?b=c) <https://example.org/> ![p](https://example.org/) [m](mailto:a@example.com)"
        )
        links = [good, *(f"[a]({address}) <{address}> ![p]({address}) [r]\n\n[r]: {address}" for address in PLAIN)]
        said = [
            _event("message", {"messageId": f"l{index}", "role": "assistant", "content": text})
            for index, text in enumerate(links)
        ]
        await _add_thread(store, stage, "links", ["links"], events=said, last="the last of links")
    finally:
        await store.close()


async def _add_thread(
    store: Store, stage: Stage, id: str, texts: Sequence[str], *, events: Sequence[NewEvent], last: str
) -> None:
    """A thread with a run that ended: its title, prompt, model and end have texts of others, too."""
    now = time.time()
    first = texts[0]
    run = Run(
        id=f"run_{id}",
        thread_id=f"thread_{id}",
        prompt=first,
        created_at=now,
        owner=store.owner,
        agent=texts[-1][:60],
        model=texts[len(texts) // 2][:60],
        runtime="kernel",
    )
    thread = Thread(id=run.thread_id, created_at=now, title=first, project=str(stage.project))
    message = Message(id=f"msg_{id}", thread_id=thread.id, role="user", content=first, created_at=now)
    await store.accept_message(message, run, thread=thread, events=[create_message_event(message)])
    await store.begin_run(run, now, [create_start_event(run, now)])
    placed = [NewEvent(type=one.type, time=now, data=one.data, thread_id=thread.id, run_id=run.id) for one in events]
    plan = {"plan": [{"step": text, "status": "in_progress"} for text in texts[:5]]}
    end = {"messageId": f"end_{id}", "role": "assistant", "content": last}
    placed += [
        NewEvent(type=kind, time=now, data=data, thread_id=thread.id, run_id=run.id)
        for kind, data in (("plan.updated", plan), ("message", end))
    ]
    await store.append_events(placed)
    if id.isdigit() and int(id) % 2:
        await store.end_run(run.id, end_with_error(run, "failed", first[:60], first, now))
    else:
        await store.end_run(run.id, Ending(status="completed", ended_at=now, result=first))


def _say_everywhere(id: str, text: str) -> Iterator[NewEvent]:
    """A text as each kind of entry that a conversation has."""
    yield _event("message", {"messageId": f"u{id}", "role": "user", "content": text})
    yield _event("message", {"messageId": f"a{id}", "role": "assistant", "content": text})
    yield _event("thinking", {"text": text})
    yield _event("tool_use", {"callId": f"c{id}", "name": text, "input": {text: text}})
    yield _event("tool_result", {"callId": f"c{id}", "name": text, "content": text, "isError": True, "durationMs": 1})


def _event(kind: str, data: dict[str, Any]) -> NewEvent:
    return NewEvent(type=kind, time=time.time(), data=data)


def _write_files(stage: Stage, attacks: Sequence[str]) -> None:
    """Tools, agents and a plugin whose authors mean ill; and a project that waits for trust with the same."""
    for number in range(40):
        texts = attacks[number * 10 : number * 10 + 10]
        properties = {
            texts[0][:80]: {"type": "string", "title": texts[1], "description": texts[2], "default": texts[3]},
            "choice": {"enum": texts[4:8], "description": texts[8]},
            "list": {"type": "array", "items": {"type": "string", "title": texts[9]}, "examples": [texts]},
        }
        tool = {
            "name": f"hostile{number}",
            "description": "\n\n".join(texts),
            "inputSchema": {"type": "object", "properties": properties},
            "handler": {"type": "shell", "command": "echo {{choice}}"},
        }
        file = {"name": f"hostile{number}", "tools": [tool]}
        (stage.config / "tools" / f"hostile{number}.json").write_text(json.dumps(file), encoding="utf-8")
    names = [
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(2)>",
        "javascript:alert(3)",
        '"><script>alert(4)<&script>',
    ]
    for name, text in zip(names, attacks, strict=False):
        (stage.config / "tools" / f"{name}.json").write_text(
            json.dumps({"name": text, "handler": text}), encoding="utf-8"
        )
        (stage.config / "agents" / f"{name}.md").write_text(
            f"---\ndescription: {json.dumps(text)}\nmodel: [\n---\n{text}", encoding="utf-8"
        )
    front = f"name: hostile\ndescription: {json.dumps(attacks[0])}"
    body = "\n\n".join(text for text in attacks[:120] if text.isprintable())
    (stage.config / "agents" / "hostile.md").write_text(f"---\n{front}\n---\n{body}", encoding="utf-8")
    (stage.config / "plugins" / "hostile.py").write_text(_PLUGIN.format(texts=attacks[:6]), encoding="utf-8")
    project = stage.project / ".toolstead"
    (project / "tools").mkdir(parents=True, exist_ok=True)
    (project / "tools" / "<img src=x onerror=alert(5)>.json").write_text(
        json.dumps({"name": "x", "description": attacks[0]}), encoding="utf-8"
    )
    (project / "agents" / "hostile.md").write_text(f"---\ndescription: x\n---\n{body}", encoding="utf-8")


_PLUGIN = """
from pydantic import BaseModel, Field
from toolstead import Hooks, Plugin, PluginContext, tool

TEXTS = {texts!r}

class Settings(BaseModel):
    first: str = Field(default=TEXTS[0], title=TEXTS[1], description=TEXTS[2])
    second: list[str] = Field(default=[TEXTS[3]], description=TEXTS[4])

async def register(ctx: PluginContext) -> Hooks:
    return Hooks()

plugin = Plugin(name="hostile", version=TEXTS[5][:40], register=register, settings=Settings)
"""
