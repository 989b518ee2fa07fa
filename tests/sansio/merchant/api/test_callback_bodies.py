"""A merchant takes a callback with one of its keys only, and never a QR code for a result."""

from __future__ import annotations

import hmac
import json

import pytest
from attrs import evolve

from mmo_merchant import (
    CallbackRejected,
    Money,
    QrDelivery,
    Status,
    TransactionObject,
    UnreadableCallback,
    WrongKey,
    read_callback,
    verify_key,
)
from mmo_merchant.api.callback_bodies import CALLBACK_BYTES_MAX
from mmo_sansio.api.outgoing import callback_request, qr_code_request, transaction_object
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.testing import FakeProvider, World, fails, succeeds
from mmo_sansio.values.model import Operation, QrCode
from tests.support.simulated_api import KEY

NEW_KEY = "new-key-0123456789abcdef"
HEADERS = {"Content-Type": "application/json", "X-API-KEY": KEY}


class Pairs:
    """Headers as frameworks hold them, which may repeat."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._pairs = pairs

    def items(self) -> tuple[tuple[str, str], ...]:
        return self._pairs


def a_result(**members: object) -> bytes:
    """The body of a callback, with these members changed."""
    world = World(FakeProvider(on_submit=(succeeds,)))
    world.create()
    world.settle()
    return json.dumps(json.loads(transaction_object(world.transaction())) | members).encode()


def a_qr_request() -> HttpRequest:
    """The gateway's own delivery of a code."""
    world = World()
    world.create(operation=Operation.QR_PAYIN, display_qr_url="https://acme.example/result")
    pending = world.transaction()
    shown = evolve(pending, progress=evolve(pending.progress, qr=QrCode("000201")))
    return qr_code_request(shown, KEY.encode(), image="iVBORw0KGgo=")


@pytest.mark.spec("K1", "T4")
def test_the_gateways_own_callback_is_read() -> None:
    for script, status in ((succeeds, Status.SUCCESS), (fails, Status.FAILED)):
        world = World(FakeProvider(on_submit=(script,)))
        world.create()
        world.settle()
        request = callback_request(world.transaction(), KEY.encode())
        headers = Pairs(*((name.decode(), value.decode()) for name, value in request.headers))
        result = read_callback(headers, request.body, [KEY])
        assert isinstance(result, TransactionObject)
        assert (result.status, result.gateway_reference) == (status, world.transaction().reference)


@pytest.mark.spec("Q1")
def test_a_qr_code_is_no_result() -> None:
    code = read_callback(HEADERS, a_qr_request().body, [KEY])
    assert isinstance(code, QrDelivery)
    assert (code.payload, code.image) == ("000201", b"\x89PNG\r\n\x1a\n")
    assert code.amount == Money(15_000, "KES")


@pytest.mark.spec("A4")
def test_during_a_change_of_keys_both_are_taken() -> None:
    for key in (KEY, NEW_KEY):
        assert isinstance(
            read_callback({"x-api-key": key}, a_result(), [KEY, NEW_KEY]), TransactionObject
        )


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-KEY": ""},
        {"X-API-KEY": KEY[:-1]},
        {"X-API-KEY": KEY + "0"},
        {"X-API-KEY": KEY.upper()},
        {"X-API-KEY": f"{KEY}, {KEY}"},
        {"X-API-KEY": "ké\udcff"},
        {"X-API-KEYS": KEY},
    ],
    ids=("none", "empty", "shorter", "longer", "upper case", "twice", "no ASCII", "another field"),
)
def test_any_other_key_is_wrong_whatever_the_body(headers: dict[str, str]) -> None:
    for body in (a_result(), b"nonsense"):
        with pytest.raises(WrongKey) as raised:
            read_callback(headers, body, [NEW_KEY, KEY])
        assert raised.value.status == 401


def test_a_repeated_key_is_wrong() -> None:
    with pytest.raises(WrongKey):
        verify_key(Pairs(("X-API-KEY", KEY), ("x-api-key", KEY)), [KEY])


@pytest.mark.parametrize("keys", [[], [""], [KEY, ""]])
def test_without_a_key_nothing_can_be_verified(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="at least one API key"):
        verify_key(HEADERS, keys)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"gatewayReference":"01K5TESTTESTTESTTESTTEST00"}',
        b" " * (CALLBACK_BYTES_MAX + 1),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_other_bodies_are_rejected_with_400(body: bytes) -> None:
    with pytest.raises(UnreadableCallback) as raised:
        read_callback(HEADERS, body, [KEY])
    assert isinstance(raised.value, CallbackRejected)
    assert raised.value.status == 400


@pytest.mark.parametrize("status", ["pending", "other", None, 7])
def test_a_payment_without_a_result_is_rejected(status: object) -> None:
    with pytest.raises(UnreadableCallback):
        read_callback(HEADERS, a_result(status=status), [KEY])


def test_every_key_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time tells neither which key is right nor how many characters of it."""
    compared: list[bytes] = []
    real = hmac.compare_digest

    def compare(received: bytes, key: bytes) -> bool:
        compared.append(key)
        return real(received, key)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    verify_key(HEADERS, [KEY, NEW_KEY, "third"])
    assert compared == [KEY.encode(), NEW_KEY.encode(), b"third"]


@pytest.mark.spec("T2")
@pytest.mark.parametrize(
    "reference",
    ["../../etc/passwd", "", "01K5TESTTESTTESTTESTTEST0", "01K5TESTTESTTESTTESTTEST00\n"],
)
def test_a_reference_that_is_no_ulid_is_rejected(reference: str) -> None:
    with pytest.raises(UnreadableCallback):
        read_callback(HEADERS, a_result(gatewayReference=reference), [KEY])
    code = json.loads(a_qr_request().body) | {"gatewayReference": reference}
    with pytest.raises(UnreadableCallback):
        read_callback(HEADERS, json.dumps(code).encode(), [KEY])
