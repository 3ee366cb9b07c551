"""Where a stead's tools, plugins and agents come from: what a program includes, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolstead.app.python_file import PythonFile
    from toolstead.plugins.contract import Plugin


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

    def list_plugins(self) -> list[Plugin]:
        """The program's own plugins as they are now."""
        return [*self.plugins, *(self.file.plugins if self.file is not None else ())]
