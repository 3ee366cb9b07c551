"""A folder of JSON tool files as a team writes them, for the row `files`: ten tools a file, no two texts alike.

Shell, http and file-read tools with two to five properties each, indented, with defaults, enums, bounds, lists and a
pipe here and there. Every tool has texts of its own, so that nothing is gained by remembering what was seen before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOOLS_IN_FILE = 10
Schema = dict[str, Any]


def write_files(folder: Path, count: int) -> None:
    """Fill a folder with so many files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / file_name(number)).write_text(file_text(number))


def file_name(number: int) -> str:
    """The name of the file of this number."""
    return f"team-{number:04d}.json"


def tool_name(number: int, position: int = 0) -> str:
    """The name of a tool, by its file's number and its place in it."""
    return f"t{number:04d}-{_NAMES[position]}"


def file_text(number: int, description: str = "") -> str:
    """A file's text.

    Args:
        number: Which file.
        description: Its first tool's, instead of the usual one: an edit.
    """
    tools = [
        {"name": tool_name(number, position), "description": f"{text} Of team {number}.", **rest}
        for position, (text, rest) in enumerate(_tools(f"team-{number:04d}", number))
    ]
    if description:
        tools[0]["description"] = description
    return json.dumps({"name": f"team-{number:04d}", "version": "1.0", "tools": tools}, indent=2) + "\n"


_NAMES = (
    "search",
    "log",
    "logs",
    "count",
    "deploy",
    "find-issue",
    "open-issue",
    "health",
    "read-runbook",
    "read-config",
)


def _tools(team: str, number: int) -> list[tuple[str, Schema]]:
    return [
        (
            "Search the sources for a regular expression.",
            _tool(
                {
                    "pattern": _text(f"A regular expression, searched in {team}'s folders."),
                    "path": _text("The folder to search.", default=f"services/{team}"),
                    "limit": _number("The most matches of one file.", 20, minimum=1, maximum=500 + number),
                },
                ["pattern"],
                {
                    "type": "shell",
                    "command": f"rg -n --ignore-file services/{team}/.rgignore "
                    "--max-count {{limit}} -e {{pattern}} -- {{path}}",
                },
            ),
        ),
        (
            "The last commits that touched a path.",
            _tool(
                {
                    "path": _text(f"A path below services/{team}."),
                    "count": _number("How many commits.", 10, minimum=1, maximum=100),
                    "author": _text("Only this author's.", default="."),
                },
                ["path"],
                {
                    "type": "shell",
                    "command": f"git -C services/{team} log --oneline "
                    "-n {{count}} --author={{author}} -- {{path}}",
                    "timeout": 20_000 + number,
                },
                annotations={"title": f"Commits of {team}", "readOnlyHint": True},
            ),
        ),
        (
            "The last lines that a service wrote.",
            _tool(
                {
                    "service": {"type": "string", "enum": [team, f"{team}-worker", f"{team}-cron"]},
                    "lines": _number("How many lines.", 100, minimum=1, maximum=5_000),
                },
                ["service"],
                {
                    "type": "shell",
                    "command": f"docker compose -f services/{team}/compose.yml logs --no-color "
                    "--tail {{lines}} {{service}}",
                },
            ),
        ),
        (
            "How often each line stands in a file.",
            _tool(
                {"file": _text(f"A file below services/{team}."), "top": _number("The most lines.", 10)},
                ["file"],
                {"type": "shell", "command": "sort -- {{file}} | uniq -c | head -n {{top}}", "cwd": f"services/{team}"},
            ),
        ),
        (
            "Roll out a version.",
            _tool(
                {
                    "version": {"type": "string", "pattern": "^v[0-9]+$", "description": f"A version of {team}."},
                    "environment": {"type": "string", "enum": ["staging", "production"], "default": "staging"},
                    "replicas": _number("How many copies run.", 2, minimum=1, maximum=20),
                    "dryRun": {"type": "boolean", "description": "Only say what would happen.", "default": True},
                    "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
                },
                ["version"],
                {
                    "type": "shell",
                    "command": "deployctl rollout {{version}} {{labels}} --env={{environment}} --replicas={{replicas}} "
                    f"--dry-run={{{{dryRun}}}} --team={team}",
                    "env": {"DEPLOY_TOKEN": "${DEPLOY_TOKEN}", "TEAM": team},
                    "timeout": 120_000,
                    "stream": True,
                },
                annotations={"destructiveHint": True, "idempotentHint": True},
            ),
        ),
        (
            "Find issues by words and state.",
            _tool(
                {
                    "words": _text(f"What to look for among {team}'s issues.", minLength=2, maxLength=200),
                    "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
                    "page": _number("Which page.", 1, minimum=1),
                },
                ["words"],
                {
                    "type": "http",
                    "url": f"https://issues.example.com/api/{team}/search?q={{{{words}}}}&state={{{{state}}}}",
                    "method": "GET",
                    "headers": {"Authorization": "Bearer ${ISSUES_TOKEN}", "Accept": "application/json"},
                },
                annotations={"readOnlyHint": True, "openWorldHint": True},
            ),
        ),
        (
            "Open an issue.",
            _tool(
                {
                    "title": _text(f"One line, for {team}.", minLength=5, maxLength=120),
                    "body": _text("Markdown."),
                    "labels": {"type": "array", "items": {"type": "string", "maxLength": 40}, "uniqueItems": True},
                    "reporter": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "email": {"type": "string", "format": "email"}},
                        "required": ["name"],
                        "additionalProperties": False,
                    },
                },
                ["title", "body"],
                {
                    "type": "http",
                    "url": f"https://issues.example.com/api/{team}/issues",
                    "headers": {"Authorization": "Bearer ${ISSUES_TOKEN}"},
                    "timeout": 15_000,
                },
            ),
        ),
        (
            "Ask a service whether it is well.",
            _tool(
                {
                    "service": _text(f"A service of {team}.", pattern="^[a-z-]+$"),
                    "verbose": {"type": "boolean", "description": "With the parts.", "default": False},
                },
                ["service"],
                {
                    "type": "http",
                    "url": f"http://{team}.internal.example.com:8080/services/{{{{service}}}}/health",
                    "method": "GET",
                    "allowedHosts": [f"{team}.internal.example.com:8080"],
                },
            ),
        ),
        (
            "Read a runbook.",
            _tool(
                {
                    "path": _text(f"The runbook, below {team}'s folder, such as restart.md."),
                    "section": _text("Only for the reader: which section is meant.", default="all"),
                },
                ["path"],
                {"type": "file-read", "basePath": f"services/{team}/runbooks"},
                annotations={"readOnlyHint": True},
            ),
        ),
        (
            "Read a configuration file.",
            _tool(
                {
                    "path": _text(f"A file of {team}.", default=f"{team}.toml"),
                    "environment": {"type": "string", "enum": ["staging", "production"]},
                },
                [],
                {"type": "file-read", "basePath": f"services/{team}/config", "maxSize": 65_536},
            ),
        ),
    ]


def _tool(properties: Schema, required: list[str], handler: Schema, **more: Any) -> Schema:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"inputSchema": schema, "handler": handler, **more}


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _number(description: str, default: int, **more: Any) -> Schema:
    return {"type": "integer", "description": description, "default": default, **more}
