"""Agents for tests: files in the user's folder, which every stead of a test reads."""

from __future__ import annotations

import os
from pathlib import Path


def write_agent(name: str, frontmatter: str = "", body: str = "Do as you are asked.", home: Path | None = None) -> Path:
    """Write the file of an agent, and give its path."""
    folder = Path(home or os.environ["TOOLSTEAD_HOME"], "agents")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: For a test.\n{frontmatter}\n---\n{body}\n", encoding="utf-8")
    return path
