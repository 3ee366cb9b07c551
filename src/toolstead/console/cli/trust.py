"""`toolstead trust`: look at what a project brings, approve it, follow it, or revoke the approval."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from typing import TYPE_CHECKING

import click

from toolstead.console.cli.approving import approve_project
from toolstead.console.cli.invocation import CommandContext, common_options

if TYPE_CHECKING:
    from toolstead.app.trust.approved import ProjectTrust

DONE, SAID_NO = 0, 1


@click.command("trust")
@click.option("--follow", is_flag=True, help="Approve every change as it comes, until interrupted: for authors.")
@click.option("--list", "listing", is_flag=True, help="List the projects you trust.")
@click.option("--revoke", is_flag=True, help="Revoke the approval of this project.")
@click.option("--yes", is_flag=True, help="Do not ask; a script is not asked either.")
@click.option("--json", "as_json", is_flag=True, help="With --list: as JSON, for programs.")
@common_options
@click.pass_obj
def trust(invocation: CommandContext, *, follow: bool, listing: bool, revoke: bool, yes: bool, as_json: bool) -> int:
    """Approve what this project brings: .toolstead, .claude/agents and .mcp.json.

    Shows what would run, or what changed since you last approved it, and keeps exactly these bytes:
    only they are used, until you approve others.
    """
    if sum((follow, listing, revoke)) > 1:
        raise click.UsageError("--follow, --list and --revoke exclude each other")
    if listing:
        return _list_approvals(invocation, as_json=as_json)
    from toolstead.app.trust.approved import ProjectTrust

    project = ProjectTrust(invocation.find_places())
    if revoke:
        return _revoke_project(project)
    if not approve_project(project, ask=not yes and sys.stdin.isatty()):
        return SAID_NO
    return invocation.run(_follow_project(project), level=logging.INFO) if follow else DONE


async def _follow_project(project: ProjectTrust) -> int:
    from toolstead.app.trust.approved import TrustWatcher

    async def do_nothing() -> None:
        """Every process that uses the project notices an approval."""

    click.echo("approving every change as it comes; end this with Ctrl-C", err=True)
    async with TrustWatcher(project, do_nothing, follow=True):
        await asyncio.Event().wait()
    return DONE


def _revoke_project(project: ProjectTrust) -> int:
    from toolstead.schema.visible import escape_unseen

    shown = escape_unseen(str(project.project))
    if project.approvals.revoke_approval(project.project):
        click.echo(f"not trusted any more: {shown}", err=True)
        return DONE
    click.echo(f"{shown} is not trusted, so there is nothing to revoke", err=True)
    return SAID_NO


def _list_approvals(invocation: CommandContext, *, as_json: bool) -> int:
    from dataclasses import replace
    from pathlib import Path

    from toolstead.app.trust.approvals import TrustStore, compare_snapshot
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.errors import TrustError
    from toolstead.schema.visible import escape_unseen

    places = invocation.find_places()
    rows: list[tuple[str, float, int, str]] = []
    for approval in TrustStore(places.data).all_approvals():
        project = Path(approval.project)
        try:
            waiting = str(compare_snapshot(approval, ProjectTrust(replace(places, project=project)).take_snapshot()))
        except TrustError as error:
            waiting = str(error)
        state = "gone" if not project.is_dir() else waiting and f"waits: {waiting}"
        rows.append((approval.project, approval.approved_at, len(approval.files), state))
    if as_json:
        keys = ("project", "approvedAt", "files", "state")
        shown = [dict(zip(keys, (*row[:3], row[3] or "as approved"), strict=True)) for row in rows]
        click.echo(json.dumps({"trusted": shown}, indent=2))
    elif not rows:
        click.echo("no project is trusted; `toolstead trust` in one shows what it brings", err=True)
    else:
        for name, at, count, state in rows:
            day = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
            click.echo(escape_unseen(name))
            click.echo(
                f"  {count} {'file' if count == 1 else 'files'}, approved {day}" + (f"; {state}" if state else "")
            )
    return DONE
