"""Brings QR codes to their merchants: one attempt for each, outside the breaker, a fair share for each merchant (Q1).

What became of it is recorded and changes nothing about the payment.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Final, TypeAlias

import segno
import structlog
import trio

from mmo_sansio.api.outgoing.qr_code import not_sent_attempt, qr_code_request
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import QrConcluded
from mmo_sansio.messages.intents import DeliverQr
from mmo_sansio.resilience.fair_queue import FairQueue
from mmo_sansio.values.model import QrCode, Transaction
from mmo_trio.storage.interface.store import WorkItem
from mmo_trio.workers.delivery.pool import DRAIN_GRACE_S, DeliveryPool, retry_until_available

logger = structlog.get_logger(__name__)

WAITING_MAX: Final = 16_384
"""Codes that may wait in memory; some bring a picture of several kilobytes along."""
ACTIVE_MAX: Final = 256
"""Deliveries under way at one time, of all merchants together."""
ACTIVE_PER_BRAND_MAX: Final = 16
QUIET_ZONE_MODULES: Final = 4
"""The white margin that a reader needs."""
MODULE_PIXELS: Final = 6

SendQrCode: TypeAlias = Callable[[HttpRequest], Awaitable[DeliveryAttempt]]
"""Makes one attempt, within the deadline over everything; raises nothing that others cause."""
FindApiKey: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""The API key that a brand's deliveries carry now (A4); None when it has none in use."""
RecordQrOutcome: TypeAlias = Callable[[QrConcluded], Awaitable[object]]
"""Records an outcome; may raise StoreUnavailable and OutcomeUnknown. To repeat it does no harm."""


class QrWorker:
    """Takes codes from anywhere in this process with `take`; `run` delivers them."""

    def __init__(
        self, *, deliver: SendQrCode, find_api_key: FindApiKey, record_outcome: RecordQrOutcome
    ) -> None:
        self._deliver = deliver
        self._find_api_key = find_api_key
        self._record_outcome = record_outcome
        self.outcomes: Counter[DeliveryOutcome] = Counter()
        """Of the codes that were concluded since the start."""
        turns = FairQueue[WorkItem](
            waiting_max=WAITING_MAX, slots=ACTIVE_MAX, slots_per_brand=ACTIVE_PER_BRAND_MAX
        )
        self._pool = DeliveryPool("QR code", self._process, turns)

    def try_enqueue(self, work: WorkItem) -> bool:
        """Take on a code, or refuse it for now; see `DeliveryPool.try_enqueue`."""
        assert isinstance(work.intent, DeliverQr)
        return self._pool.try_enqueue(work)

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = DRAIN_GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Bring codes until `drain` is set; see `DeliveryPool.run`."""
        await self._pool.run(drain=drain, grace_s=grace_s, task_status=task_status)

    async def _process(self, work: WorkItem) -> None:
        """From the picture to the record."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        attempt = await self._attempt(work.transaction)
        await retry_until_available(lambda: self._record_outcome(QrConcluded(reference, attempt)))
        self.outcomes[attempt.outcome] += 1
        logger.info(
            "qr_code_concluded",
            reference=reference,
            brand=brand,
            outcome=attempt.outcome.value,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
        )

    async def _attempt(self, transaction: Transaction) -> DeliveryAttempt:
        """The one attempt, if there is something to show and the payment still waits for it."""
        code = transaction.progress.qr
        if transaction.progress.stage.is_terminal:
            return not_sent_attempt(transaction, "The payment had ended, so nothing was sent.")
        if code is None:
            return not_sent_attempt(transaction, "The provider gave no code, so nothing was sent.")
        key = await retry_until_available(lambda: self._find_api_key(transaction.order.brand))
        if key is None:
            detail = "The brand has no API key in use, so nothing was sent."
            return not_sent_attempt(transaction, detail)
        return await self._deliver(
            qr_code_request(transaction, key, image=await _image_base64(code))
        )


async def _image_base64(code: QrCode) -> str:
    """The picture in base64: the operator's own, or else drawn from the text."""
    if code.image is not None:
        return code.image
    assert code.payload is not None, "a code is a text or a picture"
    return await trio.to_thread.run_sync(draw_png, code.payload)


def draw_png(payload: str) -> str:
    """The text as a PNG picture in base64, with error correction M."""
    file = BytesIO()
    code = segno.make_qr(payload, error="m", encoding="utf-8", boost_error=False)
    code.save(file, kind="png", scale=MODULE_PIXELS, border=QUIET_ZONE_MODULES)
    return b64encode(file.getvalue()).decode()
