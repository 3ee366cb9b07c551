"""A page as flat lists, and which part of it is the main one.

The tree is flattened once, and everything after that walks the lists: however deep a page is nested, nothing recurses,
and the amount of text below any element is a subtraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

MOST_NODES = 500_000
"""Elements and texts of a page that are read; the rest is left out, and the answer says so."""
TEXT = "-text"
"""What stands in the place of a tag for a text."""
HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}

_LEAST_SHARE = 0.5
"""A marked main part that has less of the page's text than this is not believed."""
_LEAST_TEXT = 500
"""A page with fewer characters of its own is one of links: they are what it has to say."""
_LEAST_LINKS, _MOST_LINKED = 4, 0.7
_DROPPED = (
    "head, script, style, noscript, template, svg, iframe, object, embed, canvas, audio, video, select, button, input,"
    " textarea, dialog, [hidden], [aria-hidden=true], .headerlink, .sr-only, .visually-hidden"
)
_AROUND = (
    "nav, aside, footer, [role=navigation], [role=contentinfo], [role=complementary], [role=search], [role=banner],"
    " [role=menu], [role=menubar]"
)
_MAIN = ("main, [role=main]", "article, [itemprop=articleBody]")
_LISTING = frozenset({"div", "section", "table", "td"})
"""Boxes that are left out when they are little more than links; a list within the text is part of it."""
_STRUCTURE = frozenset({"table", "pre", *HEADINGS})


@dataclass(slots=True)
class FlatTree:
    """A page's elements and texts, in the order of the page. The sums hold what is before each position.

    Attributes:
        tags: The name of each element; `TEXT` for a text.
        nodes: Each element, for its attributes.
        texts: Each text; empty for an element.
        ends: The position after the last one inside each.
        sizes: Sums of characters.
        linked: Sums of characters in links that lead elsewhere.
        links: Sums of such links.
        structures: Sums of tables, code and headings.
        is_cut: Whether the page has more than `MOST_NODES`.
    """

    tags: list[str] = field(default_factory=list[str])
    nodes: list[LexborNode] = field(default_factory=list[LexborNode])
    texts: list[str] = field(default_factory=list[str])
    ends: list[int] = field(default_factory=list[int])
    sizes: list[int] = field(default_factory=lambda: [0])
    linked: list[int] = field(default_factory=lambda: [0])
    links: list[int] = field(default_factory=lambda: [0])
    structures: list[int] = field(default_factory=lambda: [0])
    is_cut: bool = False

    def count_in(self, sums: list[int], at: int) -> int:
        """How many of something an element holds."""
        return sums[self.ends[at]] - sums[at]

    def own_text(self, at: int) -> int:
        """Characters in an element that are no links."""
        return self.count_in(self.sizes, at) - self.count_in(self.linked, at)

    def add_node(self, node: LexborNode, tag: str, text: str, *, is_linked: bool, is_link: bool) -> None:
        """Take the next element or text."""
        size = len(text.strip())
        self.tags.append(tag)
        self.nodes.append(node)
        self.texts.append(text)
        self.ends.append(len(self.tags))
        self.sizes.append(self.sizes[-1] + size)
        self.linked.append(self.linked[-1] + (size if is_linked else 0))
        self.links.append(self.links[-1] + is_link)
        self.structures.append(self.structures[-1] + (tag in _STRUCTURE))


@dataclass(frozen=True, slots=True, kw_only=True)
class MainPart:
    """What of a page is shown.

    Attributes:
        start: The position of the element that is the main part.
        left_out: The positions of elements in it that are left out: menus, footers, lists of links.
    """

    start: int
    left_out: frozenset[int]


def flatten_page(parser: LexborHTMLParser) -> tuple[FlatTree, MainPart]:
    """Walk a page once, and choose its main part."""
    kinds = [_find_nodes(parser, selector) for selector in (_DROPPED, _AROUND, *_MAIN)]
    positions: list[list[int]] = [[] for _ in kinds]
    tree, open_elements, link_end = FlatTree(), list[int](), -1
    node = parser.root
    while node is not None:
        tag, key, descends = node.tag or "", node.mem_id, False
        if len(tree.tags) >= MOST_NODES:
            tree.is_cut = True
            break
        if key not in kinds[0] and (tag == TEXT or not tag.startswith("-")):
            position = len(tree.tags)
            is_link = tag == "a" and _leads_elsewhere(node)
            if is_link and link_end < 0:
                link_end = len(open_elements)
            text = (node.text_content or "") if tag == TEXT else ""
            tree.add_node(node, tag, text, is_linked=link_end >= 0, is_link=is_link)
            for kind, found in zip(kinds, positions, strict=True):
                if key in kind:
                    found.append(position)
            open_elements.append(position)
            descends = node.first_child is not None
        following = node.first_child if descends else node.next
        if not descends and open_elements and tree.nodes[open_elements[-1]] is node:
            link_end = _leave_element(tree, open_elements, link_end)
        while following is None and open_elements:
            parent = tree.nodes[open_elements[-1]]
            link_end = _leave_element(tree, open_elements, link_end)
            following = parent.next
        node = following
    while open_elements:
        _leave_element(tree, open_elements, -1)
    return tree, _choose_main(tree, positions[1], positions[2:])


def _leave_element(tree: FlatTree, open_elements: list[int], link_end: int) -> int:
    tree.ends[open_elements.pop()] = len(tree.tags)
    return -1 if len(open_elements) <= link_end else link_end


def _find_nodes(parser: LexborHTMLParser, selector: str) -> frozenset[int]:
    return frozenset(node.mem_id for node in parser.css(selector))


def _leads_elsewhere(link: LexborNode) -> bool:
    return not (link.attributes.get("href") or "#").lstrip().startswith("#")


def _choose_main(tree: FlatTree, around: list[int], marked: list[list[int]]) -> MainPart:
    """Believe the page's own marks where they hold most of its text; else take the body without lists of links."""
    if not tree.tags:
        return MainPart(start=0, left_out=frozenset())
    around = list(_outermost(tree, around))
    whole = _own_text_without(tree, 0, around)
    for positions in marked:
        sizes = {at: _own_text_without(tree, at, around) for at in _outermost(tree, positions)}
        best = max(sizes, key=sizes.__getitem__, default=None)
        if best is not None and sizes[best] >= max(_LEAST_SHARE * whole, 1):
            return MainPart(start=best, left_out=frozenset(around))
    if whole < _LEAST_TEXT:
        return MainPart(start=0, left_out=frozenset())
    listings = (at for at, tag in enumerate(tree.tags) if tag in _LISTING and _is_listing(tree, at))
    return MainPart(start=0, left_out=frozenset({*around, *listings}))


def _own_text_without(tree: FlatTree, at: int, around: Iterable[int]) -> int:
    return tree.own_text(at) - sum(tree.own_text(one) for one in around if at < one < tree.ends[at])


def _is_listing(tree: FlatTree, at: int) -> bool:
    """Whether an element is little more than links."""
    linked, size = tree.count_in(tree.linked, at), tree.count_in(tree.sizes, at)
    return tree.count_in(tree.links, at) >= _LEAST_LINKS and linked > _MOST_LINKED * size


def _outermost(tree: FlatTree, positions: Iterable[int]) -> Iterator[int]:
    """Those of some positions, which come in order, that are in none of the others."""
    end = 0
    for at in positions:
        if at >= end:
            yield at
            end = tree.ends[at]
