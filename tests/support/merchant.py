"""A merchant's client in tests: real sockets, one request at a time, nothing hidden."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

import h11
import trio
from attrs import Factory, define, frozen

from tests.support.http2_client import Http2Client
from tests.support.http_version import http_version
from tests.support.openapi_conformance import check_creation, check_look_up
from tests.support.time_limits import HANGS_AFTER_S

ROOT = "/gateway/mmo/v2"
TIMEOUT_S = HANGS_AFTER_S
"""How long a test waits for anything before it fails."""


@frozen
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; the cookies that are set, one a line."""
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON, numbers as Decimal."""
        return json.loads(self.body, parse_float=Decimal)

    @property
    def segment(self) -> str:
        """The specific cause of a problem document: the last segment of its type."""
        return str(self.json["type"]).rsplit("/", 1)[1]


Connect: TypeAlias = Callable[[SplitResult], Awaitable[trio.abc.Stream]]
"""Opens a connection for a URL."""


async def connect_in_the_clear(url: SplitResult) -> trio.abc.Stream:
    """Connect to the host that the URL names."""
    return await trio.open_tcp_stream(url.hostname or "", url.port or 80)


async def ask(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    connect: Connect = connect_in_the_clear,
) -> Answer:
    """One request on a connection of its own; the target goes out exactly as it stands in the
    URL."""
    parts = urlsplit(url)
    target = url.split(parts.netloc, 1)[1] or "/"
    all_headers = {"Connection": "close"} | dict(headers or {})
    if not any(name.lower() == "host" for name in all_headers):
        all_headers["Host"] = parts.netloc
    if body is not None:
        all_headers["Content-Length"] = str(len(body))
    lines = [(name.encode(), value.encode("latin-1")) for name, value in all_headers.items()]
    http2_address = http_version.http2_address(parts.netloc) if target.startswith(ROOT) else None
    with trio.fail_after(TIMEOUT_S):
        if http2_address is not None:
            return await _ask_by_http2(http2_address, method, target, lines, body or b"")
        async with await connect(parts) as stream:
            connection = h11.Connection(h11.CLIENT)
            request = h11.Request(method=method, target=target, headers=lines)
            await stream.send_all(connection.send(request) or b"")
            if body:
                await stream.send_all(connection.send(h11.Data(body)) or b"")
            await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
            return await _read(stream, connection)


async def _ask_by_http2(
    address: str, method: str, target: str, lines: list[tuple[bytes, bytes]], body: bytes
) -> Answer:
    host, _, port = address.rpartition(":")
    fields = {name.lower(): value for name, value in lines}
    authority = fields.pop(b"host")
    del fields[b"connection"]
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        client = await Http2Client.start(stream, authority)
        answer = await client.ask(method.encode(), target.encode(), list(fields.items()), body)
    return Answer(answer.status, answer.headers, answer.body)


async def _read(stream: trio.abc.Stream, connection: h11.Connection) -> Answer:
    head: h11.Response | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some()))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            names = {name.decode(): value.decode() for name, value in head.headers}
            cookies = [value.decode() for name, value in head.headers if name == b"set-cookie"]
            if cookies:
                names["set-cookie"] = "\n".join(cookies)
            return Answer(head.status_code, names, bytes(body))


_COUNTER = itertools.count(1)


def a_reference() -> str:
    """A merchantReference that no test has used."""
    return f"order-{next(_COUNTER)}"


@define
class Merchant:
    """A brand's developer with its key."""

    api: str
    """`http://127.0.0.1:PORT`."""
    key: str
    result_url: str = "https://localhost:9/callback"
    method: str = "mpesa_ke"
    extra: dict[str, str] = Factory(dict)
    """Headers that every request carries."""
    connect: Connect = connect_in_the_clear

    def body(self, operation: str = "direct/payin", **changes: Any) -> dict[str, Any]:
        """A good request for this operation; a change to None leaves the member out."""
        msisdn = changes.pop("msisdn", "254712345678")
        party = {"id": "user-1", "msisdn": msisdn}
        body: dict[str, Any] = {
            "amount": {"value": 150, "currency": "KES"},
            "country": "KE",
            "resultUrl": self.result_url,
            "merchantReference": a_reference(),
        }
        if operation == "direct/payout":
            body["payee"] = party
        elif operation == "direct/taxpayout":
            body["reconciliationReference"] = "tax-2026"
        else:
            body["payer"] = party
        if operation == "qr/payin":
            body["displayQrUrl"] = self.result_url
        body |= changes
        return {name: value for name, value in body.items() if value is not None}

    async def post(
        self,
        operation: str,
        body: Any,
        *,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a creation request; a body that is bytes goes out as it is."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"X-Api-Key": self.key, "Content-Type": "application/json"} | self.extra
        target = f"{self.api}{ROOT}/{operation}/{quote(method or self.method, safe='')}"
        answer = await ask(
            target,
            method="POST",
            headers=lines | dict(headers or {}),
            body=raw,
            connect=self.connect,
        )
        check_creation(operation, raw, answer.status, answer.headers, answer.body)
        return answer

    async def create(self, operation: str = "direct/payin", **changes: Any) -> Answer:
        """Create a payment with these changes to a good request."""
        scenario = changes.pop("scenario", None)
        headers = {"X-Sandbox-Scenario": scenario} if scenario else {}
        return await self.post(operation, self.body(operation, **changes), headers=headers)

    async def accepted(self, operation: str = "direct/payin", **changes: Any) -> dict[str, Any]:
        """Create a payment that must be accepted; the answer's members."""
        answer = await self.create(operation, **changes)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    async def get(self, path: str, **headers: str) -> Answer:
        """GET a path below the root of the merchant API, exactly as it stands."""
        lines = {"X-Api-Key": self.key} | self.extra | headers
        answer = await ask(f"{self.api}{ROOT}/{path}", headers=lines, connect=self.connect)
        check_look_up(path, answer.status, answer.headers, answer.body)
        return answer

    async def status(self, gateway_reference: str) -> dict[str, Any]:
        """The transaction, which must exist."""
        answer = await self.get(f"status/{gateway_reference}")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    async def ended(self, gateway_reference: str) -> dict[str, Any]:
        """The transaction once it isn't pending any more."""
        with trio.fail_after(TIMEOUT_S):
            while True:
                found = await self.status(gateway_reference)
                if found["status"] != "pending":
                    return found
                await trio.sleep(0.02)

    async def records(self, **query: Any) -> Answer:
        """A page of records; names as in the specification, `begin` for `from`."""
        if "begin" in query:
            query = {"from": query.pop("begin")} | query
        text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
        return await self.get(f"records?{text}")
