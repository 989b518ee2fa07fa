"""Schedules what the simulated M-Pesa does later: it reaches results and sends callbacks in the
order of their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import Instant, Span, later
from mmo_simulators.common.faults import CallBack, EndAfter, EndWith, Fault, PollWith, find_fault
from mmo_simulators.common.simulator import DueQueue
from mmo_simulators.operators.mpesa.accounts import SimulatedMpesaAccounts, SimulatedMpesaPayment
from mmo_simulators.operators.mpesa.responses import callback_request
from mmo_simulators.operators.mpesa.result_bodies import describe_result, result_callback

# The result of a request that expires in Daraja's queue.
QUEUE_TIMEOUT: Final = "queue_timeout"

# An action that happens at a time: what was planned, with the time that it was planned for.
ScheduledAction: TypeAlias = Callable[[Instant], None]


@define(eq=False)
class MpesaSchedule:
    """Holds the accounts and the actions to come."""

    accounts: SimulatedMpesaAccounts
    _sequence: int = 0
    _queue: DueQueue[ScheduledAction] = Factory(DueQueue)
    _outbox: list[HttpRequest] = Factory(list)

    def take_due(self, now: Instant) -> Sequence[HttpRequest]:
        """Run the actions that are due, and return the callbacks to send now."""
        self.run_due(now)
        requests, self._outbox = self._outbox, []
        return requests

    def next_due_at(self) -> Instant | None:
        """Return when the next action or callback is due."""
        # At once, whatever time it is.
        if self._outbox:
            return Instant(0)
        return self._queue.next_due_at()

    def send(self, request: HttpRequest) -> None:
        """Send this callback at once."""
        self._outbox.append(request)

    def accept_payment(
        self,
        kind: str,
        form: Mapping[str, str],
        payer: str,
        payee: str,
        result_url_field: str,
        faults: Sequence[Fault],
        now: Instant,
    ) -> SimulatedMpesaPayment:
        """Add a payment; `result_url_field` is the form's field with the URL for its result."""
        number = self.next_number()

        # The beginnings that Daraja's ids have in its samples.
        own = f"AG_{number:09d}"
        if kind == "stk_push":
            own = f"ws_CO_{number:09d}"

        polled_code = None
        polled = find_fault(PollWith, faults)
        if polled is not None:
            polled_code = polled.code

        payment = SimulatedMpesaPayment(
            kind=kind,
            reference="",
            payer=payer,
            payee=payee,
            amount_minor=int(form["Amount"]) * 100,
            accepted_at=now,
            conversation_id=own,
            originator_id=f"simulated-{number}",
            result_url=form.get(result_url_field, ""),
            callback_delays=callback_delays(faults),
            bill_reference=form.get("AccountReference", ""),
            queue_timeout_url=form.get("QueueTimeOutURL", ""),
            polled_code=polled_code,
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
        on_paid: Callable[[SimulatedMpesaPayment, Instant], None] | None = None,
    ) -> None:
        """Schedule the payment's result and its callback."""
        delay: Span | None = default_delay
        scripted = find_fault(EndAfter, faults)
        if scripted is not None:
            delay = scripted.span
        if delay is None:
            return

        ending = find_fault(EndWith, faults)

        # Decided when it ends, not when it is accepted: balances change meanwhile.
        def end(then: Instant) -> None:
            if ending is not None and ending.code != "0":
                code: str | None = ending.code
            else:
                code = find_error_code()

            payment.ended_at = then
            if code is None:
                self.accounts.transfer(payment)
                if on_paid is not None:
                    on_paid(payment, then)
            else:
                payment.result = code
                payment.message = (ending and ending.message) or describe_result(code)

            # What has expired in the queue is told to an address of its own.
            url = payment.result_url
            if code == QUEUE_TIMEOUT and payment.queue_timeout_url:
                url = payment.queue_timeout_url

            document = result_callback(payment, self.accounts)
            self.schedule_callback(
                payment, callback_request(url, document), payment.callback_delays, then
            )

        self.schedule(later(now, delay), end)

    def schedule_callback(
        self,
        payment: SimulatedMpesaPayment,
        request: HttpRequest,
        delays: Sequence[Span],
        now: Instant,
    ) -> None:
        """Send a payment's callback after each of these delays."""

        def send(then: Instant) -> None:
            payment.callback_count += 1
            self.send(request)

        for span in delays:
            self.schedule(later(now, span), send)

    def schedule(self, when: Instant, action: ScheduledAction) -> None:
        """Schedule an action."""
        self._queue.schedule(action, at=when)

    def run_due(self, now: Instant) -> None:
        """Run every action that is due."""
        for at, action in self._queue.take_due(now=now):
            action(at)

    def next_number(self) -> int:
        """Return a number that was not returned before."""
        self._sequence += 1
        return self._sequence


def callback_delays(faults: Sequence[Fault]) -> tuple[Span, ...]:
    """Return how long after its result each callback is sent."""
    scripted = find_fault(CallBack, faults)
    if scripted is None:
        return (Span(0),)
    return scripted.after
