"""Whom the delivery client believes (K7): who can't prove the name of the URL gets nothing."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trustme

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client.client import tls_context
from tests.support.hostile_receivers import (
    HOST,
    FixedResolver,
    ReceiverConnection,
    answers,
    authority,
    delivered,
    running_receiver,
    server_context,
    server_with_certificate,
)
from tests.support.invalid_certificates import expired, self_signed, signed_with_sha1

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def old_tls() -> ssl.SSLContext:
    context = server_with_certificate(authority().issue_cert(HOST))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def asking_for_a_certificate(mode: ssl.VerifyMode) -> ssl.SSLContext:
    context = server_with_certificate(authority().issue_cert(HOST))
    authority().configure_trust(context)
    context.verify_mode = mode
    return context


SERVERS: dict[str, tuple[Callable[[], ssl.SSLContext], str]] = {
    "expired": (lambda: expired(authority(), HOST), "expired"),
    "only its common name": (
        lambda: server_with_certificate(authority().issue_cert(common_name=HOST)),
        "Hostname mismatch",
    ),
    "wrong host": (
        lambda: server_with_certificate(authority().issue_cert("other.merchant.example")),
        "Hostname mismatch",
    ),
    "wrong host: the name above": (
        lambda: server_with_certificate(authority().issue_cert("merchant.example")),
        "Hostname mismatch",
    ),
    "self-signed": (lambda: self_signed(HOST), "self-signed"),
    "unknown authority": (
        lambda: server_with_certificate(trustme.CA().issue_cert(HOST)),
        "unable to get local issuer",
    ),
    "SHA-1 signature": (lambda: signed_with_sha1(authority(), HOST), "too weak"),
    "TLS 1.0 and 1.1 only": (old_tls, "TLS says"),
    "client certificate required": (
        lambda: asking_for_a_certificate(ssl.VerifyMode.CERT_REQUIRED),
        "answer",
    ),
}


@pytest.mark.spec("K7")
@pytest.mark.parametrize("name", SERVERS)
async def test_a_receiver_that_cant_prove_itself_gets_nothing(name: str) -> None:
    make, reason = SERVERS[name]
    async with running_receiver(answers(OK), make()) as receiver:
        attempt = await delivered(receiver.url)
        assert attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR
        assert reason in attempt.detail
        assert receiver.requests == []


@pytest.mark.spec("K7")
async def test_no_certificate_is_sent_to_a_receiver_that_asks_for_one() -> None:
    shown: list[object] = []

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        assert isinstance(visit.stream, trio.SSLStream)
        shown.append(visit.stream.getpeercert())
        await visit.write(OK)

    context = asking_for_a_certificate(ssl.VerifyMode.CERT_OPTIONAL)
    async with running_receiver(behave, context) as receiver:
        attempt = await delivered(receiver.url)
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        assert shown == [None]


@pytest.mark.spec("K7")
async def test_a_receiver_that_speaks_http_2_only_fails_cleanly() -> None:
    offered: list[object] = []

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        assert isinstance(visit.stream, trio.SSLStream)
        offered.append(visit.stream.selected_alpn_protocol())
        await visit.write(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        await trio.sleep_forever()

    context = server_with_certificate(authority().issue_cert(HOST))
    context.set_alpn_protocols(["h2"])
    async with running_receiver(behave, context) as receiver:
        attempt = await delivered(receiver.url)
        assert attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR
        assert offered == [None]


@pytest.mark.spec("K7")
async def test_an_address_as_host_needs_a_certificate_for_the_address() -> None:
    async with running_receiver(answers(OK), server_context()) as receiver:
        nobody = FixedResolver()
        attempt = await delivered(f"https://127.0.0.1:{receiver.port}/", nobody)
        assert attempt.outcome is DeliveryOutcome.DELIVERED
        assert nobody.asked == []


def test_a_missing_authority_file_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        tls_context(tmp_path / "ca.pem")
