"""What a request may use: everything, or the tools of one profile.

    token of the settings, private token, or none needed ──▸ everything; at /mcp/NAME the profile NAME
    token of a profile                                   ──▸ that profile, at /mcp and /mcp/NAME, and on a few routes
    access token of the authorization server             ──▸ the profile whose scope it has, likewise

The guard asks once for each request, and what it finds travels in the request's scope. A request without an `Access`
there may use everything that needs no private token.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from toolstead.adapters.http.asgi import HttpResponse, Scope
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.problem import (
    BAD_SCOPE,
    NO_ISSUER,
    NO_TOKEN,
    NOT_IN_PROFILE,
    RETRY_AFTER,
    UNKNOWN_PROFILE,
    make_readable,
    problem_response,
)
from toolstead.adapters.http.refusal_log import RefusalLog
from toolstead.adapters.http.token import describe_shown, read_bearer
from toolstead.errors import ServeError
from toolstead.nearest_names import suggest

if TYPE_CHECKING:
    from toolstead.adapters.http.oauth import TokenVerifier, VerifiedToken

MCP_PATH: Final = "/mcp"
PROFILE_PREFIX: Final = f"{MCP_PATH}/"
"""What the path of a profile begins with: `/mcp/NAME`."""
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
PUBLIC_PREFIX: Final = "/.well-known/"
"""Paths that clients ask before they have a token."""
LIVE_PATH: Final = "/livez"
READY_PATH: Final = "/readyz"
PROBES: Final = frozenset({LIVE_PATH, READY_PATH})
"""Paths that a probe asks without a token, under whatever address the machine has."""
_ACCESS: Final = "toolstead.access"
_WHOLE: Final = "whole"
_OAUTH: Final = "toolstead.adapters.http.oauth"
"""Imported by its name, and only where there is an issuer: it brings cryptography."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a request may use, where that is not everything.

    Attributes:
        profile: The profile whose tools it sees.
        holder: Who sends it: what one holder has begun, such as a session, is not there for another.
    """

    profile: str
    holder: str


def find_access(scope: Scope) -> Access | None:
    """What a request may use; None for everything."""
    return scope.get(_ACCESS)


def find_holder(scope: Scope) -> str:
    """Who sends a request; whoever may use everything is one."""
    access = find_access(scope)
    return _WHOLE if access is None else access.holder


class AccessRules:
    """Decides what a request may use.

    Attributes:
        refusals: Logs what is refused.
        resource: The public URL of `/mcp`, for which access tokens are made; empty until the server is bound.

    Raises:
        ServeError: Two tokens are the same, or no access token could ever open anything.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._profiles = options.profiles
        self.refusals = RefusalLog()
        self._tokens: dict[bytes, str] = {}
        taken = {_digest(options.token): "server.token"} if options.token else {}
        for name, profile in options.profiles.items():
            if not profile.token:
                continue
            digest, where = _digest(profile.token), f"profiles.{name}.token"
            if digest in taken:
                raise ServeError(f"{where}: it is the same as {taken[digest]}; each needs a token of its own")
            taken[digest], self._tokens[digest] = where, name
        self._by_scope: dict[str, str] = {}
        for name, profile in options.profiles.items():
            if profile.scope and (other := self._by_scope.setdefault(profile.scope, name)) != name:
                raise ServeError(
                    f"profiles.{name}.scope: {profile.scope!r} gives the profile {other!r} already; a scope gives one"
                )
        self.oauth = options.oauth
        public = f"{options.public_url}{MCP_PATH}" if options.public_url else ""
        self.resource = "" if options.oauth is None else options.oauth.audience.rstrip("/") or public
        if options.oauth is not None and not self._by_scope:
            raise ServeError(
                "server.oauth.issuer is set, and no profile has a scope, so no access token could open anything; set "
                "`scope` in a table [profiles.NAME]"
            )
        self._verifier: TokenVerifier | None = None
        self._loading = asyncio.Lock()

    def note_address(self, url: str) -> None:
        """Note where the server is bound: access tokens are made for that address, unless the settings name another."""
        self.resource = self.resource or f"{url}{MCP_PATH}"

    def describe_resource(self, profile: str | None) -> Mapping[str, object] | None:
        """The metadata of the protected resource (RFC 9728); None where there is none."""
        if self.oauth is None or (profile is not None and not self._has_scope(profile)):
            return None
        scopes = list(self._by_scope) if profile is None else [self._profiles[profile].scope]
        return {
            "resource": self._name_resource(profile),
            "authorization_servers": [self.oauth.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolstead",
        }

    def admit_whole(self, scope: Scope) -> HttpResponse | None:
        """Admit a request that may use everything to a profile's path; the refusal where there is no such profile."""
        path: str = scope["path"]
        name = path.removeprefix(PROFILE_PREFIX)
        if name not in self._profiles:
            known = list(self._profiles)
            hint = suggest(name, known, otherwise=f"there are: {', '.join(known) or 'none'}.")
            detail = f"There is no profile {make_readable(name, 100)!r}; {hint}"
            return problem_response(UNKNOWN_PROFILE, detail, instance=path)
        scope[_ACCESS] = Access(profile=name, holder=_WHOLE)
        return None

    async def admit_limited(self, scope: Scope, headers: Mapping[bytes, bytes]) -> HttpResponse | None:
        """Admit a request by the token of a profile or by an access token; else the refusal."""
        path: str = scope["path"]
        named = path.removeprefix(PROFILE_PREFIX) if path.startswith(PROFILE_PREFIX) else None
        bearer = read_bearer(headers)
        if bearer is None:
            return self._refuse_token(scope, named, describe_shown(headers, scope["query_string"]))
        digest = hashlib.sha256(bearer).digest()
        if (profile := self._tokens.get(digest)) is not None:
            if named not in (None, profile):
                detail = f"This token is for the profile {profile!r}: use {MCP_PATH} or {PROFILE_PREFIX}{profile}."
                return self._refuse(scope, detail)
            scope[_ACCESS] = Access(profile=profile, holder=f"profile {profile}")
            return None
        if self.oauth is None:
            return self._refuse_token(scope, named, describe_shown(headers, scope["query_string"]))
        return await self._admit_grant(scope, bearer, named)

    async def _admit_grant(self, scope: Scope, bearer: bytes, named: str | None) -> HttpResponse | None:
        path: str = scope["path"]
        if not self.resource:
            detail = "The server is starting: it does not know yet for which address access tokens are made; try again."
            return problem_response(NO_ISSUER, detail, instance=path, headers=(RETRY_AFTER,))
        verifier = self._verifier or await self._load_verifier()
        module = importlib.import_module(_OAUTH)
        audiences = [self._name_resource(None), *(self._name_resource(name) for name in self._by_scope.values())]
        try:
            grant: VerifiedToken = await verifier.verify_token(bearer.decode("latin-1"), audiences)
        except module.TokenError as error:
            return self._refuse_token(scope, named, "a wrong access token", str(error))
        except module.IssuerError as error:
            detail = f"The access token cannot be checked: the authorization server {self._issuer}: {error}"
            return problem_response(NO_ISSUER, f"{detail}.", instance=path, headers=(RETRY_AFTER,))
        given = [name for scope_name, name in self._by_scope.items() if scope_name in grant.scopes]
        if self._name_resource(None) not in grant.audiences:  # it is made for some of the profiles alone
            given = [name for name in given if self._name_resource(name) in grant.audiences]
        if named is not None:
            given = [name for name in given if name == named]
        if not given:
            return self._refuse_scope(scope, named)
        if len(given) > 1:
            urls = " or ".join(f"{PROFILE_PREFIX}{name}" for name in given)
            detail = f"This access token gives the profiles {', '.join(given)}. Use {urls}, or a token for one of them."
            return self._refuse(scope, detail)
        [profile] = given
        scope[_ACCESS] = Access(profile=profile, holder=f"{grant.holder} {profile}")
        return None

    async def _load_verifier(self) -> TokenVerifier:
        """What verifies access tokens; the first one imports cryptography, while other requests go on."""
        async with self._loading:
            if (verifier := self._verifier) is None:
                module = await asyncio.to_thread(importlib.import_module, _OAUTH)
                verifier = self._verifier = module.TokenVerifier(self.oauth)
        return verifier

    @property
    def _issuer(self) -> str:
        return "" if self.oauth is None else self.oauth.issuer

    def _has_scope(self, profile: str) -> bool:
        return profile in self._profiles and bool(self._profiles[profile].scope)

    def _name_resource(self, profile: str | None) -> str:
        return self.resource if profile is None else f"{self.resource}/{profile}"

    def _challenge(self, named: str | None, *more: str) -> tuple[bytes, bytes]:
        """What the client needs to know to get a token; without an authorization server only that it needs one."""
        parts = ['realm="toolstead"', *more]
        if self.oauth is not None:
            where = urlsplit(self.resource)
            profile = named if named is not None and self._has_scope(named) else None
            place = f"{where.scheme}://{where.netloc}{METADATA_PATH}{where.path}{f'/{profile}' if profile else ''}"
            parts.append(f'resource_metadata="{place}"')
        return (b"www-authenticate", ("Bearer " + ", ".join(parts)).encode("latin-1", "replace"))

    def _refuse_token(self, scope: Scope, named: str | None, shown: str, reason: str = "") -> HttpResponse:
        """Refuse a request whose token opens nothing; what it showed is for the log."""
        path: str = scope["path"]
        self.refusals.note_refusal(scope, NO_TOKEN.status, f"{shown}: {reason}" if reason else shown)
        detail = (
            "This server needs its token, as `Authorization: Bearer TOKEN`; pages accept it once as `?token=TOKEN`."
        )
        if self.oauth is not None:
            detail = (
                f"This server needs an access token of {self._issuer}, or its own, as `Authorization: Bearer TOKEN`."
            )
        error = ()
        if reason:
            detail = f"The access token is not accepted: {reason}."
            error = ('error="invalid_token"', f'error_description="{_quote(reason)}"')
        return problem_response(NO_TOKEN, detail, instance=path, headers=(self._challenge(named, *error),))

    def _refuse_scope(self, scope: Scope, named: str | None) -> HttpResponse:
        """Refuse a good access token without the scope that is needed; a profile without a scope is not told apart."""
        path: str = scope["path"]
        self.refusals.note_refusal(scope, BAD_SCOPE.status, "its access token has not the scope")
        needed = [self._profiles[named].scope] if named is not None and self._has_scope(named) else []
        if named is None:
            needed = list(self._by_scope)
        lacking = f"the scope {' or '.join(map(repr, needed))}" if needed else "a scope that opens this"
        challenge = ('error="insufficient_scope"', *([f'scope="{" ".join(needed)}"'] if needed else []))
        return problem_response(
            BAD_SCOPE,
            f"The access token has not {lacking}; ask {self._issuer} for it.",
            instance=path,
            headers=(self._challenge(named, *challenge),),
        )

    def _refuse(self, scope: Scope, detail: str) -> HttpResponse:
        self.refusals.note_refusal(scope, NOT_IN_PROFILE.status, detail.rstrip("."))
        return problem_response(NOT_IN_PROFILE, detail, instance=scope["path"])


def _digest(token: str) -> bytes:
    """Tokens are looked up by digest, so that the timing reveals nothing about them."""
    return hashlib.sha256(token.encode()).digest()


def _quote(text: str) -> str:
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "'" for c in text)[:300]
