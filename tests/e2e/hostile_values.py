"""Values that try to become something else: a command, an option, a second argument, another value.

Each one that names a command would leave a file in the canary folder if anybody ever ran it.
"""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

METACHARACTERS = list(";|&$`<>(){}[]*?#~!'\"\\^%=@:,+ \t\n\r\v\f")

_COMMANDS = """
; touch CANARY
;touch CANARY;
| touch CANARY
|| touch CANARY
&& touch CANARY
& touch CANARY &
x; touch CANARY #
x' ; touch CANARY ; '
x" ; touch CANARY ; "
'; touch CANARY; echo '
"; touch CANARY; echo "
`touch CANARY`
$(touch CANARY)
"$(touch CANARY)"
'$(touch CANARY)'
${IFS}touch${IFS}CANARY
$((`touch CANARY`))
$'\\x74ouch' CANARY
<(touch CANARY)
>(touch CANARY)
> CANARY
>> CANARY
>| CANARY
2>&1 > CANARY
1> CANARY 2>&1
< /dev/null > CANARY
<<< x > CANARY
<<EOF > CANARY
\\$(touch CANARY)
\\`touch CANARY\\`
\\; touch CANARY
\\'; touch CANARY; \\'
x\\" ; touch CANARY ; \\"
!touch CANARY
!!; touch CANARY
{touch,CANARY}
{ touch CANARY; }
(touch CANARY)
~/../..; touch CANARY
%0atouch CANARY
%0a%0dtouch%20CANARY
%3Btouch%20CANARY
&#59;touch CANARY
\\u003btouch CANARY
\\x3b touch CANARY
\\073touch CANARY
x\\ntouch CANARY
x & start CANARY
^& touch CANARY
x %26 touch CANARY
eval touch CANARY
exec touch CANARY
/bin/sh -c 'touch CANARY'
sh -c "touch CANARY"
python3 -c 'open("CANARY","w")'
() { :;}; touch CANARY
a() { touch CANARY; }; a
env X='() { :;}; touch CANARY' bash -c :
IFS=,;touch,CANARY
PATH=/tmp touch CANARY
LD_PRELOAD=CANARY
BASH_ENV=CANARY
:|touch CANARY
.;touch CANARY
@(touch CANARY)
@CANARY
=cmd|'/C touch CANARY'!A0
%(touch CANARY)s
%s%n%x%d %1$s %*d
{0.__class__}
{{x}}
{{y}}
{{ x }}
{{x}}; touch CANARY
{{x}}{{x}}{{x}}
{{xs}}
}}{{
{{
}}
{{{x}}}
{% touch CANARY %}
<%= `touch CANARY` %>
#{`touch CANARY`}
${{x}}
$x ${x} $1 $@ $* $# $? $$ $0 $- $!
$HOME
${HOME}
$PATH:$TOOLSTEAD_CALL
${TOOLSTEAD_TOKEN}
~
~root
~+/x
*
**/*
/*
?
[a-z]*
{a,b}{c,d}
..
../../../../etc/passwd
/etc/passwd
/dev/stdin
file:///etc/passwd
| cat /etc/passwd
\\
\\\\
\\\\\\
\\'
\\"
'
"
''
""
'''
'"'"'
"'"'"
`
``
$
$$
$(
${
&
&&
|
||
;
;;
!
#
# not a comment
a # b
a\\
a\\ b
\\0
\\00
\\x00
%00
null
true
false
0
-0
1e308
NaN
=
==
a=b
A=1 touch CANARY
a b c d e f
  leading
a  two  blanks
""".strip("\n").splitlines()

_OPTIONS = """
-
--
---
-rf
-e
-c
-x
-i
-n1
-v
--help
--version
--output=CANARY
--exec=touch CANARY
-exec touch CANARY ;
--to-command=touch CANARY
-oProxyCommand=touch CANARY
--checkpoint-action=exec=touch CANARY
-
-1
-0.5
-'
-$(touch CANARY)
-;touch CANARY
--=
-- -rf
-{{x}}
-\t
-é
""".strip("\n").splitlines()

_LINES = [
    "a\nb",
    "a\n; touch CANARY\n",
    "a\ntouch CANARY",
    "\ntouch CANARY\n",
    "a\r\ntouch CANARY\r\n",
    "a\rtouch CANARY",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    " ",
    "   ",
    " leading and trailing ",
    "a\tb",
    "a\vb\fc",
    "a\x1b[31mred\x1b[0m",
    "a\x07bell\x08back",
    "\x7f",
    "\x01\x02\x03\x1f",
    "a\\\nb",
    "line one\nline two\n\nline four",
]
_UNICODE = [
    "é",
    unicodedata.normalize("NFD", "é"),
    unicodedata.normalize("NFD", "Ångström ; touch CANARY"),
    "ﬁ",
    "；touch CANARY",  # full-width semicolon
    "｜touch CANARY",
    "＆＆touch CANARY",
    "＄（touch CANARY）",
    "｀touch CANARY｀",
    "－rf",
    "‐rf",
    "–rf",
    "—help",
    "−1",
    "﹣rf",
    "\u202etouch CANARY",
    "\u202e;CANARY hcuot\u202c",
    "\u200btouch\u200b CANARY",
    "\u200b-rf",
    "\ufeff-rf",
    "\ufeffa",
    "\u2066a\u2069",
    "\u00a0;\u00a0touch CANARY",
    "\u2028touch CANARY",
    "\u2029touch CANARY",
    "\u0085touch CANARY",
    "\u3000touch CANARY",
    "\u00ad-rf",
    "\u037e touch CANARY",  # the Greek question mark looks like a semicolon
    "\u2018touch CANARY\u2019",
    "\u201ctouch CANARY\u201d",
    "👩‍👩‍👧‍👦; touch CANARY",
    "\U0001f600" * 50,
    "\U0010ffff",
    "\ud7ff\ue000\ufffd",
    "\ufffe\uffff",
    "a\u0300\u0301\u0302\u0303" * 20,
    "Ｃ：￥touch",
    "日本語; touch CANARY",
    "ع‎ربي | touch CANARY",
]
_LONG = [
    "a" * 10_000,
    "é" * 10_000,
    "\U0001f600" * 10_000,
    "'" * 10_000,
    '"' * 9_999,
    "\\" * 10_000,
    "$(" * 5_000,
    "{{x}}" * 2_000,
    "; touch /x &" * 800,
    "\n" * 10_000,
    " " * 10_000,
    "../" * 3_333,
]
REFUSED = [
    "a\0b",
    "\0",
    "a\0; touch CANARY",
    "\0-rf",
    "a" * 10_001,
    "é" * 10_001,
    "; touch CANARY" * 1_000,
    "\0" * 20_000,
]
"""Values that are taken nowhere in an argument."""


def by_hand(canary: Path) -> list[str]:
    """Every value somebody thought of, the metacharacters alone and in pairs."""
    alone = [f"{left}{right}" for left in METACHARACTERS for right in ("", "a", left)]
    alone += [f"a{character}b" for character in METACHARACTERS]
    written = [*_COMMANDS, *_OPTIONS, *_LINES, *_UNICODE, *_LONG, "", *alone]
    return _distinct(written, canary)


def generated(canary: Path, count: int, seed: int = 20_260_728) -> list[str]:
    """So many more, put together from pieces; the same on every run."""
    chance = random.Random(seed)
    pieces = [*METACHARACTERS, *_COMMANDS, *_OPTIONS, *_LINES, *_UNICODE, "touch CANARY", "x", "é", "{{x}}", "\u200b"]
    values: dict[str, None] = {}
    while len(values) < count:
        value = "".join(chance.choice(pieces) for _ in range(chance.randint(2, 6)))
        if chance.random() < 0.1:
            value = "".join(chr(_character(chance)) for _ in range(chance.randint(1, 40)))
        values[value.replace("CANARY", str(canary / f"generated-{len(values)}"))] = None
    return list(values)


def _character(chance: random.Random) -> int:
    """Any character but the null and the halves of pairs."""
    while True:
        code = chance.choice((chance.randrange(1, 128), chance.randrange(1, 0x3000), chance.randrange(1, 0x110000)))
        if not 0xD800 <= code <= 0xDFFF:
            return code


def _distinct(values: list[str], canary: Path) -> list[str]:
    return list(dict.fromkeys(value.replace("CANARY", str(canary / f"hand-{at}")) for at, value in enumerate(values)))
