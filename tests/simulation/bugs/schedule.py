"""Bugs of what is due."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from unittest.mock import patch

import trio
from attrs import evolve

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.messages.replies import Reply
from mmo_sansio.values.clock import MINUTE, Instant
from mmo_trio.engine.engine import Sender
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.worker import PaymentCreator
from mmo_trio.workers.scheduler import SCAN_INTERVAL_S, Scheduler, WakeRound


def expiry_after_a_minute() -> AbstractContextManager[object]:
    """Each payment expires a minute after its creation, whatever its terms."""
    create = PaymentCreator.create

    def create_short(
        self: PaymentCreator, asked: CreatePayment, sender: Sender
    ) -> Awaitable[Reply]:
        terms = evolve(asked.terms, pending_timeout=MINUTE)
        return create(self, evolve(asked, terms=terms), sender)

    return patch.object(PaymentCreator, "create", create_short)


def due_payments_never_woken() -> AbstractContextManager[object]:
    """Nothing that is due happens."""

    async def wake_nothing(self: Scheduler, until: Instant) -> WakeRound:
        # What stays due would else be sought fifty times a second for days.
        await trio.sleep(SCAN_INTERVAL_S)
        return WakeRound()

    return patch.object(Scheduler, "_wake_due", wake_nothing)


def polls_dropped() -> AbstractContextManager[object]:
    """No operator is asked what has become of a payment."""
    dispatch = Dispatcher.dispatch

    def dispatch_most(self: Dispatcher, work: WorkItem) -> None:
        if not isinstance(work.intent, PollProvider | PollEnded):
            dispatch(self, work)

    return patch.object(Dispatcher, "dispatch", dispatch_most)
