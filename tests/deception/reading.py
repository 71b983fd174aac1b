"""How a patient reader gets a text back from what was printed of it: `visible` backwards, written apart."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

_MARK = re.compile(
    "(?P<rtl>⟨right-to-left⟩|⟨end⟩)"
    "|⟨(?P<count>[0-9]+) (?P<blank>spaces|tabs|line ends)⟩"
    "|⟨[0-9]+ invisible tag characters: (?P<tags>[^⟩]*)⟩"
    "|⟨U\\+(?P<code>[0-9A-F]+) [^⟩]*?(?: ×(?P<times>[0-9]+))?⟩"
    "|(?P<sign>[⏎⇥␍␣])"
)
_BLANKS = {"spaces": " ", "tabs": "\t", "line ends": "\n"}
_SIGNS = {"⏎": "\n", "⇥": "\t", "␍": "\r", "␣": " "}


def unspelled(printed: str) -> str:
    """The text that was spelled so. Fails on a sign that nobody explained."""
    read = _MARK.sub(_meaning, printed)
    assert not set("⟨⟩⏎⇥␍␣") & set(_MARK.sub("", printed)), printed
    return read


def _meaning(mark: re.Match[str]) -> str:
    if mark["rtl"]:
        return ""
    if mark["blank"]:
        return _BLANKS[mark["blank"]] * int(mark["count"])
    if mark["tags"] is not None:
        return "".join(chr(ord(char) + 0xE0000) for char in mark["tags"])
    if mark["code"]:
        return chr(int(mark["code"], 16)) * int(mark["times"] or 1)
    return _SIGNS[mark["sign"]]


_LINE = re.compile(r"(?P<label>.{12}) (?P<bar>[│┆]) (?P<shown>.*)", re.DOTALL)


def values_of(text: str) -> Iterator[tuple[str, str]]:
    """(label, what was printed) of every value of a terminal text, its lines joined."""
    label, shown = "", ""
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            if shown or label:
                yield label, shown
            label, shown = "", ""
        elif found["label"].strip() or not (shown or label):
            if shown or label:
                yield label, shown
            label, shown = found["label"].strip(), found["shown"]
        else:
            shown += found["shown"]


def own_lines(text: str) -> list[str]:
    """The lines that are the service's own: all that have no bar."""
    return [line for line in text.split("\n") if not _LINE.fullmatch(line)]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", ()))

    def handle_decl(self, decl: str) -> None:
        self.elements.append(("declaration", ()))

    def handle_pi(self, data: str) -> None:
        self.elements.append(("instruction", ()))


def read_html(markup: str) -> tuple[set[str], set[str], str]:
    """(elements, attributes, text) of a fragment, as a browser's parser takes it."""
    page = _Page()
    page.feed(markup)
    page.close()
    attributes = {name for _, found in page.elements for name, _ in found}
    return {tag for tag, _ in page.elements}, attributes, "".join(page.text)
