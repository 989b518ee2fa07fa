"""A merchant's requests are those that the gateway reads, and its answers are understood
exactly."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from mmo_merchant import (
    Answer,
    ApiAccess,
    ApiRejection,
    FieldError,
    GatewayUnavailable,
    KeyRejected,
    Money,
    NewPayment,
    NoAnswer,
    Party,
    RecordsWindow,
    ReferenceUsed,
    Status,
    TransactionNotFound,
    TransactionObject,
    Type,
    UnreadableBody,
    creation_request,
    look_up_request,
    page_request,
    parse_transaction,
    read_found,
    read_page,
    read_started,
    records_request,
    reference_look_up_request,
)
from mmo_merchant.api.new_payments import operation_of
from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.testing import FakeProvider, World, a_brand, accepts, succeeds
from mmo_sansio.values.clock import SECOND, later, to_datetime
from tests.support.merchant_orders import a_pay_in, one_of_each
from tests.support.simulated_api import BASE_URL, KEY, SimulatedApi

ACCESS = ApiAccess(BASE_URL, KEY)


@pytest.mark.spec("C1", "C2", "C3", "C4", "C5", "L1", "L2", "L3", "T2")
@pytest.mark.parametrize("payment", one_of_each(), ids=lambda each: type(each).__name__)
def test_every_kind_of_payment_arrives_as_it_was_requested(payment: NewPayment) -> None:
    api = SimulatedApi()
    started = read_started(api.answer(creation_request(ACCESS, payment)))
    assert started.merchant_reference == payment.merchant_reference
    assert started.reconciliation_reference == payment.reconciliation_reference
    assert (started.page_url is not None) == (operation_of(payment).value == "web/payin")
    found = read_found(api.answer(look_up_request(ACCESS, started.gateway_reference)))
    assert found == read_found(
        api.answer(reference_look_up_request(ACCESS, payment.merchant_reference))
    )
    assert (found.status, found.method, found.country) == (
        Status.PENDING,
        payment.method,
        payment.country,
    )
    assert (found.type, found.flow) == (operation_of(payment).type, operation_of(payment).flow)
    assert found.requested_amount == payment.amount
    assert found.labels == payment.labels
    [order] = [each.order for each in api.payments]
    party: Party | None = getattr(payment, "payer", getattr(payment, "payee", None))
    if party is not None:
        assert found.party == order.party == party
    if started.page_url is not None and order.page is not None:
        assert order.page.success_redirect_url == "https://acme.example/thanks"
        assert order.page.error_redirect_url == "https://acme.example/sorry"
    if operation_of(payment).value == "qr/payin":
        assert order.display_qr_url == "https://acme.example/qr"


@pytest.mark.spec("S2", "T3", "G6")
def test_the_members_of_a_payment_that_has_ended_are_exact() -> None:
    api = SimulatedApi(World(FakeProvider(on_submit=(succeeds,))))
    started = read_started(
        api.answer(creation_request(ACCESS, a_pay_in(labels={"weight": Decimal("1.50")})))
    )
    api.world.settle()
    found = read_found(api.answer(look_up_request(ACCESS, started.gateway_reference)))
    assert found.has_ended
    assert (found.status, found.final_amount) == (Status.SUCCESS, Money(15_000, "KES"))
    assert found.provider_data is not None
    assert (found.provider_data.name, found.provider_reference) == ("test", "PROV-1")
    assert found.created_at == to_datetime(api.payments[0].order.created_at)
    assert found.labels == {"weight": Decimal("1.50")}


@pytest.mark.spec("R1", "R5", "R6")
def test_records_are_read_page_by_page() -> None:
    api = SimulatedApi(World(FakeProvider(on_submit=(accepts,))))
    for number in range(5):
        api.answer(creation_request(ACCESS, a_pay_in(f"order-{number}")))
        api.world.now = later(api.world.now, SECOND)
    begin = to_datetime(api.payments[0].order.created_at)
    window = RecordsWindow(
        begin=begin, end=begin + timedelta(hours=1), type=Type.PAYIN, page_size=2
    )
    page = read_page(api.answer(records_request(ACCESS, window)))
    seen = list(page.transactions)
    assert page.previous is None
    while page.next is not None:
        page = read_page(api.answer(page_request(ACCESS, page.next)))
        seen += page.transactions
    assert [each.merchant_reference for each in seen] == [f"order-{number}" for number in range(5)]
    other = RecordsWindow(
        begin=begin, end=begin + timedelta(hours=1), method="other", status=Status.FAILED
    )
    assert read_page(api.answer(records_request(ACCESS, other))).transactions == ()


@pytest.mark.spec("P1", "P2", "A1", "C9", "C12", "L1")
def test_problems_are_errors_by_their_kind() -> None:
    api = SimulatedApi()
    with pytest.raises(ApiRejection) as refused:
        read_started(api.answer(creation_request(ACCESS, a_pay_in(amount=Money(1, "KES")))))
    problem = refused.value.problem
    assert (problem.status, problem.error_code) == (400, "validation_failed")
    assert (problem.cause, problem.request_id) == (
        "config_method_transaction_min_limit",
        "01REQUEST",
    )
    assert "request 01REQUEST" in str(refused.value)
    with pytest.raises(ApiRejection) as invalid:
        read_started(
            api.answer(creation_request(ACCESS, a_pay_in(result_url="http://acme.example/")))
        )
    assert [each.field for each in invalid.value.problem.errors] == ["resultUrl"]
    assert isinstance(invalid.value.problem.errors[0], FieldError)
    with pytest.raises(KeyRejected):
        read_found(
            api.answer(look_up_request(ApiAccess(BASE_URL, "wrong"), "01K5TESTTESTTESTTESTTEST00"))
        )
    with pytest.raises(TransactionNotFound):
        read_found(api.answer(look_up_request(ACCESS, "01K5TESTTESTTESTTESTTEST00")))
    read_started(api.answer(creation_request(ACCESS, a_pay_in())))
    with pytest.raises(ReferenceUsed):
        read_started(api.answer(creation_request(ACCESS, a_pay_in())))
    api.brand = a_brand(enabled=False)
    with pytest.raises(ApiRejection, match="merchant_disabled"):
        read_started(api.answer(creation_request(ACCESS, a_pay_in("order-2"))))


@pytest.mark.spec("A5")
@pytest.mark.parametrize(
    "address",
    [
        "http://gateway.example",
        "HTTP://gateway.example:8080",
        "http://127.0.0.1.example",
        "http://192.168.0.7",
        "http://localhost.example",
        "https://user:password@gateway.example",
        "https://gateway.example/gateway",
        "https://gateway.example?a=b",
        "https://gateway.example#a",
        "ftp://gateway.example",
        "gateway.example",
        "",
    ],
)
def test_an_address_that_would_give_the_key_away_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="https") as refused:
        ApiAccess(address, KEY)
    assert KEY not in str(refused.value)
    assert "password" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["https://gateway.example/", "http://127.0.0.1:80", "http://localhost:8", "http://[::1]:8080"],
)
def test_tls_and_loopback_may_carry_the_key(address: str) -> None:
    assert ApiAccess(address, KEY).get(b"/x").headers == ((b"x-api-key", KEY.encode()),)
    assert ApiAccess("http://gateway.example", KEY, allow_clear=True)


PROBLEM = b"""{
    "type": "e/service_unavailable", "title": "T", "status": 503, "detail": "",
    "errorCode": "service_unavailable"
}"""


@pytest.mark.parametrize(
    "answer",
    [
        NoAnswer("ConnectError"),
        HttpResponse(200, (), b"<html>"),
        HttpResponse(200, (), b"{}"),
        HttpResponse(204),
        HttpResponse(302),
        HttpResponse(404, (), b"<html>a proxy's page</html>"),
        HttpResponse(422, (), b"[]"),
        HttpResponse(502, (), b"Bad gateway"),
        HttpResponse(503, ((b"retry-after", b"2"),), PROBLEM),
    ],
)
def test_what_is_no_word_of_the_gateway_decides_nothing(answer: Answer) -> None:
    for read in (read_started, read_found, read_page):
        with pytest.raises(GatewayUnavailable):
            read(answer)


def test_the_delay_of_a_503_is_read() -> None:
    with pytest.raises(GatewayUnavailable) as raised:
        read_found(HttpResponse(503, ((b"retry-after", b"7"), (b"x-request-id", b"id-1")), PROBLEM))
    assert raised.value.problem is not None
    assert (raised.value.problem.retry_after_s, raised.value.problem.request_id) == (7, "id-1")


def a_transaction(**changes: object) -> bytes:
    """A transaction object with these members changed."""
    api = SimulatedApi()
    started = read_started(api.answer(creation_request(ACCESS, a_pay_in())))
    members = json.loads(api.answer(look_up_request(ACCESS, started.gateway_reference)).body)
    return json.dumps(members | changes).encode()


def test_what_is_added_one_day_is_no_error() -> None:
    body = a_transaction(
        added={"deep": [1]},
        flow="telepathy",
        type="loan",
        completionSource="oracle",
        errorCode="user_asleep",
    )
    found = parse_transaction(body)
    assert isinstance(found, TransactionObject)
    assert (found.flow, found.type) == ("telepathy", "loan")
    assert (found.completion_source, found.error_code) == ("oracle", "user_asleep")


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "paid"},
        {"gatewayReference": None},
        {"party": []},
        {"createdAt": "yesterday"},
        {"requestedAmount": {"value": "150.00", "currency": "KES"}},
        {"requestedAmount": {"value": 150, "currency": "XXQ"}},
        {"requestedAmount": {"value": 150.001, "currency": "KES"}},
        {"requestedAmount": None},
        {"labels": []},
    ],
    ids=str,
)
def test_what_would_be_guessed_is_an_error(changes: dict[str, object]) -> None:
    with pytest.raises(UnreadableBody):
        parse_transaction(a_transaction(**changes))


@pytest.mark.parametrize("number", ["1e999999999", "9" * 5000, "NaN"])
def test_a_number_costs_no_more_than_its_length(number: str) -> None:
    body = a_transaction().replace(b'"value": 150.0', b'"value": ' + number.encode())
    assert number.encode() in body
    with pytest.raises(UnreadableBody):
        parse_transaction(body)


def test_the_key_is_in_no_representation() -> None:
    assert KEY not in repr(ACCESS)
