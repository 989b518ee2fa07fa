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

from mmo_sansio.api.outgoing.qr_code import build, not_sent
from mmo_sansio.http.exchange import Attempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.messages.inputs import QrConcluded
from mmo_sansio.messages.intents import DeliverQr
from mmo_sansio.resilience.fair_queue import Turns
from mmo_sansio.values.model import QrCode, Transaction
from mmo_trio.storage.interface.store import Work
from mmo_trio.workers.delivery.pool import GRACE_S, Deliveries, insist

logger = structlog.get_logger(__name__)

WAITING_MOST: Final = 16_384
"""Codes that may wait in memory; some bring a picture of several kilobytes along."""
PLACES: Final = 256
"""Deliveries under way at one time, of all merchants together."""
PLACES_PER_MERCHANT: Final = 16
QUIET_MODULES: Final = 4
"""The white margin that a reader needs."""
MODULE_PIXELS: Final = 6

Deliver: TypeAlias = Callable[[HttpRequest], Awaitable[Attempt]]
"""Makes one attempt, within the deadline over everything; raises nothing that others cause."""
KeyFor: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""The API key that a brand's deliveries carry now (A4); None when it has none in use."""
Conclude: TypeAlias = Callable[[QrConcluded], Awaitable[object]]
"""Records an outcome; may raise StoreUnavailable and OutcomeUnknown. To repeat it does no harm."""


class QrWorker:
    """Takes codes from anywhere in this process with `take`; `run` delivers them."""

    def __init__(self, *, deliver: Deliver, key_for: KeyFor, conclude: Conclude) -> None:
        self._deliver = deliver
        self._key_for = key_for
        self._conclude = conclude
        self.outcomes: Counter[DeliveryOutcome] = Counter()
        """Of the codes that were concluded since the start."""
        turns = Turns[Work](
            waiting_most=WAITING_MOST, places=PLACES, per_merchant=PLACES_PER_MERCHANT
        )
        self._deliveries = Deliveries("QR code", self._see_through, turns)

    def take(self, work: Work) -> bool:
        """Take on a code, or refuse it for now; see `Deliveries.take`."""
        assert isinstance(work.intent, DeliverQr)
        return self._deliveries.take(work)

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Bring codes until `drain` is set; see `Deliveries.run`."""
        await self._deliveries.run(drain=drain, grace_s=grace_s, task_status=task_status)

    async def _see_through(self, work: Work) -> None:
        """From the picture to the record."""
        reference, brand = work.transaction.reference, work.transaction.order.brand
        attempt = await self._attempt(work.transaction)
        await insist(lambda: self._conclude(QrConcluded(reference, attempt)))
        self.outcomes[attempt.outcome] += 1
        logger.info(
            "QR code concluded",
            reference=reference,
            brand=brand,
            outcome=attempt.outcome.value,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
        )

    async def _attempt(self, transaction: Transaction) -> Attempt:
        """The one attempt, if there is something to show and the payment still waits for it."""
        code = transaction.progress.qr
        if transaction.progress.stage.is_terminal:
            return not_sent(transaction, "The payment had ended, so nothing was sent.")
        if code is None:
            return not_sent(transaction, "The provider gave no code, so nothing was sent.")
        key = await insist(lambda: self._key_for(transaction.order.brand))
        if key is None:
            detail = "The brand has no API key in use, so nothing was sent."
            return not_sent(transaction, detail)
        return await self._deliver(build(transaction, key, image=await _image(code)))


async def _image(code: QrCode) -> str:
    """The picture in base64: the operator's own, or else drawn from the text."""
    if code.image is not None:
        return code.image
    assert code.payload is not None, "a code is a text or a picture"
    return await trio.to_thread.run_sync(drawn, code.payload)


def drawn(payload: str) -> str:
    """The text as a PNG picture in base64, with error correction M."""
    file = BytesIO()
    code = segno.make_qr(payload, error="m", encoding="utf-8", boost_error=False)
    code.save(file, kind="png", scale=MODULE_PIXELS, border=QUIET_MODULES)
    return b64encode(file.getvalue()).decode()
