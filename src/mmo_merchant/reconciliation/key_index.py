"""Finds the numbers of records by keys, in a tenth of the memory that a dict of texts takes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from attrs import define, field

# Enough for 268 million records; the rest of the 64 bits of an entry is the tag.
_NUMBER_BITS: Final = 28
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1
_TAG_BITS: Final = 64 - _NUMBER_BITS
_TAG_MASK: Final = (1 << _TAG_BITS) - 1

# The first table has 1,024 entries, which are 8 KiB.
_SMALLEST_BITS: Final = 10


@define
class KeyIndex:
    """Says which records may have a key, by a hash table of eight bytes an entry: a dict takes
    twenty times as much with its keys and numbers.

    An entry has 36 bits of the key's hash, its tag, and the number of the record, from 1. Its place
    is found from the tag's first bits; where that is taken, it is the next free one. Keys of the
    same tag share an entry, so who asks has to compare the key itself."""

    _bits: int = _SMALLEST_BITS
    _entries: array[int] = field(factory=lambda: _empty_entries(_SMALLEST_BITS))
    _count: int = 0
    _more: dict[int, list[int]] = field(factory=dict)
    """The further numbers of a tag."""

    def add(self, key: str, number: int) -> bool:
        """Add a record under a key; return whether none before may have it."""
        # Python's hash is another one in each process: an index is never stored.
        tag = hash(key) & _TAG_MASK
        place = self._place(tag)
        if self._entries[place]:
            self._more.setdefault(tag, []).append(number)
            return False

        # From 1, as an entry of 0 is a free place.
        self._entries[place] = tag << _NUMBER_BITS | number + 1
        self._count += 1
        # Above three quarters the search for a free place becomes long.
        if self._count * 4 > len(self._entries) * 3:
            self._grow()

        return True

    def find(self, key: str) -> Sequence[int]:
        """Return the numbers of the records that may have a key, in the order of adding."""
        tag = hash(key) & _TAG_MASK
        entry = self._entries[self._place(tag)]
        if not entry:
            return ()
        return ((entry & _NUMBER_MASK) - 1, *self._more.get(tag, ()))

    def _place(self, tag: int) -> int:
        """Return where a tag stands, or the free place where it would."""
        entries = self._entries
        # By the tag's first bits, so that a table of twice the size keeps the order of its entries.
        place = tag >> (_TAG_BITS - self._bits)
        while (entry := entries[place]) and entry >> _NUMBER_BITS != tag:
            place = (place + 1) % len(entries)
        return place

    def _grow(self) -> None:
        before = self._entries
        self._bits += 1
        self._entries = _empty_entries(self._bits)
        for entry in before:
            if entry:
                self._entries[self._place(entry >> _NUMBER_BITS)] = entry


def _empty_entries(bits: int) -> array[int]:
    return array("Q", bytes(8 << bits))
