"""Connect to a model, by `provider:name` and a key.

Every SDK would read its key, address, headers and more from the environment; here all of it comes from the given
lookup. The SDKs' retries are off, because the kernel's loop retries. Importing takes half a second, so call `connect`
in a worker thread when an event loop runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import Lookup, Vendor, find_model, state_of
from toolstead.adapters.providers.http_client import load_certificates, open_client
from toolstead.adapters.providers.rehearsal import rehearse_responses
from toolstead.errors import RuntimeFailureError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as ForeignModel
    from pydantic_ai.profiles import ModelProfile

    from toolstead.adapters.providers.model import ProviderModel

_NO_KEY = "none"  # the SDK requires one, the server does not

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The arguments of every SDK."""

    model_name: str
    address: str
    key: str
    client: httpx2.AsyncClient


def connect(name: str, lookup: Lookup) -> ProviderModel:
    """Connect to a model; nothing is sent before its first request.

    Args:
        name: `provider:name`, or a bare name that the table completes.
        lookup: Returns keys, addresses and proxies by their environment names.

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
    client = open_client(address, lookup)
    line = _Line(model_name=model_name, address=address, key=vendor.find_key(lookup) or _NO_KEY, client=client)
    try:
        return _configure_model(vendor, line, state.source, lookup)
    except ImportError as error:
        raise RuntimeFailureError(
            f"{vendor.name}:{model_name} needs a package that is not installed ({error.name or error}): "
            f"{install_command('models')}"
        ) from error


def _configure_model(vendor: Vendor, line: _Line, key_name: str, lookup: Lookup) -> ProviderModel:
    from pydantic_ai.exceptions import UserError

    from toolstead.adapters.providers.faults import FaultSource
    from toolstead.adapters.providers.model import ProviderModel

    caller = FaultSource(vendor=vendor, model_name=line.model_name, key_name=key_name, key=line.key if key_name else "")
    try:
        match vendor.api:
            case "anthropic":
                foreign = _anthropic_model(line)
            case "gemini":
                foreign = _gemini_model(line, lookup)
            case "responses" | "chat":
                foreign = _openai_model(line, vendor, lookup)
        return ProviderModel(caller=caller, foreign=foreign, client=line.client)
    except UserError as error:
        raise RuntimeFailureError(f"{vendor.name}:{line.model_name} cannot be used: {error}") from error


def _as_they_are() -> ModelProfile:
    """Send schemas unchanged: they are already adapted."""
    return {"json_schema_transformer": None}


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


def _anthropic_model(line: _Line) -> ForeignModel[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk_client = AsyncAnthropic(
        api_key=line.key,
        base_url=line.address,
        http_client=line.client,
        timeout=line.client.timeout,
        max_retries=0,
        webhook_key="",
        open_telemetry=False,
    )
    _forget_environment(sdk_client)
    return AnthropicModel(
        line.model_name, provider=AnthropicProvider(anthropic_client=sdk_client), profile=_as_they_are()
    )


def _openai_model(line: _Line, vendor: Vendor, lookup: Lookup) -> ForeignModel[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    sdk_client = AsyncOpenAI(
        api_key=line.key,
        base_url=line.address,
        http_client=line.client,
        timeout=line.client.timeout,
        max_retries=0,
        webhook_secret="",
    )
    _forget_environment(sdk_client)
    is_openai = "OPENAI_API_KEY" in vendor.keys
    sdk_client.admin_api_key = None
    sdk_client.organization = lookup("OPENAI_ORG_ID") if is_openai else None
    sdk_client.project = lookup("OPENAI_PROJECT_ID") if is_openai else None
    _send_as_given(sdk_client.responses, "input", "tools")
    _send_as_given(sdk_client.chat.completions, "messages", "tools")
    # A stream without a finish reason is incomplete, although some servers omit it.
    profile = cast("ModelProfile", {**_as_they_are(), "openai_chat_streaming_requires_finish_reason": True})
    if vendor.api == "responses":
        rehearse_responses()
        return OpenAIResponsesModel(line.model_name, provider=OpenAIProvider(openai_client=sdk_client), profile=profile)
    if is_openai:
        return OpenAIChatModel(line.model_name, provider=OpenAIProvider(openai_client=sdk_client), profile=profile)
    if vendor.name in _MAX_TOKENS_ONLY:
        profile = cast("ModelProfile", {**profile, "openai_chat_supports_max_completion_tokens": False})
    if vendor.name not in _PROVIDERS:
        provider = OpenAICompatibleProvider(vendor.name, openai_client=sdk_client)
        return OpenAIChatModel(line.model_name, provider=provider, profile=profile)
    make_provider = getattr(import_module(f"pydantic_ai.providers.{vendor.name}"), _PROVIDERS[vendor.name])
    make_model = OpenAIChatModel
    if vendor.name in _MODELS:
        make_model = getattr(import_module(f"pydantic_ai.models.{vendor.name}"), _MODELS[vendor.name])
    return make_model(line.model_name, provider=make_provider(openai_client=sdk_client), profile=profile)


def _gemini_model(line: _Line, lookup: Lookup) -> ForeignModel[Any]:
    import httpx2
    from google.genai.client import Client, DebugConfig
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    options = HttpOptions(
        base_url=line.address,
        api_version="v1beta",
        httpx_async_client=line.client,
        # Never used; without one the SDK would create its own from the environment.
        httpx_client=httpx2.Client(trust_env=False, verify=load_certificates(lookup), timeout=line.client.timeout),
    )
    debug = DebugConfig(client_mode="", replays_directory="", replay_id="")
    sdk_client = Client(vertexai=False, api_key=line.key, http_options=options, debug_config=debug)
    return GoogleModel(line.model_name, provider=GoogleProvider(client=sdk_client), profile=_as_they_are())
