"""Lists the situations in which results come repeatedly, at once or out of order."""

from __future__ import annotations

from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_merchant.endpoint_check.situations.situation import (
    PAID,
    Expectation,
    Handling,
    PlayedRequest,
    Script,
    Situation,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span, earlier

# How often the same result comes at the same time: more often than a small pool has workers.
REPEATS_AT_ONCE = 8

# Callbacks that the gateway sends to one merchant at the same time (K6).
CALLBACKS_PER_MERCHANT = 16

_STORE_REJECTS = (
    " Let your database reject the second one, by a unique key on gatewayReference: if you look"
    " first and write later, both pass."
)


def _one_after_another(*bodies: bytes) -> tuple[tuple[PlayedRequest, ...], ...]:
    return tuple((PlayedRequest(body),) for body in bodies)


def _repeated(payments: PlayedPayments) -> Script:
    body = payments.success()
    return Script(_one_after_another(body, body), {payments.reference(): PAID})


def _repeated_at_once(payments: PlayedPayments) -> Script:
    request = PlayedRequest(payments.success())
    return Script(((request,) * REPEATS_AT_ONCE,), {payments.reference(): PAID})


def _repeated_after_others(payments: PlayedPayments) -> Script:
    # The repeat is not the last one that came, which some endpoints remember alone.
    bodies = [payments.success(which) for which in range(4)]
    handled = {payments.reference(which): PAID for which in range(4)}
    return Script(_one_after_another(*bodies, bodies[0]), handled)


def _repeated_failure(payments: PlayedPayments) -> Script:
    body = payments.failure()
    return Script(_one_after_another(body, body), {payments.reference(): Handling(1, "failed")})


def _contradicted(payments: PlayedPayments) -> Script:
    # The first result stands, whatever comes after it (S1).
    return Script(
        _one_after_another(payments.success(), payments.failure()), {payments.reference(): PAID}
    )


def _reference_used_again(payments: PlayedPayments) -> Script:
    # Two payments, two gatewayReferences, one merchantReference: after a failure it may be used
    # again (C12).
    names = {
        "merchant_reference": payments.order_reference(0),
        "reconciliation_reference": payments.order_reference(0),
    }
    handled = {payments.reference(0): Handling(1, "failed"), payments.reference(1): PAID}
    return Script(_one_after_another(payments.failure(0), payments.success(1, **names)), handled)


def _out_of_order(payments: PlayedPayments) -> Script:
    # The later payment ends first; times of creation and completion say nothing of the order.
    hour = Span(3600 * clock.SECOND)
    times = {"created_at": earlier(payments.now, hour), "completed_at": earlier(payments.now, hour)}
    handled = {payments.reference(0): PAID, payments.reference(1): PAID}
    return Script(_one_after_another(payments.success(1), payments.success(0, **times)), handled)


def _many_at_once(payments: PlayedPayments) -> Script:
    numbers = range(CALLBACKS_PER_MERCHANT)
    requests = tuple(PlayedRequest(payments.success(which)) for which in numbers)
    return Script((requests,), {payments.reference(which): PAID for which in numbers})


def _result_after_qr_code(payments: PlayedPayments) -> Script:
    # Codes may have an endpoint of their own, so that this one may reject them.
    code = PlayedRequest(payments.qr_code(), Expectation.NO_FAULT)
    return Script(((code,), (PlayedRequest(payments.success()),)), {payments.reference(): PAID})


REPEAT_SITUATIONS = (
    Situation(
        "repeated",
        "The same result comes twice, one after the other.",
        "Answer with a 2xx both times and book it once." + _STORE_REJECTS,
        ("K3",),
        _repeated,
        question="Was it booked once?",
    ),
    Situation(
        "repeated-at-once",
        f"The same result comes {REPEATS_AT_ONCE} times at the same moment.",
        "Answer with a 2xx each time and book it once." + _STORE_REJECTS,
        ("K3",),
        _repeated_at_once,
        question="Was it booked once?",
    ),
    Situation(
        "repeated-later",
        "The same result comes again after others.",
        "Answer with a 2xx and book it once: remember every gatewayReference, not only the last.",
        ("K3",),
        _repeated_after_others,
        question="Was each of the four payments booked once?",
    ),
    Situation(
        "repeated-failure",
        "The same failure comes twice.",
        "Answer with a 2xx both times; for example, return the goods to stock once.",
        ("K3",),
        _repeated_failure,
        question="Did the failure have its effect once?",
    ),
    Situation(
        "contradiction",
        "After a success, a failure comes for the same payment.",
        "Answer with a 2xx and keep the success: a result never changes. Have a person look at it.",
        ("S1",),
        _contradicted,
        question="Is the payment still a success?",
    ),
    Situation(
        "reference-used-again",
        "A payment has failed; a second one with the same merchantReference has succeeded.",
        "Book both: they are two payments. Only gatewayReference tells whether a result is "
        "a repeat.",
        ("K3", "C12"),
        _reference_used_again,
        question="Was the second payment booked as a success?",
    ),
    Situation(
        "out-of-order",
        "The result of a later payment comes before the result of an earlier one.",
        "Answer with a 2xx and book both: callbacks have no order.",
        ("K6",),
        _out_of_order,
        question="Were both booked?",
    ),
    Situation(
        "many-at-once",
        f"Results of {CALLBACKS_PER_MERCHANT} payments come at the same moment.",
        "Answer each with a 2xx within 15 seconds: the gateway sends so many at a time to one "
        "merchant.",
        ("K6", "K2"),
        _many_at_once,
        question="Were all of them booked?",
    ),
    Situation(
        "result-after-qr-code",
        "A QR code comes, then the result of the same payment, to the same URL.",
        "Book the result and answer 2xx to it: the QR code before it has the same "
        "gatewayReference, and is no result.",
        ("Q1", "K1"),
        _result_after_qr_code,
        question="Was the payment booked as a success?",
    ),
)
