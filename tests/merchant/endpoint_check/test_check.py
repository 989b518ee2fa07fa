"""The check of endpoints passes the example receiver, and names each fault that is planted into a
copy of it."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import anyio
import pytest
import trio
from attrs import evolve, frozen

from mmo_merchant.endpoint_check.check import Probe, check_endpoint, numbered
from mmo_merchant.endpoint_check.player import played_endpoint
from mmo_merchant.endpoint_check.situations import SITUATIONS
from mmo_merchant.endpoint_check.situations.played_payments import QR_PICTURE, QR_TEXT
from mmo_merchant.endpoint_check.situations.verdict import KEY_IN_ANSWER, Verdict, VerdictKind
from mmo_sansio.http.egress_rules import parse_url
from mmo_sansio.testing import START, UNUSED_REFERENCE
from tests.support.emv_qr_reader import parse_payload
from tests.support.qr_reader import read_qr_code

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples/callback_receiver.py"
KEY = "The-key-0123456789abcdef"
BOOKING = (
    'book(word, reference, content.get("status"), (content.get("finalAmount") or {}).get("value"))'
)
COMMENT = (
    "# The result is stored: do your own work with it in another place, not before the answer."
)
FAST_S, SLOW_S = 0.02, 1.5


@frozen
class Fault:
    """A fault that is planted by replacing a piece of the example, and the situation that must show
    it."""

    name: str
    old: str
    new: str
    situation: str
    pause_s: float = FAST_S
    deadline_s: float = 15.0


COMPARISON = "hmac.compare_digest(received.encode(), key.encode())"
RECEIVED = '", ".join(self.headers.get_all("X-API-KEY", []))'
CHECK = f"if not is_one_of(self.keys, {RECEIVED}):"
RETURNS = "            return False\n    return True"
TAKEN = "self.answer(204)"
CAUGHT = "except (ValueError, RecursionError):"
KNOWN = "return found if is_known else None"
KNOWN_IF = "return found if {} else None"
STATUSES = '("success", "failed")'
ANSWER = "def answer("
GET = f"do_GET = lambda self: {TAKEN}\n\n    {ANSWER}"
LENGTH = 'send_header("Content-Length", "0")'
PATIENCE = "    timeout = 10"
SERVER = "BaseHTTPRequestHandler, ThreadingHTTPServer\n"
ONE_BY_ONE = "BaseHTTPRequestHandler, HTTPServer as ThreadingHTTPServer\n"
LINK = """        try:
            os.link(draft.name, file)
        except FileExistsError:
            return False
"""
LOOKS_FIRST = """        if file.exists():
            return False
        sleep(0.2)
        file.write_bytes(body)
"""
RESULT_FILE = 'f"{reference}.json" if is_result'
ORDERS_FILE = "f\"{content['merchantReference']}.json\" if is_result"
IS_RESULT = 'content["gatewayReference"], "status" in content'
ANY_RESULT = 'content["gatewayReference"], True'
ONE_CODE = 'found.get("errorCode") in (None, "user_cancelled")'

FAULTS = (
    Fault("no check of the key", CHECK, "if False:", "key-wrong"),
    Fault("a missing key passes", RECEIVED, 'self.headers.get("X-API-KEY", KEY)', "key-missing"),
    Fault("an empty key passes", COMPARISON, "received in ('', key)", "key-empty"),
    Fault("a beginning passes", COMPARISON, "key.startswith(received or '-')", "key-beginning"),
    Fault("more than the key passes", COMPARISON, "received.startswith(key)", "key-longer"),
    Fault("letter case", COMPARISON, "received.lower() == key.lower()", "key-other-case"),
    Fault("keys as text", COMPARISON, "hmac.compare_digest(received, key)", "key-not-ascii"),
    Fault("any key", RECEIVED, 'self.headers.get_all("X-API-KEY", [""])[-1]', "key-twice"),
    Fault("the key in the answer", LENGTH, 'send_header("X-Key", KEY)', "key-right"),
    Fault("a redirect", TAKEN, "self.answer(302)", "key-right"),
    Fault("repeats are booked", RETURNS, RETURNS.replace("return False", "pass"), "repeated"),
    Fault("repeats are errors", TAKEN, "self.answer(204 if is_new else 409)", "repeated-later"),
    Fault("looks first and writes later", LINK, LOOKS_FIRST, "repeated-at-once"),
    Fault("repeats by merchantReference", RESULT_FILE, ORDERS_FILE, "reference-used-again"),
    Fault("a QR code counts as the result", IS_RESULT, ANY_RESULT, "result-after-qr-code"),
    Fault("a QR code is booked", '"status" in content', "True", "qr-code"),
    Fault("successes only", STATUSES, '("success",)', "failed"),
    Fault("pending is booked", STATUSES, '("success", "failed", "pending")', "status-pending"),
    Fault("known codes only", KNOWN, KNOWN_IF.format(ONE_CODE), "unknown-error-code"),
    Fault("known members only", KNOWN, KNOWN_IF.format("len(found) <= 19"), "unknown-members"),
    Fault("needs an order", KNOWN, KNOWN_IF.format('found["merchantReference"]'), "deposit"),
    Fault("small bodies only", "1024 * 1024", "64 * 1024", "big-provider-data"),
    Fault("the requested amount is booked", '"finalAmount"', '"requestedAmount"', "other-amount"),
    Fault("amounts are floats", "parse_float=Decimal", "parse_float=float", "exact-decimals"),
    Fault("file names of others", " or not ULID.fullmatch(reference)", "", "reference-path"),
    Fault("no JSON breaks it", CAUGHT, "except RecursionError:", "body-no-json"),
    Fault("deep JSON breaks it", CAUGHT, "except ValueError:", "body-deep"),
    Fault("any method will do", ANSWER, GET, "method-get"),
    Fault("impatient", "timeout = 10", "timeout = 0.5", "slow-head", SLOW_S),
    Fault("reads once", "rfile.read(int(length))", "rfile.read1(int(length))", "slow-body", SLOW_S),
    Fault("one at a time", SERVER, ONE_BY_ONE, "silent-connections", deadline_s=4.0),
    Fault(
        "leaves a body unread",
        PATIENCE,
        f'    protocol_version = "HTTP/1.1"\n{PATIENCE}',
        "kept-after-rejection",
    ),
)


ADVISED = {"key-twice", "method-get", "reference-path"}
"""The situations of these faults in which another answer is only advised against."""


class Books:
    """What a copy of the example has booked, and the answer to questions about it."""

    def __init__(self) -> None:
        self._booked = defaultdict[str, list[tuple[str, Any]]](list)

    def book(self, word: str, reference: str, status: str, amount: object) -> None:
        """Book a result; repeats and QR codes are recognised by the copy."""
        if word == "result":
            self._booked[reference].append((status, amount))

    async def report(self, reference: str) -> str:
        """Report what was booked under a gatewayReference."""
        booked = self._booked.get(reference, [])
        status, amount = booked[0] if booked else (None, None)
        return json.dumps(
            {
                "handled": len(booked),
                "status": str(status),
                "amount": None if amount is None else f"{amount:f}",
            }
        )


@contextmanager
def shop(results: Path, fault: Fault | None = None) -> Iterator[tuple[str, Books]]:
    """A running copy of the example with this fault: its URL and its books."""
    source = EXAMPLE.read_text(encoding="utf-8")
    assert COMMENT in source
    source = source.replace(COMMENT, BOOKING)
    if fault is not None:
        assert fault.old in source, f"the example has changed: {fault.old}"
        source = source.replace(fault.old, fault.new)
    books, module = Books(), ModuleType("copy_of_the_example")
    module.__dict__.update(book=books.book, KEY=KEY, print=lambda *_, **__: None)
    sys.modules[module.__name__] = module
    exec(
        compile(source.replace("sleep(", "__import__('time').sleep("), "copy", "exec"),
        module.__dict__,
    )
    results.mkdir(parents=True)
    module.Receiver.keys, module.Receiver.results = [KEY], results
    server_class: type[HTTPServer] = module.ThreadingHTTPServer
    with server_class(("127.0.0.1", 0), module.Receiver) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/results", books
        server.shutdown()


async def check(
    url: str,
    books: Books | None,
    names: set[str],
    pause_s: float = FAST_S,
    deadline_s: float = 15.0,
) -> dict[str, Verdict]:
    """Play some situations and return their verdicts by name."""
    endpoint = evolve(
        played_endpoint(parse_url(url), KEY.encode(), None), pause_s=pause_s, deadline_s=deadline_s
    )
    played = numbered(SITUATIONS, run=UNUSED_REFERENCE[:18], now=START)
    probe: Probe | None = None if books is None else books.report
    verdicts = await check_endpoint(
        endpoint, [each for each in played if each[0].name in names], probe=probe, settle_s=1.0
    )
    return {each.situation.name: each for each in verdicts}


ALL = {each.name for each in SITUATIONS}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_example_passes_in_every_situation(backend: str, tmp_path: Path) -> None:
    with shop(tmp_path / "results") as (url, books):
        verdicts = anyio.run(check, url, books, ALL, backend=backend)
    wrong = {
        name: each.reasons for name, each in verdicts.items() if each.kind is not VerdictKind.PASSED
    }
    assert set(wrong) == {"tls-1.2", "tls-1.3"}, wrong
    assert all(each.question is None for each in verdicts.values()), (
        "its books answer every question"
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.name)
async def test_each_planted_fault_is_named(tmp_path: Path, fault: Fault) -> None:
    with shop(tmp_path / "a" / "b" / "c", fault) as (url, books):
        verdicts = await check(
            url, books, {"key-right", fault.situation}, fault.pause_s, fault.deadline_s
        )
    verdict = verdicts[fault.situation]
    is_advised = fault.situation in ADVISED
    assert verdict.kind is (VerdictKind.ADVICE if is_advised else VerdictKind.FAILED), (
        verdict.reasons
    )
    assert verdict.reasons


async def test_a_key_in_an_answer_is_a_fault_in_every_situation(tmp_path: Path) -> None:
    """Also where another answer is only advised: whoever opens the URL in a browser would see the
    key."""
    told = (
        "do_GET = lambda self: "
        '(self.send_response(405), self.send_header("X-Key", KEY), self.end_headers())'
    )
    fault = Fault("the key for everybody", ANSWER, f"{told}\n\n    {ANSWER}", "method-get")
    with shop(tmp_path / "results", fault) as (url, books):
        verdicts = await check(url, books, {"key-right", "method-get"})
    assert verdicts["method-get"].kind is VerdictKind.FAILED
    assert verdicts["method-get"].reasons == (KEY_IN_ANSWER,)


@pytest.mark.spec("K2")
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "silent"])
async def test_the_head_is_the_answer_as_for_the_gateway(is_closed: bool) -> None:
    """A body that breaks off, or never ends, changes nothing but where the next request needs the
    connection."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            received = b""
            while not received.endswith(b"}"):
                received += bytes(await stream.receive_some())
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nShort")
            if not is_closed:
                await stream.receive_some()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        verdicts = await check(
            url, None, {"key-right", "failed", "kept-connection"}, deadline_s=1.0
        )
        nursery.cancel_scope.cancel()
    assert {name: each.kind for name, each in verdicts.items()} == {
        "key-right": VerdictKind.PASSED,
        "failed": VerdictKind.PASSED,
        "kept-connection": VerdictKind.FAILED,
    }
    assert verdicts["kept-connection"].reasons == (
        "The body of the answer did not come to its end.",
    )


@pytest.mark.spec("Q1")
def test_the_played_picture_is_the_played_code() -> None:
    assert read_qr_code(b64decode(QR_PICTURE)) == QR_TEXT
    assert parse_payload(QR_TEXT)["54"] == "150.00"


async def test_without_a_probe_the_merchant_is_asked(tmp_path: Path) -> None:
    with shop(tmp_path / "results") as (url, _):
        verdicts = await check(url, None, {"key-right", "repeated", "body-array"})
    assert {each.kind for each in verdicts.values()} == {VerdictKind.PASSED}
    assert verdicts["repeated"].question == "Was it booked once?"
    assert verdicts["body-array"].question is None


async def test_an_endpoint_that_cannot_be_reached_is_played_once(tmp_path: Path) -> None:
    with shop(tmp_path / "results") as (url, books):
        pass
    verdicts = await check(url, books, {"key-right", "repeated"})
    assert verdicts["key-right"].kind is VerdictKind.FAILED
    assert "refused" in verdicts["key-right"].reasons[0]
    assert verdicts["repeated"].kind is VerdictKind.NOT_PLAYED
