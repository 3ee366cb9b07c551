"""Connect to a model, by `provider:name` and a key.

Every SDK would read its key, address, headers and more from the environment; here all of it comes from the given
lookup. The SDKs' retries are off, because the kernel's loop retries. Importing takes half a second, so call `connect`
in a worker thread when an event loop runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import Lookup, find_model, state_of
from toolstead.adapters.providers.http_client import Connection, load_certificates, open_client
from toolstead.errors import RuntimeFailureError

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ForeignModel
    from pydantic_ai.profiles import ModelProfile

    from toolstead.adapters.providers.model import ProviderModel

_NO_KEY = "none"  # the SDK requires one, the server does not
_AS_THEY_ARE: ModelProfile = {"json_schema_transformer": None}
"""Send schemas unchanged: they are already adapted."""

# Chat Completions providers with classes of their own: module and class of the provider, then of the model.
_PROVIDERS: dict[str, str] = {
    "alibaba": "AlibabaProvider",
    "cerebras": "CerebrasProvider",
    "deepseek": "DeepSeekProvider",
    "fireworks": "FireworksProvider",
    "litellm": "LiteLLMProvider",
    "moonshotai": "MoonshotAIProvider",
    "nebius": "NebiusProvider",
    "ollama": "OllamaProvider",
    "openrouter": "OpenRouterProvider",
    "ovhcloud": "OVHcloudProvider",
    "sambanova": "SambaNovaProvider",
    "together": "TogetherProvider",
    "vllm": "VLLMProvider",
    "zai": "ZaiProvider",
}
_MODELS: dict[str, str] = {
    "cerebras": "CerebrasModel",
    "ollama": "OllamaModel",
    "openrouter": "OpenRouterModel",
    "zai": "ZaiModel",
}
_MAX_TOKENS_ONLY = frozenset({"mistral"})  # refuses `max_completion_tokens`

# The answer that `rehearse_responses` reads.
_RESPONSE: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "x", "annotations": []}],
        },
        {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": "{}", "status": "completed"},
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    },
}
_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "response.created", "sequence_number": 0, "response": _RESPONSE},
    *(
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": index, "item": item}
        for index, item in enumerate(_RESPONSE["output"])
    ),
    {"type": "response.completed", "sequence_number": 3, "response": _RESPONSE},
)


def connect(name: str, lookup: Lookup, *, origin_of: Callable[[str], str] | None = None) -> ProviderModel:
    """Connect to a model; nothing is sent before its first request.

    Args:
        name: `provider:name`, or a bare name that the table completes.
        lookup: Returns keys, addresses and proxies by their environment names.
        origin_of: Where a key was found, in words, by its environment name; messages say it.

    Raises:
        RuntimeFailureError: The name is unknown, a key or a package is missing; the text says what to do.
    """
    vendor, model_name = find_model(name)
    state = state_of(vendor, lookup)
    address = vendor.find_address(lookup)
    if not state.usable or address is None:
        raise RuntimeFailureError(f"{vendor.name}:{model_name} cannot be used: {state.advice}")
    try:
        import_module("pydantic_ai")
    except ImportError as error:
        raise RuntimeFailureError(
            f"{vendor.name}:{model_name} needs packages that are not installed: {install_command('models')}"
        ) from error
    connection = Connection(
        vendor=vendor,
        model_name=model_name,
        address=address,
        key_name=state.source,
        key=vendor.find_key(lookup) or _NO_KEY,
        key_origin=origin_of(state.source) if origin_of is not None and state.source else "",
        client=open_client(address, lookup),
    )
    try:
        return _configure_model(connection, lookup)
    except ImportError as error:
        raise RuntimeFailureError(
            f"{vendor.name}:{model_name} needs a package that is not installed ({error.name or error}): "
            f"{install_command('models')}"
        ) from error


def _configure_model(connection: Connection, lookup: Lookup) -> ProviderModel:
    from pydantic_ai.exceptions import UserError

    from toolstead.adapters.providers.model import ProviderModel

    make_model = {"anthropic": _anthropic_model, "gemini": _gemini_model}.get(connection.vendor.api, _openai_model)
    try:
        return ProviderModel(connection, make_model(connection, lookup))
    except UserError as error:
        raise RuntimeFailureError(f"{connection.name} cannot be used: {error}") from error


def _forget_environment(sdk_client: object) -> None:
    """Drop the headers that the SDK read from the environment; its constructor cannot disable that."""
    vars(sdk_client)["_custom_headers"] = {}


def _send_as_given(resource: object, *fields: str) -> None:
    """Send large fields of a request without the SDK's conversion.

    The SDK would compare every value in them with every type that it might have: 60 ms for a conversation of forty
    messages, ten times all the rest. It does not inspect `extra_body`.
    """
    create = cast("Callable[..., Awaitable[Any]]", vars(type(resource))["create"])

    async def create_as_given(**parameters: Any) -> Any:
        extra = dict(parameters.get("extra_body") or {})
        for name in fields:
            if isinstance(parameters.get(name), list):
                extra[name] = parameters[name]
                parameters[name] = []
        parameters["extra_body"] = extra
        return await create(resource, **parameters)

    vars(resource)["create"] = create_as_given


def _anthropic_model(connection: Connection, _: Lookup) -> ForeignModel[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk_client = AsyncAnthropic(
        api_key=connection.key,
        base_url=connection.address,
        http_client=connection.client,
        timeout=connection.client.timeout,
        max_retries=0,
        webhook_key="",
        open_telemetry=False,
    )
    _forget_environment(sdk_client)
    return AnthropicModel(
        connection.model_name, provider=AnthropicProvider(anthropic_client=sdk_client), profile=_AS_THEY_ARE
    )


def _openai_model(connection: Connection, lookup: Lookup) -> ForeignModel[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    sdk_client = AsyncOpenAI(
        api_key=connection.key,
        base_url=connection.address,
        http_client=connection.client,
        timeout=connection.client.timeout,
        max_retries=0,
        webhook_secret="",
    )
    _forget_environment(sdk_client)
    vendor, is_openai = connection.vendor, "OPENAI_API_KEY" in connection.vendor.keys
    sdk_client.admin_api_key = None
    sdk_client.organization = lookup("OPENAI_ORG_ID") if is_openai else None
    sdk_client.project = lookup("OPENAI_PROJECT_ID") if is_openai else None
    _send_as_given(sdk_client.responses, "input", "tools")
    _send_as_given(sdk_client.chat.completions, "messages", "tools")
    # A stream without a finish reason is incomplete, although some servers omit it.
    profile = cast("ModelProfile", {**_AS_THEY_ARE, "openai_chat_streaming_requires_finish_reason": True})
    if vendor.api == "responses":
        rehearse_responses()
        return OpenAIResponsesModel(
            connection.model_name, provider=OpenAIProvider(openai_client=sdk_client), profile=profile
        )
    if is_openai:
        return OpenAIChatModel(
            connection.model_name, provider=OpenAIProvider(openai_client=sdk_client), profile=profile
        )
    if vendor.name in _MAX_TOKENS_ONLY:
        profile = cast("ModelProfile", {**profile, "openai_chat_supports_max_completion_tokens": False})
    if vendor.name not in _PROVIDERS:
        provider = OpenAICompatibleProvider(vendor.name, openai_client=sdk_client)
        return OpenAIChatModel(connection.model_name, provider=provider, profile=profile)
    make_provider = getattr(import_module(f"pydantic_ai.providers.{vendor.name}"), _PROVIDERS[vendor.name])
    make_model = OpenAIChatModel
    if vendor.name in _MODELS:
        make_model = getattr(import_module(f"pydantic_ai.models.{vendor.name}"), _MODELS[vendor.name])
    return make_model(connection.model_name, provider=make_provider(openai_client=sdk_client), profile=profile)


def _gemini_model(connection: Connection, lookup: Lookup) -> ForeignModel[Any]:
    import httpx2
    from google.genai.client import Client, DebugConfig
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    options = HttpOptions(
        base_url=connection.address,
        api_version="v1beta",
        httpx_async_client=connection.client,
        # Never used; without one the SDK would create its own from the environment.
        httpx_client=httpx2.Client(
            trust_env=False, verify=load_certificates(lookup), timeout=connection.client.timeout
        ),
    )
    debug = DebugConfig(client_mode="", replays_directory="", replay_id="")
    sdk_client = Client(vertexai=False, api_key=connection.key, http_options=options, debug_config=debug)
    return GoogleModel(connection.model_name, provider=GoogleProvider(client=sdk_client), profile=_AS_THEY_ARE)


@cache
def rehearse_responses() -> None:
    """Read one stream of the Responses API that was never sent; once in a process.

    OpenAI's SDK builds the types of its stream at the first event, for more than half a second, in which an event loop
    would have to wait.
    """
    import httpx2
    from openai import OpenAI

    stream = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in _EVENTS)

    def answer_request(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=stream, headers={"content-type": "text/event-stream"})

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer_request), trust_env=False) as client,
        OpenAI(api_key="none", base_url="http://rehearsal.invalid", http_client=client, max_retries=0) as sdk_client,
    ):
        for _ in sdk_client.responses.create(model="m", input="x", stream=True):
            pass
