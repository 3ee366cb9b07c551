"""The kernel's model port over pydantic-ai: one streamed request to any API.

pydantic-ai's model layer maps messages and streams; nothing of its agents is used.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import msgspec
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
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
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from toolstead.adapters.providers.catalogue import API
from toolstead.adapters.providers.conversation import translate_messages
from toolstead.adapters.providers.faults import explain_page, model_error, raised_by
from toolstead.adapters.providers.http_client import Connection, list_models, remember_responses
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.errors import ModelError
from toolstead.kernel.conversation import ModelReply, ToolUse
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.types.run import Usage
from toolstead.types.tool import ToolInfo

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as ForeignModel
    from pydantic_ai.models import StreamedResponse

logger = logging.getLogger(__name__)

_MAX_TOKENS = 32_000  # for an Anthropic model with an unknown limit; the API requires a number

_PRICED_TOKENS = 1_000
_MOST_REFUSED = 100
"""Schemas of answers that are remembered as refused."""

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

    def __init__(self, connection: Connection, foreign: ForeignModel[Any]) -> None:
        """Wrap a configured model."""
        vendor = connection.vendor
        self.name = connection.name
        self._connection = connection
        self._foreign = foreign
        self._copies = api_copies(vendor.rules, self.name)
        self._is_price_missing = False
        self._raised = raised_by(vendor.api)
        self._images = _IMAGES[vendor.api] if foreign.profile.get("supports_image_input", True) else frozenset[str]()
        self._settings = _model_settings(vendor.api, foreign)
        self._refused: dict[bytes, None] = {}

    async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply]:
        """Make one request: yield pieces as they arrive, then the whole reply as the last item.

        Closing the iterator early ends the request.

        Raises:
            ModelError: The reply is incomplete; its `fault` says why.
        """
        output, is_begun = self._enforced_output(request), False
        try:
            async with aclosing(self._stream_once(request, output)) as pieces:
                async for piece in pieces:
                    is_begun = True
                    yield piece
            return
        except ModelError as error:
            if output is None or is_begun or error.fault not in ("rejected", "schema"):
                raise
            refusal = error
        async with aclosing(self._stream_once(request, None)) as pieces:
            async for piece in pieces:
                if not is_begun:  # so the schema was the reason
                    is_begun = True
                    self._note_refusal(output, refusal)
                yield piece

    def _note_refusal(self, output: OutputObjectDefinition, error: ModelError) -> None:
        logger.warning("%s does not enforce the schema of an answer, so it only reads it: %s", self.name, error)
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        self._refused[_digest_schema(output)] = None

    def _enforced_output(self, request: ModelRequest) -> OutputObjectDefinition | None:
        """The schema of the answer, where the API takes one and has not refused it; the prompt has it in any case."""
        schema, profile = request.result_schema, cast("dict[str, Any]", self._foreign.profile)
        if schema is None or schema.get("type") != "object" or not profile.get("supports_json_schema_output", False):
            return None
        vendor = self._connection.vendor
        if vendor.api == "gemini" and request.tools and not profile.get("google_supports_tool_combination", False):
            return None
        adapted = adapted_schema(schema, RULES[vendor.rules])
        output = OutputObjectDefinition(json_schema=dict(adapted.schema), name="result")
        return None if self._refused and _digest_schema(output) in self._refused else output

    async def _stream_once(
        self, request: ModelRequest, output: OutputObjectDefinition | None
    ) -> AsyncGenerator[ModelDelta | ModelReply]:
        parameters = ModelRequestParameters(
            function_tools=self._copies.copies_of(request.tools),
            instruction_parts=[InstructionPart(content=request.instructions)] if request.instructions else [],
            output_mode="text" if output is None else "native",
            output_object=output,
        )
        settings = self._settings
        if request.max_tokens is not None:
            settings = cast("ModelSettings", {**settings, "max_tokens": request.max_tokens})
        messages = translate_messages(request.messages, images=self._images)
        opened: list[httpx2.Response] = []
        answer: StreamedResponse | None = None
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
            failure = await self._explain_failure(error, opened, request.tools)
            if answer is None or answer.finish_reason is None or failure.fault != "network":
                raise failure from error
            logger.info("%s closed the connection after the end of its answer: %s", self.name, failure)
            response = replace(answer.get(), state="complete")
        finally:
            for connection in opened:
                await connection.aclose()
        yield self._build_reply(response, request.tools)

    async def _explain_failure(
        self, error: Exception, opened: Sequence[httpx2.Response], tools: Sequence[ToolInfo]
    ) -> ModelError:
        """The error as what came of the request explains it: a page of a web server, or a name that is not known."""
        if (page := explain_page(opened[-1], self._connection) if opened else None) is not None:
            return page
        failure = model_error(error, self._connection, tools)
        if failure.fault != "name" or self._connection.vendor.api not in ("chat", "responses"):
            return failure
        names = await list_models(self._connection)
        return model_error(error, self._connection, tools, names) if names else failure

    def estimate_cost(self, input_tokens: int) -> tuple[float, float]:
        """USD for reading so many tokens, and for each token that is written, by the price list."""
        name = self.name.partition(":")[2]
        try:
            found = calc_price(
                PricedUsage(input_tokens=input_tokens, output_tokens=_PRICED_TOKENS),
                name,
                provider_api_url=self._foreign.base_url,
            )
        except (LookupError, ValueError):
            return 0.0, 0.0
        return float(found.input_price), float(found.output_price) / _PRICED_TOKENS

    async def aclose(self) -> None:
        """Close the connections; requests that still run fail."""
        await self._connection.client.aclose()

    def _build_reply(self, response: ModelResponse, tools: Sequence[ToolInfo]) -> ModelReply:
        self._refuse_half_an_answer(response)
        return ModelReply(
            text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
            calls=tuple(_call(part) for part in response.parts if isinstance(part, ToolCallPart)),
            usage=Usage(
                input_tokens=response.usage.input_tokens,
                output_tokens=response.usage.output_tokens,
                cost=self._cost_of(response),
            ),
            cut=response.finish_reason == "length",
            finish=_find_finish(response),
            cached_tokens=response.usage.cache_read_tokens,
            adapted=self._copies.find_changes(tools),
            kept=response,
        )

    def _cost_of(self, response: ModelResponse) -> float:
        """The price of a reply; an unknown one is logged once and counts as 0."""
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError) as error:
            # LookupError: the price list does not have it. The others: a reply without a usable count of tokens.
            if not self._is_price_missing:
                self._is_price_missing = True
                logger.warning("the price of %s is not known, so its cost counts as 0: %s", self.name, error)
            return 0.0

    def _refuse_half_an_answer(self, response: ModelResponse) -> None:
        """Raise if an answer ended abnormally."""
        title = self._connection.vendor.title
        reason = _find_finish(response)
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


def _find_finish(response: ModelResponse) -> str:
    """Why an answer ended, in the API's own word where it is known."""
    details = response.provider_details or {}
    return str(details.get("finish_reason") or details.get("block_reason") or response.finish_reason or "")


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


def _digest_schema(output: OutputObjectDefinition) -> bytes:
    return blake2b(msgspec.json.encode(output.json_schema), digest_size=16).digest()


def _delta_of(event: ModelResponseStreamEvent) -> ModelDelta | None:
    """A piece of the streamed reply, or None; tool calls are reported whole."""
    match event:
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) | PartStartEvent(part=TextPart(content=text)) if (
            text
        ):
            return ModelDelta(text)
        case (
            PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text))
            | PartStartEvent(part=ThinkingPart(content=text))
        ) if text:
            return ModelDelta(text, "thinking")
        case _:
            return None


def _call(part: ToolCallPart) -> ToolUse:
    """A tool call; arguments that are not a JSON object stay text."""
    arguments = part.args or {}
    if isinstance(arguments, str):
        try:
            arguments = _decode_object(arguments)
        except msgspec.DecodeError:
            return ToolUse(id=part.tool_call_id, name=part.tool_name, input=None, text=arguments)
    return ToolUse(id=part.tool_call_id, name=part.tool_name, input=arguments)


def api_copies(rules: str, reader: str) -> ToolCopies[ToolDefinition]:
    """Definitions of tools for an API.

    Args:
        rules: Whose rules the schemas follow.
        reader: The recipient's name, for the log.
    """

    def copy_tool(tool: ToolInfo) -> tuple[ToolDefinition, tuple[str, ...]]:
        adapted = adapted_schema(tool.input_schema, RULES[rules])
        made = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(adapted.schema),
            strict=False,
        )
        return made, adapted.changes

    return ToolCopies(copy_tool, reader)
