"""Whatever the handler answers is the same behind both doors, byte for byte: HTTP/1.1 at
`listen.api`, and HTTP/2 at `listen.http2`."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from attrs import evolve, frozen

from tests.support.http2_client import Http2Client
from tests.support.http_listener import Answer, Client
from tests.support.merchant import ROOT, TIMEOUT_S, Merchant
from tests.support.merchants import ACME_KEY, a_brand, developer
from tests.support.sandbox_gateway import serving

pytestmark = pytest.mark.http1("asks by both versions itself")

SHUT_KEY = "the-key-of-a-shut-brand"
BRANDS = a_brand("acme", ACME_KEY) + a_brand("shut", SHUT_KEY, more="enabled = false")
RESULT_URL = "https://localhost:9/callback"
DOORS = ("api", "http2")

REFERENCE = re.compile(rb"[0-9A-HJKMNP-TV-Z]{26}")
STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6}Z|\+00:00)")
PAGE = re.compile(rb'(?<="pageUrl":")[^"]+')


@frozen
class Asked:
    """One request; `MARK` in it becomes the door's own word, so that nothing is a duplicate."""

    method: bytes
    target: bytes
    fields: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    http1_only: bool = False
    """For what HTTP/2 has no way to say, or a client library none to send."""

    def by(self, mark: bytes) -> Asked:
        """The request of this door."""
        return evolve(
            self, target=self.target.replace(b"MARK", mark), body=self.body.replace(b"MARK", mark)
        )


@frozen
class Doors:
    """A gateway behind both doors."""

    ports: dict[str, int]
    ended: str
    """References of payments: one that has succeeded,"""
    failed: str
    """one that has failed,"""
    waiting: str
    """and one for which no operator was asked."""
    window: str
    """A query for records that holds the first two, and will never hold more."""

    async def ask(self, door: str, asked: Asked) -> Answer:
        """What this door answers."""
        with trio.fail_after(TIMEOUT_S):
            if door == "http2":
                fast = await Http2Client.connect(self.ports["http2"])
                async with fast.stream:
                    return await fast.ask(asked.method, asked.target, asked.fields, asked.body)
            client = Client(await trio.open_tcp_stream("127.0.0.1", self.ports[door]))
            async with client.stream:
                lines = [b"%s %s HTTP/1.1" % (asked.method, asked.target), b"Host: h"]
                lines += [b"%s: %s" % field for field in asked.fields]
                head_only = asked.method == b"HEAD"
                await client.send(b"\r\n".join([*lines, b"", asked.body]))
                return await client.answer(head_only=head_only)

    async def compare(self, asked: Asked, *, same_payment: bool = False) -> Answer:
        """Ask every door; all must answer alike. `same_payment`: stamps and references, too."""
        first: Answer | None = None
        for door in DOORS:
            if door == "http2" and asked.http1_only:
                continue
            mark = f"{door:x<5}".encode()
            answer = _comparable(
                await self.ask(door, asked.by(mark)), mark, same_payment=same_payment
            )
            first = first or answer
            assert answer == first, door
        assert first is not None
        return first


def _comparable(answer: Answer, mark: bytes, *, same_payment: bool) -> Answer:
    """The answer without what belongs to the connection, the moment or the reference."""
    assert answer.headers["x-request-id"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["date"]
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in {"x-request-id", "date", "connection"}
    }
    body = answer.body.replace(mark, b"MARK")
    body = body.replace(answer.headers["x-request-id"].encode(), b"REQUEST")
    if not same_payment:
        body = STAMP.sub(b"STAMP", REFERENCE.sub(b"REFERENCE", PAGE.sub(b"PAGE", body)))
    return Answer(answer.status, headers, body)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One gateway for all tests of this module, in a thread of its own."""
    started: Queue[tuple[Doors, trio.lowlevel.TrioToken, trio.Event]] = Queue()
    main = partial(_serve, tmp_path_factory.mktemp("gateway"), started)
    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    found, token, stop = started.get(timeout=TIMEOUT_S)
    yield found
    token.run_sync_soon(stop.set)
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


async def _serve(
    directory: Path, started: Queue[tuple[Doors, trio.lowlevel.TrioToken, trio.Event]]
) -> None:
    stop = trio.Event()
    async with serving(
        directory, brands=BRANDS, environment={"MMO_LISTEN_HTTP2": "127.0.0.1:0"}
    ) as running:
        acme = developer(running, ACME_KEY)
        ended = await acme.accepted(merchantReference="a/b %+é~")
        failed = await acme.accepted(msisdn="254712345101", labels={"n": 1.50, "t": "x"})
        for each in (ended, failed):
            await acme.ended(each["gatewayReference"])
        waiting = await acme.accepted("web/payin")
        begin, end = [
            (await acme.status(each["gatewayReference"]))["createdAt"] for each in (ended, waiting)
        ]
        found = Doors(
            {
                "api": urlsplit(running.ready.api).port or 0,
                "http2": urlsplit(running.ready.http2 or "").port or 0,
            },
            ended["gatewayReference"],
            failed["gatewayReference"],
            waiting["gatewayReference"],
            f"from={begin}&to={end}",
        )
        started.put((found, trio.lowlevel.current_trio_token(), stop))
        await stop.wait()


KEY = (b"x-api-key", ACME_KEY.encode())
JSON = (b"content-type", b"application/json")


MERCHANT = Merchant("", ACME_KEY, RESULT_URL)


def creation(
    name: str,
    operation: str = "direct/payin",
    *,
    method: str = "mpesa_ke",
    fields: tuple[tuple[bytes, bytes], ...] = (KEY, JSON),
    raw: bytes | None = None,
    **changes: Any,
) -> Asked:
    """A creation request; `name` keeps its reference apart from those of others."""
    # Its payer is never heard of, so that both doors answer about a payment that is pending.
    changes = {"merchantReference": f"{name}-MARK", "msisdn": "254712345130"} | changes
    body = json.dumps(MERCHANT.body(operation, **changes)).encode() if raw is None else raw
    length = (b"content-length", b"%d" % len(body.replace(b"MARK", b"12345")))
    target = f"{ROOT}/{operation}/{method}".encode()
    return Asked(b"POST", target, (*fields, length), body)


OPERATIONS = ("direct/payin", "direct/payout", "qr/payin", "web/payin", "direct/taxpayout")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.spec("C1", "C2", "C3", "C4", "C5", "C6", "G1", "G9")
async def test_a_creation_is_answered_alike(doors: Doors, operation: str) -> None:
    answer = await doors.compare(creation(f"taken-{operation}", operation))
    assert answer.status == 200, answer.body
    assert answer.json["status"] == "pending"


# The whole contract is tested by either version; here stands what a door could change on the way.
REFUSED_CREATIONS: dict[str, tuple[int, Asked]] = {
    "a slash too many": (404, creation("slash", method="mpesa_ke/")),
    "bad escape": (404, creation("escape", method="%zz")),
    "no key": (401, creation("key", fields=(JSON,))),
    "two keys": (401, creation("key", fields=(KEY, KEY, JSON))),
    "key beyond ASCII": (401, creation("key", fields=((b"x-api-key", b"\xe9"), JSON))),
    "disabled brand": (400, creation("shut", fields=((b"x-api-key", SHUT_KEY.encode()), JSON))),
    "no content type": (400, creation("type", fields=(KEY,))),
    "encoded content": (
        400,
        creation("coding", fields=(KEY, JSON, (b"content-encoding", b"gzip"))),
    ),
    "too large": (413, creation("large", raw=b" " * (256 * 1024 + 1))),
    "much too large": (413, creation("large", raw=b" " * 300_000)),
    "no body": (400, creation("empty", raw=b"")),
    "every member missing": (400, creation("missing", raw=b"{}")),
    "unknown country": (400, creation("country", country="UG")),
    "duplicate": (422, creation("again", merchantReference="a/b %+é~")),
}


@pytest.mark.parametrize("name", REFUSED_CREATIONS)
@pytest.mark.spec("C9", "A1", "A2", "G2", "G3", "G7", "P1", "P2", "C8", "C10", "C11", "C12", "C13")
async def test_a_creation_is_refused_alike(doors: Doors, name: str) -> None:
    status, asked = REFUSED_CREATIONS[name]
    answer = await doors.compare(asked)
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"


def look(path: str, *fields: tuple[bytes, bytes], method: bytes = b"GET") -> Asked:
    """A request without a body for a path below the root of the merchant API."""
    return Asked(method, f"{ROOT}/{path}".encode(), fields or (KEY,))


LOOK_UPS: dict[str, tuple[int, str]] = {
    "ended": (200, "status/{ended}"),
    "waiting": (200, "status/{waiting}"),
    "by merchantReference": (200, "status/mref/a%2Fb%20%25%2B%C3%A9~"),
    "plus stays plus": (200, "status/mref/a%2fb%20%25+%c3%a9~"),
    "slash not encoded": (404, "status/mref/a/b%20%25%2B%C3%A9~"),
    "a bad escape": (404, "status/mref/%2"),
    "NUL": (404, "status/mref/a%00"),
    "dots as they are": (404, "status/../records"),
    "long": (404, "status/mref/" + "x" * 8_192),
    "records": (200, "records?{window}"),
    "records, twice": (400, "records?{window}&type=payin&type=payin"),
    "records, a plus for a space": (200, "records?from=2020-01-01T00:00:00+00:00&to=2020-01-02"),
}


@pytest.mark.parametrize("method", [b"GET", b"HEAD"], ids=["GET", "HEAD"])
@pytest.mark.parametrize("name", LOOK_UPS)
@pytest.mark.spec("L1", "L2", "L3", "R1", "R2", "R3", "R4", "R6", "T4")
async def test_a_look_up_is_answered_alike(doors: Doors, name: str, method: bytes) -> None:
    status, path = LOOK_UPS[name]
    known = {name: getattr(doors, name) for name in ("ended", "failed", "waiting", "window")}
    asked = look(path.format(small=doors.ended.lower(), **known), method=method)
    answer = await doors.compare(asked, same_payment=True)
    assert answer.status == status, answer.body
    assert int(answer.headers["content-length"]) > 0
    assert (answer.body == b"") == (method == b"HEAD")


@pytest.mark.spec("R5", "R6")
async def test_cursors_lead_alike_through_both_doors(doors: Doors) -> None:
    first = (
        await doors.compare(look(f"records?{doors.window}&pageSize=1"), same_payment=True)
    ).json
    second = (
        await doors.compare(look(f"records?page={first['pages']['next']}"), same_payment=True)
    ).json
    back = await doors.compare(
        look(f"records?page={second['pages']['previous']}"), same_payment=True
    )
    listed = [each["gatewayReference"] for each in first["data"] + second["data"]]
    assert listed == [doors.ended, doors.failed]
    assert back.json["data"] == first["data"]


OTHERS: dict[str, tuple[int, Asked]] = {
    "alive": (200, Asked(b"GET", b"/healthz")),
    "ready": (200, Asked(b"GET", b"/readyz")),
    "a hook": (404, Asked(b"POST", b"/hooks/mpesa/token")),
    "HEAD of alive": (200, Asked(b"HEAD", b"/healthz")),
    "the root": (404, Asked(b"GET", b"/")),
    "two slashes": (404, Asked(b"GET", b"//healthz")),
    "GET of a creation": (405, look("direct/payin/mpesa_ke")),
    "HEAD of a creation": (405, look("direct/payin/mpesa_ke", method=b"HEAD")),
    "DELETE of a payment": (405, look("status/x", method=b"DELETE")),
    "OPTIONS of records": (405, look("records", method=b"OPTIONS")),
    "POST to records": (405, look("records", method=b"POST")),
    "look-up without a key": (401, look("status/x", JSON)),
    "look-up of a disabled brand": (400, look("status/x", (b"x-api-key", SHUT_KEY.encode()))),
    "a target too long": (414, look("status/mref/" + "x" * 9_300)),
    "a head too large": (431, look("records", *[(b"x-filler", b"1")] * 101)),
    "a fragment": (400, Asked(b"GET", b"/healthz#x", http1_only=True)),
    "absolute form": (200, Asked(b"GET", b"http://h/healthz", http1_only=True)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.spec("G1", "G3", "G9", "P4", "A1", "A2")
async def test_everything_else_is_answered_alike(doors: Doors, name: str) -> None:
    status, asked = OTHERS[name]
    answer = await doors.compare(asked)
    assert answer.status == status, answer.body
