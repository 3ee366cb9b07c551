"""`server.json`: which server runs for which project, as commands find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolstead.app.server_file import RunningServer, ServerFile

pytestmark = pytest.mark.promise("R5")

URL = "http://127.0.0.1:8420"
ONE, TWO = Path("/projects/one"), Path("/projects/two")


@pytest.fixture
def dead() -> int:
    """The id of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=30)
    return process.pid


def test_a_server_is_found_while_it_runs_and_only_for_its_project(tmp_path: Path) -> None:
    servers = ServerFile(tmp_path)
    assert servers.find_server(ONE) is None
    with servers.announce_server(ONE, URL, "secret"):
        assert ServerFile(tmp_path).find_server(ONE) == RunningServer(url=URL, token="secret", pid=os.getpid())
        assert servers.find_server(TWO) is None
    assert servers.find_server(ONE) is None
    assert json.loads((tmp_path / "server.json").read_text()) == {}


def test_the_file_with_the_token_is_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    before = os.umask(0)
    try:
        with ServerFile(folder).announce_server(ONE, URL, "secret"):
            assert (folder / "server.json").stat().st_mode & 0o777 == 0o600
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_servers_of_several_projects_stand_side_by_side(tmp_path: Path) -> None:
    servers = ServerFile(tmp_path)
    with servers.announce_server(ONE, URL, "1"):
        with servers.announce_server(TWO, "http://127.0.0.1:8421", "2"):
            assert {ONE, TWO} == {Path(key) for key in json.loads((tmp_path / "server.json").read_text())}
            found = servers.find_url("http://127.0.0.1:8421/")
            assert found is not None
            assert found.token == "2"
        assert servers.find_server(TWO) is None
        assert servers.find_url("http://127.0.0.1:8421") is None
        assert servers.find_server(ONE) is not None


def test_an_entry_whose_process_is_gone_counts_as_absent_and_is_cleared_by_the_next_writer(
    tmp_path: Path, dead: int
) -> None:
    file = tmp_path / "server.json"
    file.write_text(json.dumps({str(ONE): {"url": URL, "token": "", "pid": dead}}))
    servers = ServerFile(tmp_path)
    assert servers.find_server(ONE) is None
    assert servers.find_url(URL) is None
    with servers.announce_server(TWO, URL, ""):
        assert list(json.loads(file.read_text())) == [str(TWO)]


def test_two_servers_of_one_project_stand_side_by_side_and_each_takes_away_its_own(tmp_path: Path) -> None:
    servers = ServerFile(tmp_path)
    second = "http://127.0.0.1:8421"
    with ExitStack() as first:
        first.enter_context(servers.announce_server(ONE, URL, "1"))
        with servers.announce_server(ONE, second, "2"):
            assert [server.url for server in servers.list_servers(ONE)] == [second, URL]
            assert servers.find_server(ONE) == servers.list_servers(ONE)[0]
            old = servers.find_url(URL)
            assert old is not None
            assert old.token == "1"
        assert [server.url for server in servers.list_servers(ONE)] == [URL]
        with servers.announce_server(ONE, second, "2"):
            first.close()
            assert [server.url for server in servers.list_servers(ONE)] == [second]
    assert json.loads((tmp_path / "server.json").read_text()) == {}


def test_a_server_that_ends_leaves_the_entry_of_a_later_one_alone(tmp_path: Path) -> None:
    servers = ServerFile(tmp_path)
    later = {"url": "http://127.0.0.1:9", "token": "", "pid": os.getppid()}
    with servers.announce_server(ONE, URL, ""):
        (tmp_path / "server.json").write_text(json.dumps({str(ONE): later}))
    found = servers.find_server(ONE)
    assert found is not None
    assert found.pid == os.getppid()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "[]",
        '{"/projects/one": 5}',
        '{"/projects/one": {"url": "x"}}',
        '{"/projects/one": {"url": "x", "token": "", "pid": "many"}}',
        '{"/projects/one": {"url": "x", "token": "", "pid": -1}}',
        '{"/projects/one": {"url": "x", "token": "", "pid": 0}}',
        '{"/projects/one": {"url": "x", "token": "", "pid": 4294967296}}',
        '{"/projects/one": null}',
    ],
)
def test_a_file_that_cannot_be_understood_names_no_server_and_is_written_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    servers = ServerFile(tmp_path)
    assert servers.find_server(ONE) is None
    assert servers.find_url("x") is None
    with servers.announce_server(ONE, URL, ""):
        found: Any = servers.find_server(ONE)
        assert found.url == URL
