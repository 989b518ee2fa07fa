"""Transactions that were written a moment ago, so that the next decision about them needn't read and parse them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from attrs import Factory, define

from mmo_sansio.values.model import Transaction

CACHED_MAX = 2_048
"""Transactions that are remembered: a payment's first decisions follow within a second or so. Each is some thirty
objects, which the garbage collector looks through again and again, so more of them would cost what they save."""


@define
class RecentTransactions:
    """Belongs to the one connection that writes; only as good as what nobody else has written since."""

    _transactions: dict[str, Transaction] = Factory(dict)
    """By gatewayReference, the one written last at the end."""
    _data_version: int | None = None

    def drop_if_stale(self, connection: sqlite3.Connection) -> None:
        """Called inside each transaction: forget everything when another process has written meanwhile."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version:
            self.clear()
            self._data_version = version

    def get(self, gateway_reference: str) -> Transaction | None:
        """The transaction as it is stored, or None when it has to be read."""
        return self._transactions.get(gateway_reference)

    def add(self, transactions: Iterable[Transaction]) -> None:
        """Remember what is about to be committed; `forget` if it isn't."""
        for each in transactions:
            self._transactions.pop(each.reference, None)
            self._transactions[each.reference] = each
        while len(self._transactions) > CACHED_MAX:
            del self._transactions[next(iter(self._transactions))]

    def clear(self) -> None:
        """Read everything again: a commit failed, or somebody else has written."""
        self._transactions.clear()
        self._data_version = None
