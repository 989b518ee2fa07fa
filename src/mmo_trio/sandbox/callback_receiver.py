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

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.system.ids import request_id_generator

BODY_BYTES_MAX: Final = 1024 * 1024
"""Bytes; a transaction object is some hundred kilobytes at the very most."""
REMEMBERED_REFERENCES_MAX: Final = 100_000
"""gatewayReferences by which repeats are known; beyond this the oldest are forgotten."""
DOCS_URL: Final = "about:blank"
"""Base of the type URIs of problems below the receiver's own answers."""


@frozen
class ReceivedCallback:
    """A callback that is genuine and new."""

    gateway_reference: str
    transaction: Mapping[str, Any]
    """The transaction object, parsed."""
    body: bytes = field(repr=False)
    """The same, as it came."""


@frozen
class ReceivedQrCode:
    """A genuine QR code to show to the payer (Q1)."""

    gateway_reference: str
    code: Mapping[str, Any]
    """The JSON object: `qrPayload`, `qrImage` and more."""
    body: bytes = field(repr=False)
    """The same, as it came."""


OnQrCode: TypeAlias = Callable[[ReceivedQrCode], None]
"""Told of each QR code before it is answered; must not wait."""

OnCallback: TypeAlias = Callable[[ReceivedCallback], None]
"""Told of each callback before it is answered; must not wait. If it raises, the callback isn't
believed to have arrived."""

OnRejected: TypeAlias = Callable[[], None]
"""Told of each callback whose X-API-KEY is missing, repeated or wrong; must not wait."""


async def receive_callbacks(
    listeners: Sequence[trio.SocketListener],
    *,
    tls: Callable[[], ssl.SSLContext],
    expected_keys: Sequence[bytes],
    on_callback: OnCallback,
    on_rejected: OnRejected = lambda: None,
    on_qr_code: OnQrCode = lambda _: None,
    drain: trio.Event | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive callbacks at any path until cancelled, or until `drain` is set and what has begun is
    answered: 204 to a genuine one, new or repeated; 401 to a missing, repeated or wrong key; 405 to
    anything but POST; 400 to a body that is no transaction object and no QR code. Several keys are expected while
    a merchant changes keys, or when one receiver serves several brands."""
    await serve_http(
        _CallbackReceiverHandler(expected_keys, on_callback, on_rejected, on_qr_code),
        listeners,
        limits=ListenerLimits(),
        error_docs_url=DOCS_URL,
        mint_request_id=request_id_generator(),
        drain=drain or trio.Event(),
        tls=tls,
        task_status=task_status,
    )


@define(eq=False)
class _CallbackReceiverHandler:
    """Judges callbacks."""

    expected_keys: Sequence[bytes] = field(repr=False)
    on_callback: OnCallback
    on_rejected: OnRejected
    on_qr_code: OnQrCode
    _seen_references: OrderedDict[str, None] = Factory(OrderedDict)

    async def admit(self, head: RequestHead, context: RequestContext) -> HttpResponse | Admitted:
        if head.method != "POST":
            return HttpResponse(405, ((b"allow", b"POST"),))
        if not self._is_genuine(head.values(b"x-api-key")):
            self.on_rejected()
            return HttpResponse(401)
        return Admitted(BODY_BYTES_MAX, self._respond)

    def _is_genuine(self, keys: Sequence[bytes]) -> bool:
        """Whether exactly one key came and it is expected; takes as long for every one."""
        if len(keys) != 1:
            return False
        return sum(hmac.compare_digest(keys[0], each) for each in self.expected_keys) > 0

    async def _respond(self, body: bytes) -> HttpResponse:
        received = _parse_body(body)
        if received is None:
            return HttpResponse(400)
        if isinstance(received, ReceivedQrCode):
            self.on_qr_code(received)
            return HttpResponse(204)
        if received.gateway_reference not in self._seen_references:
            self.on_callback(received)
            self._seen_references[received.gateway_reference] = None
            if len(self._seen_references) > REMEMBERED_REFERENCES_MAX:
                self._seen_references.popitem(last=False)
        return HttpResponse(204)


def _parse_body(body: bytes) -> ReceivedCallback | ReceivedQrCode | None:
    """The callback or the QR code in this body; None when it is neither."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not isinstance(told.get("gatewayReference"), str):
        return None
    if "qrImage" in told:
        return ReceivedQrCode(told["gatewayReference"], told, body)
    return ReceivedCallback(told["gatewayReference"], told, body)
