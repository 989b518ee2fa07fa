"""Sends QR codes to merchants: one attempt for each, without a breaker, with fair shares (Q1).

The outcome is recorded and changes nothing about the payment.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from typing import Final, Protocol, TypeAlias

import segno
import trio

from mmo_sansio.api.outgoing import not_sent_attempt, qr_code_request
from mmo_sansio.http.exchange import DeliveryAttempt
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import QrConcluded
from mmo_sansio.resilience.fair_queue import FairQueue
from mmo_sansio.values.model import QrCode, Transaction
from mmo_trio.brands.delivery_key import DeliveryRefused
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers.delivery.pool import DeliveryPool, FindDeliveryKey, retry_until_available

WAITING_MAX: Final = 16_384
"""Codes that may wait in memory; some bring a picture of several kilobytes."""
ACTIVE_MAX: Final = 256
"""Active deliveries of all merchants together."""
ACTIVE_PER_BRAND_MAX: Final = 16
QUIET_ZONE_MODULES: Final = 4
"""The white margin that a reader needs."""
MODULE_PIXELS: Final = 6

RecordQrOutcome: TypeAlias = Callable[[QrConcluded], Awaitable[object]]
"""Records an outcome and may be repeated; may raise StoreUnavailable and OutcomeUnknown."""


class SendQrCode(Protocol):
    """Makes one attempt of a brand within the delivery deadline; raises nothing that others cause."""

    async def __call__(self, request: HttpRequest, *, brand: str) -> DeliveryAttempt: ...


class QrWorker(DeliveryPool):
    """Delivers QR codes."""

    CONCLUDED_EVENT = "qr_code_concluded"

    def __init__(self, *, deliver: SendQrCode, find_key: FindDeliveryKey, record_outcome: RecordQrOutcome) -> None:
        super().__init__(
            find_key, FairQueue(waiting_max=WAITING_MAX, slots=ACTIVE_MAX, slots_per_brand=ACTIVE_PER_BRAND_MAX)
        )
        self._send = deliver
        self._record_outcome = record_outcome

    async def _process(self, work: WorkItem) -> None:
        attempt = await self._attempt(work.transaction)
        concluded = QrConcluded(work.transaction.reference, attempt)
        await retry_until_available(lambda: self._record_outcome(concluded), (Exception,))
        self._conclude(work, attempt)

    async def _attempt(self, transaction: Transaction) -> DeliveryAttempt:
        """Make the one attempt, if there is a code and the payment is still pending."""
        code = transaction.progress.qr
        if transaction.progress.stage.is_terminal:
            return not_sent_attempt(transaction, "The payment had ended, so nothing was sent.")
        if code is None:
            return not_sent_attempt(transaction, "The provider gave no code, so nothing was sent.")
        order = transaction.order
        assert order.display_qr_url is not None, "only a QR pay-in is shown"
        key = await self._delivery_key(order, order.display_qr_url)
        if isinstance(key, DeliveryRefused):
            return not_sent_attempt(transaction, key.detail, key.outcome)
        request = qr_code_request(transaction, key, image=await _image_base64(code))
        self._note_sending(transaction.reference)
        send = partial(self._send, request, brand=order.brand)
        return await self._send_once(transaction.reference, order.display_qr_url, send)


async def _image_base64(code: QrCode) -> str:
    """Return the operator's picture in base64, or draw one from the text."""
    if code.image is not None:
        return code.image
    assert code.payload is not None, "a code is a text or a picture"
    return await trio.to_thread.run_sync(draw_png, code.payload)


def draw_png(payload: str) -> str:
    """Return the text as a PNG picture in base64, with error correction M."""
    file = BytesIO()
    code = segno.make_qr(payload, error="m", encoding="utf-8", boost_error=False)
    code.save(file, kind="png", scale=MODULE_PIXELS, border=QUIET_ZONE_MODULES)
    return b64encode(file.getvalue()).decode()
