"""What the MCP server says of itself: its name, `[mcp] title`, `icon`, `instructions`, and those of plugins."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolstead.app.masks import merge_tables
from toolstead.errors import SettingsError, ToolError
from toolstead.schema.visible import first_unseen
from toolstead.tools.confinement import open_inside
from toolstead.types.client_parts import SERVER_NAME, ServerIcon, ServerIdentity

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.app.settings import McpSettings

logger = logging.getLogger(__name__)

LARGEST_ICON = 65_536
LONGEST_INSTRUCTIONS = 16_000
"""Characters of all instructions: every model of every client reads them."""
LONGEST_NAME = 100
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".svg": "image/svg+xml",
        ".webp": "image/webp",
    }
)


def identify_server(settings: Mapping[str, Any], name: str, instructions: str) -> Mapping[str, Any]:
    """The given settings, with what a program says of its server; what it says in `[mcp]` itself comes first.

    Raises:
        SettingsError: No client could show this name.
    """
    given: Any = name
    if not isinstance(given, str):
        raise SettingsError(key="name", origin="Toolstead(name=…)", reason=f"text is needed, not {given!r}")
    reason = first_unseen(name, "name")
    if not name.strip() or len(name) > LONGEST_NAME:
        reason = f"1 to {LONGEST_NAME} characters are needed"
    if reason is not None:
        raise SettingsError(key="name", origin="Toolstead(name=…)", reason=reason)
    own = {} if name == SERVER_NAME else {"title": "", "icon": "", "instructions": ""}
    if instructions:
        own["instructions"] = instructions
    return merge_tables({"mcp": own}, settings) if own else settings


def build_identity(
    name: str, settings: McpSettings, icon: ServerIcon | None, of_plugins: Sequence[tuple[str, str]]
) -> ServerIdentity:
    """What the server says of itself now.

    Args:
        name: The server's name.
        settings: The section `[mcp]`.
        icon: The icon that it names, as it was loaded.
        of_plugins: The instructions of plugins, each behind its name.
    """
    texts = [settings.instructions.strip()] if settings.instructions.strip() else []
    for plugin, text in of_plugins:
        if sum(map(len, texts)) + len(text) > LONGEST_INSTRUCTIONS:
            logger.warning("the instructions of plugin %r are left out: %s in all", plugin, f"{LONGEST_INSTRUCTIONS:,}")
        elif text.strip():
            texts.append(text.strip())
    return ServerIdentity(name=name, title=settings.title or None, icon=icon, instructions="\n\n".join(texts) or None)


def load_icon(icon: str, places: Places) -> ServerIcon | None:
    """The icon that the settings name; None, and a line in the log, where it cannot be used. In a worker thread.

    Args:
        icon: An https address, or the path of a file in the project or in the user's folder.
        places: The two folders.
    """
    if not icon:
        return None
    if icon.startswith("https://"):
        return ServerIcon(src=icon, mime_type=_guess_kind(icon))
    if "://" in icon or icon.startswith("data:"):
        logger.warning("mcp.icon: %.100r is not used: give an https address, or a file of the project", icon)
        return None
    kind = _guess_kind(icon)
    if kind is None:
        logger.warning("mcp.icon: %.100r is not used: a PNG, JPEG, SVG or WebP file is needed, by its name", icon)
        return None
    problems: list[str] = []
    for folder, named in ((places.project, "the project"), (places.user, "the user's folder")):
        try:
            data = _read_file(folder, icon, named, places.data)
        except (ToolError, OSError) as error:
            problems.append(str(error))
            continue
        if len(data) > LARGEST_ICON:
            logger.warning("mcp.icon: %.100r is not used: more than %s bytes", icon, f"{LARGEST_ICON:,}")
            return None
        return ServerIcon(src=f"data:{kind};base64,{b64encode(data).decode()}", mime_type=kind)
    logger.warning("mcp.icon is not used: %s", "; ".join(problems))
    return None


def _read_file(folder: Path, path: str, named: str, private: Path) -> bytes:
    with open_inside(folder, path, named=named, private=private) as file:
        return file.read(LARGEST_ICON + 1)


def _guess_kind(name: str) -> str | None:
    return _KINDS.get(PurePosixPath(name).suffix.lower())
