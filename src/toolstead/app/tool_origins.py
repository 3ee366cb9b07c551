"""Where a stead's tools, plugins and agents come from: what a program includes, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolstead.errors import SettingsError
from toolstead.plugins.contract import Plugin
from toolstead.plugins.field_check import describe_kind

if TYPE_CHECKING:
    from toolstead.app.python_file import PythonFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOrigins:
    """What a stead takes in; `Toolstead` says what each one means.

    Attributes:
        builtin: The built-in tools, and the plugins that come with Toolstead.
        user_tools: What lies in the user's folder.
        project_tools: What the project brings.
        installed_plugins: Plugins of installed packages.
        plugins: The program's own.
        file: A Python file, whose tools and plugins are taken in.
    """

    builtin: bool = True
    user_tools: bool = True
    project_tools: bool = True
    installed_plugins: bool = True
    plugins: Sequence[Plugin] = ()
    file: PythonFile | None = None

    def __post_init__(self) -> None:
        """Refuse what a program may have confused. Raises SettingsError."""
        for key in ("builtin", "user_tools", "project_tools", "installed_plugins"):
            value: Any = getattr(self, key)
            if not isinstance(value, bool):
                raise _refuse_argument(key, f"True or False is needed, not {value!r}")
        plugins: Any = self.plugins
        if not isinstance(plugins, Sequence) or isinstance(plugins, str):
            raise _refuse_argument("plugins", f"a list of Plugin(…) is needed, not {describe_kind(plugins)}")
        for number, plugin in enumerate(cast("Sequence[Any]", plugins), start=1):
            if not isinstance(plugin, Plugin):
                raise _refuse_argument(
                    "plugins", f"number {number} is {describe_kind(plugin)}; build Plugin(name=…, …)"
                )

    def list_plugins(self) -> list[Plugin]:
        """The program's own plugins as they are now."""
        return [*self.plugins, *(self.file.plugins if self.file is not None else ())]


def _refuse_argument(key: str, reason: str) -> SettingsError:
    return SettingsError(key=key, origin=f"Toolstead({key}=…)", reason=reason)
