"""The make-believe operator behind the sandbox provider, as a machine that never waits.

    answer = operator.receive(request, now=now)      # a submission or a question
    for each in operator.due(now=now): ...           # notifications to tell now
    operator.acknowledge(each.id, now=now)           # once the gateway has made it durable
    entries = operator.take_entries()                # what the book must hold BEFORE an answer or notification leaves

Whoever drives it asks `next_due` when to come again. A payment's results are told one at a time, in order, each until
it is acknowledged; a restored operator tells again what wasn't.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from attrs import Factory, define, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.sandbox.journal import Acknowledged, BookEntry, Reached, Submitted
from mmo_sansio.providers.sandbox.scenarios import BY_NAME, FEE_PERCENT, From, Scenario, Step
from mmo_sansio.providers.sandbox.wire import (
    HOOK_TARGET,
    JSON_HEADERS,
    NATIVE_ERRORS,
    ORIGIN,
    PAYMENTS_PATH,
    amount_read,
    amount_written,
    member,
    optional,
    read,
    written,
)
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.money import Money, share_of

OVER_MOST = 10_000
"""Payments that are over and still remembered; what was over before them it would take for unknown."""

_PAYMENTS_TARGET = f"{ORIGIN}{PAYMENTS_PATH}".encode()


@frozen
class Notification:
    """A result to be told to the gateway."""

    id: tuple[str, int]
    """(gatewayReference, number of the result)."""
    request: HttpRequest


@frozen
class Prompt:
    """What the virtual phone shows: a payment that waits for its person."""

    reference: str
    msisdn: str
    type: str
    amount: Money
    since: Instant
    expires_at: Instant


@define(eq=False)
class _Payment:
    """What the operator knows of a payment."""

    submitted: Submitted
    scenario: Scenario
    results: list[Reached] = Factory(list)
    acknowledged: int = 0
    """How many results the gateway has; they are told in order."""
    is_telling: bool = False
    """Whether a notification is out and not acknowledged."""

    @property
    def reference(self) -> str:
        return self.submitted.reference

    @property
    def next_step_at(self) -> Instant | None:
        """When it reaches its next result by itself."""
        if len(self.results) >= len(self.scenario.steps):
            return None
        step = self.scenario.steps[len(self.results)]
        counted_from = (
            self.submitted.at if step.since is From.SUBMISSION else self.submitted.expires_at
        )
        return counted_from + step.after

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it, and the gateway knows all of it."""
        return self.next_step_at is None and 0 < len(self.results) == self.acknowledged

    @property
    def untold(self) -> Reached | None:
        """The result that the gateway is to be told next."""
        if not self.scenario.is_notified or self.acknowledged >= len(self.results):
            return None
        return self.results[self.acknowledged]


@define(eq=False)
class SandboxOperator:
    """Every payment it ever took, and when each has something to say."""

    _payments: dict[str, _Payment] = Factory(dict)
    _prompts: dict[str, _Payment] = Factory(dict)
    _over: deque[str] = Factory(deque)
    """References of remembered payments that are over, the first at the left."""
    _agenda: list[tuple[Instant, str]] = Factory(list)
    """A heap of (when, reference); looking at a payment too often is harmless."""
    _entries: list[BookEntry] = Factory(list)

    def receive(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        """Its answer to a submission or a question."""
        if request.method == "POST" and request.target == _PAYMENTS_TARGET:
            return self._take(request, now=now)
        if request.method == "GET" and request.target.startswith(_PAYMENTS_TARGET + b"/"):
            reference = request.target[len(_PAYMENTS_TARGET) + 1 :].decode("ascii", "replace")
            return self._tell_when_asked(reference, now=now)
        return HttpResponse(404)

    def due(self, *, now: Instant) -> list[Notification]:
        """The notifications to be told now, in the order in which their results were reached."""
        told: list[Notification] = []
        while self._agenda and self._agenda[0][0] <= now:
            payment = self._payments.get(heappop(self._agenda)[1])
            if payment is None:
                continue  # It was looked at too often, and is over since.
            self._reach(payment, now=now)
            result = payment.untold
            if result is not None and not payment.is_telling:
                payment.is_telling = True
                told.append(_notification(payment, result))
        return told

    def next_due(self) -> Instant | None:
        """When `due` has something to do; None while nothing will happen by itself."""
        return self._agenda[0][0] if self._agenda else None

    def acknowledge(self, id: tuple[str, int], *, now: Instant) -> None:
        """The gateway has this notification; it is never told again. A second acknowledgement changes nothing."""
        reference, number = id
        payment = self._payments.get(reference)
        if payment is None or number != payment.acknowledged + 1:
            return
        self._record(Acknowledged(now, reference, number))
        if payment.untold is not None:
            heappush(self._agenda, (payment.untold.at, reference))

    def approve(self, reference: str, *, now: Instant) -> bool:
        """The person at the virtual phone agrees; False when no such payment waits for a person."""
        return self._decide(reference, Step(), now=now)

    def refuse(
        self, reference: str, *, why: ErrorCode = ErrorCode.USER_CANCELLED, now: Instant
    ) -> bool:
        """The person at the virtual phone declines, or can't pay, which `why` says: one of NATIVE_ERRORS. False when
        no such payment waits for a person."""
        assert why in NATIVE_ERRORS, f"the operator has no word for {why}"
        return self._decide(reference, Step(failure=why), now=now)

    def prompts(self) -> tuple[Prompt, ...]:
        """What waits for a person, the oldest first."""
        return tuple(
            Prompt(
                each.reference,
                each.submitted.msisdn,
                each.submitted.type,
                each.submitted.amount,
                each.submitted.at,
                each.submitted.expires_at,
            )
            for each in self._prompts.values()
        )

    def take_entries(self) -> tuple[BookEntry, ...]:
        """What has become true since the last call, in order."""
        taken, self._entries = tuple(self._entries), []
        return taken

    def restore(self, entries: Iterable[BookEntry]) -> None:
        """Become the operator that this book was written by."""
        for entry in entries:
            self._apply(entry)
        for payment in self._payments.values():
            if payment.untold is not None:
                heappush(self._agenda, (payment.untold.at, payment.reference))

    def _take(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        try:
            submitted = _submission(request.body, now=now)
        except ValueError as error:
            return _json(400, {"errorMessage": str(error)})
        self._record(submitted)
        payment = self._payments[submitted.reference]
        answer = _payment_document(payment, payment.results[-1:])
        if payment.scenario.ask_after is not None:
            answer["askAfterUs"] = payment.scenario.ask_after
        return _json(202, answer)

    def _tell_when_asked(self, reference: str, *, now: Instant) -> HttpResponse:
        payment = self._payments.get(reference)
        if payment is None:
            return _json(404, {"errorMessage": "never received"})
        self._reach(payment, now=now)
        return _json(200, _payment_document(payment, payment.results[-1:]))

    def _decide(self, reference: str, step: Step, *, now: Instant) -> bool:
        payment = self._prompts.get(reference)
        if payment is None:
            return False
        self._record(_reached(payment, step, at=now))
        heappush(self._agenda, (now, reference))
        return True

    def _reach(self, payment: _Payment, *, now: Instant) -> None:
        while (at := payment.next_step_at) is not None and at <= now:
            self._record(_reached(payment, payment.scenario.steps[len(payment.results)], at=at))

    def _record(self, entry: BookEntry) -> None:
        self._apply(entry)
        self._entries.append(entry)

    def _apply(self, entry: BookEntry) -> None:
        """Make an entry true, whether it is new or read from the book."""
        match entry:
            case Submitted():
                if entry.reference in self._payments:
                    return  # It stands in the book twice; the first one goes on.
                payment = _Payment(entry, BY_NAME[entry.scenario])
                self._payments[entry.reference] = payment
                if payment.scenario.waits_for_person:
                    self._prompts[entry.reference] = payment
            case Reached():
                payment = self._payments[entry.reference]
                payment.results.append(entry)
                self._prompts.pop(entry.reference, None)
            case Acknowledged():
                payment = self._payments[entry.reference]
                payment.acknowledged = entry.number
                payment.is_telling = False
                if payment.is_over:
                    self._let_go(entry.reference)
        if (at := payment.next_step_at) is not None:
            heappush(self._agenda, (at, entry.reference))

    def _let_go(self, reference: str) -> None:
        """Forget the payment that was over first, once too many are: the book still has it."""
        self._over.append(reference)
        if len(self._over) > OVER_MOST:
            del self._payments[self._over.popleft()]


def _submission(body: bytes, *, now: Instant) -> Submitted:
    document = read(body)
    scenario = member(document, "scenario", str)
    if scenario not in BY_NAME:
        raise ValueError(f"there is no scenario {scenario}")
    names = (optional(document, "firstName", str), optional(document, "lastName", str))
    return Submitted(
        at=now,
        reference=member(document, "reference", str),
        type=member(document, "type", str),
        amount=amount_read(document, "amount"),
        msisdn=member(document, "msisdn", str),
        payer_name=" ".join(name for name in names if name) or None,
        expires_at=member(document, "expiresAtUs", int),
        scenario=scenario,
    )


def _reached(payment: _Payment, step: Step, *, at: Instant) -> Reached:
    number = len(payment.results) + 1
    if step.failure is not None:
        return Reached(at, payment.reference, number, failure=step.failure)
    asked = payment.submitted.amount
    final = Money(max(1, asked.minor - step.minor_units_less), asked.currency)
    return Reached(at, payment.reference, number, final, share_of(final, FEE_PERCENT))


def _notification(payment: _Payment, result: Reached) -> Notification:
    body = written(_payment_document(payment, [result]))
    request = HttpRequest("POST", HOOK_TARGET, JSON_HEADERS, body)
    return Notification((payment.reference, result.number), request)


def _payment_document(payment: _Payment, results: list[Reached]) -> dict[str, Any]:
    """The payment as the operator tells it, with its latest result if it has one."""
    document: dict[str, Any] = {
        "reference": payment.reference,
        "providerReference": f"SBX{payment.reference[-12:]}",
        "status": "pending",
    }
    for result in results:
        if result.failure is not None:
            native = NATIVE_ERRORS[result.failure]
            document |= {
                "status": "failed",
                "errorCode": native.code,
                "errorMessage": native.message,
            }
        elif result.final is not None and result.fee is not None:
            name = payment.submitted.payer_name
            document |= {
                "status": "success",
                "amount": amount_written(result.final),
                "fee": amount_written(result.fee),
                "partyData": name and {"registeredName": name, "network": "Sandbox Mobile"},
            }
    return document


def _json(status: int, document: dict[str, Any]) -> HttpResponse:
    return HttpResponse(status, JSON_HEADERS, written(document))
