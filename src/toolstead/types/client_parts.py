"""What MCP clients are offered besides tools: prompts, resources, and what the server says of itself. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from toolstead.types.prompt import PromptMessage

SERVER_NAME: Final = "toolstead"
"""What the MCP server is called, unless a program names it."""

ListKind = Literal["prompts", "resources"]
"""The lists whose changes clients are notified of; tools are the registry's."""


class ArgumentInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An argument of a prompt, as it is listed; what is not said is left out."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class PromptInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A prompt, as it is listed."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[ArgumentInfo, ...] | None = None


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A resource, as it is listed."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class TemplateInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Addresses of resources that differ in a part, as they are listed."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class ClientLists(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is listed, at one moment, in a stable order."""

    prompts: tuple[PromptInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()
    templates: tuple[TemplateInfo, ...] = ()


class ServerIcon(msgspec.Struct, frozen=True, kw_only=True):
    """An icon: its address, which may be a `data:` address with the icon itself, and its media type."""

    src: str
    mime_type: str | None = None


class ServerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of itself; None for what it does not say."""

    name: str = SERVER_NAME
    title: str | None = None
    icon: ServerIcon | None = None
    instructions: str | None = None


class FilledPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with its arguments filled in."""

    description: str | None
    messages: Sequence[PromptMessage]
