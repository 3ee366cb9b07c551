"""One run of the command: its global options, and the stead they lead to.

`--project` and `--set` may stand before the command or after it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from toolstead.console.cli.ending import run_to_the_end

if TYPE_CHECKING:
    import click

    from toolstead.app.client import SteadClient
    from toolstead.app.layers import LoadedSettings
    from toolstead.app.places import Places
    from toolstead.app.stead import Toolstead

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The common options of the command line."""

    project: Path | None = None
    overrides: tuple[str, ...] = ()
    verbose: int = 0

    def find_places(self) -> Places:
        """Where this project, the user's folder and the data are."""
        from toolstead.app.places import find_places

        return find_places(explicit=self.project)

    def load(self) -> LoadedSettings:
        """The settings in effect."""
        from toolstead.app.layers import settings_for
        from toolstead.app.trust.approved import ProjectTrust

        places = self.find_places()
        trust = ProjectTrust(places)
        trust.refresh_approval()
        return settings_for(places, overrides=self.overrides, approved_config=trust.approved_config())

    def make_stead(
        self, *, watch: bool = False, tools_dir: Path | None = None, follow: bool = False, ask: bool = True
    ) -> Toolstead:
        """A stead for this project; open it with `async with`. Only what serves need watch for changes.

        Where a person sits at the terminal, they are asked once about what the project brings.
        """
        from toolstead.app.stead import Toolstead

        if ask and not follow and sys.stdin.isatty() and sys.stderr.isatty():
            from toolstead.app.trust.approved import ProjectTrust
            from toolstead.console.cli.approving import offer_approval

            offer_approval(ProjectTrust(self.find_places()))
        return Toolstead(self.project, tools_dir=tools_dir, overrides=self.overrides, watch=watch, follow=follow)

    def run_with_client(
        self, url: str | None, act: Callable[[SteadClient], Coroutine[Any, Any, _T]], *, level: int = logging.ERROR
    ) -> _T:
        """Let the server that was named act, else the running server of this project, else this process."""
        from toolstead.app.client import open_client

        async def main() -> _T:
            async with open_client(self.find_places(), self.make_stead, url=url, read_token=self._read_token) as client:
                return await act(client)

        return self.run(main(), level=level)

    def _read_token(self) -> str:
        token = self.load().settings.server.token
        return "" if token == "auto" else token

    def run(self, main: Coroutine[Any, Any, _T], *, level: int = logging.WARNING, fast_loop: bool = False) -> _T:
        """Run to the end, with the log at the level that `-v` asks for.

        Args:
            main: What to run.
            level: The log's level without `-v`.
            fast_loop: Use uvloop where it is installed; it is for servers, and costs time to import.
        """
        chosen = {0: level, 1: logging.INFO}.get(self.verbose, logging.DEBUG)
        logging.getLogger("toolstead").setLevel(chosen)
        # Every command reports that a project's own tools are skipped.
        logging.getLogger("toolstead.trust").setLevel(min(chosen, logging.WARNING))
        return run_to_the_end(_until_terminated(main), _fast_loop() if fast_loop else None)


async def _until_terminated(main: Coroutine[Any, Any, _T]) -> _T:
    """Let SIGTERM end the command as Ctrl-C does: whatever it opened is closed first. Servers take over from here.

    Raises:
        SystemExit: It came; the status says so.
    """
    this = cast("asyncio.Task[Any]", asyncio.current_task())
    told: list[int] = []

    def end_work() -> None:
        told.append(signal.SIGTERM)
        this.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end_work)
    try:
        return await main
    except asyncio.CancelledError:
        if not told:
            raise
        raise SystemExit(128 + signal.SIGTERM) from None


def common_options(command: _F) -> _F:
    """`--project`, `--set` and `-v` on a command too, joined with what stood before it."""
    import click  # not above: `toolstead mcp` is mostly understood without it

    command = click.option("-v", "--verbose", count=True, hidden=True, expose_value=False, callback=_add_verbose)(
        command
    )
    command = click.option(
        "--set", multiple=True, metavar="KEY=VALUE", expose_value=False, callback=_add_overrides, help="A setting."
    )(command)
    return click.option(
        "--project",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_add_project,
        help="The project's folder.",
    )(command)


def _add_project(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.obj = replace(ctx.obj, project=value)


def _add_overrides(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    if value:
        ctx.obj = replace(ctx.obj, overrides=(*ctx.obj.overrides, *value))


def _add_verbose(ctx: click.Context, _: click.Parameter, value: int) -> None:
    if value:
        ctx.obj = replace(ctx.obj, verbose=max(ctx.obj.verbose, value))


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return None
    return uvloop.new_event_loop
