"""A custom tool of an agent: a mapping in `tools` becomes a `PromptTool`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from toolstead.agents.agent_fields import FieldReader
from toolstead.agents.prompt_template import PLACEHOLDER, find_placeholders
from toolstead.agents.yaml_nodes import YamlNode
from toolstead.errors import SchemaError
from toolstead.nearest_names import suggest
from toolstead.schema.compiled import schema_from_parameters
from toolstead.schema.explanation import preview_value, shorten_text
from toolstead.types.agent import PromptTool
from toolstead.types.tool import JSONSchema

KEYS = ("name", "description", "prompt", "parameters", "input_schema", "model", "result_schema", "tools", "cache")
PARAMETER_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_OPEN_ENDED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "$dynamicRef"})
"""Keywords that may give a schema parameters which its `properties` do not have."""


def read_custom_tool(
    node: YamlNode, field: str, fields: FieldReader, *, text: str, model_problem: Callable[[str], str]
) -> PromptTool | None:
    """Read a custom tool, or report why it is none.

    Args:
        node: The mapping.
        field: Its place, for messages.
        fields: Reads its values.
        text: The text of the whole file, in which placeholders are found.
        model_problem: Why there is no such model; empty when there is.
    """
    members = node.members or {}
    fields.check_keys(node, KEYS, "a custom tool")
    name = fields.read_name(members["name"], f"{field}.name") if "name" in members else None
    if "name" not in members:
        fields.report.add_error(node.start, f"{field}: a custom tool needs a `name`, such as `summarize`")
    description = _read_description(node, members, field, fields)
    prompt = None
    if "prompt" in members:
        prompt = fields.read_filled_text(members["prompt"], f"{field}.prompt", kind="prose")
    else:
        fields.report.add_error(
            node.start, f'{field}: a custom tool needs a `prompt`, such as "Summarize:\\n\\n{{{{text}}}}"'
        )
    input_schema = _read_input_schema(node, members, field, fields)
    model = read_model(members.get("model"), f"{field}.model", fields, model_problem)
    result_schema = None
    if "result_schema" in members:
        result_schema = fields.read_schema(members["result_schema"], f"{field}.result_schema")
    tools = fields.read_patterns(members["tools"], f"{field}.tools") if "tools" in members else None
    cache = fields.read_flag(members["cache"], f"{field}.cache") if "cache" in members else False
    if name is None or prompt is None or input_schema is None:
        return None
    _compare_placeholders(prompt, input_schema, members=members, field=field, fields=fields, text=text)
    return PromptTool(
        name=name,
        description=description,
        prompt=prompt,
        input_schema=input_schema,
        model=model,
        result_schema=result_schema,
        tools=tools,
        cache=cache or False,
    )


def read_model(node: YamlNode | None, field: str, fields: FieldReader, model_problem: Callable[[str], str]) -> str:
    """A model's name that means a model; empty when there is none."""
    model = fields.read_filled_text(node, field, kind="name") if node is not None else None
    if node is not None and model and (problem := model_problem(model)):
        fields.report.add_error(node.start, f"{field}: {problem}")
    return model or ""


def _read_description(node: YamlNode, members: Mapping[str, YamlNode], field: str, fields: FieldReader) -> str:
    given = members.get("description")
    description = fields.read_description(given, f"{field}.description") if given is not None else ""
    if given is None or (description is not None and not description.strip()):
        at = node.start if given is None else given.start
        fields.report.add_warning(at, f"{field}: no description; a model needs a sentence to know when to call it")
    return description or ""


def _read_input_schema(
    node: YamlNode, members: Mapping[str, YamlNode], field: str, fields: FieldReader
) -> JSONSchema | None:
    if "parameters" in members and "input_schema" in members:
        fields.report.add_error(node.keys["input_schema"], f"{field}: give `parameters` or `input_schema`, not both")
        return None
    if "input_schema" in members:
        return fields.read_schema(members["input_schema"], f"{field}.input_schema", is_input=True)
    if "parameters" in members:
        return _read_parameters(members["parameters"], f"{field}.parameters", fields)
    return {"type": "object", "properties": {}}


def _read_parameters(node: YamlNode, field: str, fields: FieldReader) -> JSONSchema | None:
    """The schema of parameters in the simple form."""
    if node.members is None:
        fields.report.add_error(
            node.start,
            f"{field}: a mapping such as {{text: {{type: string}}}} is needed, not {preview_value(node.to_plain())}",
        )
        return None
    checked = [_check_parameter(node, name, f"{field}.{shorten_text(name, 60)}", fields) for name in node.members]
    if not all(checked):
        return None
    try:
        document = schema_from_parameters(node.to_plain(), tool="")
    except SchemaError as error:
        fields.report.add_error(node.start, f"{field}: {error.reason}")
        return None
    return fields.compile_document(document, node, field, is_input=True, skipped=1)


def _check_parameter(parameters: YamlNode, name: str, field: str, fields: FieldReader) -> bool:
    node = (parameters.members or {})[name]
    members = node.members
    if members is None:
        kind = node.value if node.value in PARAMETER_TYPES else "string"
        shown = "nothing" if node.value is None else preview_value(node.to_plain())
        fields.report.add_error(
            parameters.keys[name], f"{field}: a mapping such as {{type: {kind}}} is needed, not {shown}"
        )
        return False
    kind = members.get("type")
    if kind is None or kind.value not in PARAMETER_TYPES:
        given = "" if kind is None else f", not {preview_value(kind.to_plain())}"
        hint = "" if kind is None else suggest(str(kind.value), PARAMETER_TYPES)
        fields.report.add_error(
            parameters.keys[name] if kind is None else kind.start,
            f"{field}.type: one of {', '.join(PARAMETER_TYPES)} is needed{given}{f'; {hint}' if hint else ''}",
        )
        return False
    needed = members.get("required")
    return needed is None or fields.read_flag(needed, f"{field}.required") is not None


def _compare_placeholders(
    prompt: str,
    schema: JSONSchema,
    *,
    members: Mapping[str, YamlNode],
    field: str,
    fields: FieldReader,
    text: str,
) -> None:
    """Warn of places without a parameter and of parameters without a place."""
    node = members["prompt"]
    used = find_placeholders(prompt)
    places = {found[1]: found.start() for found in PLACEHOLDER.finditer(text, node.start, node.end)}
    known: list[str] = list(cast("Mapping[str, Any]", schema.get("properties", {})))
    for name in used if not _OPEN_ENDED & schema.keys() else ():
        if name not in known:
            slot = f"{{{{{name}}}}}"
            hint = suggest(name, known, show=lambda near: f"`{{{{{near}}}}}`", otherwise="give it a parameter")
            fields.report.add_warning(
                places.get(name, node.start),
                f"{field}.prompt: `{shorten_text(slot, 60)}` has no parameter, and stays as it is; {hint}",
            )
    owner = members.get("parameters") or members.get("input_schema")
    if owner is None:
        return
    steps = () if "parameters" in members else ("properties",)
    for name in known:
        if name not in used:
            shown = shorten_text(name, 60)
            fields.report.add_warning(
                owner.find_place((*steps, name)),
                f"{field}: the parameter `{shown}` has no place in the prompt; write {{{{{shown}}}}} where it belongs",
            )
