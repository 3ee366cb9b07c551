"""A fresh virtual environment in which plugins are installed and uninstalled with pip, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGES = Path(sysconfig.get_path("purelib"))
"""What the environment sees of ours: Toolstead and what it needs. A machine without a network has no other source."""


class Environment:
    """A virtual environment: `toolstead`, `python` and `pip` are those in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=100)
        own = Path(self._python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        # Not a plain path: what is installed here editable says so in a .pth file of its own.
        (own / "ours.pth").write_text(f"import site; site.addsitedir({str(PACKAGES)!r})\n", "utf-8")
        self.packages = own
        command = folder / "bin" / "toolstead"
        start = "from toolstead.console.cli.main import main"
        command.write_text(f"#!{folder}/bin/python\nimport sys\n{start}\nsys.exit(main())\n", "utf-8")
        command.chmod(0o755)

    @property
    def toolstead(self) -> list[str]:
        """The command."""
        return [str(self.folder / "bin" / "python"), "-m", "toolstead"]

    def run(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str] | None = None) -> str:
        """What a command prints, on stdout and stderr as a person sees it; it must end well."""
        program, *arguments = self._offline(command)
        done = subprocess.run(
            [program, *arguments],
            cwd=cwd,
            env={
                **os.environ,
                "COLUMNS": "80",
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                **(environ or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout)
        return done.stdout

    def has(self, distribution: str) -> bool:
        """Whether pip has installed it here."""
        return any(self.packages.glob(f"{distribution}-*.dist-info"))

    def _offline(self, command: Sequence[str]) -> list[str]:
        """The same command for a machine without a network: nothing is fetched, nobody is asked."""
        python = str(self.folder / "bin" / "python")
        match list(command):
            case ["pip", "install", *rest]:
                return [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", *rest]
            case ["pip", "uninstall", *rest]:
                return [python, "-m", "pip", "uninstall", "-q", "--yes", *rest]
            case ["python", "-m", "build", *rest]:
                return [python, "-m", "build", "--no-isolation", *rest]
            case ["toolstead" | "python" as program, *rest]:
                return [str(self.folder / "bin" / program), *rest]
            case _:
                return list(command)

    def _python(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.folder / "bin" / "python", *arguments], capture_output=True, encoding="utf-8", timeout=100, check=True
        )
        return done.stdout
