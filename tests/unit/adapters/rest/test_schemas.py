"""Schemas from Structs: what `to_json` gives fits, and every member is described."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from toolstead.adapters.rest import answers
from toolstead.adapters.rest.schemas import build_schemas, refer_to
from toolstead.adapters.rest.thread_routes import ThreadBody, ThreadChange
from toolstead.types.approval import Approval
from toolstead.types.content import EmbeddedResource, Image, Text
from toolstead.types.event import Event
from toolstead.types.result import ToolResult
from toolstead.types.run import Run, RunError
from toolstead.types.sent import SentStruct
from toolstead.types.thread import Message, Thread
from toolstead.types.tool import Changes, Problem, Provenance, Reloaded, ToolInfo

RUN = Run(id="r", thread_id="t", prompt="p", created_at=1.0, owner="o")
APPROVAL = Approval(
    id="a",
    call_id="c",
    tool="x",
    input={},
    reason="",
    asked_by="p",
    thread_id="t",
    requested_at=1.0,
    expires_at=2.0,
    owner="o",
)
CHANGE = {"pointer": "/a", "change": "x", "breaking": True}
SENT = [
    RUN,
    Run(id="r", thread_id="t", prompt="", created_at=1.0, owner="", error=RunError(code="x", message="y")),
    answers.ThreadAnswer(
        thread=Thread(id="t", created_at=1.0, parent_thread_id="p"),
        messages=[Message(id="m", thread_id="t", role="user", content="", created_at=1.0)],
    ),
    Event(id="1", type="x", time=1.0, data={"a": 1}, task_id="t"),
    ToolResult(content=(Text("x"), Image(data=b"x", mime_type="y"), EmbeddedResource(uri="u", content="t"))),
    answers.ApprovalAnswer(approval=APPROVAL, shown=answers.ReadableCall(input="{}", reason="")),
    ToolInfo(name="x", description="", provenance=Provenance(source="mcp", origin="o"), input_schema={}, stale=True),
    Reloaded(
        success=False,
        tool_count=1,
        errors=(Problem(source="s", message="m", line=1),),
        changes=Changes(changed=("x",), schema_changes={"x": [CHANGE]}),
    ),
]


def _validator(value: SentStruct, schemas: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for({**refer_to(type(value)), "components": {"schemas": schemas}})


@pytest.mark.parametrize("value", SENT, ids=lambda value: type(value).__name__)
def test_what_is_sent_fits_its_schema_and_is_all_of_it(value: SentStruct) -> None:
    schemas = build_schemas([type(value)])
    sent = value.to_json()
    assert [error.message for error in _validator(value, schemas).iter_errors(sent)] == []
    own = schemas[refer_to(type(value))["$ref"].rsplit("/", 1)[1]]
    assert set(own["required"]) <= set(sent) <= set(own["properties"])
    for missing in own["required"]:
        assert not _validator(value, schemas).is_valid({name: sent[name] for name in sent if name != missing})


@pytest.mark.parametrize("value", SENT, ids=lambda value: type(value).__name__)
def test_every_member_is_described(value: SentStruct) -> None:
    for name, schema in build_schemas([type(value)]).items():
        assert schema["description"], name
        lacking = [key for key, one in schema["properties"].items() if "description" not in one and "enum" not in one]
        assert lacking == [], name


def test_a_body_may_be_null_where_its_struct_says_so_and_has_nothing_else() -> None:
    schemas = build_schemas([ThreadBody, ThreadChange])
    assert list(schemas) == ["ThreadChange", "ThreadRequest"]
    for schema in schemas.values():
        validator = jsonschema_rs.validator_for(schema)
        assert validator.is_valid({"title": None, "agent": "x"})
        assert not validator.is_valid({"titel": "x"})
        assert not validator.is_valid({"title": "a\nb"})
    assert schemas["ThreadChange"]["properties"] == schemas["ThreadRequest"]["properties"]
