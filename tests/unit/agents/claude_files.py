"""Files in the shapes that public collections of `.claude/agents` have, and what is read from each."""

from __future__ import annotations

from typing import Any, NamedTuple

BODY = "You review code.\n\n## Steps\n1. Read it: all of it.\n2. Say what is wrong.\n"


class ClaudeFile(NamedTuple):
    """A file and what it gives; the body is what follows the frontmatter."""

    frontmatter: str
    gives: dict[str, Any]
    body: str = BODY
    line_end: str = "\n"
    mark: str = ""
    is_yaml: bool = True


LONG = (
    "Use this agent when you need to review code: style, tests, security. Examples: <example>Context: The user wrote "
    'a function. user: "Please check it: quickly" assistant: "I\'ll use the Task tool: code-reviewer" '
    "<commentary>Code was written, so: review it.</commentary></example>"
)

CLAUDE_FILES: dict[str, ClaudeFile] = {
    "plain": ClaudeFile(
        "name: code-reviewer\ndescription: Reviews code.\ntools: Read, Grep, Bash\nmodel: sonnet\n",
        {"name": "code-reviewer", "tools": ("Read", "Grep", "Bash"), "model": "sonnet"},
    ),
    "an unquoted description with colons": ClaudeFile(
        f"name: code-reviewer\ndescription: {LONG}\nmodel: opus\ncolor: red\n",
        {"name": "code-reviewer", "description": LONG, "model": "opus"},
        is_yaml=False,
    ),
    "escaped line ends in an unquoted description": ClaudeFile(
        'name: a\ndescription: Use this agent: now.\\n\\n<example>\\nContext: x\\nuser: "y"\\n</example>\ncolor: red\n',
        {"description": 'Use this agent: now.\\n\\n<example>\\nContext: x\\nuser: "y"\\n</example>'},
        is_yaml=False,
    ),
    "examples on lines of their own": ClaudeFile(
        "name: a\ndescription: Use it. Examples:\n\n<example>\nContext: The user is stuck.\n"
        'user: "Help: me"\nassistant: "I will"\n</example>\nmodel: opus\ntools: Read\n',
        {
            "description": "Use it. Examples:\n\n<example>\nContext: The user is stuck.\n"
            'user: "Help: me"\nassistant: "I will"\n</example>',
            "model": "opus",
            "tools": ("Read",),
        },
        is_yaml=False,
    ),
    "examples in a block": ClaudeFile(
        "name: a\ndescription: |\n  Use it: always.\n  <example>\n  user: x\n  </example>\n",
        {"description": "Use it: always.\n<example>\nuser: x\n</example>\n"},
    ),
    "a folded description": ClaudeFile(
        "name: a\ndescription: >-\n  Use it\n  always.\n", {"description": "Use it always."}
    ),
    "a quoted description": ClaudeFile(
        'name: "a"\ndescription: "Use it: \\"now\\".\\nAlways."\n', {"description": 'Use it: "now".\nAlways.'}
    ),
    "no tools": ClaudeFile("name: a\ndescription: d\n", {"tools": None, "model": ""}),
    "tools as a list": ClaudeFile(
        "name: a\ndescription: d\ntools:\n  - Read\n  - Bash(git diff:*)\n", {"tools": ("Read", "Bash(git diff:*)")}
    ),
    "tools as a flow list": ClaudeFile("name: a\ndescription: d\ntools: [Read, Grep]\n", {"tools": ("Read", "Grep")}),
    "rules with commas": ClaudeFile(
        "name: a\ndescription: d\ntools: Bash(git log:*, git diff:*), Read,\n",
        {"tools": ("Bash(git log:*, git diff:*)", "Read")},
    ),
    "tools of MCP servers": ClaudeFile(
        "name: a\ndescription: d\ntools: Read, mcp__toolstead__git-status, mcp__toolstead__web_*, mcp__github__search\n"
        "disallowedTools: Write, mcp__toolstead__file-reader\n",
        {
            "tools": ("Read", "git-status", "web_*", "mcp__github__search"),
            "disallowed_tools": ("Write", "file-reader"),
        },
    ),
    "a whole server": ClaudeFile("name: a\ndescription: d\ntools: mcp__toolstead, Read\n", {"tools": ("*", "Read")}),
    "inherit": ClaudeFile("name: a\ndescription: d\nmodel: inherit\n", {"model": ""}),
    "every key of Claude Code": ClaudeFile(
        "name: a\ndescription: d\ncolor: pink\npermissionMode: plan\nskills: [x]\nhooks: {Stop: []}\n"
        "mcpServers: [github]\nmemory: user\nbackground: true\nisolation: worktree\neffort: high\nmaxTurns: 7\n",
        {"max_turns": 7},
    ),
    "keys of others": ClaudeFile(
        "name: a\ndescription: d\ncategory: quality\nversion: 1.0\ntags: [x, y]\n", {"name": "a"}
    ),
    "a name in words": ClaudeFile("name: Frontend Developer 🎨\ndescription: d\n", {"name": "frontend-developer"}),
    "no name": ClaudeFile("description: d\n", {"name": "file-name"}),
    "tabs": ClaudeFile(
        "name:\ta\ndescription:\tUse it\ntools:\n\t- Read\n\t- Grep\nmodel: opus\n",
        {"name": "a", "description": "Use it", "tools": ("Read", "Grep"), "model": "opus"},
        is_yaml=False,
    ),
    "other line ends and a mark": ClaudeFile(
        "name: a\ndescription: d\ntools: Read, Grep\n", {"tools": ("Read", "Grep")}, line_end="\r\n", mark="\ufeff"
    ),
    "trailing spaces": ClaudeFile(
        "name: a  \ndescription: d \ntools: Read , Grep ,  \nmodel: opus   \n",
        {"name": "a", "description": "d", "tools": ("Read", "Grep"), "model": "opus"},
    ),
    "emoji in the body": ClaudeFile(
        "name: a\ndescription: Ships it 🚀\n", {"description": "Ships it 🚀"}, "# 🧑‍💻 You are ⚠️ careful\n1️⃣ First\n"
    ),
    "fences in the body": ClaudeFile(
        "name: a\ndescription: d\n", {}, "\n\nText\n---\nname: not frontmatter\n---\n\n```yaml\n---\n```\n  \n\n"
    ),
    "a very long body": ClaudeFile("name: a\ndescription: d\n", {}, "A line of instructions.\n" * 10_000),
    "no line end at the end": ClaudeFile("name: a\ndescription: d\n", {}, "Just do it"),
    "empty keys": ClaudeFile("name: a\ndescription: d\ntools:\nmodel:\n", {"tools": None, "model": ""}),
}
