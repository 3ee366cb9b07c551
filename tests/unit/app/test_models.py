"""The models of a stead: one object for a name, connected off the event loop, closed at the end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from toolstead.adapters.providers import connect as adapter
from toolstead.app.keys import Keys
from toolstead.app.runtimes import Models
from toolstead.errors import RuntimeFailureError

KEYED = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
SONNET, TERRA = "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-terra"


def client_of(model: Any) -> Any:
    """Its HTTP client."""
    return model._connection.client


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, threading.Thread]]:
    """Which models were connected, and in which worker; the real connecting is behind it."""
    made: list[tuple[str, threading.Thread]] = []
    usual = adapter.connect

    def connect(name: str, lookup: Any, **_: object) -> Any:
        made.append((name, threading.current_thread()))
        return usual(name, lookup)

    monkeypatch.setattr(adapter, "connect", connect)
    return made


@pytest.mark.requires("models")
async def test_a_name_is_the_same_model_every_time_also_for_two_who_ask_at_once(
    made: list[tuple[str, threading.Thread]],
) -> None:
    models = Models(Keys(KEYED))
    first, second, other = await asyncio.gather(*(models.connect(name) for name in (SONNET, SONNET, TERRA)))
    assert first is second
    assert first is await models.connect(SONNET)
    assert first is not other
    assert [name for name, _ in made] == [SONNET, TERRA]
    await models.aclose()


@pytest.mark.requires("models")
async def test_connecting_does_not_hold_up_the_event_loop(made: list[tuple[str, threading.Thread]]) -> None:
    models = Models(Keys(KEYED))
    await models.connect(SONNET)
    assert made[0][1] is not threading.current_thread()
    await models.aclose()


@pytest.mark.requires("models")
async def test_closing_closes_every_connection_and_a_name_is_connected_anew_afterwards(
    made: list[tuple[str, threading.Thread]],
) -> None:
    models = Models(Keys(KEYED))
    clients = [client_of(await models.connect(name)) for name in (SONNET, TERRA)]
    assert [client.is_closed for client in clients] == [False, False]
    await models.aclose()
    assert [client.is_closed for client in clients] == [True, True]
    await models.aclose()
    assert not client_of(await models.connect(SONNET)).is_closed
    await models.aclose()
    assert len(made) == 3


@pytest.mark.requires("models")
async def test_what_cannot_be_connected_is_said_and_tried_again(made: list[tuple[str, threading.Thread]]) -> None:
    environ = {"OPENAI_API_KEY": "o"}
    models = Models(Keys(environ))
    for _ in range(2):
        with pytest.raises(RuntimeFailureError, match="claude-sonnet-5-5 cannot be used: set ANTHROPIC_API_KEY"):
            await models.connect(SONNET)
    environ["ANTHROPIC_API_KEY"] = "late"
    assert (await models.connect(SONNET)).name == SONNET
    await models.aclose()


@pytest.mark.promise("K8")
@pytest.mark.parametrize(
    ("environ", "name", "full"),
    [
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "", SONNET),
        ({"OPENAI_API_KEY": "o", "GOOGLE_API_KEY": "g"}, "", TERRA),
        ({"GEMINI_API_KEY": "g"}, "", "google:gemini-3.8-flash"),
        ({}, "sonnet", SONNET),
        ({}, "gpt-6.1-terra", TERRA),
        ({"ANTHROPIC_API_KEY": "a"}, "ollama:qwen", "ollama:qwen"),
    ],
)
def test_a_name_is_completed_and_no_name_means_the_first_api_with_a_key(
    environ: dict[str, str], name: str, full: str
) -> None:
    assert Models(Keys(environ)).resolve_model(name) == full


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "",
            r"no model is set up: no key is set \(ANTHROPIC_API_KEY, OPENAI_API_KEY, .*`toolstead doctor`",
        ),
        ("antropic:x", "did you mean 'anthropic'"),
        ("sonet", "did you mean 'sonnet'"),
    ],
)
def test_what_cannot_be_completed_is_refused_with_what_would_be_right(name: str, says: str) -> None:
    with pytest.raises(RuntimeFailureError, match=says):
        Models(Keys({})).resolve_model(name)
