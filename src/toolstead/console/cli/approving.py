"""Shows a person what a project brings, asks for approval, and stores the answer."""

from __future__ import annotations

from collections.abc import Callable

import click

from toolstead.app.trust.approved import ProjectTrust
from toolstead.app.trust.project_review import approve_review, decline_review, review_project
from toolstead.app.trust.snapshot import Snapshot
from toolstead.console.cli.terminal_line import has_terminal, read_answer
from toolstead.errors import TrustError
from toolstead.schema.visible import escape_unseen


def offer_approval(project: ProjectTrust) -> None:
    """On a terminal, ask once about a project that the user was not asked about yet."""
    try:
        snapshot = project.take_snapshot()
        if (
            not snapshot.files
            or project.approvals.read(project.project) is not None
            or project.approvals.was_declined(project.project, snapshot.digest)
        ):
            return
    except TrustError:  # every command logs it, and continues without the project's own files
        return
    approve_project(project, ask_person=ask_at_terminal, snapshot=snapshot)


def ask_at_terminal(snapshot: Snapshot) -> bool:
    """Ask the person at the terminal whether what was shown is trusted; Ctrl-D is a no.

    Raises:
        TrustError: There is no terminal.
        click.Abort: Ctrl-C.
    """
    if not has_terminal():
        raise TrustError(
            "without a terminal no person can be asked; `toolstead trust --yes` approves what is shown above"
        )
    files = "this file" if len(snapshot.files) == 1 else f"these {len(snapshot.files)} files"
    while True:
        try:
            typed = read_answer(f"Trust {files}? [y/N]: ")
        except KeyboardInterrupt:
            click.echo("", err=True)  # the line of the question ends here
            raise click.Abort from None
        if typed is None:
            click.echo("", err=True)
            return False
        if (answer := typed.strip().lower()) in ("y", "yes", "n", "no", ""):
            return answer in ("y", "yes")
        click.echo("type y or n", err=True)


def approve_project(
    project: ProjectTrust, *, ask_person: Callable[[Snapshot], bool] | None, snapshot: Snapshot | None = None
) -> bool:
    """Show what there is or what changed, ask, and store the approval of what was shown.

    Args:
        project: The project.
        ask_person: Whether what was shown is trusted; None where that was said before.
        snapshot: What the project brings, where it was read already.
    """
    review = review_project(project, snapshot)
    shown = escape_unseen(str(project.project))
    where = click.style(shown, bold=True)
    if review.state == "trusted":
        mended = ""
        if not review.is_intact:
            approve_review(review)
            mended = "; its kept copy was damaged, and is whole again"
        click.echo(f"{where}: nothing changed since you approved it{mended}", err=True)
        return True
    if review.state == "nothing":
        click.echo(f"{where} brings no files of its own: there is nothing to approve", err=True)
        return True
    if review.approval is None:
        click.echo(f"{where} brings:", err=True)
        for line in review.shown:
            click.echo(f"  {line}", err=True)
    elif review.changes:
        click.echo(f"{where} changed since you approved it:", err=True)
        for line in review.shown:
            click.echo(_colour_line(line), err=True)
    else:
        click.echo(f"{where} is as you approved it, and cannot be used:", err=True)
    if review.refused:
        for reason in review.refused:
            click.echo(f"cannot be approved: {reason}", err=True)
        decline_review(review)  # shown once, not by every command
        kept = (
            "what you approved before stays, until `toolstead trust --revoke`"
            if review.approval
            else "nothing was approved"
        )
        click.echo(f"{kept}; when this is mended, run `toolstead trust` again", err=True)
        return False
    if ask_person is not None and not ask_person(review.snapshot):
        decline_review(review)
        click.echo("not trusted; `toolstead trust` asks again", err=True)
        return False
    approve_review(review)
    number = len(review.snapshot.files)
    click.echo(f"trusted: {number} file{'' if number == 1 else 's'} of {shown}", err=True)
    return True


def _colour_line(line: str) -> str:
    if line.startswith(("+++", "---")):
        return click.style(line, bold=True)
    if line.startswith("+"):
        return click.style(line, fg="green")
    return click.style(line, fg="red") if line.startswith("-") else line
