"""`toolstead vfs`: see, restore, export and import the files that the agents of a thread tree share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from toolstead.app.client import SteadClient
from toolstead.console.cli.group import (
    FAILED,
    client_command,
    count_noun,
    echo_json,
    echo_text,
    json_option,
    url_option,
)
from toolstead.errors import ToolsteadError
from toolstead.schema.visible import escape_unseen

MOST_DIFF_LINES = 100_000
MOST_PROBLEMS = 20
_LONGEST_AUTHOR = 16

_T = TypeVar("_T", bound=Callable[..., Any])


@click.group("vfs")
def vfs() -> None:
    """See, restore, export and import the files that agents share."""


def file_command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command on the files of one thread tree."""

    def decorate(command: Callable[..., Any]) -> click.Command:
        thread = click.option(
            "--thread", "thread_id", metavar="ID", default="default", show_default=True, help="A thread of the tree."
        )
        return vfs.command(name)(thread(url_option(client_command(command))))

    return decorate


def version_option(name: str, text: str, *, required: bool = False) -> Callable[[_T], _T]:
    """An option that names a version."""
    return click.option(name, type=click.IntRange(1, 10**9 - 1), metavar="N", required=required, help=text)


@file_command("ls")
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
    for file in () if as_json else found:
        echo_text(f"{_render_version(file)}  {file['path']}")


@file_command("cat")
@click.argument("path")
@version_option("--version", "An older version; the newest unless given.")
async def show_file(client: SteadClient, *, thread_id: str, path: str, version: int | None) -> None:
    """Print a file."""
    file = await client.files.read_file(thread_id, path, version)
    if file.get("deleted"):
        click.echo(f"version {version} of {path} is its deletion, so that there is no text", err=True)
    echo_text(file["content"], nl=False)


@file_command("log")
@click.argument("path")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@json_option
async def list_versions(client: SteadClient, *, thread_id: str, path: str, limit: int, as_json: bool) -> None:
    """List the versions of a file, newest first.

    Each with its number, bytes, when and by whom it was written, and the run.
    """
    found = await client.files.list_versions(thread_id, path, limit)
    if as_json:
        echo_json({"versions": found})
        return
    for file in found:
        echo_text(f"{_render_version(file)}  {file.get('runId', '')}".rstrip())
    if len(found) == limit and found[-1]["version"] > 1:
        click.echo(f"{count_noun(found[-1]['version'] - 1, 'older version')}: --limit shows more", err=True)


@file_command("diff")
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


@file_command("restore")
@click.argument("path")
@version_option("--version", "The version whose text is written again.", required=True)
async def restore_file(client: SteadClient, *, thread_id: str, path: str, version: int) -> None:
    """Write an older text as the newest version."""
    file = await client.files.read_file(thread_id, path, version)
    if file.get("deleted"):
        raise click.UsageError(f"--version {version}: that is the deletion of {path}; name a version that has a text")
    written = await client.files.write_file(thread_id, path, file["content"])
    click.echo(f"{file['path']}: version {written['version']} has the text of version {version} again", err=True)


@file_command("export")
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


@file_command("import")
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


def _render_version(file: Mapping[str, Any]) -> str:
    author = file["author"]
    author = author if len(author) <= _LONGEST_AUTHOR else f"{author[: _LONGEST_AUTHOR - 1]}…"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(file["createdAt"]))
    size = "deleted" if file.get("deleted") else f"{file['size']:,}"
    return f"{file['version']:>4}  {size:>9}  {when}  {author:<9}"
