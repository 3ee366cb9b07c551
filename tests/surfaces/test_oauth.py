"""OAuth: what an access token of the settings' issuer opens, and which tokens open nothing."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.programs.clients import Era
from tests.surfaces.issuer import Issuer, SigningKey, ec_key, issuing, rsa_key
from tests.surfaces.test_profiles import ERAS, LANES, WHOLE, ask, check_readers, client_of, team
from tests.waiting import PATIENCE
from toolstead.adapters.http.access import AccessRules
from toolstead.adapters.http.oauth import MOST_FETCHES, IssuerError, TokenError, TokenVerifier
from toolstead.adapters.http.options import OAuthOptions, ProfileOptions, ServerOptions
from toolstead.errors import ServeError, SettingsError

PROFILES = {
    "readers": {"allowed": ["read", "asks"], "scope": "tools:read"},
    "writers": {"allowed": ["write"], "scope": "tools:write"},
    "local": {"allowed": ["write"]},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@asynccontextmanager
async def protected(folder: Path, **options: Any) -> AsyncGenerator[tuple[Issuer, str]]:
    """An issuer, and a served team that accepts its tokens."""
    async with issuing() as issuer:
        oauth = {"issuer": issuer.url}
        async with team(folder, profiles=PROFILES, server={"token": WHOLE, "oauth": oauth}, **options) as (_, url):
            yield issuer, url


async def status_of(url: str, token: str, path: str = "/api/tools") -> tuple[int, str]:
    """How a token is answered, and the challenge."""
    answer = await ask(url, "GET", path, token)
    return answer.status_code, answer.headers.get("www-authenticate", "")


@LANES
@ERAS
@pytest.mark.promise("Q5")
async def test_a_token_with_the_scope_of_a_profile_gives_that_profile_on_every_interface(
    tmp_path: Path, era: Era, fast_path: bool
) -> None:
    async with protected(tmp_path, fast_path=fast_path) as (issuer, url):
        token = issuer.sign(f"{url}/mcp", "openid tools:read")
        for path in ("/mcp", "/mcp/readers"):
            async with client_of(url + path, token, era) as client:
                await check_readers(client)
        listed = (await ask(url, "GET", "/api/tools", token)).json()["tools"]
        assert [tool["name"] for tool in listed] == ["read", "asks"]
        assert issuer.count_fetches() == 1, "keys and verified tokens are remembered"
        assert (await ask(url, "GET", "/api/tools", WHOLE)).status_code == 200


class Storage:
    """Where the SDK's client keeps its tokens."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


@ERAS
@pytest.mark.parametrize("path", ["/mcp", "/mcp/readers"])
@pytest.mark.promise("Q5")
async def test_the_sdks_client_finds_the_issuer_by_itself_and_calls(tmp_path: Path, era: Era, path: str) -> None:
    async with protected(tmp_path) as (issuer, url):
        issuer.gives = "tools:read"
        auth = ClientCredentialsOAuthProvider(
            server_url=url + path, storage=Storage(), client_id="me", client_secret="secret", issuer=issuer.url
        )
        mode = "legacy" if era == "handshake" else "auto"
        async with httpx2.AsyncClient(auth=auth, trust_env=False, timeout=PATIENCE) as http:
            target = streamable_http_client(url + path, http_client=http)
            async with Client(target, mode=mode, read_timeout_seconds=PATIENCE) as client:
                await check_readers(client)
        assert "/token" in issuer.asked


async def test_the_metadata_is_where_clients_look_and_names_the_resource(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        for place, resource, scopes in [
            ("", "/mcp", ["tools:read", "tools:write"]),
            ("/mcp", "/mcp", ["tools:read", "tools:write"]),
            ("/mcp/readers", "/mcp/readers", ["tools:read"]),
        ]:
            answer = await ask(url, "GET", f"/.well-known/oauth-protected-resource{place}")
            about = answer.json()
            assert (answer.status_code, about["resource"]) == (200, url + resource)
            assert (about["authorization_servers"], about["scopes_supported"]) == ([issuer.url], scopes)
        for place in ("/mcp/local", "/mcp/nobody"):
            assert (await ask(url, "GET", f"/.well-known/oauth-protected-resource{place}")).status_code == 404
        for path, place in [("/mcp", "/mcp"), ("/mcp/readers", "/mcp/readers"), ("/mcp/nobody", "/mcp")]:
            status, challenge = await status_of(url, "", path)
            assert (status, challenge) == (
                401,
                f'Bearer realm="toolstead", resource_metadata="{url}/.well-known/oauth-protected-resource{place}"',
            )


async def test_without_an_issuer_there_is_no_metadata_and_nobody_is_asked_for_a_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with team(tmp_path, profiles={"readers": {"scope": "tools:read"}}) as (_, url):
        assert "profiles.readers.scope: not used, because server.oauth.issuer is not set" in caplog.text
        for name in ("oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server"):
            assert (await ask(url, "GET", f"/.well-known/{name}")).status_code == 404
        assert (await ask(url, "POST", "/.well-known/oauth-protected-resource", "", {})).status_code == 401


def unsigned(claims: dict[str, Any], alg: Any = "none") -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in ({"alg": alg}, claims)]
    return b".".join([*parts, b""]).decode()


def with_shared_secret(issuer: Issuer, audience: str) -> str:
    """A token that is signed with the public key as if it were a secret."""
    good = jwt.decode(issuer.sign(audience, "tools:read"), options={"verify_signature": False})
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": issuer.keys[0].kid}).encode()).rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps(good).encode()).rstrip(b"=")
    algorithm = jwt.get_algorithm_by_name("HS256")
    signature = algorithm.sign(header + b"." + body, issuer.keys[0].public_pem)
    return b".".join([header, body, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


@pytest.mark.promise("Q6")
async def test_a_token_that_is_not_for_here_or_not_from_there_opens_nothing(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        here, scope, now = f"{url}/mcp", "tools:read", int(time.time())
        claims = jwt.decode(issuer.sign(here, scope), options={"verify_signature": False})
        stranger = SigningKey("first", "RS256", rsa_key("x").private)
        of_no_list = SigningKey("k1", "ES256K", ec.generate_private_key(ec.SECP256K1()))
        for_another = SigningKey("other", "RS256", rsa_key("x").private, named="RS512")
        issuer.keys += [of_no_list, for_another]
        bad = {
            "expired": issuer.sign(here, scope, exp=now - 60),
            "not valid yet": issuer.sign(here, scope, nbf=now + 300),
            "another audience": issuer.sign("https://other.example/mcp", scope),
            "the origin alone": issuer.sign(url, scope),
            "no audience": issuer.sign(here, scope, aud=None),
            "another issuer": issuer.sign(here, scope, iss="https://evil.example"),
            "no end": issuer.sign(here, scope, exp=None),
            "odd end": issuer.sign(here, scope, exp="never"),
            "no number as its end": issuer.sign(here, scope, exp=float("nan")),
            "unsigned": unsigned(claims),
            "an algorithm that is a list": unsigned(claims, alg=["none"]),
            "shared secret": with_shared_secret(issuer, here),
            "an algorithm of no list": issuer.sign(here, scope, key=of_no_list),
            "a key for another algorithm": issuer.sign(here, scope, key=for_another),
            "a key of the same name": issuer.sign(here, scope, key=stranger),
            "unknown key": issuer.sign(here, scope, key=rsa_key("unknown")),
            "cut": issuer.sign(here, scope)[:-8],
            "no token": "a.b.c",
            "long": issuer.sign(here, scope, more="x" * 20_000),
        }
        for name, token in bad.items():
            status, challenge = await status_of(url, token)
            assert (status, 'error="invalid_token"' in challenge) == (401, True), name
        assert (await status_of(url, issuer.sign(here, scope, exp=now - 10)))[0] == 200, "clocks differ a little"
        assert (await status_of(url, issuer.sign(here, scope)))[0] == 200


@pytest.mark.promise("Q6")
async def test_a_token_without_the_scope_is_told_which_one_it_needs(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        here = f"{url}/mcp"
        for path, token, needed in [
            ("/mcp", issuer.sign(here, "openid"), 'scope="tools:read tools:write"'),
            ("/mcp", issuer.sign(here, "openid\u00a0tools:read"), 'scope="tools:read tools:write"'),
            ("/mcp/writers", issuer.sign(here, "tools:read"), 'scope="tools:write"'),
            ("/mcp/writers", issuer.sign(f"{here}/readers", "tools:read tools:write"), 'scope="tools:write"'),
            ("/mcp", issuer.sign(f"{here}/readers", "tools:write"), 'scope="tools:read tools:write"'),
        ]:
            status, challenge = await status_of(url, token, path)
            assert status == 403
            assert 'error="insufficient_scope"' in challenge
            assert needed in challenge
        hidden = [
            await ask(url, "GET", f"/mcp/{name}", issuer.sign(here, "tools:read")) for name in ("local", "nobody")
        ]
        assert [answer.status_code for answer in hidden] == [403, 403]
        assert hidden[0].json()["detail"] == hidden[1].json()["detail"]


async def test_a_token_for_several_profiles_needs_the_url_of_one(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        token = issuer.sign(f"{url}/mcp", "tools:read tools:write")
        refused = await ask(url, "GET", "/api/tools", token)
        assert refused.status_code == 403
        assert "gives the profiles readers, writers. Use /mcp/readers or /mcp/writers" in refused.json()["detail"]
        assert "insufficient_scope" not in refused.headers.get("www-authenticate", "")
        async with client_of(f"{url}/mcp/writers", token, "modern") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["write"]
        made_for_one = issuer.sign(f"{url}/mcp/readers", "tools:read tools:write")
        assert len((await ask(url, "GET", "/api/tools", made_for_one)).json()["tools"]) == 2


@pytest.mark.promise("Q2")
async def test_an_access_token_never_opens_a_private_route(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        token = issuer.sign(f"{url}/mcp", "tools:read")
        for method, path in [("GET", "/api/approvals"), ("PATCH", "/api/plugins/web"), ("GET", "/api/threads")]:
            refused = await ask(url, method, path, token, {} if method == "PATCH" else None)
            assert refused.status_code == 403, path


@pytest.mark.promise("Q3")
async def test_a_session_is_that_of_its_user_through_every_new_token_of_theirs(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        here, accept = f"{url}/mcp", {"Accept": "application/json, text/event-stream"}
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}

        async def open_session(**claims: Any) -> dict[str, str]:
            token = issuer.sign(here, "tools:read", **claims)
            opened = await ask(url, "POST", "/mcp", token, opening, **accept)
            session = {**accept, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
            assert (await ask(url, "POST", "/mcp", token, done, **session)).status_code == 202
            return session

        adas, nobodys = await open_session(), await open_session(sub=None)
        for session, claims, expected in [
            (adas, {"jti": "2"}, 200),
            (adas, {"sub": "eve"}, 404),
            (adas, {"client_id": "other"}, 404),
            (nobodys, {"sub": None, "jti": "2"}, 404),
        ]:
            token = issuer.sign(here, "tools:read", **claims)
            answer = await ask(url, "POST", "/mcp", token, LIST, **session)
            assert answer.status_code == expected, claims


@pytest.mark.promise("Q6")
async def test_while_the_issuer_is_away_its_tokens_get_503_and_the_others_work(tmp_path: Path) -> None:
    async with protected(tmp_path) as (issuer, url):
        issuer.status = 500
        refused = await ask(url, "GET", "/api/tools", issuer.sign(f"{url}/mcp", "tools:read"))
        assert (refused.status_code, refused.json()["type"]) == (503, "/docs#no-issuer")
        assert issuer.url in refused.json()["detail"]
        assert (await ask(url, "GET", "/api/tools", WHOLE)).status_code == 200
        issuer.status = 200
        assert (await status_of(url, issuer.sign(f"{url}/mcp", "tools:read")))[0] == 200


async def test_new_keys_are_found_and_those_that_are_gone_count_no_more_after_an_hour() -> None:
    async with issuing() as issuer:
        now = [0.0]
        verifier = TokenVerifier(OAuthOptions(issuer=issuer.url), monotonic=lambda: now[0])
        old = issuer.keys[0]
        await verifier.verify_token(issuer.sign("me", ""), ["me"])
        issuer.keys = [ec_key("second")]
        assert (await verifier.verify_token(issuer.sign("me", "a b"), ["me"])).scopes == {"a", "b"}
        assert issuer.count_fetches() == 2
        with pytest.raises(TokenError, match="none of the issuer's"):
            await verifier.verify_token(issuer.sign("me", "", key=old, jti="x"), ["me"])
        issuer.keys = [rsa_key("third")]
        now[0] = 3_601.0
        with pytest.raises(TokenError, match="none of the issuer's"):
            await verifier.verify_token(issuer.sign("me", "", key=ec_key("second")), ["me"])


async def test_a_flood_of_unknown_keys_does_not_flood_the_issuer() -> None:
    async with issuing() as issuer:
        verifier = TokenVerifier(OAuthOptions(issuer=issuer.url), monotonic=lambda: 0.0)
        for number in range(20):
            with pytest.raises(TokenError):
                await verifier.verify_token(issuer.sign("me", "", key=rsa_key(f"k{number % 3}"), jti=number), ["me"])
        assert issuer.count_fetches() == MOST_FETCHES
        issuer.keys = []
        away = TokenVerifier(OAuthOptions(issuer=issuer.url), monotonic=lambda: 0.0)
        for _ in range(20):
            with pytest.raises(IssuerError):
                await away.verify_token(issuer.sign("me", "", key=rsa_key("k")), ["me"])
        assert issuer.count_fetches() == 2 * MOST_FETCHES


async def test_a_verified_token_is_remembered_until_it_expires() -> None:
    async with issuing() as issuer:
        now = [time.time()]
        verifier = TokenVerifier(OAuthOptions(issuer=issuer.url), now=lambda: now[0])
        token = issuer.sign("me", "a", exp=int(now[0]) + 100)
        first = await verifier.verify_token(token, ["me"])
        assert await verifier.verify_token(token, ["me"]) is first
        now[0] += 131
        with pytest.raises(TokenError, match="expired"):
            await verifier.verify_token(token, ["me"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {"issuer": "https://evil.example"}}, "names another issuer"),
        ({"metadata": {"jwks_uri": "http://evil.example/keys"}}, "has no jwks_uri with https"),
        ({"metadata": {"jwks_uri": 5}}, "has no jwks_uri with https"),
        ({"padding": 300_000}, "sent more than 262,144 bytes"),
        ({"keys": []}, "publishes no key"),
        ({"status": 302}, "status 302"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_issuer_that_answers_oddly_is_not_believed(change: dict[str, Any], said: str) -> None:
    async with issuing() as issuer:
        for name, value in change.items():
            setattr(issuer, name, value)
        verifier = TokenVerifier(OAuthOptions(issuer=issuer.url))
        with pytest.raises(IssuerError, match=said):
            await verifier.verify_token(issuer.sign("me", "", key=rsa_key("first")), ["me"])


@pytest.mark.parametrize(
    ("profiles", "oauth", "said"),
    [
        ({"a": {"token": "t"}, "b": {"token": "t"}}, {}, "profiles.b.token: it is the same as profiles.a.token"),
        ({"a": {"token": WHOLE}}, {}, "profiles.a.token: it is the same as server.token"),
        ({"a": {"scope": "s"}, "b": {"scope": "s"}}, {}, "'s' gives the profile 'a' already"),
        ({"a": {"token": "t"}}, {"issuer": "https://id.example"}, "no profile has a scope"),
    ],
)
async def test_what_could_not_be_decided_keeps_the_server_from_starting(
    tmp_path: Path, profiles: Any, oauth: Any, said: str
) -> None:
    with pytest.raises(ServeError, match=said):
        async with team(tmp_path, profiles=profiles, server={"token": WHOLE, "oauth": oauth}):
            pass


async def test_no_access_token_counts_before_the_server_knows_its_own_address() -> None:
    options = ServerOptions(oauth=OAuthOptions(issuer="https://id.example"), profiles={"a": ProfileOptions(scope="s")})
    rules = AccessRules(options)
    refused = await rules.admit_limited({"path": "/mcp"}, {b"authorization": b"Bearer a.b.c"})
    assert refused is not None
    assert refused.status == 503


def test_an_issuer_over_plain_http_is_refused_unless_it_is_this_machine(tmp_path: Path) -> None:
    from toolstead import Toolstead

    with pytest.raises(SettingsError, match="it must be an https URL"):
        Toolstead(tmp_path, settings={"server": {"oauth": {"issuer": "http://id.example"}}})
