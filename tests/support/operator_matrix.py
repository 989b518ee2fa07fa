"""Describes, as data, every course of a payment with each operator and flow.
`test_operator_matrix.py` runs them all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import Factory, field, frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.providers.airtel_money.codes import (
    ACCOUNT_REFUSALS,
    COLLECTION,
    DISBURSEMENT,
    ROUTER,
    AirtelCode,
    AirtelOutcome,
)
from mmo_sansio.providers.mpesa_daraja.account_check import OVERLOADED
from mmo_sansio.providers.mpesa_daraja.codes import (
    ACCOUNT_REFUSED_CODES,
    ERROR_RULES,
    RESULT_CODES,
    lacks_product,
)
from mmo_sansio.providers.mtn_momo import codes as mtn_codes
from mmo_sansio.providers.mtn_momo.codes import INCONCLUSIVE_REASONS, REASONS
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_simulators.common.faults import (
    AnswerInstead,
    CallBack,
    CutAnswer,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
)
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mtn.api import MtnSimulator
from tests.support import airtel_account as airtel_stage
from tests.support.operator_gateway import Market
from tests.support.simulated_accounts import account_options, mpesa_options

SUCCESS = "success"
NEVER: Span = HOUR
"""Longer than any client waits for an answer."""
AFTER_EXPIRY = Span(3 * DAY + HOUR)
EXPIRED = "transaction_expired"
LATE_STEPS_MAX = 60
"""Further steps of 900 s, all long before the expiry, for a machine that is so busy that a gateway
is behind its clock."""


@frozen
class Course:
    """Describes one payment's course of events and its end."""

    name: str
    faults: tuple[Fault, ...] = ()
    ends: str = SUCCESS
    """`success`, or the errorCode."""
    native: str | None = None
    """The operator's code in providerData, if it is known."""
    is_paid: bool = field(default=Factory(lambda self: self.ends == SUCCESS, takes_self=True))
    """Whether the operator's journal finally has it as paid."""
    is_suspended: bool = False
    """Whether its result is in the suspense book."""
    is_taken: bool = True
    """Whether the operator has received it before time passes."""


SOON = EndAfter(Span(MINUTE // 60))

ORDINARY = (
    Course("success", (SOON,)),
    Course("time-out", (LoseAnswer(NEVER), SOON)),
    Course("lost answer", (LoseAnswer(), SOON)),
    Course("half an answer", (CutAnswer(), SOON)),
    Course("token refused", (AnswerInstead(HttpResponse(401)), SOON)),
)
CALLED_BACK = (
    Course("duplicate callback", (SOON, CallBack((Span(0), Span(0))))),
    Course("late callback", (SOON, CallBack((Span(0), Span(2 * HOUR))))),
)
UNCALLED = Course("no callback", (SOON, CallBack(())))
LATE_RESULT = Course(
    "result after the expiry",
    (EndAfter(AFTER_EXPIRY),),
    ends=EXPIRED,
    is_paid=True,
    is_suspended=True,
)


def lost_request(ends: str) -> Course:
    """Return the course of a request that never arrives; the knowledge of that depends on the
    operator."""
    return Course("lost request", (LoseRequest(), SOON), ends, is_taken=False)


def failing(code: str, means: ErrorCode, message: str | None = None) -> Course:
    """Return the course of an accepted payment that fails like this."""
    return Course(f"fails: {code}", (EndWith(code, message), SOON), means.value, code)


def refused(code: str, means: ErrorCode, status: int, document: Mapping[str, Any]) -> Course:
    """Return the course of a payment that this answer rejects at once."""
    answer = HttpResponse(
        status, ((b"content-type", b"application/json"),), json.dumps(document).encode()
    )
    return Course(f"refused: {code}", (AnswerInstead(answer),), means.value, code, is_taken=False)


@frozen
class Way:
    """Describes a flow of an operator with its courses."""

    operation: str
    at: str
    """The simulator's name for the submission."""
    courses: tuple[Course, ...]
    isnt: Mapping[str, str] = Factory(dict)
    """The reasons for impossible courses, by name."""


@frozen
class Operator:
    """Describes a kind of provider, its simulator, and all its flows."""

    kind: str
    title: str
    market: Market
    make: Callable[[], Simulator]
    options: Callable[[Any], Mapping[str, str]]
    """The options of an account with this simulator, without its URL."""
    payer: Callable[[Any, int], str]
    """Returns the payer or payee of one of several payments."""
    ways: tuple[Way, ...]
    has_portal: bool = False
    """Whether its callback address is set in a portal, and not in each request."""


# M-Pesa.


def _mpesa_failures(is_payin: bool) -> Iterator[Course]:
    for code, meaning in RESULT_CODES.items():
        # Such a result of a pay-out holds back those behind it, too.
        if is_payin or code not in ACCOUNT_REFUSED_CODES | {OVERLOADED}:
            yield failing(code, meaning.payin if is_payin else meaning.payout)
    for each in ERROR_RULES:
        is_of_account = lacks_product(each.code, each.message_contains)
        if isinstance(each.meaning, ErrorCode) and not is_of_account:
            document = {
                "requestId": "1",
                "errorCode": each.code,
                "errorMessage": each.message_contains,
            }
            yield refused(each.code, each.meaning, int(each.code[:3]), document)


def _mpesa_way(operation: str, at: str, *, lost: str) -> Way:
    failures = tuple(_mpesa_failures(operation.endswith("payin")))
    return Way(
        operation,
        at,
        (*ORDINARY, *CALLED_BACK, UNCALLED, lost_request(lost), LATE_RESULT, *failures),
    )


def _mpesa_options(simulator: Any) -> Mapping[str, str]:
    return mpesa_options(simulator.certificate)


def _mpesa_payer(simulator: Any, number: int) -> str:
    """Return a different telephone for each payment, as M-Pesa prompts a payer once at a time."""
    msisdn = f"254700001{number:03d}"
    simulator.open_accounts([{"account": msisdn, "balance": "1000.00"}])
    return msisdn


MPESA = Operator(
    "mpesa_daraja",
    "M-Pesa",
    Market("KE", "KES", "254708374149"),
    open_mpesa,
    _mpesa_options,
    _mpesa_payer,
    (
        _mpesa_way("direct/payin", "stk_push", lost="transaction_expired"),
        _mpesa_way("web/payin", "stk_push", lost="transaction_expired"),
        _mpesa_way("direct/payout", "b2c", lost=SUCCESS),
        _mpesa_way("direct/taxpayout", "tax", lost="transaction_expired"),
    ),
)


# MTN MoMo.


def _mtn_way(operation: str, at: str) -> Way:
    is_payin = operation.endswith("payin")
    means = {code: each.payin if is_payin else each.payout for code, each in REASONS.items()}
    failures = [failing(code, meaning) for code, meaning in means.items()]
    refusals = [
        refused(code, meaning, 500, {"code": code, "message": "no"})
        for code, meaning in means.items()
        if code not in INCONCLUSIVE_REASONS | mtn_codes.ACCOUNT_REFUSALS  # They refuse no payment.
    ]
    return Way(
        operation,
        at,
        (
            *ORDINARY, *CALLED_BACK, UNCALLED, lost_request(SUCCESS), LATE_RESULT,
            *failures, *refusals,
        ),
    )  # fmt: skip


def _mtn_options(_: Any) -> Mapping[str, str]:
    return account_options("mtn")


MTN = Operator(
    "mtn_momo",
    "MTN MoMo",
    Market("UG", "EUR", "46733123999"),
    MtnSimulator,
    _mtn_options,
    lambda _, number: f"46733124{number:03d}",
    (
        _mtn_way("direct/payin", "requesttopay"),
        _mtn_way("web/payin", "requesttopay"),
        _mtn_way("direct/payout", "transfer"),
    ),
)


# Airtel Money.


def _airtel_failures(table: Sequence[AirtelCode]) -> Iterator[Course]:
    for each in table:
        if each.outcome is not AirtelOutcome.DONE and each.error_code is not None:
            yield failing(each.native, each.error_code, each.message or "no")
    for each in ROUTER:
        if (
            each.outcome is AirtelOutcome.REJECTED
            and each.error_code is not None
            and each.native not in ACCOUNT_REFUSALS  # They refuse no payment.
        ):
            status = {"response_code": each.native, "message": "no", "success": False}
            yield refused(each.native, each.error_code, 400, {"status": status})


NO_CALLBACKS = "none is sent"
AIRTEL = Operator(
    "airtel_money",
    "Airtel Money",
    Market("UG", "UGX", f"+256{airtel_stage.PAYER}"),
    lambda: airtel_stage.a_simulator(callback_key="callback-key", ambiguous_status="TF"),
    lambda _: airtel_stage.options("", callback_key="callback-key", collection_version="2"),
    lambda _, number: f"+256{airtel_stage.PAYER}",
    (
        *(
            Way(
                operation,
                "collection",
                (
                    *ORDINARY, *CALLED_BACK, UNCALLED, lost_request(lost),
                    LATE_RESULT, *_airtel_failures(COLLECTION),
                ),
            )
            for operation, lost in (
                ("direct/payin", "provider_unavailable"),  # No payer waits so long.
                ("web/payin", SUCCESS),
            )
        ),
        Way(
            "direct/payout",
            "disbursement",
            (*ORDINARY, UNCALLED, lost_request(SUCCESS), *_airtel_failures(DISBURSEMENT)),
            {
                "duplicate callback": NO_CALLBACKS,
                "late callback": NO_CALLBACKS,
                "result after the expiry": "never known",
            },
        ),
    ),
    has_portal=True,
)  # fmt: skip

OPERATORS = (MPESA, MTN, AIRTEL)
