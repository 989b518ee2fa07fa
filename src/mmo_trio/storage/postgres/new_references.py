"""A working set that needs no round trip: of creates whose merchantReferences have not been used before.

Nearly every create names a new merchantReference. Where that has been so of late, a batch of creates is decided without
a load, as if all its references were new, and the commit finds out: the key of a reference's first use is unique, and
nothing may be created at or below the horizon. When either does not hold nothing is stored, and the batch is loaded and
decided as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg
from attrs import define

from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.postgres.batch_load import LoadedBatch
from mmo_trio.storage.postgres.brand_statements import KnownBrands
from mmo_trio.storage.postgres.commits import Commit
from mmo_trio.storage.postgres.errors import PostgresErrorKind, classify_error

T = TypeVar("T")

LOADS_BEFORE_ASSUMPTION: Final = 4
"""Batches in a row that must have loaded new references only before the next ones count as new."""


@define(eq=False)
class NewReferences:
    """Remembers whether references were new of late, and the horizon that was loaded last."""

    _known_brands: KnownBrands
    _loads_without_use: int = 0
    _not_before: Instant = Instant(0)

    def working_set(self, reads: Reads) -> LoadedBatch | None:
        """Return what a load would most likely return; None when it has to be loaded."""
        is_likely = self._loads_without_use >= LOADS_BEFORE_ASSUMPTION
        if not is_likely or not reads.references or reads != Reads(references=reads.references):
            return None
        return LoadedBatch(Ledger(prefetched=reads, not_before=self._not_before), {}, {}, self._known_brands)

    def learn(self, reads: Reads, loaded: LoadedBatch) -> None:
        """Remember what a batch has loaded."""
        self._not_before = loaded.ledger.not_before
        if loaded.reference_use_counts:
            self._loads_without_use = 0
        elif reads.references:
            self._loads_without_use += 1

    @contextmanager
    def discard_if_wrong(self, commit: Commit[T]) -> Iterator[None]:
        """Within the block, let a commit fail whose assumption was wrong; it may be used again."""
        try:
            yield
        except psycopg.Error as error:
            if classify_error(error) is not PostgresErrorKind.CONFLICT:
                raise
            self._loads_without_use = 0
            commit.results.clear()
