"""Declares the inbox of a merchant: it lets each result be handled once, by callbacks and the gap
closer together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from mmo_merchant.api.callback_bodies import CallbackRejected, HasItems, QrDelivery, read_callback
from mmo_merchant.api.gap_closing import GapProgress, WatchedPayment
from mmo_merchant.api.transaction_objects import TransactionObject

ConnectionT = TypeVar("ConnectionT")
ConnectionT_co = TypeVar("ConnectionT_co", covariant=True)


class Inbox(Protocol[ConnectionT_co]):
    """Remembers which results were handled, and how far the gaps are closed, in the merchant's own
    database."""

    # This alone makes a result count once; the other methods are the gap closer's memory.
    def take(self, gateway_reference: str) -> AbstractContextManager[ConnectionT_co | None]:
        """Open a transaction and take the result in it.

        Yields the connection, with which the merchant does its own work: both become durable
        together when the block ends, and neither does if it raises. Yields None when the result was
        taken before. Of two that take it at the same time, one waits for the other."""

    def load_progress(self) -> GapProgress | None:
        """Return the progress that was stored last; None when there is none."""

    def save_progress(
        self, progress: GapProgress, *, watched: Sequence[WatchedPayment] = ()
    ) -> bool:
        """Store the progress and the watched payments, in one transaction.

        Returns False and stores nothing unless the stored progress has the version just before this
        one; the first progress has the version 0."""

    def begin_look_up(self, watched: WatchedPayment, asked: WatchedPayment) -> bool:
        """Store when a watched payment may be asked about after this look-up; return False, and
        store nothing, unless it is still watched as it was."""

    def save_watched(
        self, watched: Sequence[WatchedPayment], *, forgotten: Sequence[str] = ()
    ) -> None:
        """Store the watched payments, and no longer watch the forgotten ones, in one
        transaction."""

    def next_watched(self, created_before: datetime) -> WatchedPayment | None:
        """Return the watched payment with the earliest `ask_at` of those that were created before
        this time and whose results were not taken; None when there is none."""


def take_result(
    inbox: Inbox[ConnectionT],
    result: TransactionObject,
    handle: Callable[[TransactionObject, ConnectionT], None],
) -> bool:
    """Hand a result to the handler unless it was taken before, and return whether it was new. What
    the handler raises is raised: then the result is not taken, and will come again."""
    with inbox.take(result.gateway_reference) as connection:
        # None: the callback came twice, or the gap closer was faster. Its effect must not come
        # twice.
        if connection is None:
            return False
        handle(result, connection)

    return True


def receive_callback(
    headers: HasItems,
    body: bytes,
    *,
    keys: Sequence[str],
    inbox: Inbox[ConnectionT],
    handle: Callable[[TransactionObject, ConnectionT], None],
    on_qr_code: Callable[[QrDelivery], None] | None = None,
) -> int:
    """Verify a callback and hand its result over once; return the HTTP status to answer with.

    That is 204 for a result, new or repeated, and for a QR code, which may arrive twice; 401 for a
    wrong key; 400 for another body. What a handler raises is raised: answer with 500, and the gap
    closer brings the result again."""
    try:
        # Before any look at the database: anybody can call this URL (A4).
        received = read_callback(headers, body, keys)
    except CallbackRejected as error:
        return error.status

    match received:
        case QrDelivery():
            # The code is shown, and shown again if it comes again: it needs no place in the inbox.
            if on_qr_code is not None:
                on_qr_code(received)
        case TransactionObject():
            take_result(inbox, received, handle)

    return 204
