"""`toolstead trust`: look at what a project brings, approve it, follow it, or revoke the approval."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import click

from toolstead.app.places import Places
from toolstead.app.trust.approvals import TrustApproval, TrustStore, compare_snapshot
from toolstead.app.trust.approved import ProjectTrust, TrustWatcher
from toolstead.console.cli.approving import approve_project, ask_at_terminal
from toolstead.console.cli.group import DONE, FAILED, common_options, count_noun, examples
from toolstead.console.cli.invocation import CommandContext
from toolstead.errors import TrustError
from toolstead.schema.visible import escape_unseen


@click.command("trust", epilog=examples("toolstead trust", "toolstead trust --list"))
@click.option("--follow", is_flag=True, help="Approve every change as it comes, until interrupted: for authors.")
@click.option("--list", "listing", is_flag=True, help="List the projects you trust.")
@click.option("--revoke", is_flag=True, help="Revoke the approval of this project.")
@click.option("--yes", is_flag=True, help="Approve what is shown without asking; a script needs it.")
@click.option("--json", "as_json", is_flag=True, help="With --list: as JSON, for programs.")
@common_options
def trust(invocation: CommandContext, *, follow: bool, listing: bool, revoke: bool, yes: bool, as_json: bool) -> int:
    """Approve what this project brings: .toolstead and .claude/agents.

    Shows what would run, or what changed since you last approved it, and keeps exactly these bytes:
    only they are used, until you approve others. Without a terminal --yes is needed.

    Exit status: 0 approved, 1 nothing was approved, 2 there is no terminal to ask at.
    """
    if sum((follow, listing, revoke)) > 1:
        raise click.UsageError("--follow, --list and --revoke exclude each other")
    if listing:
        _list_approvals(invocation.find_places(), as_json=as_json)
        return DONE
    project = ProjectTrust(invocation.find_places())
    if revoke:
        return _revoke_project(project)
    if not approve_project(project, ask_person=None if yes else ask_at_terminal):
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
