"""The page of a tool, whatever its schema: a form, or a word that there is none, and JSON that is sent as it is typed.

The schemas are those of the official JSON Schema suite, draft 2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests import machine
from tests.console.audit import Audit
from tests.console.stage import Stage, run_stage

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

pytestmark = [pytest.mark.requires("browser", "git", "models", "suite"), pytest.mark.promise("T2")]

OF_A_FILE = 100
PARTS = 8
SAMPLE = range(0, PARTS, 4)
"""Of all shapes a quarter: they take a tenth of a second each. After a change of the form, look at `range(PARTS)`."""


def read_schemas() -> list[Any]:
    """Every schema of the suite, and each as the schema of one parameter."""
    schemas: list[Any] = []
    for file in sorted((machine.suite() / "tests" / "draft2020-12").rglob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict):
                schemas.append({"type": "object", **schema})
            schemas.append({"type": "object", "properties": {"value": schema}, "required": ["value"]})
    return schemas


@pytest.fixture(scope="module")
def stage(_shielded_session: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with run_stage(tmp_path_factory.mktemp("forms")) as running:
        tools = [
            {
                "name": f"shape{number}",
                "description": "A shape.",
                "inputSchema": schema,
                "handler": {"type": "shell", "command": "true"},
            }
            for number, schema in enumerate(read_schemas())
        ]
        for start in range(0, len(tools), OF_A_FILE):
            file = {"name": f"shapes{start}", "tools": tools[start : start + OF_A_FILE]}
            (running.config / "tools" / f"shapes{start}.json").write_text(json.dumps(file), encoding="utf-8")
        exact = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
        tool = {"name": "exact", "description": "Answers with what it got.", "inputSchema": exact}
        tool["handler"] = {"type": "shell", "command": "cat", "stdin": "{{value}}"}
        file = {"name": "exact", "tools": [tool]}
        (running.config / "tools" / "exact.json").write_text(json.dumps(file), encoding="utf-8")
        running.stop()
        running.start()
        yield running


@pytest.mark.parametrize("part", SAMPLE)
def test_every_shape_of_a_schema_has_a_form_or_says_that_it_has_none(
    page: Page, stage: Stage, audit: Audit, part: int
) -> None:
    tools = [tool["name"] for tool in stage.ask("GET", "/api/tools")["tools"] if tool["name"].startswith("shape")]
    assert len(tools) > 700, "the suite's schemas became tools"
    forms = 0
    page.set_default_timeout(10_000)
    for name in tools[part::PARTS]:
        page.evaluate("(address) => history.pushState(null, '', address)", f"/tools/{name}")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        if page.get_by_role("tab", name="JSON").get_attribute("aria-selected") != "true":
            fields = page.locator("form.schema-form :is(input, select, textarea, button)")
            expect(fields.or_(page.locator(".hint-box")).first).to_be_visible()
            forms += page.locator(".hint-box").count() == 0
            page.get_by_role("tab", name="JSON").click()
        expect(page.get_by_role("textbox", name="Arguments as JSON")).to_be_visible()
        assert page.locator(".problem").count() == 0, name
    assert forms > 20, f"only {forms} have a form"
    # The library says in the console where it leaves out parts that contradict each other.
    audit.problems[:] = [one for one in audit.problems if "could not merge subschemas in allOf" not in one]


@pytest.mark.parametrize(
    "typed",
    [
        '{"value": 9007199254740993}',
        '{"value": -123456789012345678901234567890}',
        '{"value": 1.0}',
        '{"value": 0.1000}',
        '{"value": 1E2}',
        '{"value": [12345678901234567890, {"deep": 0.30000000000000000001}]}',
        '{"value": "9007199254740993", "__proto__": {"a": 1}}',
    ],
)
def test_json_is_sent_with_every_number_as_it_was_typed(page: Page, typed: str) -> None:
    page.goto("/tools/exact")
    page.get_by_role("tab", name="JSON").click()
    page.get_by_role("textbox", name="Arguments as JSON").fill(typed)
    with page.expect_request("**/api/tools/exact/call") as sent:
        page.get_by_role("button", name="Call it").click()
    request: Request = sent.value
    assert request.post_data is not None
    assert request.post_data.replace(" ", "") == f'{{"input":{typed}}}'.replace(" ", "")
    expect(page.get_by_text("done", exact=True).first).to_be_visible()


def test_a_form_does_not_take_a_number_that_it_would_change(page: Page) -> None:
    page.goto("/tools/exact")
    page.get_by_role("tab", name="JSON").click()
    field = page.get_by_role("textbox", name="Arguments as JSON")
    field.fill('{"value": 9007199254740993}')
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_text("A form cannot keep the number 9007199254740993 exactly")).to_be_visible()
    page.get_by_role("tab", name="JSON").click()
    expect(field).to_have_value('{\n  "value": 9007199254740993\n}')
