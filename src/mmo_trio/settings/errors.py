"""What stops a start: a setting that can't be used, said in a way that helps."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SettingsError(Exception):
    """A wrong key or value. The message names it and where it stands, what is wrong, and the remedy."""

    def __init__(self, location: str, fault: str, remedy: str) -> None:
        super().__init__(f"{location}: {fault} {remedy}".rstrip())
        self.location = location
        """The key or variable, and the file that it stands in."""
        self.fault = fault
        self.remedy = remedy


class InvalidSettingValue(ValueError):
    """Text or a value that is no acceptable one; the message says what would be."""


def near_match(name: str, known: Iterable[str]) -> str:
    """`Did you mean NAME?`, or what there is, for a name that isn't known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]}?"
    return f"Known are: {', '.join(names)}."
