"""Questions that change nothing and never reach `decide`, and their answers (clauses L1, L2, R1 to R7)."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Type

RECORDS_PAGE_DEFAULT = 50
RECORDS_PAGE_MAX = 5_000


@frozen
class LookUp:
    """One transaction of a brand by its gatewayReference (L1)."""

    brand: str
    gateway_reference: str
    """In upper case."""


@frozen
class LookUpByMerchantReference:
    """The newest transaction of a brand with this merchantReference (L2, C12)."""

    brand: str
    merchant_reference: str


@frozen
class Position:
    """A place between two rows of the total order of a brand's records: (createdAt, gatewayReference), ascending."""

    created_at: Instant
    gateway_reference: str


@frozen
class ListRecords:
    """A page of a brand's transactions (R1 to R7)."""

    brand: str
    begin: Instant
    """From this creation time on, inclusive."""
    end: Instant
    """Up to this creation time, exclusive."""
    type: Type | None = None
    method: str | None = None
    status: Status | None = None
    page_size: int = RECORDS_PAGE_DEFAULT
    after: Position | None = None
    """Give the rows that follow this one; None: from the beginning of the window."""
    before: Position | None = None
    """Give the rows just before this one instead, still in ascending order. At most one of the two is set."""


@frozen
class Records:
    """The answer to ListRecords."""

    objects: tuple[bytes, ...]
    """Transaction objects as everywhere (T4), in ascending order."""
    first: Position | None
    """The place of the first row; None when there are none."""
    last: Position | None
    has_previous: bool
    """Whether a matching row precedes the first."""
    has_next: bool


AnyLookUp: TypeAlias = LookUp | LookUpByMerchantReference
Query: TypeAlias = AnyLookUp | ListRecords
