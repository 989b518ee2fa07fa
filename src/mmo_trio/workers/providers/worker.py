"""Holds conversations with providers: submits payments, asks what became of them, and reports what was learnt.

Before a request that may move money leaves, the engine has to have put on record that it will (`Noted`). A payment is
in one conversation at a time. A conversation ends before the law loses patience with it, and nothing is sent once its
time is over: a process that was stopped and goes on must not send what has been asked about meanwhile (S6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import structlog
import trio
from attrs import Factory, define, evolve, field

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    Input,
    ProviderFailed,
    ProviderNeverReceived,
    ProviderUnreachable,
)
from mmo_sansio.messages.intents import AskProvider, SubmitToProvider
from mmo_sansio.messages.replies import Noted, Reply
from mmo_sansio.providers.common.interface import Conversation, Provider
from mmo_sansio.providers.common.operations import paced, submitted_until
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Transaction
from mmo_trio.engine.engine import Submit
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable, Work
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.conversation import CONVERSATION_S, Exchange, hold
from mmo_trio.workers.providers.counters import (
    REPORTS,
    UNREACHABLE,
    ProviderCounts,
    ProviderStatistics,
)

logger = structlog.get_logger(__name__)

CONVERSATIONS_MAX = 256
"""Conversations with one provider at one time: enough to fill the engine's batches, and a slow provider delays none
but its own payments."""

WAITING_MAX = 10_000
"""Payments that may wait for a conversation with one provider."""

GRACE_S = 20.0
"""How long conversations under way may take once the worker drains."""

RETRY_S = 0.5
"""How long to wait before something is tried again; twice as long each time."""

STORE_RETRY_S_MAX = 15.0
"""The longest wait for a store that can't serve."""

SUBMISSION_RETRY_S_MAX = 300.0
"""The longest wait before a payment that certainly didn't reach its provider is submitted again: each time costs a few
lines in its journal."""


@define(eq=False)
class _Lane:
    """The conversations with one provider."""

    waiting: deque[Work] = Factory(deque)
    talking: int = 0


@define(eq=False)
class ProviderWorker:
    """Takes intents to submit and to ask, from any number of callers."""

    submit: Submit
    providers: Mapping[str, Provider]
    exchange_for: Callable[[str], Exchange]
    """How the provider with this name is reached."""
    now: Callable[[], Instant]
    conversations_max: int = CONVERSATIONS_MAX
    waiting_max: int = WAITING_MAX
    is_closed: Callable[[str], bool] = lambda _: False
    """Whether a person has closed the provider with this name for new payments."""
    _talks: trio.Nursery | None = None
    """For conversations; None while none may begin."""
    _timers: trio.Nursery | None = None
    """For submissions that wait for their time."""
    _lanes: dict[str, _Lane] = Factory(dict)
    _in_hand: dict[str, Work | None] = Factory(dict)
    """By gatewayReference: taken and not finished, with the submission that shall follow."""
    _setbacks: dict[str, int] = Factory(dict)
    """How often in a row a submission certainly didn't reach its provider."""
    _finished: trio.Event = Factory(trio.Event)
    """Set, and replaced, whenever something is finished."""
    _counts: dict[str, ProviderCounts] = field(init=False)
    _dropped: int = 0

    def __attrs_post_init__(self) -> None:
        self._counts = {name: ProviderCounts() for name in self.providers}

    def take_nowait(self, work: Work) -> bool:
        """Take this on; False when there is no room, and then the caller keeps it.

        A question about a payment that is in hand is dropped, as is one without room: it will be asked again. A
        submission of a payment in hand follows when that is finished, as the law may want one because of it.
        """
        is_question = isinstance(work.intent, AskProvider)
        reference = work.intent.gateway_reference
        if reference in self._in_hand:
            if not is_question:
                self._in_hand[reference] = work
            return True
        provider = work.transaction.order.provider
        if provider not in self.providers:
            logger.error("provider is not configured", provider=provider, reference=reference)
            return True
        lane = self._lanes.setdefault(provider, _Lane())
        if len(lane.waiting) >= self.waiting_max:
            self._dropped += is_question
            return is_question
        self._take(lane, work)
        return True

    def has_room(self) -> bool:
        """Whether more can be taken on for every provider."""
        return all(len(lane.waiting) < self.waiting_max for lane in self._lanes.values())

    async def wait_idle(self) -> None:
        """Return once what is in hand now is finished; what is taken on meanwhile isn't waited for."""
        waited_for = frozenset(self._in_hand)
        while not waited_for.isdisjoint(self._in_hand):
            await self._finished.wait()
        await trio.lowlevel.checkpoint()

    def statistics(self) -> ProviderStatistics:
        """What it is doing now and has done so far."""
        lanes, counts = self._lanes.values(), self._counts.values()
        return ProviderStatistics(
            talking=sum(lane.talking for lane in lanes),
            waiting=sum(len(lane.waiting) for lane in lanes),
            submissions=sum(each.submissions for each in counts),
            questions=sum(each.questions for each in counts),
            unreachable=sum(each.reports[UNREACHABLE] for each in counts),
            dropped=self._dropped,
            by_provider=self._counts,
        )

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hold conversations until `drain` is set; then begin none, and leave those under way this many seconds.

        What was not begun is kept by the store; what was cut off will be asked about.
        """
        async with trio.open_nursery() as talks:
            async with trio.open_nursery() as timers:
                self._talks, self._timers = talks, timers
                for lane in self._lanes.values():
                    self._start_waiting(lane)
                task_status.started()
                try:
                    await drain.wait()
                finally:
                    self._talks = self._timers = None
                    timers.cancel_scope.cancel()
            talks.cancel_scope.deadline = trio.current_time() + grace_s

    def _take(self, lane: _Lane, work: Work) -> None:
        reference = work.intent.gateway_reference
        self._in_hand[reference] = None
        setbacks = self._setbacks.get(reference, 0)
        if setbacks and self._timers and isinstance(work.intent, SubmitToProvider):
            wait_s = _patience_s(setbacks, SUBMISSION_RETRY_S_MAX)
            self._timers.start_soon(self._queue_later, lane, work, wait_s)
        else:
            self._queue(lane, work)

    async def _queue_later(self, lane: _Lane, work: Work, wait_s: float) -> None:
        await trio.sleep(wait_s)
        self._queue(lane, work)

    def _queue(self, lane: _Lane, work: Work) -> None:
        lane.waiting.append(work)
        self._start_waiting(lane)

    def _start_waiting(self, lane: _Lane) -> None:
        while self._talks and lane.waiting and lane.talking < self.conversations_max:
            lane.talking += 1
            self._talks.start_soon(self._handle, lane, lane.waiting.popleft())

    async def _handle(self, lane: _Lane, work: Work) -> None:
        reference = work.intent.gateway_reference
        try:
            if isinstance(work.intent, SubmitToProvider):
                await self._submit(work)
            else:
                await self._ask(work)
        except Exception as error:
            logger.error("conversation failed", reference=reference, fault=describe_fault(error))
        finally:
            lane.talking -= 1
            follows = self._in_hand.pop(reference, None)
            if follows is not None:
                self._take(lane, follows)
            self._start_waiting(lane)
            self._finished.set()
            self._finished = trio.Event()

    async def _submit(self, work: Work) -> None:
        """Put the submission on record; only if that was noted, hold the conversation and report its end.

        What was noted has certainly not been taken before; with a provider that is closed, or when its time is over, it
        ends here.
        """
        reference = work.intent.gateway_reference
        reply, told_at = await self._tell(BeginSubmission(reference))
        if not isinstance(reply, Noted):
            self._setbacks.pop(reference, None)
            return
        transaction = reply.transaction
        provider = self.providers[transaction.order.provider]
        if self.is_closed(provider.name) or self.now() >= submitted_until(transaction.order):
            await self._tell(
                ProviderFailed(
                    reference, provider.name, Source.POLL, ErrorCode.PROVIDER_UNAVAILABLE
                )
            )
            return
        self._counts[provider.name].submissions += 1
        conversation = provider.submit(transaction, now=self.now())
        exchange = self.exchange_for(provider.name)
        await self._report(conversation, exchange, transaction, told_at + CONVERSATION_S)

    async def _ask(self, work: Work) -> None:
        provider = self.providers[work.transaction.order.provider]
        self._counts[provider.name].questions += 1
        conversation = provider.ask(_with_hint(work), now=self.now())
        deadline = trio.current_time() + CONVERSATION_S
        exchange = self.exchange_for(provider.name)
        await self._report(conversation, exchange, work.transaction, deadline)

    async def _report(
        self, conversation: Conversation, exchange: Exchange, about: Transaction, deadline: float
    ) -> None:
        """Hold the conversation and tell the engine what it came to."""
        counts = self._counts[about.order.provider]
        report = await hold(conversation, exchange, about, deadline, counts)
        report = paced(report, self.providers[about.order.provider].operations, about)
        counts.reports[REPORTS[type(report)]] += 1
        match report:
            case ProviderNeverReceived():
                self._setbacks[about.reference] = self._setbacks.get(about.reference, 0) + 1
            case ProviderUnreachable(_, name, reason):
                logger.warning(
                    "provider unreachable",
                    provider=name,
                    reference=about.reference,
                    reason=reason,
                )
            case _:
                self._setbacks.pop(about.reference, None)
        await self._tell(report)

    async def _tell(self, given: Input) -> tuple[Reply, float]:
        """Tell the engine, again and again while the store can't serve: a report isn't lost while this process lives.
        Telling twice is harmless, which is why an unknown outcome is told again too.

        The reply, and Trio's time when the telling that it answers began.
        """
        attempt = 0
        while True:
            told_at = trio.current_time()
            try:
                return await self.submit(given), told_at
            except (StoreUnavailable, OutcomeUnknown) as error:
                attempt += 1
                logger.warning("not stored", given=type(given).__name__, error=str(error))
                await trio.sleep(_patience_s(attempt, STORE_RETRY_S_MAX))


def _patience_s(attempts: int, longest_s: float) -> float:
    """How long to wait after this many attempts in vain, at least one."""
    return float(min(RETRY_S * 2 ** min(attempts - 1, 16), longest_s))


def _with_hint(work: Work) -> Transaction:
    """The payment that a question is about, with what was told that makes us ask."""
    about, intent = work.transaction, work.intent
    if not isinstance(intent, AskProvider) or intent.hint is None:
        return about
    return evolve(about, progress=evolve(about.progress, hint=intent.hint))
