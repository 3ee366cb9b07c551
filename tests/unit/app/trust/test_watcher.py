"""The watcher: news is told once, errors end nothing, and following ends with whoever follows."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from pathlib import Path

import pytest

from tests.waiting import until
from toolstead.app.places import Places
from toolstead.app.trust.approved import ProjectTrust, TrustWatcher, approve_changes

INTERVAL = 0.01


@pytest.fixture
def trust(tmp_path: Path) -> ProjectTrust:
    (tmp_path / "project/.toolstead").mkdir(parents=True)
    return ProjectTrust(Places(project=tmp_path / "project", user=tmp_path / "user", data=tmp_path / "data"))


@pytest.fixture
def file(trust: ProjectTrust) -> Path:
    file = trust.project / ".toolstead/x"
    file.write_text("old")
    return file


class News:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


def approved(trust: ProjectTrust) -> bytes | None:
    return trust.approvals.approved_content(trust.project, ".toolstead/x")


async def test_news_is_an_approval_or_a_change_and_told_no_more_once_the_files_are_old(
    trust: ProjectTrust, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = News()
    watcher = TrustWatcher(trust, news)
    await watcher.check()
    await watcher.check()
    assert news.count == 2  # so new that another write may have left no trace
    monkeypatch.setattr("toolstead.app.watching.YOUNG_NS", 0)
    await watcher.check()
    assert news.count == 2
    approve_changes(trust)
    await watcher.check()
    assert news.count == 3
    file.chmod(0o755)
    await watcher.check()
    assert news.count == 4
    trust.approvals.revoke_approval(trust.project)
    await watcher.check()
    await watcher.check()
    assert news.count == 5


async def test_a_file_from_the_future_is_no_news_for_ever(trust: ProjectTrust, file: Path) -> None:
    os.utime(file, (time.time() + 1e6, time.time() + 1e6))
    news = News()
    watcher = TrustWatcher(trust, news)
    async with asyncio.timeout(30):
        while True:
            before = news.count
            await watcher.check()
            if news.count == before:
                break
            await asyncio.sleep(0.05)
    assert news.count


async def test_what_cannot_be_read_is_news_once(trust: ProjectTrust, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolstead.app.trust.snapshot.MOST_FILES", 0)
    news = News()
    watcher = TrustWatcher(trust, news)
    for _ in range(3):
        await watcher.check()
    assert news.count == 1


async def test_what_could_not_be_read_for_a_moment_is_read_again_though_nothing_changed(
    trust: ProjectTrust, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolstead.app.watching.YOUNG_NS", 0)
    before, refreshed = resource.getrlimit(resource.RLIMIT_NOFILE), list[set[str]]()

    async def refresh() -> None:
        trust.refresh_approval()
        refreshed.append(set(trust.unread))

    async def refresh_without_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            await refresh()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    approve_changes(trust)
    watcher = TrustWatcher(trust, lambda: refresh() if refreshed else refresh_without_files())
    for _ in range(4):
        await watcher.check()
    assert refreshed == [{"approval"}, set()]
    assert trust.approval is not None


async def test_news_that_cannot_be_taken_is_logged_and_the_next_is_told(
    trust: ProjectTrust, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    async def fail_at_first() -> None:
        seen.append(1)
        if len(seen) == 2:
            raise RuntimeError("no")

    async with TrustWatcher(trust, fail_at_first, interval=INTERVAL):
        await until(lambda: len(seen) >= 3)
    assert "could not be applied" in caplog.text


@pytest.mark.promise("R8")
async def test_nothing_is_approved_by_one_that_only_watches(trust: ProjectTrust, file: Path) -> None:
    news = News()
    async with TrustWatcher(trust, news, interval=INTERVAL):
        await until(lambda: news.count >= 2)
    assert approved(trust) is None


@pytest.mark.promise("R8")
async def test_following_approves_each_change_and_ends_when_it_is_closed(
    trust: ProjectTrust, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    news = News()
    with caplog.at_level(logging.INFO, logger="toolstead.trust"):
        async with TrustWatcher(trust, news, follow=True, interval=INTERVAL):
            assert approved(trust) == b"old"
            file.write_text("new")
            await until(lambda: approved(trust) == b"new")
            file.with_name("an\x1bother").write_text("")
            await until(lambda: r"approved as it changed: .toolstead/an\u{1b}other added" in caplog.text)
    told = news.count
    file.write_text("after the end")
    await asyncio.sleep(INTERVAL * 10)
    assert (approved(trust), news.count) == (b"new", told)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "toolstead-trust"]


def test_what_cannot_be_approved_while_following_is_said(
    trust: ProjectTrust, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert approve_changes(trust) is True
    assert approve_changes(trust) is False
    monkeypatch.setattr("toolstead.app.trust.snapshot.MOST_FILES", 0)
    assert approve_changes(trust) is False
    assert "brings more than 0 files" in caplog.text
    assert approved(trust) == b"old"
