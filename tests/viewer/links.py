"""What stands in a page: its text, and where its links and forms lead."""

from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """`links` by their text; `text` without markup; `elements` are all tags with attributes."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.links: dict[str, str] = {}
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self._pieces: list[str] = []
        self._href, self._from = "", 0
        self.feed(source)
        self.text = " ".join("".join(self._pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._pieces.append(" ")
        if tag == "a":
            self._href, self._from = dict(attrs).get("href") or "", len(self._pieces)

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            text = " ".join("".join(self._pieces[self._from :]).split())
            self.links.setdefault(text, self._href)

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)
