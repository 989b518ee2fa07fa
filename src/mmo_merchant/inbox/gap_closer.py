"""Closes the gaps that lost callbacks leave: it runs :mod:`mmo_merchant.api.gap_closing` with a
client and an inbox."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

import anyio
import anyio.to_thread

from mmo_merchant.api.gap_closing import (
    POLL_INTERVAL,
    GapProgress,
    GapRules,
    Learned,
    LookUpStep,
    WatchedPayment,
    first_progress,
    learn,
    next_step,
    watch,
)
from mmo_merchant.api.result_inbox import Inbox, take_result
from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_merchant.clients.blocking_client import MerchantClient

# Seconds to wait while another program closes the same gaps: it may be killed, and then we go on.
OTHER_PROGRAM_PAUSE_S: Final = 5.0

ConnectionT = TypeVar("ConnectionT")

log = logging.getLogger("mmo.merchant")


class GapCloser(Generic[ConnectionT]):
    """Hands the results that no callback has brought to the handler of callbacks, each once.

    Any number of programs may run one on the same inbox: together they ask as often as one.
    """

    def __init__(
        self,
        client: MerchantClient,
        inbox: Inbox[ConnectionT],
        handle: Callable[[TransactionObject, ConnectionT], None],
        *,
        rules: GapRules | None = None,
        since: datetime | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare to close gaps. `since` is the earliest creation time of payments that are of
        interest, for the first start on an inbox; by default it is three days ago, the age that a
        pending payment may have."""
        self._client = client
        self._inbox = inbox
        self._handle = handle
        self._rules = rules or GapRules()
        self._since = since
        self._now = now

    def step(self) -> float:
        """Send the one request that is due, if any, and hand over the results in its answer. Return
        the seconds after which to call it again."""
        inbox = self._inbox
        rules = self._rules

        # 1. What is due, by what is stored: other programs may have asked meanwhile.
        progress = self._load_progress()
        watched = inbox.next_watched(progress.through)
        step = next_step(self._client.access, progress, watched, rules=rules, now=self._now())
        if isinstance(step, datetime):
            return max(0.0, (step - self._now()).total_seconds())

        # 2. Stored before it is sent: of several programs one gets the step, and a killed one has
        # asked.
        if isinstance(step, LookUpStep):
            is_ours = inbox.begin_look_up(step.watched, step.asked)
        else:
            is_ours = inbox.save_progress(step.progress)

        if not is_ours:
            return OTHER_PROGRAM_PAUSE_S

        # 3. Ask.
        learned = learn(step, self._client.send(step.request), rules=rules, now=self._now())
        if learned.fault is not None:
            log.warning("gap_request_failed", extra={"fault": str(learned.fault)})

        # 4. Results are handed over before the progress is stored: who is killed in between gets
        # them again, and the inbox takes each once.
        pending = [*learned.watched, *self._hand_over(learned)]
        if learned.progress is not None:
            inbox.save_progress(learned.progress, watched=pending)
        else:
            forgotten = []
            if learned.forgotten is not None:
                forgotten.append(learned.forgotten)

            inbox.save_watched(pending, forgotten=forgotten)

        return 0.0

    def close_due(self) -> float:
        """Send all requests that are due and return the seconds until the next one: for a scheduled
        job, which need not wait for it."""
        while (pause_s := self.step()) == 0.0:
            pass
        return pause_s

    def run(self, stop: threading.Event) -> None:
        """Close gaps until the event is set: in a thread of a web application. Errors of the
        database are logged, and tried again."""
        while not stop.is_set():
            stop.wait(self._step_safely())

    async def run_async(self) -> None:
        """Close gaps until cancelled, on Trio or asyncio; each step runs in a thread."""
        while True:
            pause_s = await anyio.to_thread.run_sync(self._step_safely)
            await anyio.sleep(pause_s)

    def _step_safely(self) -> float:
        try:
            return self.step()
        except Exception:
            # Whatever the handler or the database raises: without this thread no lost result would
            # ever come.
            log.exception("gap_step_failed")
            return POLL_INTERVAL.total_seconds()

    def _load_progress(self) -> GapProgress:
        # Of several programs that begin at once one stores the first progress, and all go on from
        # it.
        progress = self._inbox.load_progress()
        while progress is None:
            self._inbox.save_progress(first_progress(self._now(), self._since))
            progress = self._inbox.load_progress()
        return progress

    def _hand_over(self, learned: Learned) -> list[WatchedPayment]:
        """Hand the results over, and return those payments whose handler has failed: they are asked
        about again."""
        unhandled = []
        for result in learned.results:
            try:
                take_result(self._inbox, result, self._handle)
            except Exception:
                # One result that cannot be handled keeps no other from being handled.
                log.exception(
                    "gap_result_not_handled", extra={"gateway_reference": result.gateway_reference}
                )
                unhandled.append(watch(result, now=self._now()))

        return unhandled
