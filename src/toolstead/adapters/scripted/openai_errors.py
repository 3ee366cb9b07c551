"""The errors of OpenAI's two APIs; they differ in a few words."""

from __future__ import annotations

from toolstead.adapters.scripted.api_dialect import Grievance, Refusal


def render_openai_refusal(grievance: Grievance, *, chat: bool) -> Refusal:
    """An error in the shape of the Chat Completions API, or of the Responses API."""
    param: str | None = None
    code: str | None = None
    kind = "invalid_request_error"
    headers: tuple[tuple[str, str], ...] = ()
    model = grievance.request.model
    match grievance.kind:
        case "overloaded":
            status, kind, code = 503, "service_unavailable_error", "server_is_overloaded"
            text = "Our servers are currently overloaded. Please try again later."
        case "rate_limit":
            status, kind, code = 429, "requests", "rate_limit_exceeded"
            text = (
                f"Rate limit reached for {model} in organization org-scripted on requests per min (RPM): Limit 3, "
                f"Used 3, Requested 1. Please try again in {grievance.retry_after}s."
            )
            headers = (("retry-after", str(grievance.retry_after)),)
        case "server_error":
            status, kind = 500, "server_error"
            text = "The server had an error while processing your request. Sorry about that!"
        case "schema":
            tool = grievance.tool
            status, code = 400, "invalid_function_parameters"
            param = f"tools[{tool.place}].function.parameters" if chat else f"tools[{tool.place}].parameters"
            text = f"Invalid schema for function '{tool.name}': In context=(), object schema missing properties."
        case "overflow":
            status, code, param = 400, "context_length_exceeded", "messages" if chat else "input"
            text = (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 141237 "
                "tokens. Please reduce the length of the messages."
                if chat
                else "Your input exceeds the context window of this model. Please adjust your input and try again."
            )
        case "bad_key":
            status, code = 401, "invalid_api_key"
            text = (
                f"Incorrect API key provided: {_mask_key(grievance.key)}. You can find your API key at "
                "https://platform.openai.com/account/api-keys."
            )
        case "no_model":
            code = "model_not_found"
            status, param = (404, None) if chat else (400, "model")
            text = (
                f"The model `{model}` does not exist or you do not have access to it."
                if chat
                else f"The requested model '{model}' does not exist."
            )
        case "unknown":
            status, text = 404, grievance.text
        case "too_large":
            status, text = 413, grievance.text
        case "invalid":
            status, text = 400, grievance.text
    error = {"message": text, "type": kind, "param": param, "code": code}
    return Refusal(status=status, body={"error": error}, headers=(("x-request-id", "req_scripted"), *headers))


def _mask_key(key: str) -> str:
    """A key as the API repeats it: its ends only."""
    return f"{key[:3]}{'*' * max(0, len(key) - 5)}{key[-2:]}" if len(key) > 5 else "*" * len(key)
