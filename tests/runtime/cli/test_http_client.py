"""The commands' own HTTP client believes a gateway by the names in its certificate only."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import pytest
import trio

from mmo_trio.cli.support.http_client import send_request
from tests.support.hostile_receivers import (
    answers,
    authority,
    running_receiver,
    server_with_certificate,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_the_common_name_of_a_certificate_is_no_name_of_the_host(tmp_path: Path) -> None:
    authority().cert_pem.write_to_path(tmp_path / "ca.pem")
    named = authority().issue_cert("localhost")
    only_common = authority().issue_cert(common_name="localhost")
    async with running_receiver(answers(OK), server_with_certificate(only_common)) as receiver:
        ask = partial(
            send_request,
            f"https://localhost:{receiver.port}/",
            body={},
            ca_file=tmp_path / "ca.pem",
        )
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            await trio.to_thread.run_sync(ask)
        assert receiver.requests == []
    async with running_receiver(answers(OK), server_with_certificate(named)) as receiver:
        ask = partial(
            send_request,
            f"https://localhost:{receiver.port}/",
            body={},
            ca_file=tmp_path / "ca.pem",
        )
        assert (await trio.to_thread.run_sync(ask)).body == b"ok"
