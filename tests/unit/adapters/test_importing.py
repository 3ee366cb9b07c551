"""SDKs that import each other in circles are whole for every worker that imports one of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

AT_ONCE = """
import sys, threading
from toolstead.adapters.importing import import_module
sys.setswitchinterval(1e-6)  # workers take turns as often as they can
failed = []
def load(name):
    try:
        import_module(name)
    except Exception as error:
        failed.append(f"{name}: {error!r}")
names = ("claude_agent_sdk", "toolstead.adapters.codex.tool_endpoint", "toolstead.adapters.mcp.sdk_side")
workers = [threading.Thread(target=load, args=(name,)) for name in names]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(failed)
"""


@pytest.mark.requires("claude")
def test_three_workers_import_what_needs_the_same_sdk_and_all_of_them_get_it_whole() -> None:
    ran = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=True, timeout=250)
    assert ran.stdout.strip() == "[]", ran.stdout
