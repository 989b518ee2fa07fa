"""The callback receivers of `examples/` accept the right key only, and recognise repeated
callbacks.

Each runs as its own process and is called over a real socket (with TLS where it serves TLS itself).
Node and PHP are skipped where they are not installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from mmo_sansio.api.outgoing import qr_code_request, transaction_object
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import (
    Flow,
    Order,
    Party,
    Progress,
    QrCode,
    Source,
    Stage,
    Transaction,
    Type,
)
from mmo_sansio.values.money import Money
from mmo_trio.http.client.client import HttpClient
from tests.support.receiver_process import FILES, KEY, NEW_KEY, Receiver, running_receiver
from tests.support.time_limits import HANGS_AFTER_S


@pytest.fixture(scope="module", params=list(FILES))
def receiver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Receiver]:
    """Start each receiver in turn."""
    language: str = request.param
    if language != "python" and shutil.which(language) is None:
        pytest.skip(f"{language} is not installed: its receiver isn't tried")
    with running_receiver(language, tmp_path_factory.mktemp(language)) as running:
        yield running


def payment(reference: str, progress: Progress) -> Transaction:
    """Return a payment of KES 150."""
    order = Order(
        gateway_reference=reference,
        brand="acme",
        type=Type.PAYIN,
        flow=Flow.DIRECT,
        method="mpesa_ke",
        country="KE",
        provider="sandbox",
        provider_title="Sandbox",
        requested=Money(15_000, "KES"),
        party=Party("customer-7", "254700000001", first_name="Zuhura Łucja 🙂"),
        merchant_reference="order-1",
        reconciliation_reference="order-1",
        labels=None,
        result_url="https://merchant.example/results",
        created_at=Instant(0),
        expires_at=Instant(1),
        display_qr_url="https://merchant.example/results",
    )
    return Transaction(order, progress)


def result(reference: str) -> bytes:
    """Return the body of a callback, made by the gateway's own serializer."""
    progress = Progress(
        stage=Stage.SUCCEEDED,
        version=3,
        wake_at=None,
        final=Money(15_000, "KES"),
        completed_at=Instant(1),
        completion_source=Source.WEBHOOK,
    )
    return transaction_object(payment(reference, progress))


def qr_delivery(reference: str) -> bytes:
    """Return the body that brings the QR code of this payment, made by the gateway's own
    serializer."""
    transaction = payment(
        reference,
        Progress(Stage.AWAITING_RESULT, version=2, wake_at=Instant(2), qr=QrCode("000201")),
    )
    return qr_code_request(transaction, KEY.encode(), image="iVBORw0KGgo=").body


@pytest.mark.spec("K1", "K2")
def test_a_result_with_our_key_is_kept_as_it_came(receiver: Receiver) -> None:
    body = result("01JDRGHTKEY000000000000001")
    assert receiver.call(body) == 204
    assert (receiver.results / "01JDRGHTKEY000000000000001.json").read_bytes() == body


@pytest.mark.spec("K1", "Q1")
def test_a_qr_code_is_stored_next_to_the_result_of_its_payment(receiver: Receiver) -> None:
    """With one URL for both, the code comes first, under the same gatewayReference."""
    reference = "01JDQRC0DE0000000000000001"
    code, end = qr_delivery(reference), result(reference)
    assert receiver.call(code) == 204
    assert receiver.call(end) == 204
    assert (receiver.results / f"{reference}.json").read_bytes() == end
    assert (receiver.results / f"{reference}.qr.json").read_bytes() == code
    receiver.wait_for_lines("code", reference, 1)
    receiver.wait_for_lines("result", reference, 1)
    assert receiver.call(code) == 204
    assert receiver.call(end) == 204
    receiver.wait_for_lines("repeat", reference, 2)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("status", [b'"pending"', b'"other"', b"null", b"7", b"[]"])
def test_what_is_neither_a_result_nor_a_code_is_refused(receiver: Receiver, status: bytes) -> None:
    body = result("01JDN0RESVT000000000000001").replace(
        b'"status":"success"', b'"status":' + status
    )
    before = receiver.stored()
    assert receiver.call(body) == 400
    assert receiver.stored() == before


@pytest.mark.spec("A4")
def test_while_keys_change_both_are_ours(receiver: Receiver) -> None:
    assert receiver.call(result("01JDNEWKEY0000000000000001"), NEW_KEY.encode()) == 204
    assert receiver.call(result("01JD0DKEY00000000000000001"), KEY.encode()) == 204


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"wrong",
        KEY[:-1].encode(),
        KEY.encode() + b"0",
        KEY.upper().encode(),
        f"{KEY} {NEW_KEY}".encode(),
        b"\xff\xfe",
    ],
    ids=["none", "empty", "wrong", "shorter", "longer", "upper", "both", "no-ascii"],
)
def test_any_other_key_is_refused_and_nothing_kept(receiver: Receiver, key: bytes | None) -> None:
    before = receiver.stored()
    assert receiver.call(result("01JDWRNGKEY000000000000001"), key) == 401
    assert receiver.stored() == before


@pytest.mark.spec("K1", "K2")
@pytest.mark.parametrize("receiver", ["python", "node"], indirect=True)  # PHP's speaks no TLS
def test_the_gateways_own_client_delivers_to_it(receiver: Receiver) -> None:
    assert receiver.tls is not None
    client = HttpClient(rules=EgressRules(allow_private=True), context=receiver.tls)

    def deliver(key: str) -> DeliveryAttempt:
        headers = ((b"content-type", b"application/json"), (b"x-api-key", key.encode()))
        url = f"https://127.0.0.1:{receiver.port}/results".encode()
        body = result("01JDCV1ENT0000000000000001")
        return trio.run(client.deliver, HttpRequest("POST", url, headers, body))

    assert deliver(KEY).outcome is DeliveryOutcome.DELIVERED
    refused = deliver("wrong")
    assert (refused.outcome, refused.status) == (DeliveryOutcome.NON_2XX, 401)
    assert receiver.stored() >= {"01JDCV1ENT0000000000000001.json"}


def test_a_repeat_is_answered_and_dropped(receiver: Receiver) -> None:
    reference = "01JDREPEAT0000000000000001"
    first, second = result(reference), result(reference).replace(b"success", b"failed")
    assert receiver.call(first) == 204
    assert receiver.call(second) == 204
    assert (receiver.results / f"{reference}.json").read_bytes() == first
    receiver.wait_for_lines("result", reference, 1)
    receiver.wait_for_lines("repeat", reference, 1)


def test_of_many_at_once_one_is_the_result(receiver: Receiver) -> None:
    reference = "01JDATNCE00000000000000001"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(receiver.call, [result(reference)] * 8))
    assert answers == [204] * 8
    receiver.wait_for_lines("result", reference, 1)
    receiver.wait_for_lines("repeat", reference, 7)
    assert not [each for each in receiver.stored() if each.endswith(".new")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"null",
        b"{}",
        b'{"gatewayReference":7}',
        b'{"gatewayReference":"../../01JDREPEAT000000000001"}',
        b'{"gatewayReference":"01JDREPEAT0000000000000001/"}',
        b"\xff\xff",
    ],
)
def test_what_is_no_result_is_refused_and_nothing_kept(receiver: Receiver, body: bytes) -> None:
    before = receiver.stored()
    assert receiver.call(body) == 400
    assert receiver.stored() == before


@pytest.mark.spec("K1", "K2", "K3", "Q1")
def test_it_passes_in_every_situation_of_the_check(receiver: Receiver) -> None:
    assert trio.run(receiver.shortcomings) == {}


def test_who_says_nothing_keeps_nobody_waiting(receiver: Receiver) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), HANGS_AFTER_S):
        assert receiver.call(result("01JDQ0ET000000000000000001")) == 204


def test_without_a_key_it_does_not_start(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(root / "examples/callback_receiver.py"), "--port", "0"],
        env={name: value for name, value in os.environ.items() if name != "API_KEY"},
        cwd=tmp_path,
        capture_output=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode != 0
    assert b"API_KEY" in done.stderr
