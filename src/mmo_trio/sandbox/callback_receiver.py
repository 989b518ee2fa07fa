"""Receives callbacks over HTTPS for `mmo listen` and the demo, as a merchant's endpoint should.

It accepts a callback only with one of its own API keys, compared in constant time; it drops repeats by
gatewayReference, as a callback may arrive twice (K3); and it responds at once.
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
"""Maximum size in bytes; a transaction object has some hundred kilobytes at most."""
REMEMBERED_REFERENCES_MAX: Final = 100_000
"""Number of gatewayReferences by which repeats are recognised; the oldest are dropped beyond it."""
DOCS_URL: Final = "about:blank"
"""Base of the problem type URIs in the receiver's own responses."""


@frozen
class ReceivedCallback:
    """Describes a genuine and new callback."""

    gateway_reference: str
    transaction: Mapping[str, Any]
    """The transaction object, parsed."""
    body: bytes = field(repr=False)
    """The same, as it came."""


@frozen
class ReceivedQrCode:
    """Describes a genuine QR code to show to the payer (Q1)."""

    gateway_reference: str
    code: Mapping[str, Any]
    """The JSON object: `qrPayload`, `qrImage` and more."""
    body: bytes = field(repr=False)
    """The same, as it came."""


OnQrCode: TypeAlias = Callable[[ReceivedQrCode], None]
"""Called with each QR code before the response; must not wait."""

OnCallback: TypeAlias = Callable[[ReceivedCallback], None]
"""Called with each new callback before the response; must not wait. If it raises, the callback counts as not
received."""

OnRejected: TypeAlias = Callable[[], None]
"""Called for each callback whose X-API-KEY is missing, repeated or wrong; must not wait."""


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
    """Receive callbacks at any path until cancelled, or until `drain` is set and active requests are answered.

    The response is 204 to a genuine callback, new or repeated; 401 to a missing, repeated or wrong key; 405 to any
    method but POST; 400 to a body that is no transaction object and no QR code. Several keys are expected while a
    merchant changes keys, or for several brands.
    """
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
    """Checks callbacks and responds to them."""

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
        """Tell, in constant time, whether there is exactly one key and it is expected."""
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
    """Return the callback or the QR code in this body; None when it is neither."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("gatewayReference"), str):
        return None
    received = ReceivedQrCode if "qrImage" in content else ReceivedCallback
    return received(content["gatewayReference"], content, body)
