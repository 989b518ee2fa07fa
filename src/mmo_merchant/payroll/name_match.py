"""Compares the names of people as files and operators write them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from mmo_sansio.values.payees import MASK

# Whatever stands between words; masked letters are part of them.
_NO_WORD: Final = re.compile(rf"[^\w{re.escape(MASK)}]+")


def names_agree(one: str, other: str) -> bool:
    """Tell whether two names may be one person's: in any order, of any case, with or without
    accents, and with letters that an operator has masked. One of them may have more parts than the
    other, of which two at least are then the same."""
    shorter, longer = sorted((_words(one), _words(other)), key=len)
    # One name alone agrees with those of too many people.
    if len(shorter) < len(longer) and len(shorter) < 2:
        return False

    # Each part of a name counts once: Juma Juma is not Juma Ali.
    rest = list(longer)
    for word in shorter:
        fitting = next((candidate for candidate in rest if _fits(word, candidate)), None)
        if fitting is None:
            return False

        rest.remove(fitting)

    return bool(shorter)


def _words(name: str) -> list[str]:
    # Accents become signs of their own, which are left out; an apostrophe parts no word, as in
    # N'Golo.
    plain = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return [word for word in _NO_WORD.split(plain.replace("'", "").replace("\u2019", "")) if word]


def _fits(one: str, other: str) -> bool:
    """Tell whether two words are the same but for masked letters, of which there may be any
    number."""
    if MASK not in one and MASK not in other:
        return one == other

    # The one with masked letters is the pattern, whichever it is.
    if MASK in one:
        word, pattern = other, one
    else:
        word, pattern = one, other

    # Letters between two masks are not compared, as their places are unknown.
    first, *_, last = pattern.split(MASK)
    return word.startswith(first) and word.endswith(last)
