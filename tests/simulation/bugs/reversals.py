"""Bugs of reversals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from attrs import evolve

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import (
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalUnreachable,
)
from mmo_sansio.payments.rules import reversals as rules
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Source
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts, SimulatedMtnPayment
from mmo_trio.admin import reversals as admin
from mmo_trio.workers.providers.reversals import ReversalWorker


def reversal_sent_twice() -> AbstractContextManager[object]:
    """A worker repeats each request for money back, whatever is answered."""
    converse = ReversalWorker._converse

    async def converse_twice(
        self: ReversalWorker, woken: ReversalApplied, is_to_be_sent: bool, began_at: float
    ) -> ReversalReport:
        report = await converse(self, woken, is_to_be_sent, began_at)
        return await converse(self, woken, is_to_be_sent, began_at) if is_to_be_sent else report

    return patch.object(ReversalWorker, "_converse", converse_twice)


@contextmanager
def what_was_asked_back_left_all() -> Iterator[None]:
    """As much of a payment may be asked back, approved and sent as was paid, whatever was asked
    back before; and one operator sends back whatever it is asked for."""
    transfer = SimulatedMtnAccounts._transfer

    def left(paid: Money, reversals: Iterable[Reversal], *, beside: int | None = None) -> Money:
        return paid

    def transfer_anyway(
        self: SimulatedMtnAccounts, payment: SimulatedMtnPayment, *, now: Instant
    ) -> str:
        refunded = self._refunded_payment(payment.document)
        if refunded is not None:
            refunded.refunded_minor = 0
        return transfer(self, payment, now=now)

    with (
        patch.object(rules, "left_of", left),
        patch.object(admin, "left_of", left),
        patch.object(SimulatedMtnAccounts, "_transfer", transfer_anyway),
    ):
        yield


def lost_reversal_taken_for_failure() -> AbstractContextManager[object]:
    """A reversal has failed when its operator does not answer."""

    def fail(report: ReversalReport) -> ReversalReport:
        if isinstance(report, ReversalUnreachable):
            failed = (report.reversal, report.provider, Source.POLL, report.reason)
            return ReversalFailed(*failed, version=report.version)
        return report

    return _reports_changed(fail)


def answers_without_their_questions() -> AbstractContextManager[object]:
    """No report of a conversation names what it answers."""

    def unname(report: ReversalReport) -> ReversalReport:
        if isinstance(report, ReversalNeverReceived):
            return report
        unnamed: ReversalReport = evolve(report, version=None)
        return unnamed

    return _reports_changed(unname)


def _reports_changed(
    change: Callable[[ReversalReport], ReversalReport],
) -> AbstractContextManager[object]:
    converse = ReversalWorker._converse

    async def converse_and_change(
        self: ReversalWorker, woken: ReversalApplied, is_to_be_sent: bool, began_at: float
    ) -> ReversalReport:
        return change(await converse(self, woken, is_to_be_sent, began_at))

    return patch.object(ReversalWorker, "_converse", converse_and_change)
