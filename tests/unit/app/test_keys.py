"""Where keys of model APIs come from: the environment, else the keyring, which is asked once and for keys alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import keyring
import pytest
from keyring.errors import KeyringLocked, NoKeyringError

from tests.flows.key_drawer import Drawer, keyring_of_the_test
from toolstead.app import keys as module
from toolstead.app.keys import Keys
from toolstead.app.runtimes import Models, lacking_keys, usual_keys
from toolstead.app.settings import RuntimeSettings

pytestmark = pytest.mark.requires("keyring")


@pytest.fixture
def drawer() -> Iterator[Drawer]:
    with keyring_of_the_test() as drawer:
        yield drawer


def test_the_environment_comes_first_and_the_keyring_is_not_even_asked(drawer: Drawer) -> None:
    keyring.set_password("toolstead", "ANTHROPIC_API_KEY", "from the drawer")
    keys = Keys({"ANTHROPIC_API_KEY": " from outside \n"})
    keys.load(["ANTHROPIC_API_KEY"])
    assert keys("ANTHROPIC_API_KEY") == "from outside"
    assert keys.origin_of("ANTHROPIC_API_KEY") == "the environment"
    assert drawer.asked == []


@pytest.mark.parametrize("blank", [None, "", "  \t"])
def test_the_keyring_comes_second_also_for_a_name_that_is_set_to_nothing(drawer: Drawer, blank: str | None) -> None:
    keyring.set_password("toolstead", "ANTHROPIC_API_KEY", " from the drawer\n")
    keys = Keys({} if blank is None else {"ANTHROPIC_API_KEY": blank})
    assert keys("ANTHROPIC_API_KEY") is None, "looking asks nobody"
    keys.load(["ANTHROPIC_API_KEY"])
    assert keys("ANTHROPIC_API_KEY") == "from the drawer"
    assert keys.origin_of("ANTHROPIC_API_KEY") == "the keyring"


def test_only_what_is_kept_for_this_program_counts(drawer: Drawer) -> None:
    keyring.set_password("another", "ANTHROPIC_API_KEY", "theirs")
    keyring.set_password("toolstead", "OPENAI_API_KEY", "  ")
    keys = Keys({})
    keys.load(["ANTHROPIC_API_KEY", "OPENAI_API_KEY"])
    assert (keys("ANTHROPIC_API_KEY"), keys("OPENAI_API_KEY")) == (None, None)


def test_a_name_is_asked_for_once_whatever_came_of_it(drawer: Drawer) -> None:
    keyring.set_password("toolstead", "OPENAI_API_KEY", "kept")
    keys = Keys({})
    for _ in range(3):
        keys.load(["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])
    assert drawer.asked == ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]


def test_a_keyring_that_refuses_one_name_is_told_of_and_asked_for_the_next(
    drawer: Drawer, caplog: pytest.LogCaptureFixture
) -> None:
    drawer.fails = KeyringLocked("it is locked")
    keys = Keys({})
    keys.load(["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])
    assert drawer.asked == ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "the keyring cannot be asked for OPENAI_API_KEY: it is locked"),
        (logging.WARNING, "the keyring cannot be asked for ANTHROPIC_API_KEY: it is locked"),
    ]


def test_a_machine_without_a_keyring_is_nothing_to_talk_about(drawer: Drawer, caplog: pytest.LogCaptureFixture) -> None:
    drawer.fails = NoKeyringError("no backend")
    keys = Keys({})
    keys.load(["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])
    assert keys("OPENAI_API_KEY") is None
    assert drawer.asked == ["OPENAI_API_KEY"]
    assert caplog.records == []


def test_without_the_package_nobody_is_asked(drawer: Drawer, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring.set_password("toolstead", "OPENAI_API_KEY", "kept")
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    keys = Keys({})
    keys.load(["OPENAI_API_KEY"])
    assert (keys("OPENAI_API_KEY"), drawer.asked) == (None, [])


@pytest.mark.promise("K8")
@pytest.mark.parametrize("model", ["", "ollama:qwen", "vllm:qwen", "groq:x", "google:x", "no such"])
def test_the_keyring_is_never_asked_for_an_address_or_a_proxy(drawer: Drawer, model: str) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GROQ_BASE_URL", "VLLM_BASE_URL", "HTTPS_PROXY"):
        keyring.set_password("toolstead", name, "https://elsewhere.example")
    keys = Keys({})
    keys.load([*lacking_keys(RuntimeSettings(model=model), keys), *usual_keys()])
    assert drawer.asked
    assert all(name.endswith("_API_KEY") for name in drawer.asked)
    assert keys("ANTHROPIC_BASE_URL") is None
    assert keys("HTTPS_PROXY") is None


async def test_a_model_that_is_asked_for_finds_its_key_in_the_keyring(drawer: Drawer) -> None:
    keyring.set_password("toolstead", "GROQ_API_KEY", "kept")
    models = Models(Keys({}))
    assert (await models.connect("groq:openai/gpt-oss-120b")).name == "groq:openai/gpt-oss-120b"
    assert drawer.asked == ["GROQ_API_KEY"]
    await models.aclose()
