"""`toolstead vfs`: see, restore, export and import the files that the agents of a thread tree share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from toolstead.app.client import SteadClient
from toolstead.console.cli.columns import render_table
from toolstead.console.cli.group import (
    FAILED,
    CommandGroup,
    WholeNumber,
    client_command,
    count_noun,
    echo_json,
    echo_text,
    examples,
    json_option,
    table_width,
    url_option,
)
from toolstead.errors import ToolsteadError
from toolstead.schema.visible import escape_unseen

MOST_DIFF_LINES = 100_000
MOST_PROBLEMS = 20

_T = TypeVar("_T", bound=Callable[..., Any])


@click.group("vfs", cls=CommandGroup, epilog=examples("toolstead vfs ls", "toolstead vfs cat plan.md"))
def vfs() -> None:
    """See, restore, export and import the files that agents share."""


def file_command(name: str, *, epilog: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command on the files of one thread tree."""

    def decorate(command: Callable[..., Any]) -> click.Command:
        thread = click.option(
            "--thread", "thread_id", metavar="ID", default="default", show_default=True, help="A thread of the tree."
        )
        return vfs.command(name, epilog=epilog)(thread(url_option(client_command(command))))

    return decorate


def version_option(name: str, text: str, *, required: bool = False) -> Callable[[_T], _T]:
    """An option that names a version."""
    return click.option(name, type=WholeNumber(1, 10**9 - 1), metavar="N", required=required, help=text)


@file_command("ls", epilog=examples("toolstead vfs ls", "toolstead vfs ls notes/ --thread thread_660888db"))
@click.argument("prefix", default="")
@json_option
async def list_files(client: SteadClient, *, thread_id: str, prefix: str, as_json: bool) -> None:
    """List the files.

    Each with its newest version, bytes, when and by whom that was written, and its path.
    """
    found = await client.files.list_files(thread_id, prefix)
    if as_json:
        echo_json({"files": found})
    elif not found:
        which = f" whose path begins with {prefix!r}" if prefix else ""
        click.echo(f"there are no files{which} in the tree of thread {thread_id!r}", err=True)
    else:
        _print_versions(found, "PATH", "path")


@file_command("cat", epilog=examples("toolstead vfs cat plan.md", "toolstead vfs cat plan.md --version 2"))
@click.argument("path")
@version_option("--version", "An older version; the newest unless given.")
@json_option
async def show_file(client: SteadClient, *, thread_id: str, path: str, version: int | None, as_json: bool) -> None:
    """Print a file."""
    file = await client.files.read_file(thread_id, path, version)
    if as_json:
        echo_json(file)
        return
    if file.get("deleted"):
        click.echo(f"version {version} of {path} is its deletion, so that there is no text", err=True)
    echo_text(file["content"], nl=False)


@file_command("log", epilog=examples("toolstead vfs log plan.md"))
@click.argument("path")
@click.option("--limit", type=WholeNumber(1, 100_000), default=100, show_default=True, help="At most so many.")
@json_option
async def list_versions(client: SteadClient, *, thread_id: str, path: str, limit: int, as_json: bool) -> None:
    """List the versions of a file, newest first.

    Each with its number, bytes, when and by whom it was written, and the run.
    """
    found = await client.files.list_versions(thread_id, path, limit)
    if as_json:
        echo_json({"versions": found})
        return
    _print_versions(found, "RUN", "runId")
    if len(found) == limit and found[-1]["version"] > 1:
        click.echo(f"{count_noun(found[-1]['version'] - 1, 'older version')}: --limit shows more", err=True)


@file_command("diff", epilog=examples("toolstead vfs diff plan.md", "toolstead vfs diff plan.md --from 1 --to 3"))
@click.argument("path")
@version_option("--from", "The older version; the one before --to unless given.")
@version_option("--to", "The newer version; the newest unless given.")
async def show_difference(client: SteadClient, *, thread_id: str, path: str, **given: int | None) -> None:
    """Print what changed between two versions."""
    from toolstead.orchestrator.text_diff import render_diff

    after = given["to"] or (await client.files.list_versions(thread_id, path, 1))[0]["version"]
    before = given["from"] or after - 1
    old = (await client.files.read_file(thread_id, path, before))["content"] if before else ""
    new = (await client.files.read_file(thread_id, path, after))["content"]
    diff = render_diff(old, new, (f"{path} (version {before})", f"{path} (version {after})"), most=MOST_DIFF_LINES)
    if diff:
        echo_text(diff)
    else:
        click.echo(f"versions {before} and {after} of {path} are alike", err=True)


@file_command("restore", epilog=examples("toolstead vfs restore plan.md --version 2"))
@click.argument("path")
@version_option("--version", "The version whose text is written again.", required=True)
async def restore_file(client: SteadClient, *, thread_id: str, path: str, version: int) -> None:
    """Write an older text as the newest version."""
    file = await client.files.read_file(thread_id, path, version)
    if file.get("deleted"):
        raise click.UsageError(f"--version {version}: that is the deletion of {path}; name a version that has a text")
    written = await client.files.write_file(thread_id, path, file["content"])
    click.echo(f"{file['path']}: version {written['version']} has the text of version {version} again", err=True)


@file_command("export", epilog=examples("toolstead vfs export copies"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
async def export_files(client: SteadClient, *, thread_id: str, folder: Path, force: bool) -> None:
    """Write every file into a folder.

    The newest version of each, under its path. The folder is made if it is not there; nothing is written outside it.
    """
    from toolstead.console.cli.vfs_folder import ExportFolder

    found = [file["path"] for file in await client.files.list_files(thread_id)]
    with ExportFolder(folder, replace=force) as target:
        target.check_places(found)
        for done, path in enumerate(found):
            text = (await client.files.read_file(thread_id, path))["content"]
            try:
                target.write_file(path, text)
            except OSError as error:
                reason = f"{path}: cannot be written: {error.strerror or error}"
                raise click.UsageError(f"{reason}; {count_noun(done, 'file')} of {len(found)} written") from None
    click.echo(f"{count_noun(len(found), 'file')} written to {folder}", err=True)


@file_command("import", epilog=examples("toolstead vfs import notes"))
@click.argument("source", type=click.Path(path_type=Path, exists=True), metavar="FOLDER|FILE")
async def import_files(client: SteadClient, *, thread_id: str, source: Path) -> int | None:
    """Share a file, or every file of a folder.

    Each becomes the newest version of its path within the folder. What is no text in UTF-8, and links, are left out.
    """
    from toolstead.console.cli.vfs_folder import read_source

    done = refused = 0
    for path, text, reason in read_source(source):
        if text is None:
            refused += 1
            if refused <= MOST_PROBLEMS:
                click.echo(f"not imported: {escape_unseen(path)}: {escape_unseen(reason, 'prose')}", err=True)
            continue
        try:
            await client.files.write_file(thread_id, path, text)
        except ToolsteadError as error:
            before = f"{count_noun(done, 'file')} imported before"
            raise click.UsageError(f"{path}: {escape_unseen(str(error), 'prose')} ({before})") from None
        done += 1
    if refused > MOST_PROBLEMS:
        click.echo(f"not imported: {refused - MOST_PROBLEMS} more", err=True)
    click.echo(f"{count_noun(done, 'file')} imported", err=True)
    return FAILED if refused else None


def _print_versions(found: Sequence[Mapping[str, Any]], title: str, key: str) -> None:
    """Versions of files as a table; its last column is the member `key` of each."""
    rows = [
        (
            str(file["version"]),
            "deleted" if file.get("deleted") else f"{file['size']:,}",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(file["createdAt"])),
            file["author"],
            file.get(key, ""),
        )
        for file in found
    ]
    head = ("VERSION", "BYTES", "WRITTEN", "BY", title)
    click.echo("\n".join(render_table(head, rows, width=table_width(), right=(0, 1))))
