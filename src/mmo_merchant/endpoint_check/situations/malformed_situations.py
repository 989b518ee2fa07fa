"""Lists the situations in which a request comes that the gateway never sends."""

from __future__ import annotations

from collections.abc import Callable

from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_merchant.endpoint_check.situations.situation import (
    Expectation,
    Handling,
    PlayedRequest,
    Script,
    Situation,
)
from mmo_sansio.values.model import Stage

# Arrays within each other: far more than a recursive parser has stack for.
NESTING = 20_000

_NEVER_SENT = (
    "Answer with a 4xx. The gateway never sends it, but others can, and a 5xx means that it broke "
    "your program."
)


def _with_body(
    body: bytes, expectation: Expectation = Expectation.NO_FAULT
) -> Callable[[PlayedPayments], Script]:
    def write(_: PlayedPayments) -> Script:
        return Script(((PlayedRequest(body, expectation),),))

    return write


def _never_sent(name: str, title: str, body: bytes) -> Situation:
    return Situation(name, title, _NEVER_SENT, ("K1",), _with_body(body))


def _with_path_as_reference(payments: PlayedPayments) -> Script:
    reference = payments.reference()
    # Once, in gatewayReference: merchantReference may hold the same text, and may be any text.
    body = payments.success().replace(reference.encode(), b"../../" + reference[6:].encode(), 1)
    return Script(((PlayedRequest(body, Expectation.REJECT),),))


def _pending(payments: PlayedPayments) -> Script:
    # A callback as the gateway would write it, had it one for a payment that is pending.
    body = payments.success(
        stage=Stage.AWAITING_RESULT, final=None, completed_at=None, completion_source=None
    )
    return Script(
        ((PlayedRequest(body, Expectation.NO_FAULT),),), {payments.reference(): Handling(0)}
    )


def _get(_: PlayedPayments) -> Script:
    return Script(((PlayedRequest(b"", Expectation.DECLINE, method="GET"),),))


MALFORMED_SITUATIONS = (
    _never_sent("body-empty", "A request has no body.", b""),
    _never_sent("body-no-json", "A body is not JSON.", b"status=success&amount=150"),
    _never_sent("body-no-utf8", "A body is not UTF-8.", b'{"gatewayReference":"\xff\xfe"}'),
    _never_sent("body-array", "A body is JSON, but an array.", b"[]"),
    _never_sent(
        "body-deep", "A body is an array within an array, thousands of times.", b"[" * NESTING
    ),
    _never_sent("reference-missing", "A body has no gatewayReference.", b'{"status":"success"}'),
    _never_sent(
        "reference-number",
        "The gatewayReference is a number.",
        b'{"status":"success","gatewayReference":7}',
    ),
    Situation(
        "reference-path",
        "The gatewayReference is a path, ../../ and more.",
        "Answer with a 4xx: a gatewayReference is a ULID. Never build a file name or a query from "
        "text that came in.",
        ("T2",),
        _with_path_as_reference,
        is_required=False,
    ),
    Situation(
        "status-pending",
        "A body has the status pending.",
        "Book nothing as paid. The gateway calls only with success or failed; look the payment up "
        "if you doubt it.",
        ("K1",),
        _pending,
        question="Was nothing booked as paid?",
    ),
    Situation(
        "method-get",
        "Somebody opens the URL in a browser: a GET comes.",
        "Answer 405, or another status but a 2xx, which would hide a wrong set-up from those "
        "who look.",
        ("K1",),
        _get,
        is_required=False,
    ),
)
