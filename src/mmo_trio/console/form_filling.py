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

    # Between the edits the page stays as it was written, character by character.
    parts: list[str] = []
    end = 0
    for begin, (old, new) in sorted(filling.edits.items()):
        parts += [page[end:begin], new]
        end = begin + len(old)

    return "".join([*parts, page[end:]])


class _Filling(HTMLParser):
    """Finds the tags of a page to change, and how.

    The page is not written anew from what was parsed: each edit replaces the text of one tag, or
    inserts text behind it."""

    def __init__(
        self, page: str, action: str, fields: Sequence[Sequence[str]], fresh: Set[str]
    ) -> None:
        super().__init__()

        # By the place in the page where it begins: the old text, and the new one in its place.
        self.edits: dict[int, tuple[str, str]] = {}

        self._action = action
        self._fields = fields
        self._fresh = fresh

        # The parser tells lines and columns; edits are by characters from the beginning.
        self._line_starts = [0, *accumulate(len(line) + 1 for line in page.split("\n"))]

        # Whether the present place is in the form of the action.
        self._is_inside = False

        # The `details` around the present place: where each begins, and its text.
        self._folded: list[tuple[int, str]] = []

        # The name of the present control; the options of a `select` have none of their own.
        self._name: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line, column = self.getpos()
        at = self._line_starts[line - 1] + column
        text = self.get_starttag_text() or ""
        attributes = dict(attrs)

        if tag == "details":
            self._folded.append((at, text))
        elif tag == "form" and unquote(attributes.get("action") or "") == self._action:
            self._is_inside = True
            # What folds the form away is opened, or nobody would see what was typed.
            self.edits |= {
                begin: (details, f"{details[:-1]} open>") for begin, details in self._folded
            }
        elif self._is_inside and tag in ("input", "select", "option", "textarea"):
            # An option belongs to the `select` around it, whose name stays.
            if tag != "option":
                self._name = attributes.get("name")

            if self._name not in self._fresh:
                self._fill(tag, at, text, attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif tag == "details":
            self._folded.pop()

    def _fill(self, tag: str, at: int, text: str, attributes: dict[str, str | None]) -> None:
        """Replace the tag that begins here by one with what was typed for the present name."""
        typed = [value for name, value in self._fields if name == self._name]

        # 1. Choices have a mark. What a box sends that has no value of its own is `on` (HTML).
        choice = attributes.get("value") or ""
        mark = ""
        if tag == "option":
            mark = "selected"
        elif attributes.get("type") in ("checkbox", "radio"):
            mark = "checked"
            choice = choice or "on"

        if mark:
            attributes.pop(mark, None)
            if choice in typed:
                attributes[mark] = None

        # 2. What is written stands in an attribute, or behind the tag of a `textarea`.
        elif tag == "input" and typed:
            attributes["value"] = typed[0]
        elif tag == "textarea" and typed:
            self.edits[at + len(text)] = ("", str(escape(typed[0])))

        words = [
            name if value is None else f'{name}="{escape(value)}"'
            for name, value in attributes.items()
        ]
        self.edits[at] = (text, f"<{' '.join([tag, *words])}>")
