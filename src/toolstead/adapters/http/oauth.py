"""Access tokens of an authorization server: signed JWTs, checked with the keys that it publishes.

Imported only where an issuer is set: it loads cryptography. `access` decides what a verified token opens.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
import jwt
import msgspec

from toolstead.adapters.http.options import OAuthOptions, is_loopback

logger = logging.getLogger(__name__)

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Asymmetric ones only: with a shared secret, whoever verifies could sign, and a public key could serve as one."""
LEEWAY = 30
"""Seconds by which the clocks of two machines may differ."""
REMEMBERED_SECONDS = 300.0
"""A verified token is not verified again for so long: that costs as much as several calls."""
MOST_REMEMBERED = 1_000
KEYS_SECONDS = 3_600.0
"""After so long the keys are fetched again, so that one that was withdrawn counts no more."""
MOST_FETCHES = 5
FETCH_WINDOW = 60.0
"""The keys are fetched `MOST_FETCHES` times in so many seconds: anybody can send a token with an unknown key."""
FETCH_SECONDS = 5.0
LARGEST_DOCUMENT = 256 * 1024
MOST_KEYS = 100
_LONGEST_TOKEN = 16_384
_OK = 200


class TokenError(Exception):
    """The token is not accepted; the text says why, for the client and the log."""


class IssuerError(Exception):
    """The authorization server's keys cannot be had; the text says why."""


class VerifiedToken(msgspec.Struct, frozen=True, kw_only=True):
    """What a verified token says.

    Attributes:
        holder: Who has it, and through which client: the same for each new token of theirs. A token that names
            neither has a holder of its own.
        scopes: What it was issued for.
        audiences: Whom it was made for, of those that were asked about.
    """

    holder: str
    scopes: frozenset[str]
    audiences: frozenset[str]


class TokenVerifier:
    """Verifies tokens, and remembers those that are good."""

    def __init__(
        self,
        options: OAuthOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = options.issuer
        self._keys = IssuerKeys(options, monotonic=monotonic)
        self._now = now
        self._remembered: dict[bytes, tuple[VerifiedToken, float]] = {}

    async def verify_token(self, token: str, audiences: Sequence[str]) -> VerifiedToken:
        """What a token says.

        Args:
            token: As it was sent.
            audiences: Whom it may be made for.

        Raises:
            TokenError: It is malformed, forged, expired, or made by another issuer or for another audience.
            IssuerError: The keys that it is to be checked with cannot be had.
        """
        digest = hashlib.sha256(token.encode()).digest()
        known = self._remembered.get(digest)
        if known is not None:
            if self._now() < known[1]:
                return known[0]
            del self._remembered[digest]
        claims = await self._read_claims(token, audiences)
        given = claims["aud"]
        grant = VerifiedToken(
            holder=_name_holder(claims) or digest.hex(),
            scopes=_list_scopes(claims),
            audiences=frozenset([given] if isinstance(given, str) else given).intersection(audiences),
        )
        if len(self._remembered) >= MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = grant, min(self._now() + REMEMBERED_SECONDS, claims["exp"] + LEEWAY)
        return grant

    async def _read_claims(self, token: str, audiences: Sequence[str]) -> dict[str, Any]:
        if len(token) > _LONGEST_TOKEN:
            raise TokenError(f"it has {len(token):,} characters; at most {_LONGEST_TOKEN:,} are read")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise TokenError("it is neither a token of this server nor a JWT") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:  # a forged header may have a list there
            raise TokenError(f"it is signed with {str(algorithm)[:40]!r}; accepted are {', '.join(sorted(ALGORITHMS))}")
        key = await self._keys.find_key(kid if isinstance(kid, str) else None)
        if key.named_algorithm not in (None, algorithm):
            raise TokenError(f"its key is for {key.named_algorithm}, and it is signed with {algorithm}")
        try:
            # The time is checked below, with our own clock.
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=list(audiences),
                issuer=self._issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.InvalidAudienceError:
            raise TokenError(f"it is made for another audience; this server is {audiences[0]}") from None
        except jwt.InvalidIssuerError:
            raise TokenError(f"it comes from another issuer; accepted is {self._issuer}") from None
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            raise TokenError(f"it does not verify: {error}") from None
        self._check_times(claims)
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._now()
        for name in ("exp", "nbf"):
            moment = claims.get(name, now)
            # Python reads NaN as a number, and no comparison with it is true: such a token would never expire.
            if isinstance(moment, bool) or not isinstance(moment, int | float) or not moment >= 0:
                raise TokenError(f"its {name!r} is no time")
            if name == "exp" and now >= moment + LEEWAY:
                raise TokenError("it has expired")
            if name == "nbf" and now < moment - LEEWAY:
                raise TokenError("it is not valid yet")


class _IssuerKey(msgspec.Struct, frozen=True, kw_only=True):
    key: Any
    named_algorithm: str | None


class IssuerKeys:
    """The keys of an authorization server, fetched when they are first needed, when they are old, or lack one."""

    def __init__(self, options: OAuthOptions, *, monotonic: Callable[[], float]) -> None:
        self._options, self._monotonic = options, monotonic
        self._keys: dict[str | None, _IssuerKey] = {}
        self._fetched_at = float("-inf")
        self._fetches: deque[float] = deque(maxlen=MOST_FETCHES)
        self._fetching = asyncio.Lock()

    async def find_key(self, kid: str | None) -> _IssuerKey:
        """The key of an id; without one the only key there is.

        Raises:
            TokenError: There is no such key.
            IssuerError: The keys cannot be had.
        """
        if (found := self._look_up(kid)) is None:
            before = self._fetched_at
            async with self._fetching:
                if self._fetched_at == before:  # else another request has fetched them meanwhile
                    await self._fetch()
            found = self._look_up(kid)
        if found is None:
            which = "it names no key, and the issuer has several" if kid is None else "its key is none of the issuer's"
            raise TokenError(which)
        return found

    def _look_up(self, kid: str | None) -> _IssuerKey | None:
        if self._monotonic() - self._fetched_at >= KEYS_SECONDS:
            return None
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _fetch(self) -> None:
        now = self._monotonic()
        if len(self._fetches) == MOST_FETCHES and now - self._fetches[0] < FETCH_WINDOW:
            if now - self._fetched_at < KEYS_SECONDS:
                logger.warning(
                    "the keys of %s were just fetched; an unknown one is not looked for", self._options.issuer
                )
                return
            raise IssuerError(
                f"its keys were asked for {MOST_FETCHES} times in {FETCH_WINDOW:g} seconds; wait a moment"
            )
        self._fetches.append(now)
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                create_client = partial(httpx2.AsyncClient, follow_redirects=False, trust_env=False)
                async with await asyncio.to_thread(create_client) as client:  # it reads certificates
                    self._keys = _read_keys(await _fetch_json(client, await self._find_jwks(client)))
        except TimeoutError:
            raise self._fail(f"it did not answer within {FETCH_SECONDS:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._fail(str(error) or type(error).__name__) from None
        except IssuerError as error:
            raise self._fail(str(error)) from None
        self._fetched_at = now

    def _fail(self, reason: str) -> IssuerError:
        logger.warning("the keys of the authorization server %s cannot be had: %s", self._options.issuer, reason)
        return IssuerError(reason)

    async def _find_jwks(self, client: httpx2.AsyncClient) -> str:
        if self._options.jwks_uri:
            return self._options.jwks_uri
        failures: list[str] = []
        for address in list_metadata_addresses(self._options.issuer):
            try:
                metadata = await _fetch_json(client, address)
            except IssuerError as error:
                failures.append(str(error))
                continue
            if metadata.get("issuer") != self._options.issuer:
                raise IssuerError(f"{address} names another issuer: {str(metadata.get('issuer'))[:200]!r}")
            return _check_address(metadata.get("jwks_uri"), address, self._options.issuer)
        raise IssuerError("; ".join(failures))


def list_metadata_addresses(issuer: str) -> list[str]:
    """Where the metadata of an issuer may be, in the order in which clients look (RFC 8414, OpenID Connect)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        *([f"{origin}/.well-known/openid-configuration{path}"] if path else []),
        f"{origin}{path}/.well-known/openid-configuration",
    ]


def _check_address(address: object, origin: str, issuer: str) -> str:
    """Refuse an address of keys that anybody on the way could change."""
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        is_near = parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        parts, is_near = urlsplit(""), False
    if not (parts.scheme == "https" or (is_near and is_loopback(urlsplit(issuer).hostname or ""))):
        raise IssuerError(f"{origin} has no jwks_uri with https: {str(address)[:200]!r}")
    return str(address)


async def _fetch_json(client: httpx2.AsyncClient, address: str) -> Mapping[str, Any]:
    content = bytearray()
    async with client.stream("GET", address, headers={"accept": "application/json"}) as response:
        if response.status_code != _OK:
            raise IssuerError(f"{address} answered with status {response.status_code}")
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > LARGEST_DOCUMENT:
                raise IssuerError(f"{address} sent more than {LARGEST_DOCUMENT:,} bytes")
    try:
        return msgspec.json.decode(bytes(content), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise IssuerError(f"{address} sent no JSON object") from None


def _read_keys(document: Mapping[str, Any]) -> dict[str | None, _IssuerKey]:
    """The keys that can verify a signature, by their ids; one without an id is found only where it is alone."""
    try:
        listed = msgspec.convert(document.get("keys"), list[dict[str, Any]])
    except msgspec.ValidationError:
        raise IssuerError("its keys are no list of objects") from None
    keys: dict[str | None, _IssuerKey] = {}
    for entry in listed[:MOST_KEYS]:
        if entry.get("kty") == "oct" or entry.get("use", "sig") != "sig":
            continue
        kid, algorithm = entry.get("kid"), entry.get("alg")
        try:
            key = jwt.PyJWK.from_dict(entry).key
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            logger.warning("a key of the authorization server is not used: %s", error)
            continue
        keys[kid if isinstance(kid, str) else None] = _IssuerKey(
            key=key, named_algorithm=algorithm if isinstance(algorithm, str) else None
        )
    if not keys:
        raise IssuerError("it publishes no key that can verify a signature")
    return keys


def _list_scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The scopes, as RFC 9068 has them, and as some servers write them instead."""
    given: Any = claims.get("scope", claims.get("scp", ""))
    if isinstance(given, str):
        return frozenset(given.split(" "))  # RFC 6749: no other character separates them
    return frozenset(map(str, cast("list[Any]", given)) if isinstance(given, list) else ())


def _name_holder(claims: Mapping[str, Any]) -> str:
    """Who has a token; empty where it does not say, and then nothing of one token is there for the next."""
    about = [str(claims.get(name, "")) for name in ("sub", "client_id", "azp")]
    return hashlib.sha256(msgspec.json.encode([claims["iss"], *about])).hexdigest() if any(about) else ""
