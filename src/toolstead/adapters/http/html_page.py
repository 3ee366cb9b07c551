"""Pages for people in a browser: one look, no script, forms that lead to this server only.

`render_token_page` is what a browser gets instead of the problem document of a missing token.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Final

from toolstead.adapters.http.asgi import HttpResponse

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.35rem; }
pre { overflow: auto; max-height: 60vh; padding: 1rem; border: 1px solid; border-radius: 8px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
form { display: inline; }
button, input { font: inherit; padding: .4rem 1.1rem; margin: 0 .6rem .6rem 0; }
"""
_STYLE_HASH: Final = "sha256-" + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src '{_STYLE_HASH}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With `no-referrer` browsers send `Origin: null` for its forms too, which the guard refuses.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_CHALLENGE: Final = b"www-authenticate"


def render_html(status: int, title: str, body: str) -> HttpResponse:
    """A page with a title; the body is HTML."""
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return HttpResponse(status, page.encode(), _HEADERS)


def wants_html(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser asks, and no program."""
    accepted = headers.get(b"accept", b"")
    return b"text/html" in accepted and b"json" not in accepted


def render_token_page(refusal: HttpResponse, path: str, *, was_wrong: bool) -> HttpResponse:
    """The refusal of a request without a token, for a person: where the token is, and a field for it.

    Args:
        refusal: The problem document for programs; its challenge is kept.
        path: The page to go on to.
        was_wrong: Whether the person has entered a token that is not the server's.
    """
    page = render_html(
        refusal.status,
        "This Toolstead server needs its token",
        ("<p><strong>That is not its token.</strong></p>" if was_wrong else "")
        + f'<form method="get" action="{escape(path)}">'
        '<input type="password" name="token" autocomplete="off" aria-label="Token" autofocus>'
        "<button>Continue</button></form>"
        "<p>This browser keeps a cookie of it, and does not ask again.</p>"
        "<p>The person who runs the server has it. <code>toolstead serve</code> prints it at its start where the "
        'settings say <code>token = "auto"</code>; otherwise it is <code>token</code> under <code>[server]</code> in '
        "the settings, or the variable <code>TOOLSTEAD_TOKEN</code> of the server. Programs send it as "
        "<code>Authorization: Bearer TOKEN</code>.</p>",
    )
    page.headers = (*page.headers, *(pair for pair in refusal.headers if pair[0] == _CHALLENGE))
    return page
