"""Private hosts in every spelling, through http tools of a real server: nothing on loopback is reached unless allowed.

A listener writes down the address at which each connection arrives. The command runs this in a network of its own where
it may: there every address leads to the listener, so that one which hides a private one is seen too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tests.attack.harness import Attack, Target, serving, watched
from tests.attack.mutations import ODD_TEXTS
from tests.flows.http_internet import Seen, Server, redirect, reply
from tests.flows.http_internet import serving as listening
from tests.flows.tool_files import tool

PRIVATE = (
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "169.254.169.254", "192.168.0.1", "172.16.0.1", "100.64.0.1"),
)
NAMES = (
    *("localhost", "LOCALHOST", "localhost.", "localhost..", "a.localhost", "ip6-localhost", "ｌｏｃａｌｈｏｓｔ"),
    *("loc%61lhost", "localho\u017ft"),
)
DOTS = (".", "。", "．", "｡")
DIGITS = ("0123456789", "０１２３４５６７８９", "⓪①②③④⑤⑥⑦⑧⑨", "٠١٢٣٤٥٦٧٨٩", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
PATHS = (
    *("a", "../secret", "..%2fsecret", "..\\secret", "/../secret", "//evil", "a/../../secret", "%2e%2e/secret"),
    *("?x=1", "#x", "a?b#c", "@evil", ";a", "a\r\nX: y", "..;/secret", "%00", "é"),
)


def spell_address(address: str, chance: Random) -> str:
    """One of the ways in which some program would read this IPv4 address."""
    packed = int(ipaddress.IPv4Address(address))
    parts = [int(part) for part in address.split(".")]
    high, low = packed >> 16, packed & 0xFFFF

    def number(value: int) -> str:
        zeros = "0" * chance.choice((0, 0, 1, 3, 20))
        return chance.choice(
            (str(value), f"0{zeros}{value:o}", f"0x{zeros}{value:x}", f"0X{value:X}", f"{zeros}{value}")
        )

    ways = [
        address,
        number(packed),
        str(packed + (1 << 32)),
        f"{number(parts[0])}.{number(packed & 0xFFFFFF)}",
        f"{number(parts[0])}.{number(parts[1])}.{number(low)}",
        ".".join(map(number, parts)),
        ".".join(str(part + 256) for part in parts),
        f"{address}{chance.choice(('.', '..', '%20', '%00', '%2e', chr(9), ' ', '%0a', chr(0xAD), chr(0x200B)))}",
        chance.choice(DOTS).join(map(str, parts)),
        ".".join(map(str, parts)).translate(str.maketrans(DIGITS[0], chance.choice(DIGITS))),
        "".join(f"%{ord(character):02x}" for character in address),
        *(f"[::ffff:{address}]", f"[::ffff:{high:x}:{low:x}]", f"[0:0:0:0:0:ffff:{high:04X}:{low:04X}]"),
        *(f"[::{address}]", f"[::ffff:0:{address}]", f"[64:ff9b::{high:x}:{low:x}]"),
        *(f"[64:ff9b:1::{high:x}:{low:x}]", f"[2002:{high:x}:{low:x}::1]", f"[2001:0:{high:x}:{low:x}::]"),
        *(f"[2001:0:0:0:0:0:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}]", f"[2606:4700::5efe:{high:x}:{low:x}]"),
        *(f"[2606:4700::200:5efe:{address}]", f"[fe80::5efe:{address}]", f"[::ffff:{address}%25lo]"),
        *(f"[::ffff:{address}%lo]",),
    ]
    return chance.choice(ways)


def spell_host(chance: Random) -> str:
    """A private host in one of its spellings."""
    others = (
        *("[::1]", "[::]", "[0::1]", "[::1%25lo]", "[fc00::1]", "[fe80::1%25lo]", "[::ffff:0:0]", "[ff02::1]", ""),
        *("*", "[", "]", "[]"),
    )
    return chance.choice(
        (spell_address(chance.choice(PRIVATE), chance),) * 6 + (chance.choice(NAMES), chance.choice(others))
    )


def spell_origin(port: int, chance: Random) -> str:
    """An address of a private host, with what else an origin may have or not have."""
    host = spell_host(chance)
    if chance.random() < 0.5:
        return f"http://{host}:{port}"
    scheme = chance.choice(
        (
            *("http://", "http://", "http://", "HTTP://", "https://", "http:/", "http:\\\\", "//", "http:///"),
            *("ftp://", "\thttp://"),
        )
    )
    user = chance.choice(
        ("", "", "", "", "user@", "example.org@", "a:b@", "example.org:80@", "@", "example.org%40", "example.org\\@")
    )
    tail = chance.choice(
        (
            *("", "", "", "/", "/x/..", "?", "#", "#@example.org", "?@example.org", "\\", "%2f"),
            *(f"{chance.choice(ODD_TEXTS)}",),
        )
    )
    written = chance.choice(
        (f":{port}", f":{port}", f":{port}", f":0{port}", f":{port + 65536}", f":+{port}", f":%3{port % 10}", "")
    )
    return f"{scheme}{user}{host}{written}{tail}"


class Trap:
    """Listens on every address of one port, and remembers at which it was reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached.append(str(writer.get_extra_info("sockname")[0]))
        writer.write(reply(body="SECRET", connection="close"))
        writer.close()

    def take_private(self) -> list[str]:
        """Which private addresses, or public ones that hide a private one, were reached since the last look."""
        reached, self.reached = self.reached, []
        return [address for address in reached if _is_private(address)]


@asynccontextmanager
async def trapping() -> AsyncGenerator[Trap]:
    trap = Trap()
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    listener = await asyncio.start_server(
        trap.talk, sock=socket.create_server(("", 0), family=family, dualstack_ipv6=both)
    )
    trap.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield trap


def _is_private(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found  # an IPv4 connection, as a listener of both kinds sees it
    hidden: list[ipaddress.IPv4Address | ipaddress.IPv6Address | None] = [found]
    if isinstance(found, ipaddress.IPv6Address):
        last = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        hidden += [found.sixtofour, *(found.teredo or ())]
        if found in ipaddress.ip_network("64:ff9b::/96") or int(found) >> 32 & 0xFFFF == 0x5EFE:
            hidden.append(last)
    return any(one is not None and not one.is_global for one in hidden)


def _lead_every_address_here() -> None:
    for family in ("-4", "-6"):
        subprocess.run(
            ["ip", family, "route", "add", "local", "default", "dev", "lo"], check=False, capture_output=True
        )


async def attack(attack: Attack) -> None:
    """Spellings as the whole origin, behind redirects, and values that try to leave their place in an address."""
    if attack.is_confined:
        _lead_every_address_here()
    else:
        attack.note("no network of its own here: addresses that some programs read as public ones are left out")
    leads_to: dict[str, str] = {}
    async with (
        trapping() as trap,
        listening(lambda seen: redirect(leads_to.get(seen.target, "/"))) as public,
        listening(lambda _: reply(body="kept")) as kept,
        serving(attack.folder / "server", tools=_make_tools(public.port, kept.port, trap.port)) as target,
    ):
        before = target.memory
        await _check_trap(attack, target, trap)
        async with watched(attack, target):
            for origin in _origins(attack, trap.port):
                await _expect_unreached(
                    attack, target, trap, what="a spelling as the origin", given={"url": origin}, shown=origin
                )
            for number in range(attack.count // 4):
                location = spell_origin(trap.port, attack.chance)
                leads_to[f"/{number}"] = "".join(one for one in location if " " < one < "\x7f")
                if not attack.is_over:
                    await _expect_unreached(
                        attack, target, trap, what="a redirect to a spelling", given={"n": str(number)}, shown=location
                    )
            for _ in range(0 if attack.is_over else attack.count // 4):
                await _try_value(attack, target, kept, attack.chance)
        await target.check_end(attack, before=before)


def _make_tools(public: int, kept: int, trap: int) -> list[Any]:
    text = {"type": "string"}
    free = [f"127.0.0.1:{trap}", f"[::ffff:5db8:d822]:{trap}", f"93.184.216.34:{trap}"]
    return [
        tool("free", {"type": "http", "url": "{{url}}/x", "method": "GET", "allowedHosts": free}, {"url": text}),
        tool("origin", {"type": "http", "url": "{{url}}/x", "method": "GET", "timeout": 2_000}, {"url": text}),
        tool(
            "led",
            {
                "type": "http",
                "url": f"http://127.0.0.1:{public}/{{{{n}}}}",
                "method": "GET",
                "allowedHosts": [f"127.0.0.1:{public}"],
                "timeout": 2_000,
            },
            {"n": text},
        ),
        tool(
            "place",
            {
                "type": "http",
                "url": f"http://127.0.0.1:{kept}/kept/{{{{path}}}}/end?q={{{{query}}}}&z=1",
                "method": "GET",
                "allowedHosts": [f"127.0.0.1:{kept}"],
            },
            {"path": text, "query": text},
        ),
    ]


def _origins(attack: Attack, port: int) -> Iterator[str]:
    for _ in range(attack.count // 2):
        if attack.is_over:
            return
        origin = spell_origin(port, attack.chance)
        if attack.is_confined or "127.0.0.1" in origin or "localhost" in origin:
            yield origin


async def _check_trap(attack: Attack, target: Target, trap: Trap) -> None:
    """The listener sees what arrives, and an allowed host is reached: else nothing here could fail."""
    await target.call("free", {"url": f"http://127.0.0.1:{trap.port}"})
    attack.check("an allowed private host is reached", len(trap.take_private()) == 1, "the listener saw nobody")


async def _expect_unreached(attack: Attack, target: Target, trap: Trap, *, what: str, given: Any, shown: str) -> None:
    what += ": nothing private reached"
    try:
        answer = await target.call("origin" if "url" in given else "led", given)
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
        attack.fail(what, f"no answer: {type(error).__name__}", shown)
        return
    seen, reached = len(trap.reached), trap.take_private()
    if seen > len(reached):
        attack.hold("  of these, read as a public address (allowed)")
    held = not reached and answer.status < 500
    kinds = sorted({"one with an ISATAP id" if "5efe" in one else one for one in reached})
    attack.check(what, held, f"status {answer.status}, reached {kinds}", json.dumps([given, shown]))


async def _try_value(attack: Attack, target: Target, kept: Server, chance: Random) -> None:
    """What is put into a path or a query stays there."""
    path = chance.choice((*PATHS, chance.choice(ODD_TEXTS) + chance.choice(PATHS)))
    query = chance.choice((*PATHS, "a&z=2", "a#b", "&q=2", chance.choice(ODD_TEXTS)))
    answer = await target.call("place", {"path": path, "query": query})
    sent: list[Seen] = list(kept.seen)
    kept.seen.clear()
    held = answer.status < 500 and all(_is_in_place(seen.target) for seen in sent)
    shown = [seen.target for seen in sent]
    attack.check(
        "a value in a path or a query stays there", held, f"status {answer.status}: {shown}", json.dumps([path, query])
    )


def _is_in_place(target: str) -> bool:
    path, _, query = target.partition("?")
    steps = path.split("/")
    return (
        path.startswith("/kept/")
        and path.endswith("/end")
        and not {".", "..", "%2e%2e", "%2e"} & {step.lower() for step in steps}
        and query.startswith("q=")
        and query.count("&") == 1
        and query.endswith("&z=1")
        and "#" not in target
    )
