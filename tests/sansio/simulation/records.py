"""Paging through a brand's records while they are written: the store's promise (R6, R7) as a small
model."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import Factory, define, evolve

from mmo_sansio.messages.queries import ListRecords, Position
from mmo_sansio.values.model import Transaction


def position(row: Transaction) -> Position:
    """Where it stands among its brand's records."""
    return Position(row.order.created_at, row.reference)


def place(row: Transaction) -> tuple[int, str]:
    """The key of the total order."""
    return row.order.created_at, row.reference


def spot(at: Position) -> tuple[int, str]:
    """The same key of a position."""
    return at.created_at, at.gateway_reference


def page(rows: Iterable[Transaction], query: ListRecords) -> tuple[list[Transaction], bool]:
    """The rows of one page, in ascending order, and whether more follow in the direction that is
    walked."""
    after = spot(query.after) if query.after else None
    before = spot(query.before) if query.before else None
    found = sorted(
        (
            row
            for row in rows
            if row.order.brand == query.brand
            and query.begin <= row.order.created_at < query.end
            and (query.status is None or row.status is query.status)
            and (after is None or place(row) > after)
            and (before is None or place(row) < before)
        ),
        key=place,
    )
    size = query.page_size
    cut = found[-size:] if before is not None else found[:size]
    return cut, len(found) > size


@define
class Walk:
    """One reader, who takes a page now and then, forwards to the end and then back."""

    query: ListRecords
    expected: list[str]
    """What stood in the window when the walk began."""
    seen: list[str] = Factory(list)
    seen_back: list[str] = Factory(list)
    is_over: bool = False

    def take(self, found: list[Transaction], more: bool) -> None:
        """Read this page and know what to ask for next: on to the end, then back to the
        beginning."""
        names = [row.reference for row in found]
        if self.query.before is None:
            self.seen += names
            if more:
                self.query = evolve(self.query, after=position(found[-1]))
            elif found:
                self.query = evolve(self.query, after=None, before=position(found[-1]))
                self.seen_back = names[-1:]
            else:
                self.is_over = True
        else:
            self.seen_back = names + self.seen_back
            if more:
                self.query = evolve(self.query, before=position(found[0]))
            else:
                self.is_over = True
