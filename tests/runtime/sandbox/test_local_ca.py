"""The sandbox's own authority: made once, kept private, trusted through `extra_ca_file` (K7)."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.http.client.client import HttpClient, tls_context
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.system.damaged_file import DamagedFile
from tests.support.hostile_receivers import (
    PRIVATE,
    FixedResolver,
    answers,
    callback_to,
    running_receiver,
)
from tests.support.time_limits import HANGS_AFTER_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.spec("K7")
@pytest.mark.parametrize("host", ["localhost", "shop.localhost", "127.0.0.1"])
async def test_a_client_with_its_file_believes_the_servers_it_issued_for(
    host: str, tmp_path: Path
) -> None:
    authority = ensure_authority(tmp_path / "new" / "data")
    client = HttpClient(
        rules=PRIVATE,
        context=tls_context(authority.certificate_file),
        resolver=FixedResolver(["127.0.0.1"]),
    )
    context = authority.issue("localhost", "shop.localhost", "127.0.0.1", "::1")
    async with running_receiver(answers(OK), context) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            attempt = await client.deliver(callback_to(f"https://{host}:{receiver.port}/"))
            stranger = await client.deliver(
                callback_to(f"https://other.localhost:{receiver.port}/")
            )
    assert attempt.outcome is DeliveryOutcome.DELIVERED
    assert stranger.outcome is DeliveryOutcome.TRANSPORT_ERROR


async def test_a_client_without_its_file_believes_none(tmp_path: Path) -> None:
    context = ensure_authority(tmp_path).issue("localhost")
    client = HttpClient(rules=PRIVATE, context=tls_context(), resolver=FixedResolver(["127.0.0.1"]))
    async with running_receiver(answers(OK), context) as receiver:
        with trio.fail_after(HANGS_AFTER_S):
            attempt = await client.deliver(callback_to(f"https://localhost:{receiver.port}/"))
    assert attempt.outcome is DeliveryOutcome.TRANSPORT_ERROR


def test_the_files_belong_to_their_owner_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    ensure_authority(tmp_path).issue("localhost")
    assert sorted(os.listdir(tmp_path)) == ["ca-key.pem", "ca.pem"]
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_authority_stays_the_same_from_start_to_start(tmp_path: Path) -> None:
    first = ensure_authority(tmp_path)
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert ensure_authority(tmp_path) == first
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == files
    assert "PrivateKey" not in repr(first)


def test_processes_that_start_together_have_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(ensure_authority, [tmp_path] * 8))
    assert len({each._authority.private_key_pem.bytes() for each in made}) == 1
    assert {each._authority.cert_pem.bytes() for each in made} == {
        (tmp_path / "ca.pem").read_bytes()
    }


@pytest.mark.parametrize("damage", [b"", b"not a certificate", None])
def test_a_lost_certificate_is_made_again_for_the_same_key(
    damage: bytes | None, tmp_path: Path
) -> None:
    first = ensure_authority(tmp_path)
    if damage is None:
        first.certificate_file.unlink()
    else:
        first.certificate_file.write_bytes(damage)
    second = ensure_authority(tmp_path)
    assert second._authority.private_key_pem.bytes() == first._authority.private_key_pem.bytes()
    tls_context(second.certificate_file)


def test_a_certificate_of_another_key_is_replaced(tmp_path: Path) -> None:
    other = ensure_authority(tmp_path / "other")
    mine = ensure_authority(tmp_path / "mine")
    certificate = mine.certificate_file.read_bytes()
    mine.certificate_file.write_bytes(other.certificate_file.read_bytes())
    ensure_authority(tmp_path / "mine")
    assert mine.certificate_file.read_bytes() == certificate


def test_a_foreign_key_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (tmp_path / "ca-key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(DamagedFile, match="remove it"):
        ensure_authority(tmp_path)


def _pem_blocks(directory: Path) -> tuple[bytes, bytes]:
    """The key and the certificate of the authority in a new directory."""
    ensure_authority(directory)
    key, begin, rest = (
        (directory / "ca-key.pem").read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    )
    return key, begin + rest


def test_a_damaged_key_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (key, certificate), (other_key, _) = _pem_blocks(tmp_path), _pem_blocks(tmp_path / "other")
    encrypted = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    for damaged in (
        b"",
        key,
        certificate,
        key + certificate[:200],
        other_key + certificate,
        encrypted + certificate,
    ):
        (tmp_path / "ca-key.pem").write_bytes(damaged)
        with pytest.raises(DamagedFile, match="remove it"):
            ensure_authority(tmp_path)
