from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping

import httpx2
import pytest

from tests.unit.adapters.providers.asking import ANTHROPIC, APIS, CHAT, GOOGLE, OPENAI, TOOLS, answer, canned, connected
from toolstead.adapters.providers.catalogue import VENDORS
from toolstead.adapters.providers.connect import connect, rehearse_responses
from toolstead.adapters.providers.http_client import open_client
from toolstead.errors import ModelError, RuntimeFailureError
from toolstead.kernel.conversation import ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.testing import scripted_models
from toolstead.types.content import Image, Text

pytestmark = pytest.mark.requires("models")

HOSTILE = {
    "ANTHROPIC_API_KEY": "leaked-key",
    "ANTHROPIC_AUTH_TOKEN": "leaked-token",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/leaked",
    "ANTHROPIC_CUSTOM_HEADERS": "x-leaked: anthropic",
    "OPENAI_API_KEY": "leaked-key",
    "OPENAI_ADMIN_KEY": "leaked-admin",
    "OPENAI_ORG_ID": "leaked-org",
    "OPENAI_PROJECT_ID": "leaked-project",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/leaked",
    "OPENAI_CUSTOM_HEADERS": "x-leaked: openai",
    "GOOGLE_API_KEY": "leaked-key",
    "GEMINI_API_KEY": "leaked-key",
    "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9/leaked",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_GENAI_API_VERSION": "v9leaked",
    "GOOGLE_GENAI_CLIENT_MODE": "replay",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("name", APIS)
async def test_nothing_is_taken_from_the_environment_of_the_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in HOSTILE.items():
        monkeypatch.setenv(variable, value)
    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        _, reply = await answer(model, "hi")
    assert reply.text == "Hello!"
    (request,) = api.requests
    assert "leaked" not in f"{request.headers} {request.path}".lower()


async def test_organisation_and_project_come_from_the_lookup() -> None:
    async with scripted_models("- say: Hello!") as api:
        told = {**api.environ(), "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
        async with connected(OPENAI, told) as model:
            await answer(model, "hi")
    headers = api.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sonnet", "anthropic:claude-sonnet-5-5 cannot be used: set ANTHROPIC_API_KEY"),
        ("gpt-5", "openai:gpt-5 cannot be used: set OPENAI_API_KEY"),
        ("gemini-2.5-pro", "google:gemini-2.5-pro cannot be used: set GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("vllm:qwen3", "vllm:qwen3 cannot be used: set VLLM_BASE_URL"),
    ],
)
def test_a_missing_key_is_named(name: str, says: str) -> None:
    with pytest.raises(RuntimeFailureError, match=f"^{says}$"):
        connect(name, {}.get)


def test_a_missing_library_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(RuntimeFailureError, match=r'pip install .*"pydantic-ai-slim\[anthropic,google,openai\][<>=]'):
        connect("sonnet", {"ANTHROPIC_API_KEY": "k"}.get)


def test_a_missing_sdk_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(RuntimeFailureError, match=r'\(anthropic\): .*pip install .*"pydantic-ai-slim\[anthropic,'):
        connect("sonnet", {"ANTHROPIC_API_KEY": "k"}.get)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
async def test_every_provider_of_the_table_can_be_connected_and_asked(vendor) -> None:
    async with scripted_models("- say: Hello!") as api:
        url = api.url if vendor.api in {"anthropic", "gemini"} else f"{api.url}/v1"
        told = {**dict.fromkeys(vendor.keys[:1], "the-key"), **dict.fromkeys(vendor.urls, url)}
        async with connected(f"{vendor.name}:some/model", told) as model:
            _, reply = await answer(model, "hi", max_tokens=77)
    assert reply.text == "Hello!"
    assert model.name == f"{vendor.name}:some/model"
    assert "the-key" in str(api.requests[0].headers)
    assert "77" in str(api.requests[0].body)


def test_a_name_that_a_provider_cannot_have_is_refused() -> None:
    with pytest.raises(RuntimeFailureError, match=r"openrouter:gpt-5 cannot be used: .*must be prefixed"):
        connect("openrouter:gpt-5", {"OPENROUTER_API_KEY": "k"}.get)


async def test_a_provider_without_max_completion_tokens_is_told_the_older_name() -> None:
    async with scripted_models("- say: Hello!") as api:
        told = {"MISTRAL_API_KEY": "k", "MISTRAL_BASE_URL": f"{api.url}/v1"}
        async with connected("mistral:mistral-large-latest", told) as model:
            await answer(model, "hi", max_tokens=77)
    body = api.requests[0].body
    assert body["max_tokens"] == 77
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize("name", APIS)
async def test_a_failure_is_told_at_once_and_nobody_below_tries_again(name: str) -> None:
    async with scripted_models("- {say: Hello!, fault: {kind: server_error, times: 9}}") as api:
        async with connected(name, api.environ()) as model:
            with pytest.raises(ModelError):
                await answer(model, "hi")
        assert len(api.requests) == 1


@pytest.mark.parametrize("name", APIS)
async def test_every_request_has_our_time_limits(name: str) -> None:
    seen: list[Mapping[str, float]] = []

    async def look(request: httpx2.Request) -> None:
        seen.append(request.extensions["timeout"])

    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        model._connection.client.event_hooks["request"].append(look)
        await answer(model, "hi")
    assert seen == [{"connect": 10.0, "read": 600.0, "write": 600.0, "pool": 10.0}]


async def test_connections_are_kept_for_the_next_request_and_closed_in_the_end() -> None:
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        while await reader.read(65536):
            writer.write(b"HTTP/1.1 500 X\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    told = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}
    model = connect(ANTHROPIC, told.get)
    for _ in range(3):
        with pytest.raises(ModelError):
            await answer(model, "hi", tools=())
    await model.aclose()
    server.close()
    await asyncio.wait_for(server.wait_closed(), 10)
    assert opened == 1


@pytest.mark.parametrize(
    ("address", "told", "proxied"),
    [
        ("https://api.example.com", {"HTTPS_PROXY": "http://proxy:1"}, True),
        ("https://api.example.com", {"https_proxy": "http://proxy:1"}, True),
        ("https://api.example.com", {"ALL_PROXY": "http://proxy:1"}, True),
        ("http://api.example.com", {"HTTPS_PROXY": "http://proxy:1"}, False),
        ("https://api.example.com", {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "x.org, .example.com"}, False),
        ("https://api.example.com", {"HTTPS_PROXY": "http://proxy:1", "no_proxy": "*"}, False),
        ("https://api.example.com", {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "ample.com"}, True),
        ("http://127.0.0.1:80", {"HTTP_PROXY": "http://proxy:1"}, False),
        ("https://api.example.com", {}, False),
    ],
)
async def test_a_proxy_is_used_where_the_lookup_says_so(
    address: str, told: Mapping[str, str], proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://leaked:1")
    async with open_client(address, told.get) as client:
        transport = client._transport_for_url(httpx2.URL(address))
        assert ("proxy" in str(transport._pool).lower() or "Proxy" in type(transport._pool).__name__) is proxied


@pytest.mark.parametrize(
    ("address", "told", "says"),
    [
        ("api.example.com", {}, "must begin with http"),
        ("https://a.b", {"HTTPS_PROXY": "ftp://proxy"}, "HTTPS_PROXY cannot be used as a proxy"),
        ("https://a.b", {"SSL_CERT_FILE": "/nowhere/ca.pem"}, "SSL_CERT_FILE: '/nowhere/ca.pem' cannot be used"),
    ],
)
def test_an_address_a_proxy_or_a_certificate_that_cannot_be_used_is_named(
    address: str, told: Mapping[str, str], says: str
) -> None:
    with pytest.raises(RuntimeFailureError, match=says):
        open_client(address, told.get)


async def test_a_server_that_is_not_there_on_this_machine_has_a_fault_of_its_own() -> None:
    async with canned(b"") as told:
        pass
    for name in (ANTHROPIC, OPENAI, GOOGLE):
        async with connected(name, told) as model:
            with pytest.raises(ModelError) as caught:
                await answer(model, "hi", tools=TOOLS)
        assert caught.value.fault == "unreachable"


@pytest.mark.parametrize("name", [OPENAI, CHAT])
async def test_the_way_around_the_sdk_changes_nothing_of_what_is_sent(name: str) -> None:
    call = ToolUse(id="call_1", name="look_up", input={"q": "x"})
    image = Image(data=b"\x89PNG\r\n\x1a\n", mime_type="image/png")
    said = [
        UserMessage(text="x"),
        ModelReply(text="y", calls=(call,)),
        ToolAnswer(call=call, content=[Text("z"), image]),
    ]
    async with scripted_models("- say: Hello!") as api, connected(name, api.environ()) as model:
        await answer(model, said)
        sdk_client = model._foreign.client
        for resource in (sdk_client.responses, sdk_client.chat.completions):
            del vars(resource)["create"]
        await answer(model, said)
    ours, theirs = (request.body for request in api.requests)
    assert json.dumps(ours) == json.dumps(theirs)


def test_the_rehearsal_reads_its_answer_without_a_network() -> None:
    rehearse_responses.cache_clear()
    rehearse_responses()
    assert rehearse_responses.cache_info().currsize == 1
