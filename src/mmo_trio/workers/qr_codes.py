"""Brings QR codes to their merchants: one attempt for each, outside the breaker, a fair share for each merchant (Q1).

What became of it is recorded and changes nothing about the payment. A code that was sent is never sent again by this
process, even if its outcome can't be recorded.
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

from mmo_sansio.delivery import Attempt, DeliveryOutcome
from mmo_sansio.http import HttpRequest
from mmo_sansio.inputs import QrConcluded
from mmo_sansio.intents import DeliverQr
from mmo_sansio.model import QrCode, Transaction
from mmo_sansio.qr_delivery import build, not_sent
from mmo_sansio.turns import Turns
from mmo_trio.http.faults import describe_fault
from mmo_trio.storage.base import Work
from mmo_trio.workers.insisting import insist

logger = structlog.get_logger(__name__)

WAITING_MOST: Final = 16_384
"""Codes that may wait in memory; some bring a picture of several kilobytes along."""
PLACES: Final = 256
"""Deliveries under way at one time, of all merchants together."""
PLACES_PER_MERCHANT: Final = 16
GRACE_S: Final = 20.0
"""How long deliveries under way may take once the worker drains: their 15 s, and time to record."""
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
        self._turns: Turns[Transaction] = Turns(
            waiting_most=WAITING_MOST, places=PLACES, per_merchant=PLACES_PER_MERCHANT
        )
        self._in_hand: set[str] = set()
        self.outcomes: Counter[DeliveryOutcome] = Counter()
        """Of the codes that were concluded since the start."""
        self._deliveries: trio.Nursery | None = None
        self._is_draining = False

    def take(self, work: Work) -> bool:
        """Take on a code, or refuse: False leaves it to be handed out again later. What is taken twice is done once.
        Never waits."""
        assert isinstance(work.intent, DeliverQr)
        reference, brand = work.transaction.reference, work.transaction.order.brand
        if reference in self._in_hand:
            return True
        if self._is_draining or not self._turns.has_room_for(brand):
            return False
        self._in_hand.add(reference)
        self._turns.add(brand, work.transaction)
        self._start_who_may()
        return True

    async def run(
        self,
        *,
        drain: trio.Event,
        grace_s: float = GRACE_S,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Deliver until `drain` is set; then start nothing more, and leave what is under way this many seconds. What
        is cancelled or hasn't begun by then isn't concluded, and its intent stays open."""
        async with trio.open_nursery() as self._deliveries:
            self._start_who_may()
            task_status.started()
            try:
                await drain.wait()
            finally:
                self._is_draining = True
            self._deliveries.cancel_scope.deadline = trio.current_time() + grace_s

    def _start_who_may(self) -> None:
        if self._deliveries is None or self._is_draining:
            return
        while (transaction := self._turns.next()) is not None:
            self._deliveries.start_soon(self._see_through, transaction)

    async def _see_through(self, transaction: Transaction) -> None:
        """From the picture to the record. A fault of ours costs this code only; as it may have been sent, it stays in
        hand, so that nobody sends it again before a restart."""
        reference, brand = transaction.reference, transaction.order.brand
        try:
            attempt = await self._attempt(transaction)
            await insist(lambda: self._conclude(QrConcluded(reference, attempt)))
            self._in_hand.discard(reference)
            self.outcomes[attempt.outcome] += 1
            logger.info(
                "QR code concluded",
                reference=reference,
                brand=brand,
                outcome=attempt.outcome.value,
                status=attempt.status,
                duration_ms=attempt.duration_ms,
            )
        except Exception as error:
            fault = describe_fault(error)
            logger.error("QR code not recorded", reference=reference, brand=brand, fault=fault)
        finally:
            self._turns.leave(brand)
            self._start_who_may()

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
