"""Making a conversation shorter: what goes first, what never goes, and that it ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kernel.scripted_model import broken, check_whole, use
from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.kernel.shortening import LONG, shorten_messages
from toolstead.types.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text

CALL = use("look")


def _answer(*content: Content, call: ToolUse = CALL) -> ToolAnswer:
    return ToolAnswer(call=call, content=content)


def _text(message: Message) -> str:
    assert isinstance(message, ToolAnswer)
    (part,) = message.content
    assert isinstance(part, Text)
    return part.text


def test_short_things_stay() -> None:
    messages: list[Message] = [UserMessage(text="x" * LONG), ModelReply(text="x" * LONG), _answer(Text("x" * LONG))]
    before = list(messages)
    assert shorten_messages(messages) is None
    assert messages == before


def test_half_of_the_results_go_oldest_first_and_say_so_where_they_were() -> None:
    messages: list[Message] = [_answer(Text(f"{n}" + "x" * 2000)) for n in range(10)]
    assert (
        shorten_messages(messages)
        == "the 6 oldest of 10 long tool results were shortened, 10,026 of 20,010 characters cut"
    )
    assert "1,801 characters left out: this answer of look was shortened" in _text(messages[0])
    assert _text(messages[0]).startswith("0xx")
    assert _text(messages[0]).endswith("xxx")
    assert len(_text(messages[6])) == 2001


def test_what_was_said_goes_after_the_results_and_the_last_question_never() -> None:
    long = "x" * 2000
    messages: list[Message] = [
        UserMessage(text=long),
        ModelReply(text=long, kept="signed"),
        _answer(Text(long)),
        UserMessage(text=long),
    ]
    done = [shorten_messages(messages) for _ in range(3)]
    assert done[0] is not None
    assert "1 oldest of 1 long tool results" in done[0]
    assert done[1] is not None
    assert "earlier messages" in done[1]
    assert messages[3] == UserMessage(text=long)
    while shorten_messages(messages) is not None:
        pass
    said, replied = messages[:2]
    assert isinstance(replied, ModelReply)
    assert replied.kept is None  # the provider's copy is as long as it was
    assert isinstance(said, UserMessage)
    assert len(said.text) < LONG
    assert len(replied.text) < LONG
    assert messages[3] == UserMessage(text=long)


def test_pictures_become_words() -> None:
    messages: list[Message] = [_answer(Text("see"), Image(data=b"x" * 5000, mime_type="image/png"))]
    assert shorten_messages(messages) is not None
    assert _text(messages[0]).startswith("see\n[image/png, 5,000 bytes]\n[toolstead: this answer of look was shortened")
    assert _text(messages[0]).count("image/png") == 1
    assert "-" not in _text(messages[0])


def test_long_arguments_of_earlier_calls_are_cut_and_the_short_ones_stay() -> None:
    call = use("write", id="w", path="a.txt", content="y" * 9000)
    messages: list[Message] = [ModelReply(text="now", calls=(call,), kept="signed"), _answer(Text("ok"), call=call)]
    assert shorten_messages(messages) is not None
    (replied, _) = messages
    assert isinstance(replied, ModelReply)
    (cut,) = replied.calls
    assert cut.input is not None
    assert (replied.text, replied.kept, cut.id, cut.name, cut.input["path"]) == ("now", None, "w", "write", "a.txt")
    assert "8,800 characters left out" in cut.input["content"]
    check_whole(messages)
    assert shorten_messages(messages) is None


def test_a_short_call_beside_a_long_one_stays() -> None:
    short, long = use("write", id="s", content="y" * 300), use("write", id="l", content="y" * 9000)
    messages: list[Message] = [ModelReply(text="", calls=(short, long))]
    assert shorten_messages(messages) is not None
    replied = messages[0]
    assert isinstance(replied, ModelReply)
    assert replied.calls[0] is short
    assert replied.calls[1] != long


def test_arguments_with_many_long_values_become_one_text() -> None:
    call = use("write", **{f"line{n}": "y" * 500 for n in range(20)})
    messages: list[Message] = [ModelReply(text="", calls=(call,)), _answer(Text("ok"), call=call)]
    assert shorten_messages(messages) is not None
    replied = messages[0]
    assert isinstance(replied, ModelReply)
    assert replied.calls[0].input is not None
    assert list(replied.calls[0].input) == ["shortened"]
    assert replied.calls[0].input["shortened"].startswith('{"line0":"yyy')
    assert shorten_messages(messages) is None


def test_a_name_without_end_does_not_make_it_endless() -> None:
    call = use("n" * 5000)
    messages: list[Message] = [_answer(Text("x" * 900), call=call)]
    assert shorten_messages(messages) is not None
    assert shorten_messages(messages) is None


LENGTHS = st.sampled_from([0, 1, 150, LONG - 1, LONG, LONG + 1, 900, 20_000])
TEXTS = st.builds(lambda length, letter: letter * length, LENGTHS, st.sampled_from(["x", '"', "\n", "ä", "\x01"]))
VALUES = st.one_of(TEXTS, st.integers(), st.lists(TEXTS, max_size=4), st.dictionaries(TEXTS, TEXTS, max_size=2))
CALLS = st.one_of(
    st.builds(lambda name, given: use(name or "n", **given), TEXTS, st.dictionaries(st.text("abc"), VALUES)),
    st.builds(lambda text: broken("b", text), TEXTS),
)
PARTS = st.one_of(
    TEXTS.map(Text),
    st.builds(lambda data, kind: Image(data=data.encode(), mime_type=kind), TEXTS, TEXTS),
    st.builds(lambda data, kind: Audio(data=data.encode(), mime_type=kind), TEXTS, TEXTS),
    st.builds(lambda uri: ResourceLink(uri=uri, name=uri), TEXTS),
    st.builds(lambda uri, content: EmbeddedResource(uri=uri, content=content), TEXTS, TEXTS),
    st.builds(lambda uri, content: EmbeddedResource(uri=uri, content=content.encode()), TEXTS, TEXTS),
)
TURNS = st.one_of(
    TEXTS.map(lambda text: [UserMessage(text=text)]),
    TEXTS.map(lambda text: [ModelReply(text=text)]),
    st.builds(
        lambda text, call, content: [ModelReply(text=text, calls=(call,)), ToolAnswer(call=call, content=content)],
        TEXTS,
        CALLS,
        st.lists(PARTS, max_size=4),
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TURNS, max_size=12))
def test_it_ends_for_any_conversation_and_leaves_it_whole(turns: list[list[Message]]) -> None:
    messages = [message for turn in turns for message in turn]
    before = list(messages)
    count = 0
    while shorten_messages(messages) is not None:
        count += 1
        assert count <= len(messages)
    check_whole(messages)
    assert [type(message) for message in messages] == [type(message) for message in before]
    last = max((at for at, message in enumerate(before) if isinstance(message, UserMessage)), default=None)
    if last is not None:
        assert messages[last] == before[last]
