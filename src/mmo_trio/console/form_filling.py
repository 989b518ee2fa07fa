"""Fills a form of a page with what was typed into it before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from html.parser import HTMLParser
from itertools import accumulate
from typing import TypeAlias
from urllib.parse import unquote

from markupsafe import escape

_Attributes: TypeAlias = Mapping[str, str | None]


def fill_form(page: str, action: str, fields: Sequence[tuple[str, str]], *, fresh: Set[str]) -> str:
    """Return the page with these values in its form with this action, which is shown where it was folded; unchanged
    where it has none. The fields of `fresh` stay as they are."""
    filling = _Filling(page, action, fields, fresh)
    filling.feed(page)
    parts, end = list[str](), 0
    for begin, (length, text) in sorted(filling.edits.items()):
        parts += [page[end:begin], text]
        end = begin + length
    return "".join([*parts, page[end:]])


class _Filling(HTMLParser):
    """Finds the tags of a page to change."""

    def __init__(self, page: str, action: str, fields: Sequence[tuple[str, str]], fresh: Set[str]) -> None:
        super().__init__()
        self.edits: dict[int, tuple[int, str]] = {}
        """What replaces how many characters, by where they begin."""
        self._line_starts = [0, *accumulate(len(line) + 1 for line in page.split("\n"))]
        self._action, self._fields, self._fresh = action, fields, fresh
        self._is_inside = False
        self._folded: list[tuple[int, str]] = []
        """The `details` around the present place."""
        self._choice = ""
        """The name of the present `select`."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes, text = dict(attrs), self.get_starttag_text() or ""
        if tag == "form" and unquote(attributes.get("action") or "") == self._action:
            self._is_inside = True
            for at, each in self._folded:
                self.edits[at] = (len(each), f"{each[:-1]} open>")
        elif tag == "details":
            self._folded.append((self._at(), text))
        elif self._is_inside:
            changed = self._filled(tag, attributes)
            if changed is not None:
                self.edits[self._at()] = (len(text), _start_tag(tag, changed))
            if tag == "textarea" and (values := self._values(attributes)):
                self.edits[self._at() + len(text)] = (0, str(escape(values[0])))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif tag == "details":
            self._folded.pop()

    def _filled(self, tag: str, attributes: _Attributes) -> _Attributes | None:
        """Return the attributes of a control with its value; None where it stays as it is."""
        if tag == "select":
            self._choice = attributes.get("name") or ""
        if tag == "option":
            chosen = [value for name, value in self._fields if name == self._choice]
            return _with_mark(attributes, "selected", is_set=attributes.get("value") in chosen)
        if tag != "input" or attributes.get("name") in self._fresh:
            return None
        values = self._values(attributes)
        if attributes.get("type") in ("checkbox", "radio"):
            return _with_mark(attributes, "checked", is_set=(attributes.get("value") or "on") in values)
        return {**attributes, "value": values[0]} if values else None

    def _values(self, attributes: _Attributes) -> Sequence[str]:
        return [value for name, value in self._fields if name == attributes.get("name")]

    def _at(self) -> int:
        line, column = self.getpos()
        return self._line_starts[line - 1] + column


def _with_mark(attributes: _Attributes, mark: str, *, is_set: bool) -> _Attributes:
    rest = {name: value for name, value in attributes.items() if name != mark}
    return rest | {mark: None} if is_set else rest


def _start_tag(tag: str, attributes: _Attributes) -> str:
    words = [name if value is None else f'{name}="{escape(value)}"' for name, value in attributes.items()]
    return f"<{' '.join([tag, *words])}>"
