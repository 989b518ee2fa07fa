"""What the API may be sent in a creation request, row by row: the pure side (C1 to C14, G2, G4, G7,
G8, M1 to M4)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.messages.inputs import Draft
from mmo_sansio.messages.replies import Accepted, Rejected
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import Problem, ProblemError
from tests.support.api_requests import BRAND, SETTINGS, body, call, draft, problem_of, request, text

P, OUT, QR, WEB, TAX = Operation


def refused(given: Any, operation: Operation = P) -> Problem:
    return problem_of(text(given), operation)


def in_place_of_value(number: str) -> bytes:
    """A body whose amount has this very text as its value."""
    return text(body(amount__value="VALUE")).replace(b'"VALUE"', number.encode())


def amount_after_the_law(content: bytes) -> str | Problem:
    match Gateway().receive(call(request(content)), now=Instant(0)):
        case Accepted(order):
            return str(order.requested)
        case Rejected(problem):
            return problem
        case other:
            raise AssertionError(other)


JSON = b"application/json"


@pytest.mark.spec("G2")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=f"row 17: {value!r}")
        for value in (
            JSON,
            b"application/json; charset=utf-8",
            b"Application/JSON",
            b'application/json;charset="UTF-8"',
            b"application/json ; Charset=Utf-8 ;",
            b"application/json; profile=x",
            b"application/json;charset=utf8",
            b'application/json; charset="UTF8"',
        )
    ],
)
def test_content_is_declared_as_json(value: bytes) -> None:
    assert call(request(headers=((b"x-api-key", b"k"), (b"content-type", value))))


@pytest.mark.spec("G2")
@pytest.mark.parametrize("coding", [b"identity", b" Identity ", b""])
def test_a_body_that_is_not_encoded_may_say_so(coding: bytes) -> None:
    assert call(
        request(
            headers=((b"x-api-key", b"k"), (b"content-type", JSON), (b"content-encoding", coding))
        )
    )


@pytest.mark.spec("G2")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(fields, id=f"row {row}: {fields!r}")
        for row, fields in (
            (15, ()),
            (15, ((b"content-type", b""),)),
            (16, ((b"content-type", b"text/plain"),)),
            (16, ((b"content-type", b"application/x-www-form-urlencoded"),)),
            (18, ((b"content-type", b"application/json; charset=utf-16"),)),
            (18, ((b"content-type", b"application/json; charset=latin1"),)),
            (18, ((b"content-type", b"application/json;CharSet=latin1"),)),
            (18, ((b"content-type", b"application/json; charset=utf-8; charset=latin1"),)),
            (19, ((b"content-type", b"application/problem+json"),)),
            (19, ((b"content-type", b"application/vnd.x+json"),)),
            (19, ((b"content-type", b"application/jsonp"),)),
            (19, ((b"content-type", b"application/json, text/plain"),)),
            (19, ((b"content-type", b"application/json; charset"),)),
            (19, ((b"content-type", JSON), (b"content-type", JSON))),
            (19, ((b"content-type", JSON), (b"content-encoding", b"gzip"))),
            (19, ((b"content-type", JSON), (b"content-encoding", b"identity, gzip"))),
            (
                19,
                (
                    (b"content-type", JSON),
                    (b"content-encoding", b"identity"),
                    (b"content-encoding", b"gzip"),
                ),
            ),
        )
    ],
)
def test_any_other_content_is_a_bad_request(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    with pytest.raises(ProblemError) as caught:
        call(request(headers=((b"x-api-key", b"k"), *fields)))
    assert (caught.value.problem.status, caught.value.problem.segment) == (400, "bad_request")


ABSENT: list[Any] = [..., None]
SCALARS_AND_LISTS: list[Any] = ["x", 1, True, []]

FAULTS: list[tuple[int, str, Any, Operation]] = [
    (32, "amount", body(Amount={"value": 1, "currency": "KES"}, amount=...), P),
    (37, "amount", b"{" + b",".join(b'"m%d":1' % n for n in range(900)) + b"}", P),
    *((38, "amount", body(amount=value), P) for value in (*ABSENT, 1, "1", [], True)),
    (39, "amount.value", body(amount__value=...), P),
    (39, "amount.value", body(amount__value=None), P),
    *((40, "amount.value", in_place_of_value(n), P) for n in ("0", "0.00", "-0", "-0.0", "0e5")),
    *((40, "amount.value", in_place_of_value(n), P) for n in ("-1", "-0.01")),
    (49, "amount.value", in_place_of_value("1e400"), P),
    (49, "amount.value", in_place_of_value("1e1000000000"), P),
    (49, "amount.value", in_place_of_value("1e99999999999999999999"), P),
    (49, "amount.value", in_place_of_value("1e-99999999999999999999"), P),
    (51, "amount.value", in_place_of_value("9" * 5_000), P),
    (51, "amount.value", in_place_of_value("1." + "0" * 39), P),
    (52, "amount.value", body(amount__value="10.00"), P),
    *((53, "amount.value", body(amount__value=value), P) for value in (True, [10], {"v": 1})),
    (55, "amount.value", in_place_of_value("1000000000000000.01"), P),
    (55, "amount.value", in_place_of_value("1e16"), P),
    *(
        (57, "amount.currency", body(amount__currency=code), P)
        for code in (
            ...,
            None,
            "",
            "eu",
            "EURO",
            "€",
            "KE\u0301",
            "K€S",
            "KE1",
            "KES ",
            "KES\n",
            404,
            ["KES"],
            "ＫＥＳ",
        )
    ),
    *(
        (61, "country", body(country=code), P)
        for code in (..., None, "", " ", 1, "K" * 11, "K\x7f")
    ),
    *((66, "payer", body(payer=value), P) for value in (*ABSENT, "x", [], 1)),
    (66, "payer.id", body(payer__id=...), P),
    (66, "payer.msisdn", body(payer__msisdn=...), P),
    *((66, "payer.id", body(payer__id=value), P) for value in ("", "  ", 7, "x" * 256, "a\tb")),
    (67, "payee", body(payee=..., payer={"id": "1", "msisdn": "254700000000"}), OUT),
    *((66, "payer", body(operation, payer=...), operation) for operation in (QR, WEB)),
    *(
        (69, "reconciliationReference", body(TAX, reconciliationReference=r), TAX)
        for r in (..., None, " ")
    ),
    (69, "reconciliationReference", body(TAX, reconciliationReference="x" * 256), TAX),
    (70, "payer.msisdn", body(payer__msisdn="12"), P),
    *((70, "payer.msisdn", body(payer__msisdn=n), P) for n in ("1" * 21, "+" + "1" * 20)),
    *(
        (71, "payer.msisdn", body(payer__msisdn=number), P)
        for number in (
            "+254 700 000000",
            "254-700-000000",
            "254x00000000",
            "٢٥٤٧٠٠",
            "＋２５４",
            "++254",
            "254+",
            "+++",
            "",
            254,
            "0712345678",
            "+0712345678",
            "000",
        )
    ),
    *(
        (72, "payer.email", body(payer__email=email), P)
        for email in (
            "a" * 64 + "@" + ".".join(["d" * 63] * 4) + "x",
            "a@",
            "a b@c.d",
            "a@b.c\r\nBcc: x@y.z",
            "a",
            "@b.c",
            "a@b",
            "a@b@c.d",
            "a@.c",
            "a@b..c",
            "a@-b.c",
            "a" * 65 + "@b.c",
            "a@b.c\n",
            "a\u2003b@c.d",
            "a@m\u2003n.de",
            "a@m\u200bn.de",
            "a@-ü.de",
            "a@ü" + "n" * 62 + ".de",
            "a@" + "ü" * 60 + ".de",
            5,
        )
    ),
    *((73, "payer.firstName", body(payer__firstName=name), P) for name in ("x" * 256, 1, "a\x9f")),
    (73, "payer.lastName", body(payer__lastName="x" * 256), P),
    (73, "payee.lastName", body(OUT, payee__lastName="x" * 256), OUT),
    *(
        (74, "merchantReference", body(merchantReference=r), P)
        for r in (..., None, "", "  ", 1, "\u3000")
    ),
    (75, "merchantReference", body(merchantReference="é" * 256), P),
    (75, "reconciliationReference", body(reconciliationReference="x" * 256), P),
    *(
        (76, "merchantReference", body(merchantReference=f"a{c}b"), P)
        for c in "\0\x1f\x7f\x80\x9f\n"
    ),
    *((79, "merchantReference", body(merchantReference=r), P) for r in (".", "..")),
    (86, "labels", body(labels={str(n): n for n in range(11)}), P),
    *((86, "labels", body(labels=value), P) for value in SCALARS_AND_LISTS),
    *((86, "labels.a", body(labels={"a": value}), P) for value in ({}, [], ["x"], {"b": 1})),
    (86, "labels.a", body(labels={"a": "x" * 1_001}), P),
    (86, "labels.a", body(labels={"a": "x\0"}), P),
    (86, "labels.a", text(body(labels={"a": "N"})).replace(b'"N"', b"1" * 41), P),
    *((86, "labels", body(labels={key: 1}), P) for key in ("", "k" * 256, "a\0")),
    *(
        (88, "resultUrl", body(resultUrl=url), P)
        for url in (
            *(*ABSENT, "", "   ", 123, {}, [], "http://merchant.example/cb", "https://127.0.0.1/"),
            *("https://" + "a" * 2_041, "https://a.example/\0", "https://u:p@a.example/", "/cb"),
        )
    ),
    *(
        (89, "displayQrUrl", body(QR, displayQrUrl=url), QR)
        for url in (..., None, "http://a.example/")
    ),
    *(
        (90, name, body(WEB, **{name: url}), WEB)
        for name in ("successRedirectUrl", "errorRedirectUrl")
        for url in (
            "javascript:alert(1)",
            "data:text/html,x",
            " ",
            1,
            "other://x",
            "https://a/" + "b" * 2_040,
        )
    ),
]


@pytest.mark.spec("C13", "C3", "C5", "C8", "G4", "G7", "G8", "M1", "M2", "M3", "M4", "P1")
@pytest.mark.parametrize(
    ("field", "given", "operation"),
    [pytest.param(*rest, id=f"row {row}: {n}: {rest[0]}") for n, (row, *rest) in enumerate(FAULTS)],
)
def test_a_faulty_field_is_named(field: str, given: Any, operation: Operation) -> None:
    problem = problem_of(given if isinstance(given, bytes) else text(given), operation)
    assert (problem.status, problem.error_code, problem.segment) == (
        400,
        *["validation_failed"] * 2,
    )
    assert problem.errors[0].field == field
    assert problem.detail == problem.errors[0].detail
    assert problem.detail.startswith(f"'{field}' ")
    assert problem.detail.endswith(".")


ACCEPTED: list[tuple[int, Any, Operation, str, object]] = [
    (33, body(unknown={"a": ["\0", {}]}), P, "country", "KE"),
    (33, text(body(unknown="N")).replace(b'"N"', b"9" * 5_000), P, "country", "KE"),
    (68, body(TAX, payer={"id": 1}), TAX, "party", None),
    *(
        (70, body(payer__msisdn=n), P, "party.msisdn", n)
        for n in ("123", "1" * 20, "+12", "+" + "1" * 19)
    ),
    (72, body(payer__email="a@b.c"), P, "party.email", "a@b.c"),
    *(
        (72, body(payer__email=email), P, "party.email", email)
        for email in (
            "a" * 64 + "@" + ".".join(["d" * 63] * 4),
            "ü.ñ+x@b-1.example",
            "a'b\"c@xn--bcher-kva.example",
        )
    ),
    (72, body(payer__email="ada@münchen.de"), P, "party.email", "ada@münchen.de"),
    (72, body(payer__email="ada@例え.テスト"), P, "party.email", "ada@例え.テスト"),
    (72, body(payer__email=None), P, "party.email", None),
    (73, body(payer__firstName="é" * 255), P, "party.first_name", "é" * 255),
    (73, body(payer__lastName=None), P, "party.last_name", None),
    (75, body(merchantReference="\U0001f600" * 255), P, "merchant_reference", "\U0001f600" * 255),
    *(
        (79, body(merchantReference=r), P, "merchant_reference", r)
        for r in ("a/b", "a?b", "a#b", "a%2Fb", ";x=1", "\U0001f600", "\u202eabc", "...", ". ")
    ),
    (80, body(merchantReference=" a b "), P, "merchant_reference", " a b "),
    (86, body(labels=None), P, "labels", None),
    (86, body(labels={}), P, "labels", "{}"),
    (
        86,
        body(labels={"z": 'é"\\', "a": True, "b": False, "c": None, "k" * 255: "x" * 1_000}),
        P,
        "labels",
        '{"z":"é\\"\\\\","a":true,"b":false,"c":null,"' + "k" * 255 + '":"' + "x" * 1_000 + '"}',
    ),
    (
        86,
        body(labels={str(n): "" for n in range(10)}),
        P,
        "labels",
        json.dumps({str(n): "" for n in range(10)}).replace(" ", ""),
    ),
    (88, body(resultUrl="https://merchant.example/" + "a" * 2_023), P, "operation", P),
    (89, body(QR), QR, "display_qr_url", "https://merchant.example/qr"),
    (90, body(WEB, successRedirectUrl="acme://done"), WEB, "success_redirect_url", "acme://done"),
    (
        90,
        body(WEB, errorRedirectUrl="http://a.example/#x"),
        WEB,
        "error_redirect_url",
        "http://a.example/#x",
    ),
    (90, body(successRedirectUrl=1, displayQrUrl=2), P, "success_redirect_url", None),
    (69, body(TAX), TAX, "reconciliation_reference", "tax-2026-11"),
    (66, body(OUT), OUT, "party.id", "user-1"),
    (61, body(country="K" * 10), P, "country", "K" * 10),
    (58, body(amount__currency="kes"), P, "currency", "kes"),
]


@pytest.mark.spec("C1", "C2", "C3", "C4", "C5", "C7", "C8", "C12", "G4", "G8", "M3", "M4")
@pytest.mark.parametrize(
    ("given", "operation", "path", "value"),
    [
        pytest.param(*rest, id=f"row {row}: {n}: {rest[2]}")
        for n, (row, *rest) in enumerate(ACCEPTED)
    ],
)
def test_a_good_field_is_taken_as_it_is(
    given: Any, operation: Operation, path: str, value: object
) -> None:
    found: Any = draft(given if isinstance(given, bytes) else text(given), operation)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.spec("G4")
@pytest.mark.parametrize(
    ("given", "path"),
    [
        (body(payer__email=""), "party.email"),
        (body(payer__firstName=""), "party.first_name"),
        (body(payer__lastName=""), "party.last_name"),
        (body(WEB, successRedirectUrl=""), "success_redirect_url"),
        (body(WEB, errorRedirectUrl=""), "error_redirect_url"),
        (body(reconciliationReference=""), "reconciliation_reference"),
    ],
)
def test_an_optional_member_that_a_form_left_empty_is_absent(given: Any, path: str) -> None:
    found: Any = draft(text(given), WEB)
    for name in path.split("."):
        found = getattr(found, name)
    assert found is None


@pytest.mark.spec("M4", "G6")
@pytest.mark.parametrize(
    "number", ["0.10", "1e400", "-0", "123456789012345678901234567890.5", "1E+2"]
)
def test_a_number_in_labels_comes_back_as_it_was_written(number: str) -> None:
    given = text(body(labels={"n": "N"})).replace(b'"N"', number.encode())
    assert draft(given).labels == f'{{"n":{number}}}'


@pytest.mark.spec("M1", "G6")
@pytest.mark.parametrize(
    ("number", "currency", "amount"),
    [
        pytest.param(*rest, id=f"row {row}: {rest[0]} {rest[1]}")
        for row, *rest in (
            (42, "10.5", "EUR", "10.50 EUR"),
            (43, "10", "EUR", "10.00 EUR"),
            (43, "10.0", "EUR", "10.00 EUR"),
            (43, "10.50", "EUR", "10.50 EUR"),
            (44, "10.500", "EUR", "10.50 EUR"),
            (45, "10.505", "EUR", None),
            (46, "100", "UGX", "100 UGX"),
            (46, "100.0", "UGX", "100 UGX"),
            (46, "100.00", "UGX", "100 UGX"),
            (46, "100.5", "UGX", None),
            (47, "1.234", "KWD", "1.234 KWD"),
            (47, "1.2345", "KWD", None),
            (48, "1e2", "KES", "100.00 KES"),
            (48, "1E+2", "KES", "100.00 KES"),
            (48, "1.0e1", "KES", "10.00 KES"),
            (48, "1000e-2", "KES", "10.00 KES"),
        )
    ],
)
def test_an_amount_counts_by_value(number: str, currency: str, amount: str | None) -> None:
    given = in_place_of_value(number).replace(b"KES", currency.encode())
    outcome = amount_after_the_law(given)
    if amount is not None:
        assert outcome == amount
        return
    assert isinstance(outcome, Problem)
    assert (outcome.status, outcome.segment) == (400, "validation_failed")
    assert [fault.field for fault in outcome.errors] == ["amount.value"]
    assert outcome.detail == outcome.errors[0].detail


@pytest.mark.spec("C9", "C10", "C11", "C14", "M2")
@pytest.mark.parametrize(
    ("method", "given", "segment"),
    [
        pytest.param(*rest, id=f"row {row}: {n}: {rest[2]}")
        for n, (row, *rest) in enumerate(
            (
                (56, "mpesa_ke", body(amount__value=9.99), "config_method_transaction_min_limit"),
                (
                    56,
                    "mpesa_ke",
                    body(amount__value=150000.01),
                    "config_method_transaction_max_limit",
                ),
                (58, "mpesa_ke", body(amount__currency="kes"), "config_unsupported_currency"),
                (59, "mpesa_ke", body(amount__currency="USD"), "config_unsupported_currency"),
                (59, "mpesa_ke", body(amount__currency="QQQ"), "config_unsupported_currency"),
                (60, "mpesa_ke", body(country="ZZ"), "config_unsupported_country"),
                (60, "mpesa_ke", body(country="UG"), "config_unsupported_country"),
                (61, "mpesa_ke", body(country="ke"), "config_unsupported_country"),
                (61, "mpesa_ke", body(country="KEN"), "config_unsupported_country"),
                (62, "unknown", body(), "config_unsupported_payment_method"),
                (63, "m" * 100, body(), "config_unsupported_payment_method"),
                (63, "m" * 101, body(), "validation_failed"),
                (65, "MPESA_KE", body(), "config_unsupported_payment_method"),
            )
        )
    ],
)
def test_what_the_brand_does_not_have_is_refused_with_its_cause(
    method: str, given: Any, segment: str
) -> None:
    sent = request(text(given), target=f"/gateway/mmo/v2/direct/payin/{method}".encode())
    try:
        reply = Gateway().receive(call(sent), now=Instant(0))
    except ProblemError as error:
        reply = Rejected(error.problem)
    assert isinstance(reply, Rejected)
    assert (reply.problem.status, reply.problem.segment) == (400, segment)
    assert reply.problem.error_code == "validation_failed"


@pytest.mark.spec("C9", "P1")
@pytest.mark.parametrize(
    ("given", "operation", "detail"),
    [
        (
            body(merchant_reference="a", merchantReference=...),
            P,
            "'merchantReference' is required, not 'merchant_reference'.",
        ),
        (
            body(merchantRef="a", merchantReference=...),
            P,
            "'merchantReference' is required, not 'merchantRef'.",
        ),
        (body(OUT, payer={}, payee=...), OUT, "'payee' is required, not 'payer'."),
        (
            body(payer__MSISDN="1", payer__msisdn=...),
            P,
            "'payer.msisdn' is required, not 'MSISDN'.",
        ),
        (
            body(amount__CURRENCY="KES", amount__currency=...),
            P,
            "'amount.currency' is required, not 'CURRENCY'.",
        ),
        (body(Amount=1, amount=...), P, "'amount' is required, not 'Amount'."),
        (
            body(reconciliationReference="a", merchantReference=...),
            P,
            "'merchantReference' is required.",
        ),
        (body(QR, resultUrl=...), QR, "'resultUrl' is required."),
        (
            body(WEB, resultUrl=..., successRedirectUrl="https://a.example/"),
            WEB,
            "'resultUrl' is required.",
        ),
        (body(country=...) | {"count\u202ery": 1}, P, "'country' is required."),
    ],
)
def test_a_required_member_that_has_another_name_is_told_so(
    given: Any, operation: Operation, detail: str
) -> None:
    assert problem_of(text(given), operation).detail == detail


@pytest.mark.spec("C10", "C14", "M2")
@pytest.mark.parametrize(
    ("method", "given", "hint"),
    [
        ("mpesa_kee", body(), "Did you mean mpesa_ke?"),
        ("MPESA-KE", body(), "Did you mean mpesa_ke?"),
        ("airtel_ug", body(), "Known are: mpesa_ke, payin_only."),
        ("mpesa_ke", body(country="KEN"), "Did you mean KE?"),
        ("mpesa_ke", body(country="ke"), "Did you mean KE?"),
        ("mpesa_ke", body(country="UG"), "Known are: KE."),
        ("mpesa_ke", body(amount__currency="kes"), "Did you mean KES?"),
        ("mpesa_ke", body(amount__currency="XOF"), "Known are: EUR, KES, KWD, UGX."),
        ("payin_only", body(), "'payin_only'."),
    ],
)
def test_a_refusal_says_what_the_brand_has_instead(method: str, given: Any, hint: str) -> None:
    sent = request(text(given), target=f"/gateway/mmo/v2/direct/payin/{method}".encode())
    reply = Gateway().receive(call(sent), now=Instant(0))
    assert isinstance(reply, Rejected)
    assert reply.problem.detail.endswith(hint)


@pytest.mark.spec("C11")
@pytest.mark.parametrize("value", [10, 150000])
def test_the_bounds_themselves_are_allowed(value: int) -> None:
    assert amount_after_the_law(text(body(amount__value=value))) == f"{value}.00 KES"


@pytest.mark.spec("C10")
def test_a_method_that_is_not_offered_for_the_flow_is_unsupported() -> None:
    sent = request(text(body(OUT)), target=b"/gateway/mmo/v2/direct/payout/payin_only")
    reply = Gateway().receive(call(sent), now=Instant(0))
    assert isinstance(reply, Rejected)
    assert reply.problem.segment == "config_unsupported_payment_method"


@pytest.mark.spec("C1", "C7", "M1")
def test_a_whole_request_becomes_a_draft() -> None:
    given = request(text(body(payer__email="ada@shop.example", labels={"a": 1})))
    created = call(given)
    assert created.draft == Draft(
        operation=P,
        method="mpesa_ke",
        amount=Decimal(150),
        currency="KES",
        country="KE",
        result_url="https://merchant.example/callbacks",
        merchant_reference="order-1",
        party=created.draft.party,
        labels='{"a":1}',
    )
    assert created.brand is BRAND


SANDBOX = evolve(SETTINGS, sandbox_scenarios=("timeout", "phone"))


def scenario(*values: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"x-api-key", b"k"),
        (b"content-type", JSON),
        *((b"x-sandbox-scenario", value) for value in values),
    )


def test_a_sandbox_plays_the_scenario_that_the_header_names() -> None:
    assert call(request(headers=scenario(b"timeout")), settings=SANDBOX).draft.scenario == "timeout"
    assert call(request(headers=scenario()), settings=SANDBOX).draft.scenario is None
    assert call(request(headers=scenario(b"timeout"))).draft.scenario is None


@pytest.mark.parametrize(
    "values", [(b"other",), (b"",), (b"TIMEOUT",), (b"timeout", b"phone"), (b"\xff",)]
)
def test_an_unknown_scenario_is_refused_after_all_fields(values: tuple[bytes, ...]) -> None:
    with pytest.raises(ProblemError) as caught:
        call(request(text(body(country=...)), headers=scenario(*values)), settings=SANDBOX)
    faults = caught.value.problem.errors
    assert [fault.field for fault in faults] == ["country", "X-Sandbox-Scenario"]
    assert faults[1].detail == "'X-Sandbox-Scenario' must be one of: timeout, phone."


@pytest.mark.spec("C8", "C9")
def test_urls_beyond_the_brand_s_result_hosts_are_named_in_order() -> None:
    brand = evolve(BRAND, result_hosts=("merchant.example",))
    target = b"/gateway/mmo/v2/qr/payin/mpesa_ke"

    def errors(**changes: Any) -> list[str]:
        content = text(body(Operation.QR_PAYIN, **changes))
        try:
            call(request(content, target=target), brand=brand)
        except ProblemError as error:
            return [f"{each.field}: {each.detail}" for each in error.problem.errors]
        return []

    here, thief = "https://merchant.example/x", "https://thief.example/x"
    assert errors(resultUrl=here, displayQrUrl=here) == []
    first, second, third = errors(
        country=None, resultUrl=thief, displayQrUrl=thief, merchantReference=None
    )[:3]
    assert first.startswith("country")
    assert second == (
        "resultUrl: 'resultUrl' can't be used. The host thief.example is not one of the brand's "
        "result hosts:"
        " use one of them, or have it added."
    )
    assert third.startswith("displayQrUrl: 'displayQrUrl' can't be used.")
    assert errors(resultUrl=here, displayQrUrl=here, successRedirectUrl=thief) == [], (
        "no key travels there"
    )
