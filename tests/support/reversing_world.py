"""A world of an operator whose staff ask for the money of payments back, by the gateway's own
worker and store."""

from __future__ import annotations

from functools import partial
from random import Random

import trio

from mmo_sansio.messages.reversals import RequestReversal
from mmo_sansio.providers.common.operations import operation_key
from mmo_sansio.testing import numbered_reference
from mmo_sansio.values.clock import HOUR, SECOND, Span
from mmo_sansio.values.model import Stage
from mmo_sansio.values.money import Money, parse_number, to_money
from mmo_sansio.values.reversals import Reversal
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.reversals import ReversalWorker
from mmo_trio.workers.providers.worker import ProviderWorker
from tests.support.operator_kinds import Operator
from tests.support.operator_world import World
from tests.support.reversals import check_back
from tests.support.stored_ledger import stored_ledger

SCAN_INTERVAL_S = 30.0


class ReversingWorld(World):
    """Half of the payments that were made are asked back, some of them in parts and twice."""

    def __init__(self, operator: Operator, seed: int) -> None:
        super().__init__(operator, seed)
        self.staff = Random(f"staff {seed}")

    @property
    def reversals(self) -> dict[str, tuple[Reversal, ...]]:
        """Return the reversals on record, by their payments."""
        return stored_ledger(self.rows).reversals

    async def _start_more(
        self, store: Store, providers: ProviderWorker, life: trio.Nursery
    ) -> None:
        worker = ReversalWorker(store, providers, scan_interval_s=SCAN_INTERVAL_S)
        await life.start(partial(worker.run, drain=trio.Event()))

    async def _create(self, number: int, after: Span) -> None:
        times, waits = (
            self.staff.choice((0, 0, 1, 2)),
            [self.staff.randrange(HOUR) for _ in range(2)],
        )
        await super()._create(number, after)
        for wait in waits[:times]:
            await trio.sleep(wait / SECOND)
            await self._ask_back(numbered_reference(number))

    async def _ask_back(self, reference: str) -> None:
        payment = self.transactions.get(reference)
        if (
            payment is None
            or payment.progress.stage is not Stage.SUCCEEDED
            or payment.progress.final is None
        ):
            return
        operation = self.provider.reversal_operations.get(operation_key(payment))
        if operation is None:
            return
        final = payment.progress.final
        part = Money(self.staff.randint(1, final.minor), final.currency)
        is_part = operation.can_be_partial and self.staff.random() < 0.5
        request = RequestReversal(
            reference,
            payment.order.brand,
            part if is_part else None,
            reason="asked back",
            user="amina",
            needs_approval=False,
        )
        self.tally["asked back"] += 1
        await self._submit(request)


def check_reversals(world: ReversingWorld) -> None:
    """What went back is what the reversals say, payment by payment; AssertionError says where it
    isn't."""
    for reference, payment in world.transactions.items():
        names = (reference, payment.progress.provider_reference)
        own = [each for each in world.went_back if each["reference"].partition("-")[0] in names]
        currency = payment.order.requested.currency
        back = Money(
            sum(to_money(parse_number(each["amount"]), currency).minor for each in own), currency
        )
        known = world.reversals.get(reference, ())
        check_back(payment, known, back)
        for each in known:
            world.tally[f"reversal {each.state}"] += 1
