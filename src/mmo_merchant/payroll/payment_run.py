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

# Requests that wait for their answers at a time.
WORKERS: Final = 8

# More pending payments than these are asked about by the list of records.
LOOK_UPS_MAX: Final = 20

ATTEMPTS: Final = 3

# The longest pause before one request is repeated, as each round of the run repeats it again.
PAUSE_MAX_S: Final = 3.0

# The longest pause before lines that could not be sent are tried again.
RETRY_PAUSE_S: Final = 10.0

POLL_MAX_S, POLL_GROWTH = 900.0, 1.5

# By what the interval between requests grows with each answer 429, of which several come at a time.
SLOWER: Final = 1.05

HOLD_MAX_S: Final = 60.0

# Rejections that are about no single line: they end the run.
OF_THE_BRAND: Final = ("unauthorized", "merchant_disabled", "brand_daily_limit")

# Returns after so many seconds.
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

_LOST: Final = (
    "The gateway has lost this payment, which may have been paid. Ask its staff; never pay "
    "it again."
)


@define
class Pace:
    """Gives every request its time, in seconds of a clock that never goes back."""

    interval_s: float
    """The time between two requests; it only grows."""
    _next_at: float = 0.0

    def take_turn(self, now: float) -> float:
        """Return how many seconds to wait before one request leaves."""
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
        super().__init__(base_url, api_key, sleep=lambda pause_s: sleep(min(pause_s, PAUSE_MAX_S)))
        self._pace = pace
        self._wait = sleep

    async def send(self, request: HttpRequest) -> Answer:
        """Send a request when its turn comes; a question is repeated when no answer comes, so that
        of thousands all get through."""
        answer: Answer = NoAnswer("")
        for _ in range(1 if request.method == "POST" else ATTEMPTS):
            await self._wait(self._pace.take_turn(anyio.current_time()))
            self.before_leaving(request)
            answer = await super().send(request)
            if isinstance(answer, HttpResponse):
                break

        if isinstance(answer, HttpResponse) and answer.status == 429:
            retry_after = answer.value(b"retry-after") or b""
            self._pace.hold(
                anyio.current_time(), float(retry_after) if retry_after.isdigit() else 1.0
            )

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
    on_record: Callable[[LineState], object] = bool
    """Called with each new state of a line."""
    sleep: Sleep = anyio.sleep
    fault: MerchantApiError | None = field(default=None, init=False)
    """What was wrong last with the gateway or the key."""

    async def run(self) -> None:
        """Pay, and wait until every line has ended, the gateway refuses the brand, or patience is
        over."""
        known, pause_s, changed_at = dict[str, Phase](), self.poll_s, anyio.current_time()
        if self._lines_in(Phase.ACCEPTED):
            ask_at = changed_at
        else:
            ask_at = changed_at + pause_s

        while True:
            self.fault = None
            await self._create_all()
            if anyio.current_time() >= ask_at:
                await self._ask_about(self._lines_in(Phase.ACCEPTED))
                pause_s = min(pause_s * POLL_GROWTH, POLL_MAX_S)
                ask_at = anyio.current_time() + pause_s

            now, phases = (
                anyio.current_time(),
                {key: state.phase for key, state in self.journal.states.items()},
            )
            if phases != known:
                known, changed_at, pause_s = phases, now, self.poll_s
                ask_at = min(ask_at, now + pause_s)

            unsent = self._lines_in(None, Phase.SENT)
            is_over = not unsent and not self._lines_in(Phase.ACCEPTED)
            if (
                is_over
                or isinstance(self.fault, ApiRejection)
                or now - changed_at >= self.patience_s
            ):
                return

            await self.sleep(max(0.0, min(ask_at - now, RETRY_PAUSE_S) if unsent else ask_at - now))

    def _lines_in(self, *phases: Phase | None) -> list[PayLine]:
        """Return the lines in these phases; that of a line that was never sent is None."""
        states = ((line, self.journal.state(line)) for line in self.lines)
        return [line for line, state in states if (state and state.phase) in phases]

    async def _create_all(self) -> None:
        lines = iter(self._lines_in(None, Phase.SENT))

        async def create_each() -> None:
            for line in lines:  # The tasks share it.
                if self.fault is None:
                    await self._create(line)

        async with anyio.create_task_group() as tasks:
            for _ in range(WORKERS):
                tasks.start_soon(create_each)

    async def _create(self, line: PayLine) -> None:
        try:
            started = await self.client.create_or_get(line.payment)
        except ReferenceMismatch as error:
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
            self._record(line, LineState(phase=Phase.SENT, message=str(error)))
        except GatewayUnavailable as error:
            self.fault = error
        except ApiRejection as error:
            code = error.problem.cause
            if code == "brand_pending_limit":
                self.fault = GatewayUnavailable(str(error))  # Some payments have to end first.
            elif code in OF_THE_BRAND:
                self.fault = error
            else:
                self._record(
                    line, LineState(phase=Phase.REJECTED, error_code=code, message=str(error))
                )
        else:
            created_at, is_earlier = (
                started.created_at.isoformat(),
                self.journal.state(line) is None,
            )
            new = LineState(
                phase=Phase.ACCEPTED,
                gateway_reference=started.gateway_reference,
                created_at=created_at,
            )
            self._record(
                line, known_state(started.found) if started.found else new, is_earlier=is_earlier
            )

    async def _ask_about(self, lines: Sequence[PayLine]) -> None:
        """Ask about each payment once: about many by the list of records, about those that it lacks
        one by one."""
        pending = {
            state.gateway_reference: line for line in lines if (state := self.journal.state(line))
        }
        try:
            if len(pending) > LOOK_UPS_MAX:
                states = filter(None, map(self.journal.state, lines))
                times = [datetime.fromisoformat(state.created_at) for state in states]
                window = RecordsWindow(
                    begin=min(times), end=max(times) + timedelta(seconds=1), type=Type.PAYOUT
                )
                async for record in self.client.records(window):
                    if (line := pending.pop(record.gateway_reference, None)) is not None:
                        self._record(line, known_state(record))
            for reference, line in pending.items():
                try:
                    self._record(line, known_state(await self.client.look_up(reference)))
                except TransactionNotFound:
                    self._record(
                        line,
                        evolve(self.journal.states[line.payment.merchant_reference], message=_LOST),
                    )
        except MerchantApiError as error:
            self.fault = error

    def _record(self, line: PayLine, state: LineState, *, is_earlier: bool = False) -> None:
        before = self.journal.state(line)
        state = evolve(state, is_earlier=before.is_earlier if before else is_earlier)
        self.journal.record(line.payment.merchant_reference, state)
        self.on_record(state)
