"""Says what a batch may be decided from without a load, as its commit finds out what is wrong.

Nearly every create names a new merchantReference. Where that has been so of late, the references of
creates count as new, and the brands on hold as those that were loaded last: the key of a
reference's first use is unique, nothing may be created at or below the horizon, and nothing is
submitted of a brand on hold.

Nearly every step of a payment follows one that the same process has committed a moment ago. Each
version of a payment is written once, and the next one is written only over the version that it was
decided from; a callback is concluded only where it is still open. So a payment that moves, or whose
callback is concluded, may be decided from what was committed last. A server that has taken over may
lack that, or have another payment of the same version: what was committed counts only on sessions
that were open by then, which end with their server.

When something does not hold nothing is stored, and the batch is loaded and decided as any other. So
is one of which the commit would not find out everything, such as an input that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg
from attrs import Factory, define, frozen

from mmo_sansio.messages.intents import DurableIntent, IntentKey, IntentKind
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.postgres.batch_load import LoadedBatch
from mmo_trio.storage.postgres.commits import Commit
from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error
from mmo_trio.storage.postgres.statements import KnownBrands
from mmo_trio.storage.postgres.trio_connection import PostgresConnection
from mmo_trio.storage.sql.net_effect import NetEffect

T = TypeVar("T")

# Batches in a row that must have loaded new references only before the next ones count as new.
LOADS_BEFORE_ASSUMPTION: Final = 4

# Payments under way that are remembered, some megabytes.
COMMITTED_MAX: Final = 4_096

# Seconds for which a payment is remembered that nothing happens to here.
COMMITTED_FOR_S: Final = 600.0


@frozen
class CommittedPayment:
    """A payment as this process has committed it last."""

    transaction: Transaction
    callback: DurableIntent | None
    """The intent to call back, if that commit has scheduled it, or found it open."""
    began_at: float
    """When that commit began, by Trio's clock."""


@define(eq=False)
class Assumptions:
    """Remembers whether references were new of late, the horizon and the brands on hold that were
    loaded last, and the payments that this process has committed last."""

    _known_brands: KnownBrands
    _loads_without_use: int = 0
    _not_before: Instant = Instant(0)
    _held_brands: frozenset[str] = frozenset()
    _committed: dict[str, CommittedPayment] = Factory(dict)
    """By gatewayReference, the one committed longest ago first."""

    def working_set(self, reads: Reads, connection: PostgresConnection) -> LoadedBatch | None:
        """Return what a load would most likely return; None when it has to be loaded."""
        # 1. Only references, payments and callbacks are assumed; all else is loaded.
        if reads.deposits or reads.claims or reads.usage or reads.reversals:
            return None
        if reads.references and self._loads_without_use < LOADS_BEFORE_ASSUMPTION:
            return None

        # A submission that is to begin would fail its payment for a hold that may have ended since.
        if reads.held_brands and self._held_brands and reads.transactions:
            return None

        ledger = Ledger(
            prefetched=reads, not_before=self._not_before, held_brands=self._held_brands
        )

        # 2. Payments as they were committed here, on a session that was open by then.
        for reference in reads.transactions:
            known = self._committed.get(reference)
            if known is None or known.began_at < connection.opened_at:
                return None

            ledger.transactions[reference] = known.transaction

        # 3. Callbacks that were scheduled here. Fence 0: never claimed by an owner of the channel.
        fences: dict[IntentKey, int] = {}
        for key in reads.intents:
            known = self._committed.get(key[0])
            if key[1] is not IntentKind.CALLBACK or known is None or known.callback is None:
                return None

            ledger.intents[key] = known.callback
            fences[key] = 0

        return LoadedBatch(ledger, {}, fences, self._known_brands)

    def learn_load(self, reads: Reads, loaded: LoadedBatch) -> None:
        """Remember what a batch has loaded."""
        self._not_before = loaded.ledger.not_before
        self._held_brands = loaded.ledger.held_brands
        if loaded.reference_use_counts:
            self._loads_without_use = 0
        elif reads.references:
            self._loads_without_use += 1

    def learn_commit(self, effect: NetEffect, began_at: float) -> None:
        """Remember the payments under way that a commit has written, which began at this time of
        Trio's clock and has certainly taken place."""
        committed = self._committed
        for reference, kind in effect.concluded:
            if kind is IntentKind.CALLBACK:
                committed.pop(reference, None)

        for transaction in effect.written_transactions:
            reference = transaction.reference
            callback = effect.scheduled.get((reference, IntentKind.CALLBACK))

            # Taken out first, so that it moves to the end.
            committed.pop(reference, None)
            if callback is not None or not transaction.progress.stage.is_terminal:
                committed[reference] = CommittedPayment(transaction, callback, began_at)

        # Those that nothing has happened to for long, and the oldest where there are too many.
        while committed:
            oldest = next(iter(committed))
            is_old = committed[oldest].began_at < began_at - COMMITTED_FOR_S
            if not is_old and len(committed) <= COMMITTED_MAX:
                break

            del committed[oldest]

    @contextmanager
    def discard_if_wrong(self, reads: Reads, commit: Commit[T]) -> Iterator[None]:
        """Within the block, let a commit fail whose assumption was wrong; it may be used again."""
        try:
            yield
        except psycopg.Error as error:
            if classify_error(error) is not PostgresErrorKind.CONFLICT:
                raise

            # The next attempt loads, and so do later batches until it has held again.
            self._loads_without_use = 0
            for reference in reads.transactions:
                self._committed.pop(reference, None)

            # Nothing was stored, so there is no outcome to ask for.
            commit.results.clear()


def is_found_out(reads: Reads, effect: NetEffect) -> bool:
    """Return whether the commit of this effect finds out whether something else is stored than what
    it was decided from."""
    return not effect.is_empty and all(
        reference in effect.advanced or (reference, IntentKind.CALLBACK) in effect.concluded
        for reference in reads.transactions
    )
