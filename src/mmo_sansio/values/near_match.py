"""Finds the known name that was probably meant by an unknown one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

# Characters of a name that is compared: the time grows with the product of both lengths.
NAME_MAX: Final = 100

# Names with the unknown one as a part that are all named; of more, the most similar one.
PARTS_MAX: Final = 6

_SEPARATORS: Final = re.compile(r"[\s_-]+")
_PARTS: Final = re.compile(r"[\s_/.-]+")


def closest_name(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the name most similar to this one, or None when none is similar enough.

    Case, underscores, hyphens and white space make no difference. `cutoff` is the least share of
    characters that both have in common, from 0 to 1."""
    # Of names that differ in case alone the first one stays, as later entries overwrite earlier.
    by_folded = {_fold(name): name for name in sorted(known, reverse=True)}
    if len(name) > NAME_MAX:
        return None

    close = difflib.get_close_matches(_fold(name), by_folded, n=1, cutoff=cutoff)
    if close:
        return by_folded[close[0]]

    return None


def near_match(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean NAME?`, or the known names, for an unknown name; empty when nothing is
    known.

    Where the unknown name is a part of several names, as `payin` of `direct/payin`, these are
    named."""
    names = sorted(known)
    # A part of many names says nothing; of one name it is a near match like any other.
    whole = [
        known_name for known_name in names if name.casefold() in _PARTS.split(known_name.casefold())
    ]
    if 1 < len(whole) <= PARTS_MAX:
        return f"Did you mean {', '.join(whole[:-1])} or {whole[-1]}?"

    close = closest_name(name, names)
    if close is not None:
        return f"Did you mean {close}?"
    if names:
        return f"Known are: {', '.join(names)}."

    return ""


def _fold(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()
