"""What the simulated M-Pesa does later: results are reached and callbacks sent, in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, TypeAlias

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import Instant, Span, later
from mmo_trio.simulators.base import CallBack, EndAfter, EndWith, Fault, find_fault
from mmo_trio.simulators.mpesa import responses as tales
from mmo_trio.simulators.mpesa.accounts import SimulatedMpesaAccounts, SimulatedMpesaPayment

QUEUE_TIMEOUT: Final = "queue_timeout"
"""As a result: the request expires in Daraja's queue."""

ScheduledAction: TypeAlias = Callable[[Instant], None]
"""Something that happens at a time."""


@define(eq=False)
class MpesaSchedule:
    """The book, and what will happen to it."""

    accounts: SimulatedMpesaAccounts
    _sequence: int = 0
    _queue: list[tuple[Instant, int, ScheduledAction]] = Factory(list)
    _outbox: list[HttpRequest] = Factory(list)

    def take_due(self, now: Instant) -> Sequence[HttpRequest]:
        """What is to be sent now."""
        self.run_due(now)
        told, self._outbox = self._outbox, []
        return told

    def next_due_at(self) -> Instant | None:
        """When something happens next."""
        if self._outbox:
            return Instant(0)
        return self._queue[0][0] if self._queue else None

    def send(self, request: HttpRequest) -> None:
        """Send this at once."""
        self._outbox.append(request)

    def accept_payment(
        self,
        kind: str,
        form: dict[str, str],
        payer: str,
        payee: str,
        result_url_field: str,
        faults: Sequence[Fault],
        now: Instant,
    ) -> SimulatedMpesaPayment:
        """A payment that was asked for; `url` is the field that says where its result is told."""
        number = self.next_number()
        own = f"ws_CO_{number:09d}" if kind == "stk_push" else f"AG_{number:09d}"
        payment = SimulatedMpesaPayment(
            kind,
            "",
            payer,
            payee,
            int(form["Amount"]) * 100,
            now,
            own,
            f"simulated-{number}",
            form.get(result_url_field, ""),
            callback_delays(faults),
        )
        self.accounts.payments.append(payment)
        return payment

    def schedule_result(
        self,
        payment: SimulatedMpesaPayment,
        default_delay: Span,
        faults: Sequence[Fault],
        now: Instant,
        find_error_code: Callable[[], str | None],
        form: Mapping[str, str] | None = None,
        on_paid: Callable[[SimulatedMpesaPayment, Instant], None] | None = None,
    ) -> None:
        """Bring a payment to its result when its time comes, and tell it."""
        delay, ending = find_fault(EndAfter, faults), find_fault(EndWith, faults)
        span = default_delay if delay is None else delay.span
        if span is None:
            return

        def end(then: Instant) -> None:
            code = ending.code if ending is not None and ending.code != "0" else find_error_code()
            if code is None:
                self.accounts.transfer(payment)
                if on_paid is not None:
                    on_paid(payment, then)
            else:
                payment.result = code
                payment.message = (ending and ending.message) or tales.RESULT_DESCRIPTIONS.get(
                    code, "Failed."
                )
            url = payment.result_url
            if code == QUEUE_TIMEOUT and form is not None:
                url = form["QueueTimeOutURL"]
            told = tales.result_callback(payment, self.accounts)
            self.schedule_callback(
                payment, tales.callback_request(url, told), payment.callback_delays, then
            )

        self.schedule(later(now, span), end)

    def schedule_callback(
        self,
        payment: SimulatedMpesaPayment,
        request: HttpRequest,
        delays: Sequence[Span],
        now: Instant,
    ) -> None:
        """Send a payment's callback so long from now, once for each."""

        def send(then: Instant) -> None:
            payment.callback_count += 1
            self.send(request)

        for span in delays:
            self.schedule(later(now, span), send)

    def schedule(self, when: Instant, action: ScheduledAction) -> None:
        """Let this happen then."""
        heappush(self._queue, (when, self.next_number(), action))

    def run_due(self, now: Instant) -> None:
        """Let everything happen whose time has come."""
        while self._queue and self._queue[0][0] <= now:
            when, _, step = heappop(self._queue)
            step(when)

    def next_number(self) -> int:
        """A number that was never given before."""
        self._sequence += 1
        return self._sequence


def callback_delays(faults: Sequence[Fault]) -> tuple[Span, ...]:
    """How long after its result each callback is told."""
    scripted = find_fault(CallBack, faults)
    return (Span(0),) if scripted is None else scripted.after
