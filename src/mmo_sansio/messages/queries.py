"""Defines queries, which change nothing and never reach `decide`, and their results (clauses L1,
L2, R1 to R7; reversals are beside the specification)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from attrs import frozen

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Type

# The figures of the specification (R4).
RECORDS_PAGE_DEFAULT = 50
RECORDS_PAGE_MAX = 5_000

# Bytes of the transaction objects of one page: some 1,600 for each of the most rows that a page may
# have, where an object may have 60,000.
RECORDS_BYTES_MAX = 8 * 1024 * 1024


@frozen
class LookUp:
    """Select one transaction of a brand by its gatewayReference (L1)."""

    brand: str
    gateway_reference: str
    """In upper case."""


@frozen
class LookUpByMerchantReference:
    """Select the newest transaction of a brand with this merchantReference (L2, C12)."""

    brand: str
    merchant_reference: str


@frozen(order=True)
class Position:
    """A position lies between two rows of a brand's records in their total order: (createdAt,
    gatewayReference), ascending."""

    created_at: Instant
    gateway_reference: str


@frozen
class ListRecords:
    """Select a page of a brand's transactions (R1 to R7)."""

    brand: str
    begin: Instant
    """Earliest creation time, inclusive."""
    end: Instant
    """Latest creation time, exclusive."""
    type: Type | None = None
    method: str | None = None
    status: Status | None = None
    page_size: int = RECORDS_PAGE_DEFAULT
    after: Position | None = None
    """Return the rows that follow this position; None: from the beginning of the window."""
    before: Position | None = None
    """Return the rows just before this position instead, still in ascending order. At most one of
    the two is set."""
    # Most rows are small; without this bound a page of the largest ones would take 300 MB.
    bytes_max: int = RECORDS_BYTES_MAX
    """The page ends before its objects have more bytes than this, but not before its first row.
    `page_size` is a most, so a page that ends early is a page like any other (R4), and its
    neighbours go on where it ends (R6)."""


# Payments of one page of reversals: each is read with its transaction.
REVERSALS_PAGE_MAX: Final = 500


@frozen
class ListReversals:
    """Select a page of a brand's payments of which money was asked back, each with all its
    reversals, in the order of (changedAt, gatewayReference): a change moves a payment to the end,
    so who goes on from the last page misses none."""

    brand: str
    begin: Instant
    """When a reversal of the payment was asked for or ended last: earliest, inclusive."""
    end: Instant
    """Latest, exclusive."""
    page_size: int = RECORDS_PAGE_DEFAULT
    """At most REVERSALS_PAGE_MAX payments come, whatever it is."""
    after: Position | None = None
    """As in ListRecords, with `changedAt` for `createdAt`."""
    before: Position | None = None


PagedQuery: TypeAlias = ListRecords | ListReversals


@frozen
class Records:
    """Holds the result of a PagedQuery."""

    objects: tuple[bytes, ...]
    """Transaction objects as in all responses (T4), or objects of reversed payments, in ascending
    order."""
    first: Position | None
    """The position of the first row; of an empty page that between the rows around it, None when
    there are none."""
    last: Position | None
    has_previous: bool
    """Whether a matching row precedes the first."""
    has_next: bool
    simulated: tuple[bool, ...] = ()
    """For each object, whether no money moves by its payment: the gateway's own remark, of which
    merchants' objects say nothing."""

    @property
    def marked_objects(self) -> Iterator[tuple[bytes, bool]]:
        """Yield the objects, each with its remark."""
        return zip(self.objects, self.simulated, strict=True)


def empty_page(query: PagedQuery, *, has_opposite: bool) -> Records:
    """Return the page of a query that no row is in any more. It leads to the place from which it
    was reached, if a row is there (`has_opposite`): the position that was named belongs to it
    (R6)."""
    # The place where the page would have been: who turns round finds the rows from there on.
    place = place_beside(query)
    return Records(
        (),
        place,
        place,
        query.after is not None and has_opposite,
        query.before is not None and has_opposite,
    )


def place_beside(query: PagedQuery) -> Position | None:
    """Return the position between a page and the row at which it was reached; None for the first
    page of a query."""
    # Just below the reference of the row, or just above it: no reference lies between, as all have
    # the same length.
    if query.before is not None:
        return Position(query.before.created_at, query.before.gateway_reference[:-1])
    return query.after and Position(query.after.created_at, query.after.gateway_reference + "0")


AnyLookUp: TypeAlias = LookUp | LookUpByMerchantReference
Query: TypeAlias = AnyLookUp | PagedQuery
