"""Showing a person what a project brings, asking them, keeping their word.

Above: `toolyard trust`, and every command that finds a project nobody was asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from toolyard.app.trust.approved import ProjectTrust
    from toolyard.app.trust.snapshot import Snapshot


def offer(project: ProjectTrust) -> None:
    """On a terminal, ask once about a project that nobody was asked about yet."""
    snapshot = project.snapshot()
    if not snapshot.files or project.approvals.read(project.project) is not None:
        return
    if not project.approvals.declined(project.project, snapshot.digest):
        approve(project, ask=True, snapshot=snapshot)


def approve(project: ProjectTrust, *, ask: bool, snapshot: Snapshot | None = None) -> bool:
    """Show, ask if somebody can be asked, keep. What is kept is what was shown."""
    from toolyard.app.trust.approvals import difference
    from toolyard.app.trust.review import what_changed, what_would_run

    snapshot = snapshot or project.snapshot()
    approval = project.approvals.read(project.project)
    changes = difference(approval, snapshot)
    where = click.style(str(project.project), bold=True)
    if approval is not None and not changes:
        click.echo(f"{where}: nothing changed since you approved it", err=True)
        return True
    if approval is None and not snapshot.files:
        click.echo(f"{where} brings no files of its own: there is nothing to approve", err=True)
        return True
    if approval is None:
        click.echo(f"{where} brings:", err=True)
        for line in what_would_run(snapshot):
            click.echo(f"  {line}", err=True)
    else:
        click.echo(f"{where} changed since you approved it:", err=True)
        kept = ((path, project.approvals.content(project.project, path)) for path in approval.files)
        for line in what_changed({path: data for path, data in kept if data is not None}, snapshot, changes):
            click.echo(_coloured(line), err=True)
    if ask and not click.confirm(f"Trust these {_files(snapshot)}?", err=True):
        project.approvals.decline(project.project, snapshot.digest)
        click.echo("not trusted; `toolyard trust` asks again", err=True)
        return False
    project.approvals.approve(project.project, snapshot)
    click.echo(f"trusted: {_files(snapshot)} of {project.project}", err=True)
    return True


def _files(snapshot: Snapshot) -> str:
    return "1 file" if len(snapshot.files) == 1 else f"{len(snapshot.files)} files"


def _coloured(line: str) -> str:
    if line.startswith(("+++", "---")):
        return click.style(line, bold=True)
    if line.startswith("+"):
        return click.style(line, fg="green")
    return click.style(line, fg="red") if line.startswith("-") else line
