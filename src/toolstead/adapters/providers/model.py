"""The kernel's model port over pydantic-ai: one streamed request to any API.

pydantic-ai's model layer maps messages and streams; nothing of its agents is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pydantic_ai.messages import (
    InstructionPart,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from toolstead.adapters.providers.catalogue import API, Vendor
from toolstead.adapters.providers.conversation import translate_messages
from toolstead.adapters.providers.faults import FaultSource, model_error, raised_by
from toolstead.adapters.providers.http_client import remember_responses
from toolstead.adapters.providers.prices import Prices
from toolstead.adapters.providers.tool_copies import api_copies
from toolstead.errors import ModelError
from toolstead.kernel.conversation import ModelReply, ToolUse
from toolstead.kernel.model import ModelDelta, ModelRequest

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as ForeignModel

_MAX_TOKENS = 32_000  # for an Anthropic model with an unknown limit; the API requires a number

_EVERYWHERE = frozenset({"image/png", "image/jpeg", "image/webp"})
_IMAGES: dict[API, frozenset[str]] = {
    "anthropic": _EVERYWHERE | {"image/gif"},
    "responses": _EVERYWHERE | {"image/gif"},
    "chat": _EVERYWHERE | {"image/gif"},
    "gemini": _EVERYWHERE | {"image/heic", "image/heif"},
}

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class ProviderModel:
    """One model of one provider; connections are shared by all its requests, and closed by `aclose`."""

    def __init__(self, *, caller: FaultSource, foreign: ForeignModel[Any], client: httpx2.AsyncClient) -> None:
        """Wrap a configured model and its HTTP client."""
        vendor: Vendor = caller.vendor
        self._name = f"{vendor.name}:{caller.model_name}"
        self._caller = caller
        self._foreign = foreign
        self._client = client
        self._copies = api_copies(vendor.rules, self._name)
        self._prices = Prices(self._name)
        self._raised = raised_by(vendor.api)
        self._images = _IMAGES[vendor.api] if foreign.profile.get("supports_image_input", True) else frozenset[str]()
        self._settings = _model_settings(vendor.api, foreign)

    @property
    def name(self) -> str:
        """`provider:name`, such as `anthropic:claude-sonnet-4-6`."""
        return self._name

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply]:
        """Make one request: yield pieces as they arrive, then the whole reply as the last item.

        Closing the iterator early ends the request.

        Raises:
            ModelError: The reply is incomplete; its `fault` says why.
        """
        parameters = ModelRequestParameters(
            function_tools=self._copies.copies_of(request.tools),
            instruction_parts=[InstructionPart(content=request.instructions)] if request.instructions else [],
        )
        settings = self._settings
        if request.max_tokens is not None:
            settings = cast("ModelSettings", {**settings, "max_tokens": request.max_tokens})
        messages = translate_messages(request.messages, images=self._images)
        opened: list[httpx2.Response] = []
        try:
            async with AsyncExitStack() as stack:
                with remember_responses(opened):
                    asked = self._foreign.request_stream(messages, settings, parameters)
                    answer = await stack.enter_async_context(asked)
                events = cast("AsyncGenerator[ModelResponseStreamEvent]", aiter(answer))
                async for event in await stack.enter_async_context(aclosing(events)):
                    delta = _delta_of(event)
                    if delta is not None:
                        yield delta
            response = answer.get()
        except self._raised as error:
            raise model_error(error, self._caller, request.tools) from error
        finally:
            for connection in opened:
                await connection.aclose()
        yield self._build_reply(response)

    async def aclose(self) -> None:
        """Close the connections; requests that still run fail."""
        await self._client.aclose()

    def _build_reply(self, response: ModelResponse) -> ModelReply:
        self._refuse_half_an_answer(response)
        calls = tuple(_call(part) for part in response.parts if isinstance(part, ToolCallPart))
        return ModelReply(
            text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
            calls=calls,
            usage=self._prices.usage_of(response),
            cut=response.finish_reason == "length",
            kept=response,
        )

    def _refuse_half_an_answer(self, response: ModelResponse) -> None:
        """Raise if an answer ended abnormally."""
        title = self._caller.vendor.title
        details = response.provider_details or {}
        reason = details.get("finish_reason") or details.get("block_reason") or response.finish_reason
        match response.finish_reason:
            case "content_filter":
                raise ModelError(
                    f"{title} stopped the answer because of its content policy ({reason}); rephrase the request",
                    fault="rejected",
                )
            case "error":
                raise ModelError(f"{title} failed in the middle of the answer ({reason})", fault="server")
            case None if response.state == "incomplete" or not reason:
                raise ModelError(f"{title}: the answer broke off before its end", fault="network")
            case _:
                pass


def _model_settings(api: API, foreign: ForeignModel[Any]) -> ModelSettings:
    """The settings of every request.

    Anthropic caches only on request: tools, instructions, and the growing conversation, which the loop sends again
    with each turn; one cache read pays for the dearer write. The other APIs cache automatically.
    """
    if api != "anthropic":
        return {}
    profile = cast("dict[str, Any]", foreign.profile)
    known = profile.get("anthropic_max_output_tokens") or profile.get(
        "anthropic_rejects_max_tokens_beyond_context_window"
    )
    return {"cache": True} if known else {"cache": True, "max_tokens": _MAX_TOKENS}


def _delta_of(event: ModelResponseStreamEvent) -> ModelDelta | None:
    """A piece of the streamed reply, or None; tool calls are reported whole."""
    match event:
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
            return ModelDelta(text)
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
            return ModelDelta(text, "thinking")
        case PartStartEvent(part=TextPart(content=text)) if text:
            return ModelDelta(text)
        case PartStartEvent(part=ThinkingPart(content=text)) if text:
            return ModelDelta(text, "thinking")
        case _:
            return None


def _call(part: ToolCallPart) -> ToolUse:
    """A tool call; arguments that are not a JSON object stay text."""
    match part.args:
        case dict():
            return ToolUse(id=part.tool_call_id, name=part.tool_name, input=part.args)
        case None | "":
            return ToolUse(id=part.tool_call_id, name=part.tool_name, input={})
        case str() as text:
            try:
                return ToolUse(id=part.tool_call_id, name=part.tool_name, input=_decode_object(text))
            except msgspec.DecodeError:
                return ToolUse(id=part.tool_call_id, name=part.tool_name, input=None, text=text)
