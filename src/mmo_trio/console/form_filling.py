"""Fills a form of a page with what was typed into it before."""

from __future__ import annotations

from collections.abc import Sequence, Set
from html.parser import HTMLParser
from itertools import accumulate
from urllib.parse import unquote

from markupsafe import escape


def fill_form(page: str, action: str, fields: Sequence[Sequence[str]], *, fresh: Set[str]) -> str:
    """Return the page with these pairs of names and values in its form with this action, which is
    shown where it was folded; unchanged where it has none. The fields of `fresh` stay as they
    are."""
    filling = _Filling(page, action, fields, fresh)
    filling.feed(page)
    parts, end = list[str](), 0
    for begin, (old, new) in sorted(filling.edits.items()):
        parts += [page[end:begin], new]
        end = begin + len(old)
    return "".join([*parts, page[end:]])


class _Filling(HTMLParser):
    """Finds the tags of a page to change."""

    def __init__(
        self, page: str, action: str, fields: Sequence[Sequence[str]], fresh: Set[str]
    ) -> None:
        super().__init__()

        # What is replaced by what, by where it begins.
        self.edits: dict[int, tuple[str, str]] = {}
        self._line_starts = [0, *accumulate(len(line) + 1 for line in page.split("\n"))]
        self._action, self._fields, self._fresh = action, fields, fresh
        self._is_inside = False

        # The `details` around the present place.
        self._folded: list[tuple[int, str]] = []

        # The name of the present control; the options of a `select` have none of their own.
        self._name: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line, column = self.getpos()
        at, text, attributes = (
            self._line_starts[line - 1] + column,
            self.get_starttag_text() or "",
            dict(attrs),
        )
        if tag == "details":
            self._folded.append((at, text))
        elif tag == "form" and unquote(attributes.get("action") or "") == self._action:
            self._is_inside = True
            self.edits |= {begin: (tag, f"{tag[:-1]} open>") for begin, tag in self._folded}
        elif self._is_inside and tag in ("input", "select", "option", "textarea"):
            if tag == "option":
                self._name = self._name
            else:
                self._name = attributes.get("name")
            if self._name not in self._fresh:
                self._fill(tag, at, text, attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif tag == "details":
            self._folded.pop()

    def _fill(self, tag: str, at: int, text: str, attributes: dict[str, str | None]) -> None:
        values = [value for name, value in self._fields if name == self._name]
        mark = "selected" if tag == "option" else "checked"
        if tag == "option" or attributes.get("type") in ("checkbox", "radio"):
            attributes.pop(mark, None)
            if (attributes.get("value") or ("" if tag == "option" else "on")) in values:
                attributes[mark] = None
        elif tag == "input" and values:
            attributes["value"] = values[0]
        elif tag == "textarea" and values:
            self.edits[at + len(text)] = ("", str(escape(values[0])))

        words = [
            name if value is None else f'{name}="{escape(value)}"'
            for name, value in attributes.items()
        ]
        self.edits[at] = (text, f"<{' '.join([tag, *words])}>")
