"""A Postgres of the tests' own: its data under the temporary folder, reached through a socket there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests import machine

WAIT_SECONDS = 60.0

# Whoever comes as `locked` needs the password; everybody else on the socket is trusted.
ACCESS = "local all locked scram-sha-256\nlocal all all trust\n"


@contextmanager
def running_server() -> Generator[Path]:
    """Start it, give the folder of its socket, stop it and delete everything.

    It is given when it has run for so long that a process without its lock counts as dead there.
    """
    from toolstead.adapters.storage.postgres import SETTLING_SECONDS  # not above: its driver may be missing

    programs = machine.postgres()
    user = machine.postgres_user()
    folder = Path(tempfile.mkdtemp(prefix="toolstead-pg-", dir="/tmp"))  # a socket's path must be short
    server: subprocess.Popen[bytes] | None = None
    log = (folder / "log").open("wb")
    try:
        if user is not None:
            os.chown(folder, user, -1)
        data = folder / "data"
        initdb = ["initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "-N"]
        subprocess.run(
            [programs / initdb[0], *initdb[1:]],
            user=user,
            cwd=folder,
            stdout=log,
            stderr=log,
            timeout=WAIT_SECONDS,
            check=True,
        )
        (data / "pg_hba.conf").write_text(ACCESS, encoding="utf-8")
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *_list_options(folder)],
            user=user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        _await_readiness(programs, folder, server)
        time.sleep(SETTLING_SECONDS)
        yield folder
    finally:
        if server is not None and server.poll() is not None and (folder / "data" / "postmaster.pid").exists():
            _control(folder, "stop", "-m", "immediate")  # the one that was started after an interruption
        if server is not None:
            server.send_signal(signal.SIGQUIT)  # at once: what it has is deleted anyway
            try:
                server.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def interrupted_server(folder: Path) -> Generator[None]:
    """A running one is away meanwhile: stopped as a power cut would, and started again."""
    _control(folder, "stop", "-m", "immediate")
    try:
        yield
    finally:
        _control(folder, "start", "-w", "-l", folder / "second-log", "-o", " ".join(_list_options(folder)))


def _control(folder: Path, *words: str | Path) -> None:
    command = [machine.postgres() / "pg_ctl", *words, "-s", "-D", folder / "data"]
    subprocess.run(
        command,
        user=machine.postgres_user(),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=WAIT_SECONDS,
        check=True,
    )


def _list_options(folder: Path) -> list[str]:
    settings = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=100")
    return ["-k", str(folder), *(part for setting in settings for part in ("-c", setting))]


def _await_readiness(programs: Path, folder: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        asked = subprocess.run(
            [programs / "pg_isready", "-q", "-h", folder, "-U", "postgres"], timeout=WAIT_SECONDS, check=False
        )
        if asked.returncode == 0:
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError((folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:])
        time.sleep(0.02)
