"""Decides where a page of records ends."""

from __future__ import annotations

from collections.abc import Iterable

from mmo_sansio.messages.queries import ListRecords


def count_fitting(sizes: Iterable[int], query: ListRecords) -> int:
    """Return how many of these objects are a page, nearest first: at most `page_size` and `bytes_max`, but one at
    least, so that a walk goes on."""
    total = count = 0
    for size in sizes:
        total += size
        if count == query.page_size or (total > query.bytes_max and count > 0):
            break
        count += 1
    return count
