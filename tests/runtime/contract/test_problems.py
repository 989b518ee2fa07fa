"""Problems: clauses P1, P2 and P4, and G3 for what is refused below the handlers (rows 10 to 14,
36, 122, 123, 125)."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio
import trustme

from tests.support.http_listener import Client
from tests.support.merchant import TIMEOUT_S
from tests.support.rejections import assert_problem, connected, head, send_raw
from tests.support.sandbox_gateway import Serve

LINES = (b"Content-Type: application/json", b"Content-Length: 100")


@pytest.mark.spec("P1")
async def test_a_problem_names_its_page_below_the_error_docs(serve: Serve) -> None:
    docs = {"MMO_GATEWAY_ERROR_DOCS_URL": "https://docs.example/mmo/errors"}
    async with serve(environment=docs) as sandbox:
        for answer, segment in (
            (await sandbox.merchant.create(country="ZZ"), "config_unsupported_country"),
            (await sandbox.merchant.create(country=""), "validation_failed"),
            (await sandbox.merchant.get("nowhere"), "not_found"),
        ):
            assert answer.json["type"] == f"https://docs.example/mmo/errors/{segment}"
        refused = await send_raw(sandbox, b"NONSENSE\r\n\r\n")
        assert refused.json["type"] == "https://docs.example/mmo/errors/bad_request"


@pytest.mark.spec("G3", "P4", "V1")
@pytest.mark.http1("sends bytes")
async def test_who_is_too_slow_is_answered_408(serve: Serve) -> None:
    short = {"MMO_LIMITS_HEAD_TIMEOUT": "50ms", "MMO_LIMITS_BODY_TIMEOUT": "50ms"}
    async with serve(environment=short) as sandbox:
        whole = head("POST", "/direct/payin/mpesa_ke", *LINES, key=sandbox.merchant.key)
        for row, part in (("125: head", whole[:-9]), ("125: body", whole + b'{"amount"')):
            async with connected(sandbox) as client:
                answer = await client.ask(part)
                assert_problem(answer, 408, "request_timeout", note=("row", row))
                assert answer.is_last, row
                assert await client.rest() == b"", row


@pytest.mark.spec("G3", "P4", "P5", "V1")
@pytest.mark.http1("sends bytes")
async def test_a_connection_too_many_is_a_503(serve: Serve) -> None:
    two = {"MMO_LIMITS_CONNECTIONS": "2", "MMO_LIMITS_CONNECTIONS_PER_ADDRESS": "2"}
    async with serve(environment=two) as sandbox:
        busy = head("POST", "/direct/payin/mpesa_ke", *LINES, key=sandbox.merchant.key)
        async with connected(sandbox) as first, connected(sandbox) as second:
            for client in (
                first,
                second,
            ):  # Both have come in once one of their requests is answered.
                answer = await client.ask(head("GET", "/status/x", key=sandbox.merchant.key))
                assert_problem(answer, 404, "not_found")
                await client.send(busy)
            async with connected(sandbox) as third:
                assert_problem(await third.answer(), 503, "service_unavailable")
        with trio.fail_after(TIMEOUT_S):
            while (await send_raw(sandbox, head("GET", "/status/x"))).status == 503:
                await trio.lowlevel.checkpoint()


@pytest.mark.spec("G3", "V1")
@pytest.mark.http1("sends bytes")
async def test_the_door_can_have_tls_of_its_own(serve: Serve, tmp_path: Path) -> None:
    authority, file = trustme.CA(), tmp_path / "door.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(file)
    door = {
        "MMO_LISTEN_TLS_CERTIFICATE": str(file),
        "MMO_LISTEN_TLS_KEY": str(file),
        "MMO_LIMITS_HANDSHAKE_TIMEOUT": "2s",
    }
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with serve(environment=door) as sandbox:
        api = urlsplit(sandbox.ready.api)
        assert (api.scheme, urlsplit(sandbox.ready.pages).scheme) == ("https", "https")
        with trio.fail_after(TIMEOUT_S):
            stream = await trio.open_ssl_over_tcp_stream(
                "localhost", api.port or 0, ssl_context=trust, https_compatible=True
            )
            async with stream:
                client = Client(stream)
                answer = await client.ask(head("GET", "/status/x", key=sandbox.merchant.key))
                assert_problem(answer, 404, "not_found")
                assert_problem(await client.ask(b"NONSENSE\r\n\r\n"), 400, "bad_request")
        async with connected(sandbox) as stalled:
            assert await stalled.is_closed(), "row 125: a stalled handshake"
