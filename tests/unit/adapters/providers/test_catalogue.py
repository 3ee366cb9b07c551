from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic_ai.models import known_model_names

from toolstead.adapters.providers.catalogue import (
    VENDORS,
    WORDS,
    complete_name,
    default_model,
    find_model,
    state_of,
    vendor_states,
)
from toolstead.errors import RuntimeFailureError

pytestmark = pytest.mark.requires("models")


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("anthropic:claude-sonnet-4-6", "anthropic:claude-sonnet-4-6"),
        ("haiku", "anthropic:claude-haiku-5-5"),
        ("sonnet", "anthropic:claude-sonnet-5-5"),
        ("opus", "anthropic:claude-opus-5-5"),
        ("claude-opus-4-8", "anthropic:claude-opus-4-8"),
        ("gpt-5-mini", "openai:gpt-5-mini"),
        ("o3", "openai:o3"),
        ("o4-mini", "openai:o4-mini"),
        ("gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("gemini:gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("openai-responses:gpt-5", "openai:gpt-5"),
        ("ollama:qwen3:8b", "ollama:qwen3:8b"),
        ("  sonnet ", "anthropic:claude-sonnet-5-5"),
    ],
)
def test_a_name_is_completed(name: str, whole: str) -> None:
    assert complete_name(name) == whole


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("antropic:claude-x", r"no provider 'antropic'; did you mean 'anthropic'.*Known providers: anthropic, openai"),
        ("sonet", r"'sonet' has no provider; did you mean 'sonnet'"),
        ("grok-4.7", r"did you mean 'xai:grok-4.7'"),
        ("anthropic:", r"a model is missing after the colon, such as anthropic:claude-"),
        ("google", r"'google' is a provider; name one of its models too, such as google:gemini-"),
        ("opal", r"'opal' has no provider"),
        ("", r"'' has no provider"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(RuntimeFailureError, match=says):
        complete_name(name)


def test_every_default_and_every_word_is_a_model_that_the_library_knows() -> None:
    names = [f"{vendor.name.removesuffix('-chat')}:{vendor.model}" for vendor in VENDORS if vendor.model]
    assert {*names, *WORDS.values()} <= set(known_model_names())


def test_the_first_main_provider_with_a_key_gives_the_default() -> None:
    keys = {"GEMINI_API_KEY": "g"}
    assert default_model({}.get) is None
    assert default_model(keys.get) == "google:gemini-3.8-flash"
    assert default_model((keys | {"OPENAI_API_KEY": "o"}).get) == "openai:gpt-6.1-terra"
    assert default_model((keys | {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}).get) == (
        "anthropic:claude-sonnet-5-5"
    )


def test_states_say_which_name_gave_the_key_or_what_to_set() -> None:
    lookup = {"GEMINI_API_KEY": "g", "OPENAI_API_KEY": "  "}.get
    told = [(state.vendor.name, state.usable, state.source, state.advice) for state in vendor_states(lookup)]
    assert told == [
        ("anthropic", False, "", "set ANTHROPIC_API_KEY"),
        ("openai", False, "", "set OPENAI_API_KEY"),
        ("google", True, "GEMINI_API_KEY", ""),
    ]


def test_a_server_of_ones_own_needs_an_address_and_no_key() -> None:
    ollama, _ = find_model("ollama:qwen3")
    vllm, _ = find_model("vllm:qwen3")
    assert state_of(ollama, {}.get).usable
    assert ollama.find_address({}.get) == "http://localhost:11434/v1"
    assert ollama.find_address({"OLLAMA_BASE_URL": "http://gpu:1/v1"}.get) == "http://gpu:1/v1"
    assert ollama.find_address({"OLLAMA_BASE_URL": "http://gpu:1/", "OLLAMA_HOST": "x"}.get) == "http://gpu:1/v1"
    assert ollama.find_address({"OLLAMA_HOST": "0.0.0.0:27431"}.get) == "http://localhost:27431/v1"
    assert ollama.find_address({"OLLAMA_HOST": "gpu"}.get) == "http://gpu:11434/v1"
    assert vllm.find_address({"VLLM_BASE_URL": "http://gpu:1"}.get) == "http://gpu:1/v1"
    assert vllm.find_address({"VLLM_BASE_URL": "http://gpu:1/serve"}.get) == "http://gpu:1/serve"
    assert state_of(vllm, {}.get).advice == "set VLLM_BASE_URL"
    assert state_of(vllm, {"VLLM_BASE_URL": "http://gpu:1/v1"}.get).usable


@pytest.mark.parametrize("name", ["openai-chat:x", "groq:x"])
def test_chat_completions_on_this_machine_need_no_key_and_elsewhere_do(name: str) -> None:
    vendor, _ = find_model(name)
    assert state_of(vendor, {vendor.urls[0]: "http://127.0.0.1:1234/v1"}.get).usable
    assert state_of(vendor, {vendor.urls[0]: "http://gpu:1234/v1"}.get).advice == f"set {vendor.keys[0]}"
    assert not state_of(vendor, {}.get).usable


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("localhost:11434", "OLLAMA_BASE_URL=localhost:11434 is no address; write http://localhost:11434"),
        ("http://me:secret@gpu:x", "OLLAMA_BASE_URL=… is no address; write http://HOST:PORT"),
        ("http://gpu:11434", ""),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_right_one(given: str, advice: str) -> None:
    assert state_of(find_model("ollama:x")[0], {"OLLAMA_BASE_URL": given}.get).advice == advice


def test_a_provider_that_is_chosen_by_itself_needs_its_key_everywhere() -> None:
    assert default_model({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}.get) is None


def test_reading_the_table_imports_no_sdk() -> None:
    program = (
        "import sys; from toolstead.adapters.providers.catalogue import default_model; default_model({}.get); "
        "print(*{'pydantic_ai', 'anthropic', 'openai', 'google.genai', 'httpx2', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
