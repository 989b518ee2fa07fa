"""Simulates the operator behind the sandbox provider, as a state machine that never waits.

    response = operator.receive(request, now=now)           # a submission, a reversal or a poll
    for notification in operator.due_notifications(now=now): ...    # to be sent now
    operator.acknowledge(notification.id, now=now)          # once the gateway has made it durable
    entries = operator.take_entries()    # journal entries, to store BEFORE a response leaves

Its driver reads from `next_due` when to come again. The notifications of a payment's results are
sent one at a time, in order, each until it is acknowledged; a restored operator sends
unacknowledged ones again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from attrs import Factory, define, evolve, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.wire import JSON_HEADERS, parse_json, to_json
from mmo_sansio.providers.sandbox import journal, wire
from mmo_sansio.providers.sandbox.scenarios import (
    FEE_PERCENT,
    SCENARIOS_BY_NAME,
    DelayOrigin,
    Scenario,
    ScenarioStep,
)
from mmo_sansio.values.clock import Instant, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Type
from mmo_sansio.values.money import Money, decimals_of, percentage_of

# Finished payments that are remembered; earlier ones are unknown to it, as real operators forget.
FINISHED_PAYMENTS_MAX = 10_000

# What our account has in each currency at first, in whole units: no pay-out of a trial empties it.
OPENING_BALANCE = 10_000_000

# Whose account is behind any number, unless its digits say otherwise.
SUBSCRIBER = "Jane Doe"

_PAYMENTS_TARGET = f"{wire.ORIGIN}{wire.PAYMENTS_PATH}".encode()
_BALANCES_TARGET = f"{wire.ORIGIN}{wire.BALANCES_PATH}".encode()
_REVERSALS_TARGET = f"{wire.ORIGIN}{wire.REVERSALS_PATH}".encode()
_SUBSCRIBERS_TARGET = f"{wire.ORIGIN}{wire.SUBSCRIBERS_PATH}/".encode()


@frozen
class SandboxNotification:
    """A result that is sent to the gateway."""

    id: tuple[str, int]
    """(gatewayReference, number of the result)."""
    request: HttpRequest


@define(eq=False)
class _SimulatedPayment:
    # As it arrived; all else follows from it and the results.
    submitted: journal.SandboxSubmission
    scenario: Scenario
    results: list[journal.SandboxResult] = Factory(list)
    acknowledged: int = 0
    """How many results the gateway has; they are sent in order."""
    is_notifying: bool = False
    """Whether a notification was sent and is not acknowledged."""

    @property
    def reference(self) -> str:
        return self.submitted.reference

    @property
    def next_step_at(self) -> Instant | None:
        if len(self.results) >= len(self.scenario.steps):
            return None

        step = self.scenario.steps[len(self.results)]
        if step.counted_from is DelayOrigin.SUBMISSION:
            counted_from = self.submitted.at
        else:
            counted_from = self.submitted.expires_at
        return later(counted_from, step.after)

    @property
    def is_finished(self) -> bool:
        """Tell whether nothing more will happen to it, and the gateway knows all of it."""
        return self.next_step_at is None and 0 < len(self.results) == self.acknowledged

    @property
    def unacknowledged_result(self) -> journal.SandboxResult | None:
        """Return the next result to send to the gateway."""
        if not self.scenario.is_notified or self.acknowledged >= len(self.results):
            return None
        return self.results[self.acknowledged]


@define(eq=False)
class SimulatedOperator:
    """Holds every payment that it received, and when each needs attention."""

    _payments: dict[str, _SimulatedPayment] = Factory(dict)
    # Those of `_payments` that wait for the user of the virtual phone, by reference.
    _prompts: dict[str, _SimulatedPayment] = Factory(dict)
    _reversals: dict[str, journal.SandboxReversal] = Factory(dict)
    """By their ids; the first request with an id counts."""
    _finished: deque[str] = Factory(deque)
    """References of remembered payments that are finished, the first at the left."""
    _schedule: list[tuple[Instant, str]] = Factory(list)
    """A heap of (when, reference); checking a payment too often does no harm."""
    # Made since they were last taken, in their order.
    _entries: list[journal.SandboxJournalEntry] = Factory(list)
    _received: Counter[str] = Factory(Counter)
    """By currency: what our account has received in minor units, less what was paid from it or
    moved back."""

    def receive(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        """Return its response to a request of the gateway: a submission, a reversal, a poll of
        either, or a question about our balances or a subscriber."""
        # By hand, in the order of `wire`'s table: six routes need no router.
        if request.method == "POST" and request.target == _PAYMENTS_TARGET:
            return self._accept_submission(request, now=now)

        if request.method == "GET" and request.target.startswith(_PAYMENTS_TARGET + b"/"):
            reference = request.target[len(_PAYMENTS_TARGET) + 1 :].decode("ascii", "replace")
            return self._answer_poll(reference, now=now)

        if request.method == "GET" and request.target == _BALANCES_TARGET:
            return self._answer_balances()

        if request.method == "GET" and request.target.startswith(_SUBSCRIBERS_TARGET):
            return _answer_subscriber(request.target[len(_SUBSCRIBERS_TARGET) :])

        if request.method == "POST" and request.target == _REVERSALS_TARGET:
            return self._accept_reversal(request, now=now)

        if request.method == "GET" and request.target.startswith(_REVERSALS_TARGET + b"/"):
            id = request.target[len(_REVERSALS_TARGET) + 1 :].decode("ascii", "replace")
            reversal = self._reversals.get(id)
            if reversal is None:
                return HttpResponse(404)
            return _json_response(200, _reversal_document(reversal))

        return HttpResponse(404)

    def due_notifications(self, *, now: Instant) -> list[SandboxNotification]:
        """Return the notifications to send now, in the order of their results."""
        notifications: list[SandboxNotification] = []
        while self._schedule and self._schedule[0][0] <= now:
            payment = self._payments.get(heappop(self._schedule)[1])
            # A stale entry of the heap: the payment has finished since.
            if payment is None:
                continue

            self._add_due_results(payment, now=now)
            result = payment.unacknowledged_result
            # One at a time: the next one waits until the gateway has this one.
            if result is not None and not payment.is_notifying:
                payment.is_notifying = True
                notifications.append(_make_notification(payment, result))

        return notifications

    def next_due(self) -> Instant | None:
        """Return when `due_notifications` has something to do; None while nothing will happen by
        itself."""
        if self._schedule:
            return self._schedule[0][0]
        return None

    def acknowledge(self, id: tuple[str, int], *, now: Instant) -> None:
        """Record that the gateway has this notification, which is not sent again. A second
        acknowledgement changes nothing."""
        reference, number = id
        payment = self._payments.get(reference)
        # An earlier one again, or one that was never sent.
        if payment is None or number != payment.acknowledged + 1:
            return

        self._record(journal.SandboxAcknowledgement(now, reference, number))
        if payment.unacknowledged_result is not None:
            heappush(self._schedule, (payment.unacknowledged_result.at, reference))

    def approve(self, reference: str, *, now: Instant) -> bool:
        """Let the user of the virtual phone approve; return False when no such payment waits for a
        user."""
        return self._complete_prompt(reference, ScenarioStep(), now=now)

    def decline(
        self, reference: str, *, reason: ErrorCode = ErrorCode.USER_CANCELLED, now: Instant
    ) -> bool:
        """Let the user of the virtual phone decline, or fail to pay for this reason, one of
        NATIVE_ERRORS. Return False when no such payment waits for a user."""
        assert reason in wire.NATIVE_ERRORS, f"the operator has no word for {reason}"
        return self._complete_prompt(reference, ScenarioStep(failure=reason), now=now)

    def prompts(self) -> tuple[journal.SandboxSubmission, ...]:
        """Return the payments that wait for a user, the oldest first, as the virtual phone shows
        them."""
        return tuple(prompt.submitted for prompt in self._prompts.values())

    def take_entries(self) -> tuple[journal.SandboxJournalEntry, ...]:
        """Return the journal entries since the last call, to store before a response leaves."""
        taken, self._entries = tuple(self._entries), []
        return taken

    def restore(self, entries: Iterable[journal.SandboxJournalEntry]) -> None:
        """Take over everything from the operator that wrote this journal, once, at the start."""
        # Applied, not recorded: the journal has them.
        for entry in entries:
            self._apply(entry)

        # What the gateway has not acknowledged is sent again, at once.
        for payment in self._payments.values():
            if payment.unacknowledged_result is not None:
                heappush(self._schedule, (payment.unacknowledged_result.at, payment.reference))

    def _accept_submission(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        try:
            submitted = _parse_submission(request.body, now=now)
        except ValueError as error:
            return _json_response(400, {"errorMessage": str(error)})

        # A payment's second submission is recorded as well, and changes nothing (`_apply`).
        self._record(submitted)
        payment = self._payments[submitted.reference]
        answer = _payment_document(payment, payment.results[-1:])
        if payment.scenario.poll_after is not None:
            answer["askAfterUs"] = payment.scenario.poll_after
        return _json_response(202, answer)

    def _answer_poll(self, reference: str, *, now: Instant) -> HttpResponse:
        payment = self._payments.get(reference)
        if payment is None:
            return _json_response(404, {"errorMessage": "never received"})
        # A poll at this moment must not tell less than a notification of this moment would.
        self._add_due_results(payment, now=now)
        return _json_response(200, _payment_document(payment, payment.results[-1:]))

    def _answer_balances(self) -> HttpResponse:
        balances = {}
        for currency, received in sorted(self._received.items()):
            opening = OPENING_BALANCE * 10 ** decimals_of(currency)
            balances[currency] = Money(opening + received, currency).text

        return _json_response(200, balances)

    def _accept_reversal(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        """Decide a reversal; its result is told by a poll only."""
        try:
            document = parse_json(request.body)
            reference = wire.required_member(document, "reference", str)
            asked = journal.SandboxReversal(
                now,
                reference,
                wire.required_member(document, "reversal", str),
                wire.parse_amount(document, "amount"),
            )
        except ValueError as error:
            return _json_response(400, {"errorMessage": str(error)})

        # As much as was paid can go back, in parts; a payment without a success has nothing.
        payment = self._payments.get(reference)
        paid = None
        if payment is not None and payment.results:
            paid = payment.results[0].final

        others = [
            reversal
            for reversal in self._reversals.values()
            if reversal.reference == reference and reversal.failure is None
        ]
        moved_back = sum(other.amount.minor for other in others)
        if (
            paid is None
            or paid.currency != asked.amount.currency
            or moved_back + asked.amount.minor > paid.minor
        ):
            asked = evolve(asked, failure=ErrorCode.TRANSACTION_DECLINED)

        self._record(asked)
        return _json_response(202, {**_reversal_document(asked), "status": "pending"})

    def _complete_prompt(self, reference: str, step: ScenarioStep, *, now: Instant) -> bool:
        payment = self._prompts.get(reference)
        if payment is None:
            return False

        self._record(_make_result(payment, step, at=now))
        heappush(self._schedule, (now, reference))
        return True

    def _add_due_results(self, payment: _SimulatedPayment, *, now: Instant) -> None:
        while (at := payment.next_step_at) is not None and at <= now:
            self._record(_make_result(payment, payment.scenario.steps[len(payment.results)], at=at))

    def _record(self, entry: journal.SandboxJournalEntry) -> None:
        self._apply(entry)
        self._entries.append(entry)

    def _apply(self, entry: journal.SandboxJournalEntry) -> None:
        match entry:
            case journal.SandboxSubmission():
                # Submitted twice, so it stands in the journal twice: the first one goes on.
                if entry.reference in self._payments:
                    return

                payment = _SimulatedPayment(entry, SCENARIOS_BY_NAME[entry.scenario])
                self._payments[entry.reference] = payment
                if payment.scenario.waits_for_person:
                    self._prompts[entry.reference] = payment
            case journal.SandboxResult():
                payment = self._payments[entry.reference]
                payment.results.append(entry)
                # Of two successes of one payment (the scenario `twice`) one has moved money.
                if entry.final is not None and entry.number == 1:
                    received = entry.final.minor
                    if payment.submitted.type != Type.PAYIN:
                        received = -received
                    self._received[entry.final.currency] += received
                self._prompts.pop(entry.reference, None)
            case journal.SandboxReversal():
                # The first request with an id counts: a repetition moves nothing.
                if (
                    self._reversals.setdefault(entry.reversal, entry) is entry
                    and entry.failure is None
                ):
                    self._received[entry.amount.currency] -= entry.amount.minor
                return
            case journal.SandboxAcknowledgement():
                payment = self._payments[entry.reference]
                payment.acknowledged = entry.number
                payment.is_notifying = False
                if payment.is_finished:
                    self._forget_finished(entry.reference)

        # Whatever has happened: the next of its steps may be due.
        if (at := payment.next_step_at) is not None:
            heappush(self._schedule, (at, entry.reference))

    def _forget_finished(self, reference: str) -> None:
        """Forget the payment that finished first, once there are too many; it stays in the
        journal."""
        self._finished.append(reference)
        if len(self._finished) > FINISHED_PAYMENTS_MAX:
            del self._payments[self._finished.popleft()]


def _parse_submission(body: bytes, *, now: Instant) -> journal.SandboxSubmission:
    document = parse_json(body)
    scenario = wire.required_member(document, "scenario", str)
    if scenario not in SCENARIOS_BY_NAME:
        raise ValueError(f"there is no scenario {scenario}")

    names = [wire.optional_member(document, name, str) for name in ("firstName", "lastName")]
    return journal.SandboxSubmission(
        at=now,
        reference=wire.required_member(document, "reference", str),
        type=wire.required_member(document, "type", str),
        amount=wire.parse_amount(document, "amount"),
        msisdn=wire.required_member(document, "msisdn", str),
        payer_name=" ".join(name for name in names if name) or None,
        expires_at=later(now, wire.required_member(document, "expiresInUs", int)),
        scenario=scenario,
    )


def _make_result(
    payment: _SimulatedPayment, step: ScenarioStep, *, at: Instant
) -> journal.SandboxResult:
    number = len(payment.results) + 1
    if step.failure is not None:
        return journal.SandboxResult(at, payment.reference, number, failure=step.failure)

    asked = payment.submitted.amount
    final = Money(max(1, asked.minor - step.minor_units_less), asked.currency)
    return journal.SandboxResult(
        at, payment.reference, number, final, percentage_of(final, FEE_PERCENT)
    )


def _make_notification(
    payment: _SimulatedPayment, result: journal.SandboxResult
) -> SandboxNotification:
    body = to_json(_payment_document(payment, [result]))
    request = HttpRequest("POST", wire.WEBHOOK_TARGET, JSON_HEADERS, body)
    return SandboxNotification((payment.reference, result.number), request)


def _payment_document(
    payment: _SimulatedPayment, results: list[journal.SandboxResult]
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "reference": payment.reference,
        # Made from ours, so that a restored operator gives the same one.
        "providerReference": f"SBX{payment.reference[-12:]}",
        "status": "pending",
    }
    for result in results:
        if result.failure is not None:
            native = wire.NATIVE_ERRORS[result.failure]
            document |= {
                "status": "failed",
                "errorCode": native.code,
                "errorMessage": native.message,
            }
        elif result.final is not None and result.fee is not None:
            name = payment.submitted.payer_name
            document |= {
                "status": "success",
                "amount": wire.format_amount(result.final),
                "fee": wire.format_amount(result.fee),
                # As real operators do: the registered name, where the order named somebody.
                "partyData": name and {"registeredName": name, "network": "Sandbox Mobile"},
            }

    return document


def _reversal_document(reversal: journal.SandboxReversal) -> dict[str, Any]:
    document: dict[str, Any] = {
        "reversal": reversal.reversal,
        "reference": reversal.reference,
        "providerReference": f"SBXR{reversal.reversal[-12:]}",
    }
    if reversal.failure is not None:
        native = wire.NATIVE_ERRORS[reversal.failure]
        return document | {
            "status": "failed",
            "errorCode": native.code,
            "errorMessage": native.message,
        }

    return document | {"status": "success", "amount": wire.format_amount(reversal.amount)}


def _answer_subscriber(number: bytes) -> HttpResponse:
    """Return who has a number, as its test digits say: one can't be reached, has no account or is
    barred, and of another letters are masked."""
    # The digits are those of the scenarios with the same error.
    match number[-3:]:
        case b"104" | b"105":
            return HttpResponse(503)
        case b"106":
            code = wire.NATIVE_ERRORS[ErrorCode.USER_NOT_FOUND].code
            return _json_response(404, {"errorCode": code})
        case b"107":
            return _json_response(200, {"name": SUBSCRIBER, "barred": True})
        case b"109":
            return _json_response(200, {"name": "J*** D**", "barred": False})
        case _:
            return _json_response(200, {"name": SUBSCRIBER, "barred": False})


def _json_response(status: int, document: dict[str, Any]) -> HttpResponse:
    return HttpResponse(status, JSON_HEADERS, to_json(document))
