"""The project's files speak of the project alone, not of the machine they were written on."""

from __future__ import annotations

import os
import pwd
import re

import pytest

from tests.architecture.sources import ROOT, own_files, shown

EXAMPLES = r"(?:ada|me|user|you)\b"  # nobody in particular
# Written in pieces, so that this file does not name what it looks for.
FOLDERS = [
    "/" + "work/",
    "/" + "root/",
    "/" + "opt/",
    "/" + "tmp/sc",
    "/" + "mnt/",
    rf"/(?:home|Users)/(?!{EXAMPLES})\w",
]
HOSTS = ["pypi" + r"\.org", "pythonhosted" + r"\.org", "npmjs" + r"\.(?:org|com)", "deb" + r"\.debian\.org"]
BEFORE = r"(?<![\w.~}$*-])"  # the beginning of an absolute path, not the middle of another one


def _own_folders() -> list[str]:
    """The folder of this checkout and the home of whoever runs the tests; a very short one means nothing."""
    own = [str(ROOT), pwd.getpwuid(os.getuid()).pw_dir]
    return [re.escape(folder) + r"\b" for folder in own if folder.count("/") > 1]


FOREIGN = re.compile("|".join([BEFORE + f"(?:{'|'.join([*FOLDERS, *_own_folders()])})", *HOSTS]))


def test_no_file_names_a_path_of_a_machine_or_a_registry() -> None:
    found: list[str] = []
    for path in own_files():
        content = path.read_bytes()
        if b"\0" in content or path == ROOT / "LICENSE":
            continue
        for number, line in enumerate(content.decode("utf-8").splitlines(), start=1):
            if match := FOREIGN.search(line):
                found.append(f"{shown(path, number)}: {match[0]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("see /" + "work/main", True),
        ('"/' + 'root/.config"', True),
        ("/" + "home/adam/x", True),
        ("/" + "home/ada/x", False),
        ("https://pypi" + ".org/simple", True),
        ("https://example.org/work/opt/", False),
        ("./work/ and ~/opt/ and $HOME/opt/", False),
        ("/usr/bin/env, /etc/passwd, /tmp/x", False),
    ],
)
def test_what_counts_as_a_path_of_a_machine(text: str, refused: bool) -> None:
    assert bool(FOREIGN.search(text)) is refused
