"""Secrets in steps: none is stored, wherever it stands and however it is spelled."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstead.errors import ModelError
from toolstead.invoker.step_bounds import MOST_STEP
from toolstead.invoker.step_mask import may_have_secrets
from toolstead.invoker.step_recorder import StepRecorder
from toolstead.kernel.conversation import ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.kernel.model import ModelRequest
from toolstead.tools.handlers.secrets import MASK, Mask
from toolstead.types.content import Text
from toolstead.types.run import NOTHING_USED

KEY = 'sk-"quoted"/0123456789\n-and-more'
PLAIN = "sk-plain-0123456789"


def mask_of(*values: str) -> Mask:
    named = {str(number): value for number, value in enumerate(values)}
    return Mask.mask_names(named, named)


def recorded(sent: ModelRequest, reply: ModelReply | None, error: Exception | None = None, *, mask: Mask) -> str:
    recorder = StepRecorder("r", lambda *_: None, mask=mask)
    recorder.begin_request("m", sent)
    recorder.end_request(reply, NOTHING_USED, error)
    batch = recorder.take_steps()
    assert batch is not None
    return batch.steps


@pytest.mark.parametrize("key", [PLAIN, KEY, "пароль-и-ключ"])
def test_a_secret_is_masked_wherever_it_stands(key: str) -> None:
    call = ToolUse(id="c", name="shell", input={"env": {key: [f"TOKEN={key}"]}, "n": 1})
    messages = [
        UserMessage(text=f"my key is {key}, do not tell"),
        ModelReply(text=f"I will not tell {key}", calls=(call,)),
        ToolAnswer(call=call, content=(Text(json.dumps({"key": key})), Text(f"?key={quote(key)}"))),
    ]
    sent = ModelRequest(instructions=f"Use {key}.", messages=messages)
    text = recorded(sent, ModelReply(text=key, calls=(call,)), mask=mask_of(key))
    assert key not in str(json.loads(text))
    assert json.dumps(key)[1:-1] not in text
    assert quote(key) not in text
    (step,) = json.loads(text)
    assert step["request"]["messages"][0]["text"] == f"my key is {MASK}, do not tell"
    assert step["request"]["instructions"] == f"Use {MASK}."
    assert step["reply"]["calls"][0]["input"] == {"env": {MASK: [f"TOKEN={MASK}"]}, "n": 1}


@pytest.mark.parametrize(
    "spelled", [PLAIN.replace("-", "%2D"), PLAIN.replace("-", "\\u002d"), PLAIN.replace("-", "\\-")]
)
def test_a_secret_that_is_only_there_in_another_spelling_is_masked(spelled: str) -> None:
    sent = ModelRequest(instructions="", messages=[UserMessage(text=f"<{spelled}>")])
    (step,) = json.loads(recorded(sent, ModelReply(text="hm"), mask=mask_of(PLAIN)))
    assert step["request"]["messages"][0]["text"] == f"<{MASK}>"


def test_a_secret_in_an_error_is_masked() -> None:
    error = ModelError(f"the API does not know {PLAIN}", fault="key")
    text = recorded(ModelRequest(instructions="", messages=[]), None, error, mask=mask_of(PLAIN))
    assert json.loads(text)[0]["error"] == {"code": "model_key", "message": f"the API does not know {MASK}"}


def test_a_secret_at_the_place_of_a_cut_is_masked_before_it_is_cut() -> None:
    said = "x" * (MOST_STEP // 2) + PLAIN * 20_000 + "y" * (MOST_STEP // 2)
    text = recorded(ModelRequest(instructions="", messages=[UserMessage(text=said)]), None, mask=mask_of(PLAIN))
    assert len(text) <= MOST_STEP + 2
    assert PLAIN[:6] not in text


@pytest.mark.parametrize("filler", ["\\", "x"])
@pytest.mark.parametrize("shift", [0, 7])
def test_a_text_that_is_too_long_to_be_looked_through_shows_no_secret(filler: str, shift: int) -> None:
    edges = "." * (MOST_STEP - 9 - shift) + PLAIN
    said = PLAIN + edges + filler * MOST_STEP + edges[::-1].replace(PLAIN[::-1], PLAIN)
    text = recorded(ModelRequest(instructions="", messages=[UserMessage(text=said)]), None, mask=mask_of(PLAIN))
    assert PLAIN[:6] not in text
    assert PLAIN[-6:] not in text
    (message,) = json.loads(text)[0]["request"]["messages"]
    first, note, last = message["text"].split("\n")
    assert first.startswith(MASK)
    missing = int(note.removeprefix("[toolstead: ").partition(" ")[0].replace(",", ""))
    assert len(said) - 100 <= len(first) + missing + len(last) <= len(said)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('aé"\\/\n%'), min_size=8, max_size=12), st.text(max_size=10), st.text(max_size=10))
def test_the_quick_check_finds_every_secret(secret: str, before: str, after: str) -> None:
    mask = mask_of(secret)
    text = f"{before}{secret}{after}"
    if mask(text) != text:
        assert may_have_secrets(json.dumps([text], ensure_ascii=False).encode("utf-8", "replace"), mask)


def test_without_secrets_nothing_is_looked_for() -> None:
    assert not may_have_secrets(b"100 %", Mask())
