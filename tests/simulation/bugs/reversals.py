"""Bugs of reversals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import ReversalNeverReceived, ReversalReport
from mmo_sansio.payments.rules import reversals as rules
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.admin import restoration
from mmo_trio.admin import reversals as admin
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.reversals import ReversalWorker


def reversals_not_marked_after_a_restore() -> AbstractContextManager[object]:
    """What had not been sent in the backup is sent again."""

    async def mark_nothing(*_: Any, **__: Any) -> None:
        await trio.lowlevel.checkpoint()

    return patch.object(restoration, "_mark_reversals", mark_nothing)


def reversal_sent_twice() -> AbstractContextManager[object]:
    """A worker repeats each request for money back, whatever is answered."""
    converse = ReversalWorker._converse

    async def converse_twice(
        self: ReversalWorker, woken: ReversalApplied, is_to_be_sent: bool, began_at: float
    ) -> ReversalReport:
        report = await converse(self, woken, is_to_be_sent, began_at)
        return await converse(self, woken, is_to_be_sent, began_at) if is_to_be_sent else report

    return patch.object(ReversalWorker, "_converse", converse_twice)


def sent_reversal_not_asked_after() -> AbstractContextManager[object]:
    """What is on record as sent is left alone: a notification may tell its outcome."""
    due_reversals = Store.due_reversals

    async def unsent(self: Store, now: Instant, *, limit: int) -> Sequence[Reversal]:
        return [
            each
            for each in await due_reversals(self, now, limit=limit)
            if each.state is ReversalState.APPROVED
        ]

    return patch.object(Store, "due_reversals", unsent)


def what_was_asked_back_left_all() -> AbstractContextManager[object]:
    """As much of a payment may be asked back, approved and sent as was paid, whatever was asked
    back before."""

    def left(paid: Money, reversals: Iterable[Reversal], *, beside: int | None = None) -> Money:
        return paid

    plants = ExitStack()
    plants.enter_context(patch.object(rules, "left_of", left))
    plants.enter_context(patch.object(admin, "left_of", left))
    return plants


def answers_without_their_questions() -> AbstractContextManager[object]:
    """No report of a conversation names what it answers."""

    converse = ReversalWorker._converse

    async def converse_unnamed(
        self: ReversalWorker, woken: ReversalApplied, is_to_be_sent: bool, began_at: float
    ) -> ReversalReport:
        report = await converse(self, woken, is_to_be_sent, began_at)
        if isinstance(report, ReversalNeverReceived):
            return report
        unnamed: ReversalReport = evolve(report, version=None)
        return unnamed

    return patch.object(ReversalWorker, "_converse", converse_unnamed)
