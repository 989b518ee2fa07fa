"""Receives callbacks over HTTPS for `mmo listen`, `mmo trigger` and the demo, as a merchant's
endpoint should, and forwards them to a server on this machine.

It accepts a callback only with one of its own API keys, compared in constant time; it recognises
repeats by gatewayReference, as a callback may arrive twice (K3); and it responds at once, or with
the status of the local server to which it forwards."""

from __future__ import annotations

import hmac
import json
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.http.egress_rules import EgressRules, UrlError, parse_url
from mmo_sansio.http.exchange import ExchangeFailure, NoResponseReceived, ResponseReceived
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.system.ids import request_id_generator

# Maximum size in bytes; a transaction object has some hundred kilobytes at most.
BODY_BYTES_MAX: Final = 1024 * 1024

# Number of gatewayReferences by which repeats are recognised; the oldest are dropped beyond it.
REMEMBERED_REFERENCES_MAX: Final = 100_000

# Where `mmo listen` listens without --port, and where results of the demo brand's offline deposits
# go.
DEFAULT_PORT: Final = 8443

LIMITS: Final = ListenerLimits()

# Announces how long an idle connection stays open at least, so that the gateway keeps it for the
# next callback.
KEEP_ALIVE: Final = ((b"keep-alive", b"timeout=%d" % LIMITS.short_idle_timeout_s),)

# Base of the problem type URIs in the receiver's own responses.
DOCS_URL: Final = "about:blank"

# The status for the sender when the local server gave no response (RFC 9110 section 15.6.3).
NO_RESPONSE_STATUS: Final = 502

# The status for the sender when the local server took too long (RFC 9110 section 15.6.5).
TIMEOUT_STATUS: Final = 504

# Seconds for the local server: a little less than the 15 s of the sender (K2), so that it learns
# the reason.
FORWARD_TIMEOUT_S: Final = 14.5

# Fields that belong to one connection (RFC 9110 section 7.6.1), or that the client adds.
_NOT_FORWARDED: Final = frozenset(
    (
        # The client writes these itself.
        b"host", b"user-agent", b"accept-encoding", b"content-length",
        # One connection's own.
        b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade",
        b"expect", b"proxy-authorization", b"proxy-connection",
    )
)  # fmt: skip


def callback_forwarder(url: str, context: ssl.SSLContext) -> Forward:
    """Return what forwards requests, with their headers and bodies as they came, to a merchant's
    server on this machine (`mmo listen --forward-to`): its answer is the local server's status, or
    502 or 504 with the reason when there is none.

    `url` may be an http or https URL; with `/` or nothing as its path, each request keeps its own
    path. The context verifies the server of an https URL. Raises ValueError, with a sentence, for a
    URL that cannot be called."""
    try:
        parse_url(url)
    except UrlError as error:
        raise ValueError(str(error)) from None

    client = HttpClient(rules=EgressRules(), context=context)

    async def forward(request: HttpRequest) -> ReceiverAnswer:
        # Addresses of this machine are meant here; the rules for what leaves a gateway forbid them.
        target = forward_target(url, request.target.decode("ascii", "backslashreplace"))
        headers = tuple([header for header in request.headers if header[0] not in _NOT_FORWARDED])
        sent = HttpRequest(request.method, target.encode(), headers, request.body)
        match await client.exchange(sent, skip_egress_rules=True, deadline_s=FORWARD_TIMEOUT_S):
            case ResponseReceived(status=status):
                return ReceiverAnswer(status)
            case NoResponseReceived(failure=ExchangeFailure.TIMEOUT, detail=detail):
                return ReceiverAnswer(TIMEOUT_STATUS, detail)
            case NoResponseReceived(detail=detail):
                return ReceiverAnswer(NO_RESPONSE_STATUS, detail)

    return forward


def forward_target(url: str, path: str) -> str:
    """Return where a request to this path of the receiver goes: to the URL, with the request's path
    where the URL has none, and with the request's query where the URL has none."""
    to = urlsplit(url)
    came = urlsplit(path)
    if to.path in ("", "/"):
        to = to._replace(path=came.path)
    return to._replace(query=to.query or came.query).geturl()


class ReceivedKind(StrEnum):
    """Says what a request to the receiver brought."""

    CALLBACK = "callback"
    """The result of a payment: a transaction object (K1)."""
    QR_CODE = "qr"
    """A QR code to show to the payer (Q1)."""
    OTHER = "other"
    """Neither, or nothing that was read, as its key is wrong."""


@frozen
class ReceiverAnswer:
    """Is the status that the sender gets, and a remark where the receiver did not decide it as
    usual."""

    status: int
    remark: str = ""


@frozen
class ReceivedRequest:
    """Describes a request to the receiver, and the answer to it."""

    path: str
    """The path, with the query."""
    has_right_key: bool
    """Whether it has exactly one X-API-KEY, and that is expected. The body of another one is not
    read."""
    kind: ReceivedKind
    content: Mapping[str, Any]
    """The JSON object; empty for OTHER."""
    body: bytes = field(repr=False)
    """The same, as it came."""
    is_repeat: bool
    """Whether a callback with its gatewayReference was accepted before."""
    answer: ReceiverAnswer
    duration_ms: int
    """From the head of the request to the answer, the local server's time included."""

    @property
    def gateway_reference(self) -> str | None:
        """Return the payment's reference; None for OTHER."""
        return self.content.get("gatewayReference")


# Called with each POST request before the answer to it; must not wait. If it raises, the answer is
# 500, and a callback counts as not received.
OnRequest: TypeAlias = Callable[[ReceivedRequest], None]

# Sends a genuine request on and returns the answer for its sender; see `callback_forwarder`.
Forward: TypeAlias = Callable[[HttpRequest], Awaitable[ReceiverAnswer]]


async def receive_callbacks(
    listeners: Sequence[trio.SocketListener],
    *,
    tls: Callable[[], ssl.SSLContext],
    expected_keys: Sequence[bytes],
    on_request: OnRequest,
    forward: Forward | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive callbacks at any path until cancelled.

    The response is 204 to a genuine callback, new or repeated; 401 to a missing, repeated or wrong
    key; 405 to any method but POST; 400 to a body that is no transaction object and no QR code.
    Several keys are expected while a merchant changes keys, or for several brands. With `forward`,
    every request with a right key is sent on, repeated ones too, and the response is what `forward`
    returns."""
    context = ListenerContext(
        _CallbackReceiverHandler(expected_keys, on_request, forward),
        LIMITS,
        error_docs_url=DOCS_URL,
        mint_request_id=request_id_generator(),
        drain=trio.Event(),
        tls=tls,
    )
    await serve_http(context, listeners, task_status=task_status)


@define(eq=False)
class _CallbackReceiverHandler:
    """Checks callbacks and responds to them."""

    expected_keys: Sequence[bytes] = field(repr=False)
    on_request: OnRequest
    forward: Forward | None
    _accepted_references: OrderedDict[str, None] = Factory(OrderedDict)

    async def admit(self, head: RequestHead, context: RequestContext) -> HttpResponse | Admitted:
        if head.method != "POST":
            return HttpResponse(405, ((b"allow", b"POST"),))

        # Before the body: who has no key makes the receiver read and keep nothing.
        if not self._is_genuine(head.values(b"x-api-key")):
            path = _readable_path(head)
            answer = ReceiverAnswer(401)
            rejected = ReceivedRequest(
                path=path,
                has_right_key=False,
                kind=ReceivedKind.OTHER,
                content={},
                body=b"",
                is_repeat=False,
                answer=answer,
                duration_ms=0,
            )
            self.on_request(rejected)
            return HttpResponse(401)

        return Admitted(BODY_BYTES_MAX, partial(self._respond, head, trio.current_time()))

    def _is_genuine(self, keys: Sequence[bytes]) -> bool:
        """Tell, in constant time, whether there is exactly one key and it is expected."""
        # Two keys: a proxy and the server behind it may each have read another one.
        if len(keys) != 1:
            return False

        # All are compared, so that the time does not tell which one was nearly right.
        return (
            sum(hmac.compare_digest(keys[0], expected_key) for expected_key in self.expected_keys)
            > 0
        )

    async def _respond(self, head: RequestHead, started: float, body: bytes) -> HttpResponse:
        kind, content = _parse_body(body)
        if self.forward is None:
            answer = ReceiverAnswer(400 if kind is ReceivedKind.OTHER else 204)
        else:
            answer = await self.forward(HttpRequest(head.method, head.target, head.headers, body))

        # A QR code comes before the result of the same payment, and is no repeat of it.
        reference = None
        if kind is ReceivedKind.CALLBACK:
            reference = content.get("gatewayReference")

        received = ReceivedRequest(
            path=_readable_path(head),
            has_right_key=True,
            kind=kind,
            content=content,
            body=body,
            is_repeat=reference in self._accepted_references,
            answer=answer,
            duration_ms=round((trio.current_time() - started) * 1000),
        )
        self.on_request(received)

        # What was not taken comes again as new: the shop has not booked it.
        if reference is not None and 200 <= answer.status <= 299:
            self._accepted_references[reference] = None
            if len(self._accepted_references) > REMEMBERED_REFERENCES_MAX:
                self._accepted_references.popitem(last=False)

        return HttpResponse(answer.status, KEEP_ALIVE)


def _readable_path(head: RequestHead) -> str:
    return head.target.decode("ascii", "backslashreplace")


def _parse_body(body: bytes) -> tuple[ReceivedKind, Mapping[str, Any]]:
    """Return what this body is, and its JSON object; an empty one when it is neither callback nor
    QR code."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return ReceivedKind.OTHER, {}
    if not isinstance(content, dict) or not isinstance(content.get("gatewayReference"), str):
        return ReceivedKind.OTHER, {}

    # Both are objects with the reference of a payment; only one has a picture (Q1).
    if "qrImage" in content:
        return ReceivedKind.QR_CODE, content
    return ReceivedKind.CALLBACK, content
