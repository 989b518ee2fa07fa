"""What the simulated M-Pesa does later: results are reached and callbacks sent, in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, TypeAlias

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import Instant
from mmo_trio.simulators.base import CallBack, EndAfter, EndWith, Fault, find
from mmo_trio.simulators.mpesa import responses as tales
from mmo_trio.simulators.mpesa.accounts import Book, Payment

QUEUE_TIMEOUT: Final = "queue_timeout"
"""As a result: the request expires in Daraja's queue."""

Step: TypeAlias = Callable[[Instant], None]
"""Something that happens at a time."""


@define(eq=False)
class Teller:
    """The book, and what will happen to it."""

    book: Book
    _count: int = 0
    _agenda: list[tuple[Instant, int, Step]] = Factory(list)
    _outbox: list[HttpRequest] = Factory(list)

    def due(self, now: Instant) -> Sequence[HttpRequest]:
        """What is to be sent now."""
        self.catch_up(now)
        told, self._outbox = self._outbox, []
        return told

    def next_due(self) -> Instant | None:
        """When something happens next."""
        if self._outbox:
            return 0
        return self._agenda[0][0] if self._agenda else None

    def send(self, request: HttpRequest) -> None:
        """Send this at once."""
        self._outbox.append(request)

    def take(
        self,
        kind: str,
        form: dict[str, str],
        payer: str,
        payee: str,
        url: str,
        met: Sequence[Fault],
        now: Instant,
    ) -> Payment:
        """A payment that was asked for; `url` is the field that says where its result is told."""
        number = self.next()
        own = f"ws_CO_{number:09d}" if kind == "stk_push" else f"AG_{number:09d}"
        payment = Payment(
            kind,
            "",
            payer,
            payee,
            int(form["Amount"]) * 100,
            now,
            own,
            f"simulated-{number}",
            form.get(url, ""),
            spans(met),
        )
        self.book.payments.append(payment)
        return payment

    def end(
        self,
        payment: Payment,
        takes: int,
        met: Sequence[Fault],
        now: Instant,
        fault: Callable[[], str | None],
        form: Mapping[str, str] | None = None,
        paid: Callable[[Payment, Instant], None] | None = None,
    ) -> None:
        """Bring a payment to its result when its time comes, and tell it."""
        delay, ending = find(EndAfter, met), find(EndWith, met)
        span = takes if delay is None else delay.span
        if span is None:
            return

        def end(then: Instant) -> None:
            code = ending.code if ending is not None and ending.code != "0" else fault()
            if code is None:
                self.book.move(payment)
                if paid is not None:
                    paid(payment, then)
            else:
                payment.result = code
                payment.message = (ending and ending.message) or tales.WORDS.get(code, "Failed.")
            url = payment.result_url
            if code == QUEUE_TIMEOUT and form is not None:
                url = form["QueueTimeOutURL"]
            told = tales.result(payment, self.book)
            self.tell(payment, tales.post(url, told), payment.call_back_after, then)

        self.at(now + span, end)

    def tell(
        self, payment: Payment, request: HttpRequest, after: Sequence[int], now: Instant
    ) -> None:
        """Send a payment's callback so long from now, once for each."""

        def send(then: Instant) -> None:
            payment.told += 1
            self.send(request)

        for span in after:
            self.at(now + span, send)

    def at(self, when: Instant, step: Step) -> None:
        """Let this happen then."""
        heappush(self._agenda, (when, self.next(), step))

    def catch_up(self, now: Instant) -> None:
        """Let everything happen whose time has come."""
        while self._agenda and self._agenda[0][0] <= now:
            when, _, step = heappop(self._agenda)
            step(when)

    def next(self) -> int:
        """A number that was never given before."""
        self._count += 1
        return self._count


def spans(met: Sequence[Fault]) -> tuple[int, ...]:
    """How long after its result each callback is told."""
    scripted = find(CallBack, met)
    return (0,) if scripted is None else scripted.after
