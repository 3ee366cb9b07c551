from __future__ import annotations

import pytest

from toolstead.console.cli.written_call import find_written_call


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ('{"name": "git-status", "arguments": {"short": true}}', "git-status"),
        ('```json\n{"name": "git-status", "parameters": {}}\n```', "git-status"),
        ('[{"type": "function", "function": {"name": "look", "arguments": "{}"}}]', "look"),
        ('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', "look"),
        ("<function=look><parameter=x>1</parameter></function>", "look"),
        ("[TOOL_CALLS] look", ""),
        ('I will look.\n{"name": "look", "arguments": {"x": [1]}}', "look"),
        ('I will look: {"name": "look", "arguments": {}}', "look"),
        ('I will look.\n```json\n{"name": "look", "arguments": {}}\n```', "look"),
        ('{"name": "look", "arguments": {}} is what a call looks like.', None),
        ('An object: {"name": "Bob", "age": 5}', None),
        ('{"name": "Bob", "age": 5}', None),
        ("Call git-status with {} to see it.", None),
        ("[" * 10_000, None),
        ("", None),
    ],
)
def test_a_call_in_words_is_found_with_its_name(answer: str, name: str | None) -> None:
    assert find_written_call(answer) == name
