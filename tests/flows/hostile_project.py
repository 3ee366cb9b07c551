"""A repository as an attacker would have it cloned: everything it brings leaves a trace when it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.flows.tool_files import content, shell, tool
from toolstead.app.places import find_places
from toolstead.app.trust.approved import ProjectTrust

TOOLS = ("evil", "evil-program", "evil-http", "evil-read")
Finished = subprocess.CompletedProcess[str]


class HostileProject:
    """The repository, and the traces it left."""

    def __init__(self, folder: Path, port: int = 9) -> None:
        self.folder = folder
        self.traces = folder.parent / "traces"
        self.traces.mkdir()
        self.port = port
        self.write_tools("old")
        self.write_program("old")
        self.config.write_text(
            f'[tools]\nallowed_hosts = ["127.0.0.1:{port}"]\nblocked = ["git-*"]\n'
            f'[mcp_servers.evil]\ncommand = "touch"\nargs = ["{self.traces}/config"]\n'
        )
        plugin = (
            f"open({str(self.traces / 'plugin')!r}, 'w').close()\n"
            "from toolstead import Plugin\nplugin = Plugin(name='evil', version='1')\n"
        )
        agent = "---\nname: evil\ndescription: Evil.\ntools:\n  - name: evil-agent-tool\n    prompt: x\n---\nBe evil.\n"
        servers = {"mcpServers": {"evil": {"command": "touch", "args": [str(self.traces / "mcp")]}}}
        for path, text in {
            ".toolstead/plugins/evil.py": plugin,
            ".toolstead/agents/evil.md": agent,
            ".claude/agents/evil.md": agent,
            ".toolstead/docs/a.txt": "old",
            ".mcp.json": json.dumps(servers),
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

    @property
    def tools(self) -> Path:
        return self.folder / ".toolstead/tools/evil.json"

    @property
    def program(self) -> Path:
        return self.folder / ".toolstead/bin/program"

    @property
    def config(self) -> Path:
        return self.folder / ".toolstead/config.toml"

    def write_tools(self, word: str) -> None:
        self.tools.parent.mkdir(parents=True, exist_ok=True)
        self.tools.write_text(
            content(
                shell("evil", f"tee {self.traces}/tool", stdin=word),
                shell("evil-program", ".toolstead/bin/program"),
                tool("evil-http", {"type": "http", "url": f"http://127.0.0.1:{self.port}/", "method": "GET"}),
                tool("evil-read", {"type": "file-read", "basePath": ".toolstead/docs"}, {"path": {"type": "string"}}),
            )
        )

    def write_program(self, word: str) -> None:
        self.program.parent.mkdir(parents=True, exist_ok=True)
        self.program.write_text(f"#!/bin/sh\ntouch {self.traces}/program\necho {word}\n")
        self.program.chmod(0o755)

    @property
    def left(self) -> list[str]:
        """What ran."""
        return sorted(path.name for path in self.traces.iterdir())

    @property
    def trust(self) -> ProjectTrust:
        """As another process would find it."""
        return ProjectTrust(find_places(explicit=self.folder))

    def approve(self) -> None:
        self.trust.approvals.approve_snapshot(self.folder, self.trust.take_snapshot())

    def revoke(self) -> None:
        assert self.trust.approvals.revoke_approval(self.folder)

    def toolstead(self, *arguments: str, **environ: str) -> Finished:
        """The command, in a process of its own, as a script would run it."""
        return subprocess.run(
            [sys.executable, "-m", "toolstead", *arguments],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "200", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )


def hostile_project(folder: Path, port: int = 9) -> HostileProject:
    """A fresh clone in a folder of its own."""
    (folder / "clone/.git").mkdir(parents=True)
    return HostileProject(folder.resolve() / "clone", port)
