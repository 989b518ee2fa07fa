"""Behind nginx and HAProxy everybody gets what the gateway answers, and no log has a secret
path."""

from __future__ import annotations

import json
import re
from functools import partial
from urllib.parse import quote, urlsplit

import pytest
import trio

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role
from mmo_trio.storage.open_store import open_store
from tests.outside.proxies.conftest import API, CONSOLE, OPERATOR, OWN_HOST, Proxied
from tests.support.console_browser import HASH, ConsoleBrowser
from tests.support.http_listener import Client
from tests.support.merchant import ROOT, Connect, a_reference, ask
from tests.support.mmo_process import mmo
from tests.support.time_limits import HANGS_AFTER_S

OPERATIONS = ("direct/payin", "web/payin", "qr/payin", "direct/payout", "direct/taxpayout")
ALWAYS = {"begin": "2026-01-01", "to": "2099-01-01"}
AT_ONCE_S = 10.0
"""Seconds within which the first event comes: less than the life of a stream, at whose end a buffer
would send it."""
LOAD_TASKS = 6


def request(method: str, path: str, *lines: bytes) -> bytes:
    """The head of a request to the merchant API, with these further lines."""
    common = (
        b"Host: pay.example.com",
        b"X-Api-Key: acme-key-0123456789abcdef",
        b"Content-Type: application/json",
    )
    return b"\r\n".join((f"{method} {ROOT}/{path} HTTP/1.1".encode(), *common, *lines, b"", b""))


def creation(*lines: bytes, body: bytes = b"") -> bytes:
    """A request to create a payment, framed by these lines."""
    return request("POST", "direct/payin/mpesa_ke", *lines) + body


SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: pay.example.com\r\n\r\n"
CHUNKED, LAST_CHUNK = b"Transfer-Encoding: chunked", b"0\r\n\r\n"
IN_CHUNKS = b"2\r\n{}\r\n" + LAST_CHUNK
VARIANTS = {
    "CL.TE": creation(
        b"Content-Length: %d" % len(LAST_CHUNK + SMUGGLED), CHUNKED, body=LAST_CHUNK + SMUGGLED
    ),
    "TE.CL": creation(
        CHUNKED, b"Content-Length: 4", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    ),
    "TE.TE, one unknown": creation(CHUNKED, b"Transfer-Encoding: x", body=LAST_CHUNK + SMUGGLED),
    "TE.TE twice": creation(CHUNKED, CHUNKED, body=LAST_CHUNK + SMUGGLED),
    "chunked before identity": creation(
        b"Transfer-Encoding: chunked, identity", body=LAST_CHUNK + SMUGGLED
    ),
    "unknown coding": creation(
        b"Transfer-Encoding: xchunked", b"Content-Length: 2", body=b"{}" + SMUGGLED
    ),
    "chunked after a tab": creation(b"Transfer-Encoding:\tchunked", body=IN_CHUNKS + SMUGGLED),
    "chunked after VT": creation(
        b"Transfer-Encoding: \x0bchunked", b"Content-Length: 2", body=b"{}" + SMUGGLED
    ),
    "chunked in capitals": creation(b"TRANSFER-ENCODING: CHUNKED", body=IN_CHUNKS + SMUGGLED),
    "space before the colon": creation(
        b"Transfer-Encoding : chunked", b"Content-Length: 2", body=b"{}" + SMUGGLED
    ),
    "folded": creation(
        b"X-A: b", b" Transfer-Encoding: chunked", b"Content-Length: 2", body=b"{}" + SMUGGLED
    ),
    "bare LF": creation(
        b"X-A: b\nTransfer-Encoding: chunked", b"Content-Length: 5", body=LAST_CHUNK + SMUGGLED
    ),
    "bare CR": creation(
        b"X-A: b\rTransfer-Encoding: chunked", b"Content-Length: 2", body=b"{}" + SMUGGLED
    ),
    "NUL": creation(b"X-A: b\0", b"Content-Length: 2", body=b"{}" + SMUGGLED),
    "lengths that differ": creation(
        b"Content-Length: 2", b"Content-Length: 0", body=b"{}" + SMUGGLED
    ),
    "equal lengths": creation(b"Content-Length: 2", b"Content-Length: 2", body=b"{}" + SMUGGLED),
    "list of lengths": creation(b"Content-Length: 2, 2", body=b"{}" + SMUGGLED),
    "signed length": creation(b"Content-Length: +2", body=b"{}" + SMUGGLED),
    "negative length": creation(b"Content-Length: -2", body=b"{}" + SMUGGLED),
    "hexadecimal length": creation(b"Content-Length: 0x2", body=b"{}" + SMUGGLED),
    "empty length": creation(b"Content-Length: ", body=b"{}" + SMUGGLED),
    "length with a space": creation(b"Content-Length: 1 2", body=b"{}" + SMUGGLED),
    "space before the colon of a length": creation(b"Content-Length : 2", body=b"{}" + SMUGGLED),
    "length without a body": creation(b"Content-Length: 0", body=SMUGGLED),
    "length in GET": request("GET", "records", b"Content-Length: %d" % len(SMUGGLED)) + SMUGGLED,
    "no hexadecimal chunk": creation(CHUNKED, body=b"zz\r\n{}\r\n" + LAST_CHUNK + SMUGGLED),
    "huge chunk": creation(CHUNKED, body=b"f" * 17 + b"\r\n{}\r\n" + LAST_CHUNK + SMUGGLED),
    "negative chunk": creation(CHUNKED, body=b"-2\r\n{}\r\n" + LAST_CHUNK + SMUGGLED),
    "chunk longer than its size": creation(CHUNKED, body=b"1\r\n{}\r\n" + LAST_CHUNK + SMUGGLED),
    "space before a chunk extension": creation(
        CHUNKED, body=b"2 ;a=b\r\n{}\r\n" + LAST_CHUNK + SMUGGLED
    ),
    "trailer": creation(CHUNKED, body=b"2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n" + SMUGGLED),
    "absolute form": b"GET http://shop.example/healthz HTTP/1.1\r\nHost: pay.example.com\r\n\r\n"
    + SMUGGLED,
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: pay.example.com\r\nHost: shop.example\r\n\r\n"
    + SMUGGLED,
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n" + SMUGGLED,
    "HTTP/1.0 in chunks": creation(CHUNKED, body=IN_CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0")
    + SMUGGLED,
    "space in the target": b"GET /healthz HTTP/1.1 HTTP/1.1\r\nHost: pay.example.com\r\n\r\n"
    + SMUGGLED,
    "upgrade": request("GET", "records", b"Connection: Upgrade", b"Upgrade: h2c") + SMUGGLED,
    "expectation": creation(b"Expect: 100-continue", b"Content-Length: 2", body=b"{}" + SMUGGLED),
}
"""What a client may send to make proxy and gateway disagree where a request ends. Each gets an
answer."""


async def first_event(url: str, connect: Connect, headers: str = "") -> str:
    """The first event of a stream, which goes on."""
    parts = urlsplit(url)
    said = ""
    with trio.fail_after(AT_ONCE_S):
        async with await connect(parts) as stream:
            request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.hostname}\r\n{headers}\r\n"
            await stream.send_all(request.encode())
            while "\n\n" not in said.partition("\r\n\r\n")[2]:
                said += (await stream.receive_some()).decode()
            assert "200 OK" in said
            assert "text/event-stream" in said
            return said.partition("\r\n\r\n")[2]


@pytest.mark.spec("C1", "L1", "L2", "R1", "R4")
async def test_a_merchant_creates_payments_and_finds_them(proxied: Proxied) -> None:
    merchant = proxied.merchant()
    created = [(await merchant.accepted(operation))["gatewayReference"] for operation in OPERATIONS]
    for reference in created:
        assert (await merchant.status(reference))["gatewayReference"] == reference
    listed, answer = [], await merchant.records(**ALWAYS, pageSize=2)
    while True:
        listed += [each["gatewayReference"] for each in answer.json["data"]]
        if (cursor := answer.json["pages"]["next"]) is None:
            break
        answer = await merchant.records(page=cursor)
    assert [each for each in listed if each in created] == created
    reference = f"{a_reference()}/ü"
    await merchant.accepted(merchantReference=reference)
    answer = await merchant.get(f"status/mref/{quote(reference, safe='')}")
    assert (answer.status, answer.json["merchantReference"]) == (200, reference)


@pytest.mark.spec("A6")
async def test_a_brands_own_host_is_the_one_asked_for_whatever_a_client_claims(
    proxied: Proxied,
) -> None:
    for brand, api, claimed, status in (
        ("shop", OWN_HOST, "pay.example.com", 200),
        ("acme", OWN_HOST, "pay.example.com", 401),
        ("acme", API, "shop.example", 200),
    ):
        headers = {"X-Forwarded-Host": claimed, "X-Forwarded-Proto": "http"}
        answer = await proxied.merchant(brand, api).get(
            "records?from=2026-01-01&to=2099-01-01", **headers
        )
        assert (answer.status, answer.headers["strict-transport-security"]) == (
            status,
            "max-age=31536000",
        ), brand


async def test_a_webhook_arrives_from_its_operator_alone_and_no_log_has_its_path(
    proxied: Proxied,
) -> None:
    config = ("--config", proxied.gateways.directory / "mmo.toml")
    address = (await mmo("providers", "address", "airtel", *config)).strip()
    secret = address.rsplit("/", 1)[1]
    assert address == f"{API}/hooks/airtel/{secret}"

    async def notify(client: str, body: bytes, **headers: str) -> int:
        connect = partial(proxied.connect, client=client)
        return (
            await ask(address, method="POST", headers=headers, body=body, connect=connect)
        ).status

    assert await notify("127.0.0.7", b'{"from": "a liar"}', **{"X-Forwarded-For": OPERATOR}) == 404
    assert await notify(OPERATOR, b'{"from": "the operator"}') == 200
    suspense = await mmo("suspense", "list", "--json", *config)
    assert "the operator" in suspense
    assert "a liar" not in suspense
    assert secret not in await proxied.logs_with('"POST /hooks/airtel/..." 200')


async def test_staff_sign_in_and_hear_of_payments_at_once(proxied: Proxied) -> None:
    async with open_store(proxied.gateways.database, serving=False, create=False) as store:
        await store.admin.add_user(ConsoleUser("vera", Role.VIEWER, HASH, Instant(0)))
    vera = ConsoleBrowser(CONSOLE, connect=proxied.connect)
    answer = await vera.sign_in("vera")
    assert answer.status == 303
    assert "__Host-" in answer.headers["set-cookie"]
    assert "; Secure" in answer.headers["set-cookie"]
    assert (await vera.get("/payments")).status == 200
    cookies = "; ".join(f"{name}={value}" for name, value in vera.cookies.items())
    assert "retry:" in await first_event(
        f"{CONSOLE}/events", proxied.connect, f"Cookie: {cookies}\r\n"
    )


@pytest.mark.spec("W1")
async def test_a_payer_opens_the_page_and_hears_of_the_payment_at_once(proxied: Proxied) -> None:
    page = (await proxied.merchant().accepted("web/payin"))["pageUrl"]
    assert (await ask(page, connect=proxied.connect)).status == 200
    assert "retry:" in await first_event(f"{page}/events", proxied.connect)
    assert urlsplit(page).path not in await proxied.logs_with('"GET /pay/..." 200')


async def test_a_gateway_ends_under_load_and_nobody_notices(mortal: Proxied) -> None:
    merchant = mortal.merchant()
    progress, is_over = [0], trio.Event()

    async def pay() -> None:
        """Create payments on one connection and look each up."""
        client = Client(await mortal.connect(urlsplit(API)))
        while not is_over.is_set():
            reference = a_reference()
            body = json.dumps(merchant.body(merchantReference=reference)).encode()
            created = await client.ask(
                request("POST", "direct/payin/mpesa_ke", b"Content-Length: %d" % len(body)) + body
            )
            found = await client.ask(request("GET", f"status/mref/{reference}"))
            assert (created.status, found.status) == (200, 200), (created, found)
            progress[0] += 1

    async def until_paid(more: int) -> None:
        wanted = progress[0] + more
        while progress[0] < wanted:  # noqa: ASYNC110 - the load goes on meanwhile
            await trio.sleep(0.02)

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            for _ in range(LOAD_TASKS):
                nursery.start_soon(pay)
            await until_paid(20)
            await mortal.gateways.nodes[0].end()
            await until_paid(20)
            is_over.set()


async def test_a_number_that_is_asked_about_is_in_no_log(proxied: Proxied) -> None:
    path = "/extensions/v1/payees/airtel/256752000000?name=Canary"
    answer = await ask(f"{API}{path}", headers={"X-Api-Key": "wrong"}, connect=proxied.connect)
    assert answer.status == 401
    logs = await proxied.logs_with('"GET /extensions/v1/payees/airtel/..." 401')
    assert "256752000000" not in logs
    assert "Canary" not in logs


async def test_what_finds_no_gateway_leaves_its_path_in_no_log(mortal: Proxied) -> None:
    for node in mortal.gateways.nodes:
        await node.end()
    question = await ask(
        f"{API}/extensions/v1/payees/airtel/256752000000?name=Canary", connect=mortal.connect
    )
    assert question.status in (502, 503)
    logs = await mortal.logs_with(f'"GET /extensions/v1/payees/airtel/..." {question.status}')
    assert "256752000000" not in logs
    assert "Canary" not in logs
    answer = await ask(
        f"{API}/hooks/airtel/secret-part", method="POST", body=b"{}", connect=mortal.connect
    )
    assert answer.status in (502, 503)
    assert "secret-part" not in await mortal.logs_with(f'"POST /hooks/airtel/..." {answer.status}')


@pytest.mark.parametrize("proxied", ["haproxy"], indirect=True)
async def test_haproxy_finds_both_gateways_healthy(proxied: Proxied) -> None:
    states = ""
    with trio.fail_after(HANGS_AFTER_S):
        while len(re.findall(r"^mmo_api,(?:one|two),.*,L7OK,200,", states, re.M)) < len(
            proxied.gateways.nodes
        ):
            async with await trio.open_unix_socket(proxied.directory / "socket") as stream:
                await stream.send_all(b"show stat\n")
                states = b"".join([bytes(each) async for each in stream]).decode()


@pytest.mark.parametrize("variant", VARIANTS)
async def test_no_framing_harms_the_requests_of_others(proxied: Proxied, variant: str) -> None:
    """Whatever a client sends on its connection, others get their own answers on theirs."""
    merchant, references = proxied.merchant(), []
    other = Client(await proxied.connect(urlsplit(API)))
    for _ in proxied.gateways.nodes:
        references.append((await merchant.accepted())["merchantReference"])
        assert (await other.ask(request("GET", f"status/mref/{references[-1]}"))).status == 200
    with trio.fail_after(AT_ONCE_S):
        async with await proxied.connect(urlsplit(API)) as stream:
            await stream.send_all(VARIANTS[variant])
            assert await stream.receive_some()
            for reference in references:
                answer = await other.ask(request("GET", f"status/mref/{reference}"))
                assert (answer.status, answer.json["merchantReference"]) == (200, reference)
