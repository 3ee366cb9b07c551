"""What stands in a captured request to a model API: read here by hand, not by the code under test."""

from __future__ import annotations

import json
from typing import Any

from toolstead.testing import Captured


def tools_of(request: Captured) -> dict[str, dict[str, Any]]:
    """Tool name → the schema that arrived."""
    body = request.body
    match request.api:
        case "anthropic":
            return {tool["name"]: tool["input_schema"] for tool in body.get("tools", [])}
        case "openai":
            return {tool["name"]: tool["parameters"] for tool in body.get("tools", [])}
        case "openai-chat":
            return {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", [])}
        case "gemini":
            declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
            return {one["name"]: one["parameters_json_schema"] for one in declared}


def results_of(request: Captured) -> list[str]:
    """The texts of all tool results, in order."""
    body = request.body
    match request.api:
        case "anthropic":
            parts = [part for message in body["messages"] for part in _parts(message["content"])]
            return [text_of(part["content"]) for part in parts if part.get("type") == "tool_result"]
        case "openai":
            items = [item for item in body["input"] if item.get("type") == "function_call_output"]
            return [text_of(item["output"]) for item in items]
        case "openai-chat":
            return [text_of(message["content"]) for message in body["messages"] if message["role"] == "tool"]
        case "gemini":
            parts = [part for content in body["contents"] for part in content["parts"]]
            return [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]


def call_ids(request: Captured) -> list[str]:
    """The ids of all calls that the model made, in order."""
    body = request.body
    match request.api:
        case "anthropic":
            parts = [part for message in body["messages"] for part in _parts(message["content"])]
            return [part["id"] for part in parts if part.get("type") == "tool_use"]
        case "openai":
            return [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        case "openai-chat":
            return [call["id"] for message in body["messages"] for call in message.get("tool_calls") or []]
        case "gemini":
            parts = [part for content in body["contents"] for part in content["parts"]]
            return [part["functionCall"]["id"] for part in parts if "functionCall" in part]


def user_texts(request: Captured) -> list[str]:
    """What the user said, in order."""
    body = request.body
    match request.api:
        case "anthropic":
            messages = [message for message in body["messages"] if message["role"] == "user"]
            return [text for message in messages for text in texts_of(message["content"])]
        case "openai":
            messages = [item for item in body["input"] if item.get("role") == "user"]
            return [text_of(message["content"]) for message in messages]
        case "openai-chat":
            return [text_of(message["content"]) for message in body["messages"] if message["role"] == "user"]
        case "gemini":
            contents = [content for content in body["contents"] if content["role"] == "user"]
            return [part["text"] for content in contents for part in content["parts"] if "text" in part]


def instructions_of(request: Captured) -> str:
    """The system prompt."""
    body = request.body
    match request.api:
        case "anthropic":
            return text_of(body.get("system", ""))
        case "openai":
            system = [item for item in body["input"] if item.get("role") in ("system", "developer")]
            return "\n".join([body.get("instructions") or "", *(text_of(item.get("content", "")) for item in system)])
        case "openai-chat":
            spoken = [message for message in body["messages"] if message["role"] in ("system", "developer")]
            return "\n".join(text_of(message["content"]) for message in spoken)
        case "gemini":
            return "\n".join(part["text"] for part in body["systemInstruction"]["parts"])


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def texts_of(content: Any) -> list[str]:
    """The texts of a content of Anthropic's, without results."""
    return [part["text"] for part in _parts(content) if part.get("type") == "text"]


def text_of(content: Any) -> str:
    """A content that is a text, or a list of parts."""
    return "\n".join(part.get("text", "") for part in _parts(content))
