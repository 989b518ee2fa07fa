"""The HTTPS receiver behind `mmo listen` and the demo: what a merchant's callback endpoint has to
do, done right.

It believes a callback only with one of its own API keys, compared in constant time; it drops repeats by
gatewayReference, as a callback may arrive twice (K3); and it answers at once.
"""

from __future__ import annotations

import hmac
import json
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.server.listener import serve_http
from mmo_trio.system.ids import request_ids

BODY_LIMIT: Final = 1024 * 1024
"""Bytes; a transaction object is some hundred kilobytes at the very most."""
REMEMBERED_MOST: Final = 100_000
"""gatewayReferences by which repeats are known; beyond this the oldest are forgotten."""
DOCS_URL: Final = "about:blank"
"""Base of the type URIs of problems below the receiver's own answers."""


@frozen
class Received:
    """A callback that is genuine and new."""

    gateway_reference: str
    transaction: Mapping[str, Any]
    """The transaction object, parsed."""
    body: bytes = field(repr=False)
    """The same, as it came."""


@frozen
class QrReceived:
    """A genuine QR code to show to the payer (Q1)."""

    gateway_reference: str
    code: Mapping[str, Any]
    """The JSON object: `qrPayload`, `qrImage` and more."""
    body: bytes = field(repr=False)
    """The same, as it came."""


OnQr: TypeAlias = Callable[[QrReceived], None]
"""Told of each QR code before it is answered; must not wait."""

OnCallback: TypeAlias = Callable[[Received], None]
"""Told of each callback before it is answered; must not wait. If it raises, the callback isn't
believed to have arrived."""

OnRefused: TypeAlias = Callable[[], None]
"""Told of each callback whose X-API-KEY is missing, repeated or wrong; must not wait."""


async def receive(
    listeners: Sequence[trio.SocketListener],
    *,
    tls: Callable[[], ssl.SSLContext],
    expected_keys: Sequence[bytes],
    on_callback: OnCallback,
    on_refused: OnRefused = lambda: None,
    on_qr: OnQr = lambda _: None,
    drain: trio.Event | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive callbacks at any path until cancelled, or until `drain` is set and what has begun is
    answered: 204 to a genuine one, new or repeated; 401 to a missing, repeated or wrong key; 405 to
    anything but POST; 400 to a body that is no transaction object and no QR code. Several keys are expected while
    a merchant changes keys, or when one receiver serves several brands."""
    await serve_http(
        _Receiver(expected_keys, on_callback, on_refused, on_qr),
        listeners,
        limits=ListenerLimits(),
        error_docs_url=DOCS_URL,
        mint_request_id=request_ids(),
        drain=drain or trio.Event(),
        tls=tls,
        task_status=task_status,
    )


@define(eq=False)
class _Receiver:
    """Judges callbacks."""

    expected_keys: Sequence[bytes] = field(repr=False)
    on_callback: OnCallback
    on_refused: OnRefused
    on_qr: OnQr
    _seen: OrderedDict[str, None] = Factory(OrderedDict)

    async def admit(self, head: RequestHead, context: RequestContext) -> HttpResponse | Admitted:
        if head.method != "POST":
            return HttpResponse(405, ((b"allow", b"POST"),))
        if not self._is_genuine(head.values(b"x-api-key")):
            self.on_refused()
            return HttpResponse(401)
        return Admitted(BODY_LIMIT, self._respond)

    def _is_genuine(self, keys: Sequence[bytes]) -> bool:
        """Whether exactly one key came and it is expected; takes as long for every one."""
        if len(keys) != 1:
            return False
        return sum(hmac.compare_digest(keys[0], each) for each in self.expected_keys) > 0

    async def _respond(self, body: bytes) -> HttpResponse:
        received = _parse(body)
        if received is None:
            return HttpResponse(400)
        if isinstance(received, QrReceived):
            self.on_qr(received)
            return HttpResponse(204)
        if received.gateway_reference not in self._seen:
            self.on_callback(received)
            self._seen[received.gateway_reference] = None
            if len(self._seen) > REMEMBERED_MOST:
                self._seen.popitem(last=False)
        return HttpResponse(204)


def _parse(body: bytes) -> Received | QrReceived | None:
    """The callback or the QR code in this body; None when it is neither."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not isinstance(told.get("gatewayReference"), str):
        return None
    if "qrImage" in told:
        return QrReceived(told["gatewayReference"], told, body)
    return Received(told["gatewayReference"], told, body)
