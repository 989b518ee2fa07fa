"""Lists the situations in which one result or QR code comes, of every kind that there is."""

from __future__ import annotations

import json
from collections.abc import Callable

from mmo_merchant.endpoint_check.situations.played_payments import QR_TEXT, PlayedPayments
from mmo_merchant.endpoint_check.situations.situation import (
    PAID,
    Handling,
    Script,
    Situation,
    accepted,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span, earlier
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Party, ProviderData, Source, Type
from mmo_sansio.values.money import Money

# How long a payment was pending that is about to expire (S3).
LATE = Span(3 * clock.DAY - clock.HOUR)

# Members of a big `partyData`: together some 200 KB, which is above the limit of many frameworks.
PARTY_DATA_ENTRIES = 2000

# How a failure must have been dealt with: once, and without an amount.
_FAILED = Handling(1, "failed")
_IGNORE_UNKNOWN = (
    "Answer with a 2xx and book the result: new values are added without a new version, so ignore "
    "what you do not know."
)
_BOOK = "Answer with a 2xx and book the result once."

BodyWriter = Callable[[PlayedPayments], bytes]


def _result(
    name: str,
    title: str,
    body: BodyWriter,
    *,
    duty: str = _BOOK,
    clauses: tuple[str, ...] = ("K1", "K2"),
    handling: Handling = PAID,
    question: str = "Was the payment booked as a success?",
    is_required: bool = True,
) -> Situation:
    def write(payments: PlayedPayments) -> Script:
        return accepted(body(payments), payments.reference(), handling)

    return Situation(name, title, duty, clauses, write, is_required=is_required, question=question)


def _failure(
    name: str, title: str, body: BodyWriter, duty: str, clauses: tuple[str, ...]
) -> Situation:
    return _result(
        name,
        title,
        body,
        duty=duty,
        clauses=clauses,
        handling=_FAILED,
        question="Was the payment booked as failed?",
    )


def _with_unknown_members(payments: PlayedPayments) -> bytes:
    # Before the closing brace, as a newer gateway would add them.
    return (
        payments.success()[:-1] + b',"settlement":{"batch":7,"parts":[1,2.50,null]},"isTest":true}'
    )


def _with_unknown_code(payments: PlayedPayments) -> bytes:
    # In the written body, as no enumeration of ours has such a value.
    return payments.failure().replace(b'"user_cancelled"', b'"user_device_lost"')


def _with_unknown_source(payments: PlayedPayments) -> bytes:
    return payments.success().replace(
        b'"completionSource":"webhook"', b'"completionSource":"statement"'
    )


def _with_unknown_flow(payments: PlayedPayments) -> bytes:
    return payments.success().replace(b'"flow":"direct"', b'"flow":"card"')


def _in_another_order(payments: PlayedPayments) -> bytes:
    # gatewayReference, the first member, becomes the last.
    first, others = payments.success()[1:-1].split(b",", 1)
    return b"{" + others + b"," + first + b"}"


def _with_big_provider_data(payments: PlayedPayments) -> bytes:
    details = json.dumps(
        {f"detail{number}": "as the operator has it " * 4 for number in range(PARTY_DATA_ENTRIES)}
    )
    return payments.success(
        provider_data=ProviderData("sandbox", "Sandbox", Money(150, "KES"), details)
    )


def _with_long_texts(payments: PlayedPayments) -> bytes:
    # The longest of everything that M4 and C7 allow, with each character that URLs and forms
    # escape.
    labels = json.dumps({f"{number}".ljust(255, "k"): "v" * 1000 for number in range(10)})
    return payments.success(labels=labels, reconciliation_reference="r/%20?#&=\"'" + "r" * 240)


def _with_names(payments: PlayedPayments) -> bytes:
    # Letters beyond one byte and beyond 16 bits, and those that SQL, JSON and HTML escape.
    party = Party(
        "customer-7", "254700000007", first_name="Zuhura Łucja 🙂", last_name="O'Ñame \\ \"<b>"
    )
    return payments.success(party=party)


def _qr(name: str, title: str, payload: str | None) -> Situation:
    def write(payments: PlayedPayments) -> Script:
        return accepted(payments.qr_code(payload=payload), payments.reference(), Handling(0))

    return Situation(
        name,
        title,
        "Answer with a 2xx and book nothing: a QR code is something to show, it has no status,"
        " and the result comes later under the same gatewayReference. If codes have a URL of"
        " their own, this one may answer with a 4xx.",
        ("Q1",),
        write,
        is_required=False,
        question="Was nothing booked as paid?",
    )


RESULT_SITUATIONS = (
    _failure(
        "failed",
        "A payment has failed: the payer cancelled.",
        lambda payments: payments.failure(),
        "Answer with a 2xx, too: a failure is a result like any other, and finalAmount is "
        "null in it.",
        ("K1", "T2"),
    ),
    _failure(
        "expired",
        "A payment has expired after three days; no operator's data came with it.",
        lambda payments: payments.failure(
            code=ErrorCode.TRANSACTION_EXPIRED,
            provider_data=None,
            provider_reference=None,
            completion_source=Source.EXPIRY,
            created_at=earlier(payments.now, Span(3 * clock.DAY)),
        ),
        "Answer with a 2xx. providerData may be null, and the order may be three days old.",
        ("S3", "T3"),
    ),
    _result(
        "payout", "A pay-out has succeeded.", lambda payments: payments.success(type=Type.PAYOUT)
    ),
    _result(
        "tax",
        "A tax payout has succeeded; the party is the authority.",
        lambda payments: payments.success(type=Type.TAX, party=Party("mpesa_ke", "000")),
        clauses=("K1", "M5"),
    ),
    _result(
        "web",
        "A payment on the payment page has succeeded.",
        lambda payments: payments.success(flow=Flow.WEB),
    ),
    _result(
        "deposit",
        "A customer has paid without a request of yours: merchantReference and labels are null.",
        lambda payments: payments.deposit(),
        duty="Answer with a 2xx and keep the deposit: find its purpose by party.id, as there is no "
        "order of yours.",
        clauses=("S4", "K1"),
        question="Was the deposit kept?",
    ),
    _result(
        "other-amount",
        "A payment has succeeded with another amount than requested.",
        lambda payments: payments.success(
            requested=Money(15_000, "KES"), final=Money(14_999, "KES")
        ),
        duty="Answer with a 2xx and book finalAmount, which is what was paid; requestedAmount is "
        "what you asked for.",
        clauses=("T2", "S2"),
        handling=Handling(1, "success", "149.99"),
        question="Were 149.99 KES booked, and not 150.00?",
    ),
    _result(
        "exact-decimals",
        "A payment of an amount has succeeded that no binary float holds.",
        # One cent less than the largest amount (M1): a float has 53 bits and rounds it up.
        lambda payments: payments.success(requested=Money(99_999_999_999_999_999, "KES")),
        duty="Answer with a 2xx and book the amount to the cent: read numbers as decimals, not "
        "as floats.",
        clauses=("G6", "M1"),
        handling=Handling(1, "success", "999999999999999.99"),
        question="Were 999999999999999.99 KES booked, and not 1000000000000000?",
    ),
    _result(
        "no-decimals",
        "A payment in a currency without decimals has succeeded.",
        # 5,000 as minor units are 5,000 XOF: who divides by 100 everywhere books 50.
        lambda payments: payments.success(
            requested=Money(5_000, "XOF"), country="CI", method="orange_ci"
        ),
        clauses=("G6", "M1"),
        handling=Handling(1, "success", "5000"),
        question="Were 5000 XOF booked, and not 50?",
    ),
    _result(
        "unknown-members",
        "A result has members that you do not know.",
        _with_unknown_members,
        duty=_IGNORE_UNKNOWN,
        clauses=("T2",),
    ),
    _failure(
        "unknown-error-code",
        "A payment has failed with an errorCode that you do not know.",
        _with_unknown_code,
        _IGNORE_UNKNOWN,
        ("E1",),
    ),
    _result(
        "unknown-source",
        "A result has a completionSource that you do not know.",
        _with_unknown_source,
        duty="Answer with a 2xx and book the result: unknown values of completionSource are "
        "information only.",
        clauses=("S2",),
    ),
    _result(
        "unknown-flow",
        "A result has a flow that you do not know.",
        _with_unknown_flow,
        duty=_IGNORE_UNKNOWN,
        clauses=("T1",),
        is_required=False,
    ),
    _result(
        "member-order",
        "A result has its members in another order.",
        _in_another_order,
        duty="Answer with a 2xx: the members of a JSON object have no order.",
        clauses=("G4",),
    ),
    _result(
        "big-provider-data",
        "A result has a providerData of some 200 KB.",
        _with_big_provider_data,
        duty="Answer with a 2xx: operators add details as they like. Accept bodies up to 1 MiB.",
        clauses=("T3",),
    ),
    _result(
        "long-texts",
        "A result has ten labels of 1,000 characters, and a reference with every special "
        "character.",
        _with_long_texts,
        clauses=("M4", "L3"),
    ),
    _result(
        "names",
        "A result has a name with letters of many alphabets, quotes and an emoji.",
        _with_names,
    ),
    _result(
        "late",
        "The result of a payment of almost three days ago comes.",
        lambda payments: payments.success(created_at=earlier(payments.now, LATE)),
        duty="Answer with a 2xx: a payment may be pending for three days. The time of the order "
        "proves nothing.",
        clauses=("S3", "K1"),
    ),
    _qr("qr-code", "A QR code comes to the URL of results.", QR_TEXT),
    _qr("qr-picture", "A QR code comes as a picture only: qrPayload is null.", None),
)
