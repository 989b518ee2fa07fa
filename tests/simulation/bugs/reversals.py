"""Bugs of reversals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import trio

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import ReversalReport, ReversalUnreachable
from mmo_sansio.payments.decision import ignore
from mmo_sansio.payments.rules import reversals as rules
from mmo_sansio.providers.common.interface import ReversalReports
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.admin import restoration
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.reversals import ReversalWorker


def reversals_not_marked_after_a_restore() -> AbstractContextManager[object]:
    """What had not been sent in the backup is sent again."""

    async def mark_nothing(*_: Any, **__: Any) -> None:
        await trio.lowlevel.checkpoint()

    return patch.object(restoration, "_mark_reversals", mark_nothing)


def unanswered_reversal_has_failed() -> AbstractContextManager[object]:
    """A reversal whose request has had no usable answer counts as failed."""
    return _unanswered_as(lambda about: about.failed("No answer."))


def unanswered_reversal_is_sent_again() -> AbstractContextManager[object]:
    """A reversal whose request has had no usable answer counts as never received."""
    return _unanswered_as(lambda about: about.never_received())


def _unanswered_as(change: Callable[[ReversalReports], ReversalReport]) -> AbstractContextManager[object]:
    converse = ReversalWorker._converse

    async def converse_and_change(
        self: ReversalWorker, woken: ReversalApplied, is_to_be_sent: bool, began_at: float
    ) -> ReversalReport:
        report = await converse(self, woken, is_to_be_sent, began_at)
        is_unanswered = is_to_be_sent and isinstance(report, ReversalUnreachable)
        return change(ReversalReports(woken.reversal, woken.reversal.provider)) if is_unanswered else report

    return patch.object(ReversalWorker, "_converse", converse_and_change)


def sent_reversal_not_asked_after() -> AbstractContextManager[object]:
    """What is on record as sent is left alone: a notification may tell its outcome."""
    due_reversals = Store.due_reversals

    async def unsent(self: Store, now: Instant, *, limit: int) -> Sequence[Reversal]:
        return [each for each in await due_reversals(self, now, limit=limit) if each.state is ReversalState.APPROVED]

    return patch.object(Store, "due_reversals", unsent)


def contradiction_of_a_reversal_ignored() -> AbstractContextManager[object]:
    """The first result of a reversal stands, whatever its operator tells later."""
    return patch.object(rules, "_report_after_end", lambda *_, **__: ignore("It has ended."))
