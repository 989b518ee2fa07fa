"""A cache of transactions that were just written, so that the next decision needn't read and parse them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from attrs import Factory, define

from mmo_sansio.values.model import Transaction

CACHED_MAX = 2_048
"""Transactions in the cache: a payment's first decisions follow within a second or so. Each is some thirty objects,
which the garbage collector scans again and again, so more of them would cost what they save."""


@define
class RecentTransactions:
    """Belongs to the one connection that writes; valid as long as no other process writes."""

    _transactions: dict[str, Transaction] = Factory(dict)
    """By gatewayReference, the newest write at the end."""
    _data_version: int | None = None

    def drop_if_stale(self, connection: sqlite3.Connection) -> None:
        """Empty the cache if another process has written meanwhile; to be called inside each transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self.clear()
            self._data_version = version

    def get(self, gateway_reference: str) -> Transaction | None:
        """Return the transaction as it is stored, or None when it has to be read."""
        return self._transactions.get(gateway_reference)

    def add(self, transactions: Iterable[Transaction]) -> None:
        """Add what is about to be committed; call `clear` if the commit fails."""
        for each in transactions:
            self._transactions.pop(each.reference, None)
            self._transactions[each.reference] = each
        while len(self._transactions) > CACHED_MAX:
            del self._transactions[next(iter(self._transactions))]

    def discard(self, references: Iterable[str]) -> None:
        """Remove these payments, which were changed without a decision."""
        for each in references:
            self._transactions.pop(each, None)

    def clear(self) -> None:
        """Empty the cache: a commit failed, or another process has written."""
        self._transactions.clear()
        self._data_version = None
