"""`toolstead trust`: look at what a project brings, approve it, follow it, or revoke the approval."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from toolstead.app.places import Places
from toolstead.app.trust.approvals import TrustApproval, TrustStore, compare_snapshot
from toolstead.app.trust.approved import ProjectTrust, TrustWatcher
from toolstead.console.cli.approving import approve_project
from toolstead.console.cli.group import (
    DONE,
    FAILED,
    common_options,
    count_noun,
    examples,
)
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import TrustError
from toolstead.schema.visible import escape_unseen


@click.command("trust", epilog=examples("toolstead trust", "toolstead trust --list"))
@click.option("--follow", is_flag=True, help="Approve every change as it comes, until interrupted: for authors.")
@click.option("--list", "listing", is_flag=True, help="List the projects you trust.")
@click.option("--revoke", is_flag=True, help="Revoke the approval of this project.")
@click.option("--yes", is_flag=True, help="Do not ask; a script is not asked either.")
@click.option("--json", "as_json", is_flag=True, help="With --list: as JSON, for programs.")
@common_options
def trust(invocation: CommandContext, *, follow: bool, listing: bool, revoke: bool, yes: bool, as_json: bool) -> int:
    """Approve what this project brings: .toolstead, .claude/agents and .mcp.json.

    Shows what would run, or what changed since you last approved it, and keeps exactly these bytes:
    only they are used, until you approve others.
    """
    if sum((follow, listing, revoke)) > 1:
        raise click.UsageError("--follow, --list and --revoke exclude each other")
    if listing:
        _list_approvals(invocation.find_places(), as_json=as_json)
        return DONE
    project = ProjectTrust(invocation.find_places())
    if revoke:
        return _revoke_project(project)
    if not approve_project(project, ask=not yes and sys.stdin.isatty()):
        return FAILED
    return invocation.run(_follow_project(project), level=logging.INFO) if follow else DONE


async def _follow_project(project: ProjectTrust) -> int:
    async def do_nothing() -> None:
        """Every process that uses the project notices an approval."""

    click.echo("approving every change as it comes; end this with Ctrl-C", err=True)
    async with TrustWatcher(project, do_nothing, follow=True):
        await asyncio.Event().wait()
    return DONE


def _revoke_project(project: ProjectTrust) -> int:
    shown = escape_unseen(str(project.project))
    if project.approvals.revoke_approval(project.project):
        click.echo(f"not trusted any more: {shown}", err=True)
        return DONE
    click.echo(f"{shown} is not trusted, so there is nothing to revoke", err=True)
    return FAILED


def _list_approvals(places: Places, *, as_json: bool) -> None:
    rows = [(approval, _describe_state(places, approval)) for approval in TrustStore(places.data).all_approvals()]
    if as_json:
        listed = [
            {
                "project": approval.project,
                "approvedAt": approval.approved_at,
                "files": len(approval.files),
                "state": state or "as approved",
            }
            for approval, state in rows
        ]
        click.echo(json.dumps({"trusted": listed}, indent=2))
        return
    if not rows:
        click.echo("no project is trusted; `toolstead trust` in one shows what it brings", err=True)
    for approval, state in rows:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(approval.approved_at))
        click.echo(escape_unseen(approval.project))
        click.echo(f"  {count_noun(len(approval.files), 'file')}, approved {day}" + (f"; {state}" if state else ""))


def _describe_state(places: Places, approval: TrustApproval) -> str:
    """What happened to a project since it was approved; empty for nothing."""
    project = Path(approval.project)
    try:
        waiting = str(compare_snapshot(approval, ProjectTrust(replace(places, project=project)).take_snapshot()))
    except TrustError as error:
        waiting = str(error)
    return "gone" if not project.is_dir() else waiting and f"waits: {waiting}"
