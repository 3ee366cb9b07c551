"""An authorization server on loopback: metadata, keys that rotate, and a token endpoint for machines."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from toolstead.adapters.http.asgi import HttpResponse, Receive, Scope, Send
from toolstead.adapters.http.server import serve_on_loopback


@dataclass(slots=True)
class SigningKey:
    """A key of the issuer, with its id.

    Attributes:
        named: The algorithm that its description names.
    """

    kid: str
    algorithm: str
    private: Any
    named: str | None = None

    @property
    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def describe(self) -> dict[str, Any]:
        """It as a JWK, without its secret."""
        to_jwk = jwt.get_algorithm_by_name(self.algorithm).to_jwk
        named = {} if self.named is None else {"alg": self.named}
        return {**json.loads(to_jwk(self.private.public_key())), "kid": self.kid, "use": "sig", **named}


def rsa_key(kid: str) -> SigningKey:
    return SigningKey(kid, "RS256", rsa.generate_private_key(public_exponent=65537, key_size=2048))


def ec_key(kid: str) -> SigningKey:
    return SigningKey(kid, "ES256", ec.generate_private_key(ec.SECP256R1()))


@dataclass(slots=True)
class Issuer:
    """What it publishes and signs.

    Attributes:
        asked: The paths that were asked for.
        gives: The scopes of a token, whatever was asked for.
    """

    url: str = ""
    keys: list[SigningKey] = field(default_factory=lambda: [rsa_key("first")])
    asked: list[str] = field(default_factory=list[str])
    gives: str = ""
    status: int = 200
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    padding: int = 0

    def sign(self, audience: str, scope: str, *, key: SigningKey | None = None, **claims: Any) -> str:
        """A token."""
        key = key or self.keys[0]
        now = int(time.time())
        about = {"iss": self.url, "sub": "ada", "aud": audience, "iat": now, "exp": now + 600, "scope": scope}
        payload = {name: value for name, value in {**about, **claims}.items() if value is not None}
        return jwt.encode(payload, key.private, algorithm=key.algorithm, headers={"kid": key.kid, "typ": "at+jwt"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.asked.append(path)
        if self.status != 200:
            await HttpResponse(self.status, b"").send(send)
        elif path == "/.well-known/oauth-authorization-server":
            about = {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
            }
            await HttpResponse.of_json({**about, **self.metadata}).send(send)
        elif path == "/keys":
            keys = [key.describe() for key in self.keys]
            await HttpResponse.of_json({"keys": keys, "padding": "x" * self.padding}).send(send)
        elif path == "/token":
            form = parse_qs((await receive())["body"].decode())
            token = self.sign(form["resource"][0], self.gives)
            await HttpResponse.of_json({"access_token": token, "token_type": "Bearer", "expires_in": 600}).send(send)
        else:
            await HttpResponse(404, b"").send(send)

    def count_fetches(self) -> int:
        """How often the keys were asked for."""
        return self.asked.count("/keys")


@asynccontextmanager
async def issuing() -> AsyncGenerator[Issuer]:
    """An issuer that answers."""
    issuer = Issuer()
    async with serve_on_loopback(issuer) as port:
        issuer.url = f"http://127.0.0.1:{port}"
        yield issuer
