"""Pays the lines of a pay-roll, and waits for their ends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import anyio
from attrs import define, evolve, field

from mmo_merchant.api.api_errors import (
    ApiRejection,
    GatewayUnavailable,
    MerchantApiError,
    OutcomeUnclear,
    ReferenceMismatch,
    TransactionNotFound,
)
from mmo_merchant.api.gateway_requests import Answer, NoAnswer, RecordsWindow
from mmo_merchant.clients.async_client import AsyncMerchantClient
from mmo_merchant.payroll.journal import Journal, LineState, Phase, known_state
from mmo_merchant.payroll.pay_roll import PayLine
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.model import Type

# Requests that wait for their answers at a time; the pace says how many leave in a second.
WORKERS: Final = 8

# More pending payments than these are asked about by the list of records, 500 of them in a request.
LOOK_UPS_MAX: Final = 20

# How often one question is asked before the run goes on without its answer.
ATTEMPTS: Final = 3

# The longest pause before one request is repeated, as each round of the run repeats it again.
PAUSE_MAX_S: Final = 3.0

# The longest pause before lines that could not be sent are tried again.
RETRY_PAUSE_S: Final = 10.0

# The pause between two questions about one payment grows to a quarter of an hour, in seconds.
POLL_MAX_S: Final = 900.0
POLL_GROWTH: Final = 1.5

# By what the interval between requests grows with each answer 429, of which several come at a time.
SLOWER: Final = 1.05

# The longest Retry-After, in seconds, that holds all lines up.
HOLD_MAX_S: Final = 60.0

# Rejections that are about no single line: they end the run.
OF_THE_BRAND: Final = ("unauthorized", "merchant_disabled", "brand_daily_limit")

# Returns after so many seconds.
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

_LOST: Final = (
    "The gateway has lost this payment, which may have been paid. Ask its staff; never pay "
    "it again."
)


class JournalUnknown(MerchantApiError):
    """Is the fault of a run whose gateway does not know what the journal has of it."""


@define
class Pace:
    """Gives every request its time, in seconds of a clock that never goes back."""

    interval_s: float
    """The time between two requests; it only grows."""
    _next_at: float = 0.0

    def take_turn(self, now: float) -> float:
        """Return how many seconds to wait before one request leaves."""
        # Time that nobody has used is gone: after a pause requests don't come all at once.
        at = max(now, self._next_at)
        self._next_at = at + self.interval_s
        return at - now

    def hold(self, now: float, retry_after_s: float) -> None:
        """Hold what has no turn yet, and be slower from then on."""
        self.interval_s *= SLOWER
        self._next_at = max(self._next_at, now + min(retry_after_s, HOLD_MAX_S))


class PacedClient(AsyncMerchantClient):
    """Keeps the pace of a pay-roll."""

    def __init__(
        self, base_url: str, api_key: str, *, pace: Pace, sleep: Sleep = anyio.sleep
    ) -> None:
        # The run has a longer pause of its own; a line that waits here keeps a worker from others.
        super().__init__(base_url, api_key, sleep=lambda pause_s: sleep(min(pause_s, PAUSE_MAX_S)))
        self._pace = pace
        self._wait = sleep

    async def send(self, request: HttpRequest) -> Answer:
        """Send a request when its turn comes; a question is repeated when no answer comes, so that
        of thousands all get through."""
        # A creation that was lost is looked up before it is sent again (create_or_get).
        attempts = ATTEMPTS
        if request.method == "POST":
            attempts = 1

        answer: Answer = NoAnswer("")
        for _ in range(attempts):
            await self._wait(self._pace.take_turn(anyio.current_time()))
            self.before_leaving(request)
            answer = await super().send(request)
            if isinstance(answer, HttpResponse):
                break

        # Too fast for this gateway: not only this line, all of them wait.
        if isinstance(answer, HttpResponse) and answer.status == 429:
            retry_after = answer.value(b"retry-after") or b""
            pause_s = 1.0
            if retry_after.isdigit():
                pause_s = float(retry_after)
            self._pace.hold(anyio.current_time(), pause_s)

        return answer

    async def pause(self, pause_s: float) -> None:
        """Wait so many seconds."""
        await self._wait(pause_s)

    def before_leaving(self, request: HttpRequest) -> None:
        """Do what must be done before a request leaves; nothing, unless a subclass does."""


class PayrollClient(PacedClient):
    """Pays: that a creation leaves is durable in the journal before it does."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        journal: Journal,
        pace: Pace,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        super().__init__(base_url, api_key, pace=pace, sleep=sleep)
        self._journal = journal

    def before_leaving(self, request: HttpRequest) -> None:
        """Note that a creation leaves."""
        # Only creations are sent by POST; looking up changes nothing.
        if request.method == "POST":
            reference = json.loads(request.body)["merchantReference"]
            self._journal.record(reference, LineState(phase=Phase.SENT))


@define(eq=False)
class PaymentRun:
    """Pays the lines that have not ended. Killed at any time and begun again with its journal, it
    pays none twice."""

    client: PayrollClient
    lines: Sequence[PayLine]
    journal: Journal
    poll_s: float
    """The first pause between two questions about one payment, in seconds; it grows while nothing
    ends."""
    patience_s: float
    """Seconds without any change after which the run ends."""
    is_known: bool = False
    """Whether the gateway is known to have what an earlier run has sent; else it is asked."""
    # `bool` takes any state and does nothing.
    on_record: Callable[[LineState], object] = bool
    """Called with each new state of a line."""
    sleep: Sleep = anyio.sleep
    fault: MerchantApiError | None = field(default=None, init=False)
    """What was wrong last with the gateway or the key."""

    async def run(self) -> None:
        """Pay, and wait until every line has ended, the gateway refuses the brand, or patience is
        over."""
        known_phases = dict[str, Phase]()
        pause_s = self.poll_s
        changed_at = anyio.current_time()

        # What an earlier run has left pending may have ended meanwhile: it is asked about at once.
        ask_at = changed_at + pause_s
        if self._lines_in(Phase.ACCEPTED):
            ask_at = changed_at

        while True:
            # 1. Send what was never sent, or may not have arrived.
            self.fault = None
            await self._create_all()
            if isinstance(self.fault, JournalUnknown):
                return

            # 2. Ask about what is pending, the less often the longer nothing ends.
            if anyio.current_time() >= ask_at:
                await self._ask_about(self._lines_in(Phase.ACCEPTED))
                pause_s = min(pause_s * POLL_GROWTH, POLL_MAX_S)
                ask_at = anyio.current_time() + pause_s

            # 3. Any change starts the patience, and the pause between questions, anew.
            now = anyio.current_time()
            phases = {reference: state.phase for reference, state in self.journal.states.items()}
            if phases != known_phases:
                known_phases = phases
                changed_at = now
                pause_s = self.poll_s
                ask_at = min(ask_at, now + pause_s)

            # 4. Nothing is left to do, nothing can be done for this brand, or nobody waits any
            # longer.
            unsent = self._lines_in(None, Phase.SENT)
            is_over = not unsent and not self._lines_in(Phase.ACCEPTED)
            if (
                is_over
                or isinstance(self.fault, ApiRejection)
                or now - changed_at >= self.patience_s
            ):
                return

            wait_s = ask_at - now
            if unsent:
                wait_s = min(wait_s, RETRY_PAUSE_S)
            await self.sleep(max(0.0, wait_s))

    def _lines_in(self, *phases: Phase | None) -> list[PayLine]:
        """Return the lines in these phases; that of a line that was never sent is None."""
        states = ((line, self.journal.state(line)) for line in self.lines)
        return [line for line, state in states if (state and state.phase) in phases]

    async def _create_all(self) -> None:
        unsent = self._lines_in(None, Phase.SENT)
        if unsent and not self.is_known:
            await self._ask_whether_known()

        lines = iter(unsent)

        async def create_each() -> None:
            # The tasks share the iterator, so each line is taken once.
            for line in lines:
                # After a fault that is about no single line the others would only meet it again.
                if self.fault is None:
                    await self._create(line)

        async with anyio.create_task_group() as tasks:
            for _ in range(WORKERS):
                tasks.start_soon(create_each)

    async def _ask_whether_known(self) -> None:
        """Ask about the first payment that an earlier run has made. To another brand, or to an
        older copy of the store, no reference is used, and a line that was paid would be paid once
        more."""
        references = (state.gateway_reference for state in self.journal.states.values())
        made = next(filter(None, references), None)
        try:
            if made is not None:
                await self.client.look_up(made)
            self.is_known = True
        except TransactionNotFound:
            self.fault = JournalUnknown(
                f"The gateway does not know the payment {made} of the journal: the API key may be "
                "another brand's. If the gateway was restored from a backup, ask its staff, and go "
                "on with --allow-repeats."
            )
        except MerchantApiError as error:
            self.fault = error

    async def _create(self, line: PayLine) -> None:
        try:
            started = await self.client.create_or_get(line.payment)
        except ReferenceMismatch as error:
            # Another payment has the reference, maybe of the same person: a human looks at it.
            self._record(
                line,
                LineState(
                    phase=Phase.TAKEN,
                    gateway_reference=error.gateway_reference,
                    error_code="reference_mismatch",
                    message=str(error),
                ),
            )
        except OutcomeUnclear as error:
            # Not an end: the next round looks the reference up before it sends anything.
            self._record(line, LineState(phase=Phase.SENT, message=str(error)))
        except GatewayUnavailable as error:
            # The line stays as it is, and the next round takes it again.
            self.fault = error
        except ApiRejection as error:
            code = error.problem.cause
            if code == "brand_pending_limit":
                # Some payments have to end first.
                self.fault = GatewayUnavailable(str(error))
            elif code in OF_THE_BRAND:
                self.fault = error
            else:
                self._record(
                    line, LineState(phase=Phase.REJECTED, error_code=code, message=str(error))
                )
        else:
            is_earlier = self.journal.state(line) is None
            if started.found is not None:
                state = known_state(started.found)
            else:
                state = LineState(
                    phase=Phase.ACCEPTED,
                    gateway_reference=started.gateway_reference,
                    created_at=started.created_at.isoformat(),
                )
            self._record(line, state, is_earlier=is_earlier)

    async def _ask_about(self, lines: Sequence[PayLine]) -> None:
        """Ask about each payment once: about many by the list of records, about those that it lacks
        one by one."""
        pending = {
            state.gateway_reference: line for line in lines if (state := self.journal.state(line))
        }
        try:
            # The window of their creation times; its end is exclusive (R1), so a second more.
            if len(pending) > LOOK_UPS_MAX:
                states = filter(None, map(self.journal.state, lines))
                times = [datetime.fromisoformat(state.created_at) for state in states]
                window = RecordsWindow(
                    begin=min(times), end=max(times) + timedelta(seconds=1), type=Type.PAYOUT
                )
                async for record in self.client.records(window):
                    if (line := pending.pop(record.gateway_reference, None)) is not None:
                        self._record(line, known_state(record))
            # What the list lacks, or all of a few: one by one.
            for reference, line in pending.items():
                try:
                    self._record(line, known_state(await self.client.look_up(reference)))
                except TransactionNotFound:
                    # The gateway had it: never sent again, and never called failed.
                    self._record(
                        line,
                        evolve(self.journal.states[line.payment.merchant_reference], message=_LOST),
                    )
        except MerchantApiError as error:
            self.fault = error

    def _record(self, line: PayLine, state: LineState, *, is_earlier: bool = False) -> None:
        before = self.journal.state(line)
        # Only the first state of a line tells whether its payment was there before.
        if before is not None:
            is_earlier = before.is_earlier
        state = evolve(state, is_earlier=is_earlier)
        self.journal.record(line.payment.merchant_reference, state)
        self.on_record(state)
