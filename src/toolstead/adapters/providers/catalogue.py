"""The known providers: environment names of keys and addresses, default models, and completion of model names.

A plain table: runtime selection and `doctor` read it without importing any SDK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from toolstead.errors import RuntimeFailureError
from toolstead.nearest_names import suggest

Lookup = Callable[[str], str | None]
"""Returns the value of an environment name, or None; the caller decides where values are kept."""

API = Literal["anthropic", "responses", "chat", "gemini"]
"""The API's protocol: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Gemini."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OLLAMA_HOST = "OLLAMA_HOST"
"""The name that Ollama's own programs read: a host or a port, or both."""
_OLLAMA_PORT = 11434
_LIKE = 0.7
"""How alike a misspelled model is to one that is named, at least."""

_RULES: Mapping[API, str] = {"anthropic": "anthropic", "responses": "openai", "chat": "openai", "gemini": "gemini"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A provider of models.

    Attributes:
        name: As a user writes it before the colon.
        title: Its name in messages.
        api: The protocol of its API.
        keys: Environment names of its key, the first one that is set wins.
        needs_key: Whether it requires a key; a self-hosted server often does not, and one at a loopback address of
            Chat Completions never.
        urls: Environment names of its address.
        url: Its address unless one of `urls` is set; empty when there is no default.
        model: The default model; empty when there is no sensible one.
        aliases: Other names for it.
    """

    name: str
    title: str
    api: API
    keys: tuple[str, ...]
    url: str
    urls: tuple[str, ...] = ()
    needs_key: bool = True
    model: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def rules(self) -> str:
        """Whose rules its tool schemas follow."""
        return _RULES[self.api]

    def find_key(self, lookup: Lookup) -> str | None:
        """Its key; None when there is none."""
        return first_set(self.keys, lookup)[1]

    def find_address(self, lookup: Lookup) -> str | None:
        """Its address; None if it is not configured.

        One that was given without a path gets the path that its API has everywhere else: `/v1`.
        """
        name, given = first_set(self.urls, lookup)
        if given is None:
            return self.url or None
        if name == OLLAMA_HOST:
            given = _read_ollama_host(given)
        has_version = self.api in ("chat", "responses") and (not self.url or urlsplit(self.url).path == "/v1")
        return f"{given.rstrip('/')}/v1" if has_version and not urlsplit(given).path.strip("/") else given

    def is_key_needed(self, lookup: Lookup) -> bool:
        """Whether it requires a key at its address: a server on this machine that speaks Chat Completions does not."""
        if not self.needs_key or self.api != "chat":
            return self.needs_key
        return urlsplit(self.find_address(lookup) or "").hostname not in LOOPBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorState:
    """Whether a provider can be used.

    Attributes:
        source: The environment name that made it usable; empty when none is needed or it is not usable.
        advice: What to set when it is not usable; otherwise empty.
    """

    vendor: Vendor
    usable: bool
    source: str = ""
    advice: str = ""


def _chat_vendor(
    name: str,
    title: str,
    url: str,
    key: str,
    *,
    model: str = "",
    keys: tuple[str, ...] = (),
    urls: tuple[str, ...] = (),
    needs_key: bool = True,
) -> Vendor:
    """A provider with a Chat Completions API; its environment names share a prefix."""
    word = key.removesuffix("_API_KEY")
    return Vendor(
        name=name,
        title=title,
        api="chat",
        keys=(key, *keys),
        url=url,
        urls=(f"{word}_BASE_URL", *urls),
        needs_key=needs_key,
        model=model,
    )


VENDORS: tuple[Vendor, ...] = (
    Vendor(
        name="anthropic",
        title="Anthropic",
        api="anthropic",
        keys=("ANTHROPIC_API_KEY",),
        url="https://api.anthropic.com",
        urls=("ANTHROPIC_BASE_URL",),
        model="claude-sonnet-5-5",
    ),
    Vendor(
        name="openai",
        title="OpenAI",
        api="responses",
        keys=("OPENAI_API_KEY",),
        url="https://api.openai.com/v1",
        urls=("OPENAI_BASE_URL",),
        model="gpt-6.1-terra",
        aliases=("openai-responses",),
    ),
    Vendor(
        name="google",
        title="Google",
        api="gemini",
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        url="https://generativelanguage.googleapis.com",
        urls=("GOOGLE_GEMINI_BASE_URL",),
        model="gemini-3.8-flash",
        aliases=("gemini",),
    ),
    Vendor(
        name="openai-chat",
        title="OpenAI (Chat Completions)",
        api="chat",
        keys=("OPENAI_API_KEY",),
        url="https://api.openai.com/v1",
        urls=("OPENAI_BASE_URL",),
        model="gpt-6.1-terra",
    ),
    _chat_vendor(
        "ollama", "Ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY", urls=(OLLAMA_HOST,), needs_key=False
    ),
    _chat_vendor("vllm", "vLLM", "", "VLLM_API_KEY", needs_key=False),
    _chat_vendor("litellm", "LiteLLM", "", "LITELLM_API_KEY", needs_key=False),
    _chat_vendor("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    _chat_vendor("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", model="openai/gpt-oss-120b"),
    _chat_vendor("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", model="mistral-large-latest"),
    _chat_vendor("deepseek", "DeepSeek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", model="deepseek-chat"),
    _chat_vendor("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY", model="grok-4.7"),
    _chat_vendor("together", "Together AI", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _chat_vendor("fireworks", "Fireworks AI", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _chat_vendor("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _chat_vendor("moonshotai", "Moonshot AI", "https://api.moonshot.ai/v1", "MOONSHOTAI_API_KEY"),
    _chat_vendor("zai", "Z.AI", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    _chat_vendor(
        "alibaba",
        "Alibaba Cloud",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "ALIBABA_API_KEY",
        keys=("DASHSCOPE_API_KEY",),
    ),
    _chat_vendor("nebius", "Nebius", "https://api.studio.nebius.com/v1", "NEBIUS_API_KEY"),
    _chat_vendor("sambanova", "SambaNova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    _chat_vendor("ovhcloud", "OVHcloud", "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1", "OVHCLOUD_API_KEY"),
    _chat_vendor("huggingface", "Hugging Face", "https://router.huggingface.co/v1", "HF_API_KEY", keys=("HF_TOKEN",)),
)

MAIN = ("anthropic", "openai", "google")
"""The providers that are tried automatically, in this order."""

# An alias means the newest model of its family that the pinned libraries know, with its price.
WORDS: Mapping[str, str] = {
    "haiku": "anthropic:claude-haiku-5-5",
    "sonnet": "anthropic:claude-sonnet-5-5",
    "opus": "anthropic:claude-opus-5-5",
}

_FAMILIES = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|o\d"), "openai"),
    (re.compile(r"gemini-"), "google"),
)

_BY_NAME: dict[str, Vendor] = {name: vendor for vendor in VENDORS for name in (vendor.name, *vendor.aliases)}


def find_model(name: str) -> tuple[Vendor, str]:
    """Resolve a name to a provider and a model.

    Raises:
        RuntimeFailureError: The name is unknown; the text has the nearest.
    """
    text = name.strip()
    provider, colon, model = text.partition(":")
    if colon:
        vendor = _BY_NAME.get(provider)
        if vendor is None:
            raise RuntimeFailureError(_unknown_provider(text, provider))
        if not model:
            raise RuntimeFailureError(
                f"model {text!r}: a model is missing after the colon{_such_as(vendor)}; "
                "a model is named `provider:name`"
            )
        return vendor, model
    if text in WORDS:
        return find_model(WORDS[text])
    for family, family_provider in _FAMILIES:
        if family.match(text):
            return _BY_NAME[family_provider], text
    raise RuntimeFailureError(_unknown_word(text))


def complete_name(name: str) -> str:
    """A model's name as `provider:name`.

    Raises:
        RuntimeFailureError: The name is unknown; the text has the nearest.
    """
    vendor, model = find_model(name)
    return f"{vendor.name}:{model}"


def vendor_states(lookup: Lookup) -> list[VendorState]:
    """Which of the main providers can be used, and what the others lack."""
    return [state_of(_BY_NAME[name], lookup) for name in MAIN]


def state_of(vendor: Vendor, lookup: Lookup) -> VendorState:
    """Whether a provider can be used."""
    source, _ = first_set(vendor.keys, lookup)
    if not source and vendor.is_key_needed(lookup):
        return VendorState(vendor=vendor, usable=False, advice=f"set {' or '.join(vendor.keys)}")
    if vendor.find_address(lookup) is None:
        return VendorState(vendor=vendor, usable=False, advice=f"set {' or '.join(vendor.urls)}")
    if advice := _check_address(vendor, lookup):
        return VendorState(vendor=vendor, usable=False, advice=advice)
    return VendorState(vendor=vendor, usable=True, source=source)


def _check_address(vendor: Vendor, lookup: Lookup) -> str:
    """What is wrong with an address that was given, and what would be right; empty when nothing is."""
    name, given = first_set(vendor.urls, lookup)
    address = vendor.find_address(lookup)
    if not name or given is None or address is None:
        return ""
    parts = urlsplit(address)
    try:
        if parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port):
            return ""
    except ValueError:  # the port is no number
        pass
    shown = "…" if "@" in given else given[:200]  # there may be a password in it
    right = f"http://{shown}" if "://" not in given and not given.startswith("/") else "http://HOST:PORT"
    return f"{name}={shown} is no address; write {right}"


def default_model(lookup: Lookup) -> str | None:
    """The default model of the first main provider that can be used; None when none can."""
    usable = (state.vendor for state in vendor_states(lookup) if state.usable)
    return next((f"{vendor.name}:{vendor.model}" for vendor in usable), None)


def first_set(names: tuple[str, ...], lookup: Lookup) -> tuple[str, str | None]:
    """The first of some environment names that has a value, and the value; a blank one counts as not set."""
    for name in names:
        if value := (lookup(name) or "").strip():
            return name, value
    return "", None


def _read_ollama_host(host: str) -> str:
    """The address of an Ollama, from what its own programs read."""
    parts = urlsplit(host if "://" in host else f"http://{host}")
    try:
        port = parts.port
    except ValueError:
        port = None
    # What a server listens on is no address to ask: every address means this machine too.
    name = "localhost" if parts.hostname in (None, "0.0.0.0", "::", "127.0.0.1") else parts.hostname  # noqa: S104 - compared, never bound
    return f"{parts.scheme}://{f'[{name}]' if name and ':' in name else name}:{port or _OLLAMA_PORT}"


def _such_as(vendor: Vendor) -> str:
    return f", such as {vendor.name}:{vendor.model}" if vendor.model else ""


def _unknown_provider(text: str, provider: str) -> str:
    known = ", ".join(vendor.name for vendor in VENDORS)
    hint = suggest(provider.lower(), _BY_NAME, most=2)
    hint = f"; {hint} Known" if hint else "; known"
    return f"model {text[:200]!r}: there is no provider {provider[:100]!r}{hint} providers: {known}"


def _unknown_word(text: str) -> str:
    """The error message for a name without a provider that no rule completes."""
    if text in _BY_NAME:
        return f"model {text!r} is a provider; name one of its models too{_such_as(_BY_NAME[text])}"
    rule = "name it `provider:name`; without a provider only haiku, sonnet, opus, claude-*, gpt-*, o1… and gemini-* do"
    full = [f"{vendor.name}:{vendor.model}" for vendor in VENDORS if vendor.model]
    by_word = {**{word: word for word in WORDS}, **{one.partition(":")[2]: one for one in full}}
    hint = suggest(text.lower(), by_word, show=lambda word: repr(by_word[word]), most=2, cutoff=_LIKE)
    return f"model {text[:200]!r} has no provider{f'; {hint}' if hint else ''} ({rule})"
