"""What keeps a model from being asked here, and the shortest way to change that.

Checks look at files and at the keys that are known; only `find_ollama` connects to something, to this machine's Ollama
unless the environment names another, and for a moment.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolstead.adapters.installing import install_command
from toolstead.adapters.providers.catalogue import API, LOOPBACK, MAIN, VENDORS, Lookup, Vendor, find_model, state_of
from toolstead.app.runtime_programs import PROGRAMS, RuntimeProgram
from toolstead.app.settings import RuntimeSettings
from toolstead.errors import RuntimeFailureError

OLLAMA_SECONDS = 0.3
"""For so long Ollama may take to answer, all in all."""
_OLLAMA, _CHAT = (find_model(f"{name}:any")[0] for name in ("ollama", "openai-chat"))
_LARGEST_LIST = 1_000_000
_SDKS: dict[API, str] = {"anthropic": "anthropic", "responses": "openai", "chat": "openai", "gemini": "google.genai"}
_WIDTH = 80
_MOST_WAYS = 3
_END = "More: toolstead doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupWay:
    """A way to a model that answers.

    Attributes:
        steps: The commands, one after the other.
        note: What it is about, in a few words.
    """

    steps: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What is missing for a runtime to ask its model.

    Attributes:
        reason: What it is, as a clause.
        ways: What can be done about it, one of these.
    """

    reason: str
    ways: tuple[SetupWay, ...] = ()

    def explain(self) -> str:
        """The text of the refusal: a sentence, the commands, and where to read more."""
        ways = f" {self.render_ways()}" if self.ways else "\n"
        return f"{self.reason}; nothing was asked.{ways}{_END}"

    def render_ways(self) -> str:
        """The commands: the first way, and the others where each of them is one command; a line for each."""
        return _render_ways(self.ways) if self.ways else ""


class OllamaServer(msgspec.Struct, frozen=True, kw_only=True):
    """An Ollama that answers.

    Attributes:
        url: Its address.
        models: The models that it has, without those that cannot answer.
    """

    url: str
    models: tuple[str, ...]


def find_lack(name: str, model: str, settings: RuntimeSettings, lookup: Lookup) -> Lack | None:
    """What a runtime lacks to ask a model; None when nothing is known to be missing.

    Args:
        name: The runtime.
        model: The full name of the model; empty where the runtime has its own choice.
        settings: Those of `[runtime]`.
        lookup: Gives keys.
    """
    program = next((one for one in PROGRAMS if one.name == name), None)
    if program is not None:
        return _find_program_lack(program, settings, lookup)
    if name != "kernel" or not model:
        return None
    vendor, name = find_model(model)
    state = state_of(vendor, lookup)
    if not state.usable and vendor.find_key(lookup) is None and vendor.is_key_needed(lookup):
        is_elsewhere = vendor.api == "chat" and vendor.find_address(lookup) != vendor.url
        keyless = f" (a server that needs none: vllm:{name}, with VLLM_BASE_URL)" if is_elsewhere else ""
        return Lack(
            reason=f"{model} needs a key of {vendor.title}{keyless}",
            ways=(SetupWay(steps=(f"toolstead keys set {vendor.name}",)),),
        )
    if not state.usable and vendor.find_address(lookup) is not None:
        return Lack(reason=state.advice)
    if not state.usable:
        return Lack(reason=f"{model} needs the address of {vendor.title} in the environment, as {vendor.urls[0]}")
    if not has_models_extra(vendor):
        return Lack(
            reason=f"{model} needs packages that are not installed",
            ways=(SetupWay(steps=(install_command("models"),)),),
        )
    return None


def find_needed_keys(name: str, model: str, settings: RuntimeSettings) -> tuple[str, ...]:
    """The names of the keys of which a runtime needs one for a model."""
    program = next((one for one in PROGRAMS if one.name == name), None)
    if program is not None:
        return () if getattr(settings, program.name).login else (program.key,)
    try:
        vendor = find_model(model)[0] if name == "kernel" and model else None
    except RuntimeFailureError:
        return ()
    return vendor.keys if vendor is not None else ()


def find_first_steps(
    runtime: str,
    settings: RuntimeSettings,
    lookup: Lookup,
    ollama: OllamaServer | None,
    local: tuple[str, ...] = (),
) -> Lack:
    """What to do where no model is named and no key is set: what is here already comes first.

    Args:
        runtime: The runtime that was asked for; empty or `auto` for any.
        settings: Those of `[runtime]`.
        lookup: Gives keys and addresses.
        ollama: The Ollama that answers.
        local: The models of another server on this machine, which speaks Chat Completions.
    """
    install = () if has_models_extra() else (install_command("models"),)
    ways: list[SetupWay] = []
    if local:
        command = f'toolstead ask --model openai-chat:{local[0]} "hello"'
        ways.append(SetupWay(steps=(*install, command), note="at OPENAI_BASE_URL"))
    if ollama is not None:
        ways.append(_use_ollama(ollama, install))
    if runtime in ("", "auto") and settings.default == "auto":
        ways += [way for program in PROGRAMS if (way := _use_login(program, lookup)) is not None]
    for vendor in VENDORS:
        if vendor.name not in MAIN and vendor.needs_key and vendor.model and vendor.find_key(lookup):
            command = f'toolstead ask --model {vendor.name}:{vendor.model} "hello"'
            ways.append(SetupWay(steps=(*install, command), note=f"with the key of {vendor.title}"))
    ways.append(SetupWay(steps=(*install, "toolstead keys set anthropic"), note="or openai, google"))
    return Lack(reason="no model is set up yet", ways=tuple(sorted(ways, key=lambda way: len(way.steps))))


def find_ollama(lookup: Lookup) -> OllamaServer | None:
    """The Ollama that answers at the address of the environment, else on this machine; None when none does in time."""
    url = (_OLLAMA.find_address(lookup) or "").rstrip("/").removesuffix("/v1")
    names = _list_in_time(url, "/api/tags")
    return None if names is None else OllamaServer(url=url, models=tuple(names))


def find_local_models(lookup: Lookup) -> tuple[str, ...]:
    """The models of a server on this machine that OPENAI_BASE_URL names; none where it does not answer in time."""
    url = _CHAT.find_address(lookup) or ""
    if urlsplit(url).hostname not in LOOPBACK:
        return ()
    return tuple(_list_in_time(url.rstrip("/"), "/models") or ())


def _list_in_time(url: str, path: str) -> list[str] | None:
    """The models of a server; asked in a worker, because finding the address of a host has no time limit of its own."""
    found: list[list[str] | None] = []
    asking = threading.Thread(target=lambda: found.append(_list_models(url, path)), daemon=True)
    asking.start()
    asking.join(OLLAMA_SECONDS)
    return found[0] if found else None


def has_models_extra(vendor: Vendor | None = None) -> bool:
    """Whether the extra that model APIs need is installed, with the client of one vendor."""
    try:
        packages = ("pydantic_ai", _SDKS[vendor.api] if vendor is not None else "openai")
        return all(find_spec(package) is not None for package in packages)
    except ModuleNotFoundError:
        return False


def _find_program_lack(program: RuntimeProgram, settings: RuntimeSettings, lookup: Lookup) -> Lack | None:
    if getattr(settings, program.name).login or lookup(program.key):
        return None
    ways = (
        SetupWay(steps=(f"toolstead config set runtime.{program.name}.login true",), note="use your own login"),
        SetupWay(steps=(f"toolstead keys set {program.vendor}",), note="or a key"),
    )
    return Lack(reason=f"{program.title} needs a key or your login", ways=ways)


def _use_login(program: RuntimeProgram, lookup: Lookup) -> SetupWay | None:
    """To use the user's own login, where they have the program."""
    if program.find_own(lookup("PATH")) is None:
        return None
    install = () if program.is_installed else (install_command(program.name),)
    command = f"toolstead config set runtime.{program.name}.login true"
    return SetupWay(steps=(*install, command), note=f"{program.title}, with your login")


def _use_ollama(ollama: OllamaServer, install: Sequence[str]) -> SetupWay:
    model = ollama.models[0] if ollama.models else "qwen3"
    pull = () if ollama.models else (f"ollama pull {model}",)
    command = f'toolstead ask --model ollama:{model} "hello"'
    return SetupWay(steps=(*install, *pull, command), note="Ollama answers here")


def _render_ways(ways: Sequence[SetupWay]) -> str:
    shown = ways[:1] if len(ways[0].steps) > 1 else [way for way in ways if len(way.steps) == 1][:_MOST_WAYS]
    lines = [(step, way.note if step == way.steps[-1] else "") for way in shown for step in way.steps]
    width = max(len(step) for step, _ in lines)
    texts: list[str] = []
    for step, note in lines:
        aligned, close = f"  {step:<{width}}  # {note}", f"  {step}  # {note}"
        texts.append(next((text for text in (aligned, close) if note and len(text) <= _WIDTH), f"  {step}"))
    return "\n".join(["Do one of:" if len(shown) > 1 else "Do this:", *texts, ""])


def _list_models(url: str, path: str) -> list[str] | None:
    """The names of the models that a server lists at a path; None where none answers."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=OLLAMA_SECONDS)
        try:
            connection.request("GET", f"{parts.path}{path}")
            answer = connection.getresponse()
            content: Any = (
                msgspec.json.decode(answer.read(_LARGEST_LIST)) if answer.status == http.HTTPStatus.OK else None
            )
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException, msgspec.DecodeError):
        return None
    return _read_names(content)


def _read_names(content: Any) -> list[str] | None:
    try:
        listed = msgspec.convert(content, _Listed)
    except msgspec.ValidationError:
        return None
    given = [*(one.name for one in listed.models), *(one.id for one in listed.data)]
    names = [name for name in given if name.isascii() and name.isprintable() and " " not in name]
    return [name for name in names if "embed" not in name]


class _ListedModel(msgspec.Struct):
    name: str


class _IdentifiedModel(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    """The list of an Ollama, or that of an API like OpenAI's."""

    models: list[_ListedModel] = []
    data: list[_IdentifiedModel] = []
