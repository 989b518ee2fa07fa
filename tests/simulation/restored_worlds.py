"""Restores a backup in worlds of a gateway alone with its file, and judges what follows: nothing is
paid twice, no retired key works, and the books agree with the operators' once the brands are
released.

python -m tests.simulation.restored_worlds 50           the first 50 seeds
python -m tests.simulation.restored_worlds 1 --first 7  one seed
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import trio
from attrs import Factory, define, evolve, field, frozen

from mmo_merchant import (
    ApiAccess,
    GatewayUnavailable,
    MerchantApiError,
    RecordsWindow,
    create_or_get,
    records_request,
)
from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.values.clock import HOUR, Span, earlier, to_datetime
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.admin.restoration import ToldPayment, record_lost_uses
from mmo_trio.brands.apply import create_key
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.console.context import ConsoleContext
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.service.store_recognition import compare_store, read_mark, restore_store
from mmo_trio.storage.interface.store import DecideBatch
from mmo_trio.storage.sql.store import Store
from tests.simulation.clocks.machine_clock import MachineGatewayClock
from tests.simulation.judges import (
    LIFE_MAX,
    Judge,
    a_reference_is_one_payment,
    money_is_asked_for_once,
    no_part_has_a_fault,
    the_journal_explains_each_stage,
    the_operators_book_equals_ours,
    the_store_holds_what_was_decided,
)
from tests.simulation.reversal_judges import (
    a_report_counts_for_what_it_answers,
    money_goes_back_once,
    no_more_goes_back_than_was_paid,
    nothing_is_asked_back_that_is_not_left,
    what_has_gone_back_is_on_record,
)
from tests.simulation.world.books import WorldBooks
from tests.simulation.world.commits import StoredBooks
from tests.simulation.world.files import API_PORT, GATEWAY_HOST, MASTER_KEY, world_directory
from tests.simulation.world.gateway import WorldGateway
from tests.simulation.world.merchant import CREATION_RETRY_AFTER_S
from tests.simulation.world.plan import FaultKind, WorldPlan, draw_plan
from tests.simulation.world.world import SimulatedWorld, run_world
from tests.support.restored_database import SqliteBackup

PAYMENTS: Final = 16
DAYS: Final = 4.0
USER: Final = "staff"
LEFT_OUT: Final = frozenset(
    {
        FaultKind.CLOCK_STEPPED,
        FaultKind.BRAND_HELD,
        FaultKind.STAFF_RESOLVE,
        FaultKind.NOTIFICATIONS_CONTRADICT,
    }
)
"""Kinds of faults that let books differ also where nothing was restored."""
AIMED_WITHIN_S: Final = (0.2, 2.0, 60.0)
"""How soon after the beginning of a payment the backup and the loss fall, one of these: it is sent
within a second."""
TRIED_S: Final = 40.0
"""How long an unprepared store is tried to serve."""
AGAIN_AFTER_S: Final = 20.0
"""Seconds until staff or a thief try again."""
RETIRED_WITHIN_S: Final = 10.0
"""How long a process may take to learn that a key is retired."""
THEFT_S: Final = 6 * 3_600.0
"""How long a thief goes on after the restore."""


class MarkFate(Enum):
    """Says what becomes of the file that tells how far the store had come."""

    KEPT = "kept"
    """It outlives the store, and is newer than the backup: the restore is recognised once the file
    knows of more."""
    OLDER = "older"
    """It goes back with the machine's own backup: the backup of the store is younger, and nothing
    is recognised."""
    LOST = "lost"
    """It is missing where it was named."""


@frozen
class Restoration:
    """Is the plan of a backup that is restored; times are in seconds after the beginning of the
    world."""

    backed_up_at_s: float
    lost_at_s: float
    """When the store is lost, with every process."""
    released_after_s: float
    """Seconds from the start of the gateway until staff have closed the gap and release the
    brands."""
    mark: MarkFate
    forgets_to_prepare: bool
    """Whether the gateway is started first without being prepared, where that is recognised."""
    leaks_key: bool
    """Whether a key is in use at the backup, and retired as leaked before the loss."""


def draw_restoration(plan: WorldPlan) -> Restoration:
    """Draw what is restored in the world of this plan, and when."""
    random = Random(f"{plan.seed}/restored")
    begun = plan.payments
    nth = random.randrange(len(begun))
    backed_up_at_s = begun[nth] + random.uniform(0.0, random.choice(AIMED_WITHIN_S))
    lost_at_s = random.choice(begun[nth:]) + random.uniform(0.0, random.choice(AIMED_WITHIN_S))
    return Restoration(
        backed_up_at_s=backed_up_at_s,
        lost_at_s=max(lost_at_s, backed_up_at_s + random.uniform(1.0, 60.0)),
        released_after_s=random.choice((60.0, 3_600.0, 40_000.0)),
        mark=random.choice((MarkFate.KEPT, MarkFate.KEPT, MarkFate.OLDER, MarkFate.LOST)),
        forgets_to_prepare=random.random() < 0.5,
        leaks_key=random.random() < 0.6,
    )


def restored_plan(seed: int) -> WorldPlan:
    """Draw the plan of a world with one gateway and its file."""
    kinds = [each for each in FaultKind if each not in LEFT_OUT]
    return evolve(
        draw_plan(seed, payments=PAYMENTS, days=DAYS, kinds=kinds),
        is_store_shared=False,
        gateways=1,
    )


@define(eq=False)
class RestoredStore:
    """Backs up the store of a world, loses it, and does what staff do then, as docs/emergencies.md
    says."""

    restoration: Restoration
    mark_file: Path
    lost: dict[str, Transaction] = Factory(dict)
    """The payments that are missing since the restore, by gatewayReference."""
    was_recognisable: bool = False
    """Whether the file of the mark knew of more than the backup holds."""
    served_unprepared: bool = False
    prepared_at_s: float = 0.0
    """When the last process had ended that served the store before it was prepared; 0 before."""
    released_at_s: float | None = None
    """When every brand was released; None before."""
    key: str | None = None
    """The key that leaks."""
    retired_at_s: float | None = None
    """When it was retired for certain; None before."""
    thefts: list[tuple[float, int]] = Factory(list)
    """When a thief has begun to ask with the key, and the status of the answer."""
    world: SimulatedWorld = field(init=False)

    async def run(self, world: SimulatedWorld) -> None:
        """Take the backup, lose the store, restore it and release it, each in its time."""
        self.world, plan = world, self.restoration
        if plan.leaks_key:
            await world.schedule.sleep_until(max(0.0, plan.backed_up_at_s - 1.0))
            await self._in_console(self._add_key)
        await world.schedule.sleep_until(plan.backed_up_at_s)
        backup = SqliteBackup(world.store.file.stored.path.parent)
        backup.back_up()
        kept = world.commits.copy()
        mark = self.mark_file.read_bytes() if self.mark_file.exists() else None
        world.trace.add("backed_up")
        async with trio.open_nursery() as others:
            if self.key is not None:
                await self._in_console(self._retire_leaked)
                others.start_soon(self._steal, max(trio.current_time(), plan.lost_at_s) + THEFT_S)
            await world.schedule.sleep_until(plan.lost_at_s)
            await self._restore(backup, kept, mark)
            for each in self.lost.values():
                others.start_soon(self._pay_again, each)
            await world.schedule.sleep(plan.released_after_s)
            await self._in_console(self.close_gap)
            await self._in_console(self._release)
            self.released_at_s = trio.current_time()
            for merchant in world.merchants:
                merchant.settled |= {
                    name for name, at_s in merchant.begun_at.items() if at_s <= self.gap_ends_s
                }

    @property
    def gap_ends_s(self) -> float:
        """When the last payment was begun that may be missing: a process that is suspended goes on
        for a while."""
        return max(self.restoration.lost_at_s + TRIED_S, self.prepared_at_s)

    @property
    def gateway(self) -> WorldGateway:
        """The only one."""
        return self.world.gateways[0]

    async def _restore(self, backup: SqliteBackup, kept: StoredBooks, mark: bytes | None) -> None:
        """Put the backup in the place of the store while no process lives, and prepare it."""
        world, schedule = self.world, self.world.schedule
        with self.gateway.kept_down():
            await self._kill()
            world.store.file.clear()
            before = world.commits.ledger.transactions
            backup.restore()
            world.commits.go_back(kept)
            held = world.commits.ledger.transactions
            self.lost = {name: each for name, each in before.items() if name not in held}
            await self._replace_mark(mark)
            world.trace.add("store_restored", self.restoration.mark.value, len(self.lost))
        if self.restoration.forgets_to_prepare and self.was_recognisable:
            starts = world.trace.counts["gateway_serves"]
            await schedule.sleep(TRIED_S)
            self.served_unprepared = world.trace.counts["gateway_serves"] > starts
        with self.gateway.kept_down():
            await self._kill()
            self.prepared_at_s = trio.current_time()
            world.store.file.clear()
            clock = MachineGatewayClock(self.gateway.machine.clocks)
            async with world.store.file.stored.open(serving=False, clock=clock) as store:
                self._observe(store)
                await self.prepare(store, clock)
                await self.end_key(store, clock)
            schedule.stay_awake()

    async def prepare(self, store: Store, clock: MachineGatewayClock) -> None:
        """Do what the first `mmo db restored` does."""
        compared = await compare_store(store, self.world.config.settings, serves=False)
        submit = partial(submit_batch_once, store, clock=clock)
        await restore_store(store, submit, compared, user=USER, now=clock.wall_time())

    async def end_key(self, store: Store, clock: MachineGatewayClock) -> None:
        """End the key of the backup that holds no more, before the gateway serves."""
        if self.retired_at_s is not None:
            await store.admin.retire_key(
                self._brand, await self._key_id(store), now=clock.wall_time()
            )

    async def close_gap(self, console: ConsoleContext) -> None:
        """Let the references count as used that merchants have records of, or that their ledgers
        name."""
        told = [
            ToldPayment(
                each.brand,
                found.gateway_reference,
                found.merchant_reference,
                has_failed=found.status is Status.FAILED,
            )
            for each in self.world.merchants
            for found in (report.transaction for report in each.reports)
            if found.merchant_reference is not None
        ]
        told += [
            ToldPayment(each.brand, reference)
            for each in self.world.merchants
            for reference, at_s in each.begun_at.items()
            if at_s <= self.gap_ends_s
        ]

        async def submit(inputs: Sequence[Input]) -> Sequence[Reply]:
            return [await console.submit(each) for each in inputs]

        await record_lost_uses(console.store, submit, dict.fromkeys(told), user=USER)

    async def _release(self, console: ConsoleContext) -> None:
        for each in sorted((await console.store.configuration()).restored_brands):
            await console.store.admin.finish_restoration(each)

    async def _kill(self) -> None:
        if self.gateway.life is not None:
            process = self.gateway.life.process
            process.kill()
            await process.ended.wait()

    async def _replace_mark(self, mark: bytes | None) -> None:
        if self.restoration.mark is MarkFate.LOST or (
            self.restoration.mark is MarkFate.OLDER and mark is None
        ):
            self.mark_file.unlink(missing_ok=True)
        elif self.restoration.mark is MarkFate.OLDER and mark is not None:
            self.mark_file.write_bytes(mark)
        async with self.world.store.file.stored.open(serving=False) as store:
            stored, known = (await store.state()).mark, read_mark(self.mark_file)
        self.was_recognisable = stored.epoch > 0 if known is None else known.epoch > stored.epoch

    async def _in_console(self, act: Callable[[ConsoleContext], Awaitable[object]]) -> None:
        """Let the gateway do this, again until it was done."""
        done = trio.Event()

        async def act_once(console: ConsoleContext) -> None:
            await act(console)
            done.set()

        while True:
            await self.gateway.act(act_once)
            if done.is_set():
                return
            await self.world.schedule.sleep(AGAIN_AFTER_S)

    async def _add_key(self, console: ConsoleContext) -> None:
        self.key = await create_key(
            console.store, KeyRing(MASTER_KEY), self._brand, now=console.wall_time()
        )

    async def _retire_leaked(self, console: ConsoleContext) -> None:
        await console.store.admin.mark_key_leaked(
            self._brand, await self._key_id(console.store), now=console.wall_time()
        )
        self.retired_at_s = trio.current_time()

    async def _key_id(self, store: Store) -> int:
        record = await store.brand_record(self._brand)
        assert record is not None, "the brand has the key"
        return record.keys[-1].id

    @property
    def _brand(self) -> str:
        return self.world.merchants[0].brand

    async def _steal(self, until_s: float) -> None:
        """Ask with the key that leaked, from the first merchant's machine."""
        merchant, random = self.world.merchants[0], self.world.simulation.choices.of("thief")
        assert self.key is not None
        access = ApiAccess(f"http://{GATEWAY_HOST}:{API_PORT}", self.key, allow_clear=True)
        while trio.current_time() < until_s:
            now, asked_at_s = self.world.now(), trio.current_time()
            window = RecordsWindow(
                begin=to_datetime(earlier(now, Span(HOUR))), end=to_datetime(now)
            )
            answer = await merchant._send(
                merchant.party.http_client(), records_request(access, window)
            )
            if isinstance(answer, HttpResponse):
                self.thefts.append((asked_at_s, answer.status))
            await self.world.schedule.sleep(random.choice((1.0, AGAIN_AFTER_S, 600.0)))

    async def _pay_again(self, lost: Transaction) -> None:
        """Let the merchant of a lost payment make sure of it, as after any failure: it looks it up
        by its reference, and takes a 404 for leave to pay again. It goes on until it is answered
        after the release."""
        world, order = self.world, lost.order
        merchant = next(each for each in world.merchants if each.brand == order.brand)
        if order.merchant_reference is None:
            return
        payment = merchant._new_payment(
            order.merchant_reference, world.kinds[order.provider].method
        )
        while True:
            is_released = self.released_at_s is not None
            try:
                await merchant._drive(
                    merchant.party.http_client(), create_or_get(merchant.access, payment)
                )
                return
            except GatewayUnavailable:
                pass
            except MerchantApiError:
                if is_released:
                    return
            await world.schedule.sleep(CREATION_RETRY_AFTER_S)

    def _observe(self, store: Store) -> None:
        """Let the world know what a command decides."""
        transact = store.transact

        async def transact_observed(reads: Reads, decide: DecideBatch) -> Sequence[Decision]:
            decisions = await transact(reads, decide)
            self.world.commits.observe(decisions)
            return decisions

        store.transact = transact_observed  # type: ignore[method-assign]


# Judges

HOLDING: Final[Sequence[Judge]] = (
    the_operators_book_equals_ours,
    the_journal_explains_each_stage,
    the_store_holds_what_was_decided,
    nothing_is_asked_back_that_is_not_left,
    a_report_counts_for_what_it_answers,
    no_part_has_a_fault,
)
"""Judges of every world that hold for what a restored store has."""
HOLDING_WITH_LOST: Final[Sequence[Judge]] = (
    a_reference_is_one_payment,
    money_is_asked_for_once,
    money_goes_back_once,
    no_more_goes_back_than_was_paid,
    what_has_gone_back_is_on_record,
)
"""Judges that hold for what it has and what it has lost together: nothing else was ever paid."""


def judge_restored(world: SimulatedWorld, restored: RestoredStore) -> Iterator[str]:
    """Yield every violation, with the judge's name."""
    books = world.books
    assert books is not None

    # What is told of these is in the suspense book, and is no payment's journal.
    for reference in restored.lost:
        world.commits.journal.pop(reference, None)

    with_lost = evolve(books, transactions={**restored.lost, **books.transactions})
    for judge in HOLDING:
        yield from (f"{judge.__name__}: {found}" for found in judge(world, books))
    for judge in HOLDING_WITH_LOST:
        yield from (f"{judge.__name__}: {found}" for found in judge(world, with_lost))
    for judge_restore in OF_RESTORES:
        found_by = judge_restore.__name__
        yield from (f"{found_by}: {found}" for found in judge_restore(world, restored, books))


def nothing_paid_is_told_failed(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """S5: no merchant is told that a payment has failed whose money an operator has moved, also
    where it was lost."""
    transactions = {**restored.lost, **books.transactions}
    for merchant in world.merchants:
        for each in merchant.reports:
            reference = each.transaction.gateway_reference
            ours = transactions.get(reference)
            if each.transaction.status != Status.FAILED or ours is None:
                continue
            operator = world.operators[ours.order.provider]
            names = operator.kind.names(reference)
            is_paid = any(
                row["reference"] in names and row["result"] == "success"
                for row in operator.payments
            )
            if is_paid and reference not in books.suspense:
                yield (
                    f"{reference} was told as failed by {each.by}, and {operator.name} has moved "
                    f"its money"
                )


def no_end_changes(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """S1: a payment that is reported as ended never ends otherwise, also where its end was lost."""
    ends: dict[str, str] = {}
    for each in sorted(
        (each for merchant in world.merchants for each in merchant.reports),
        key=lambda each: each.at,
    ):
        found = each.transaction
        if (
            found.has_ended
            and ends.setdefault(found.gateway_reference, found.status) != found.status
        ):
            yield (
                f"{found.gateway_reference} had ended otherwise when it was reported as "
                f"{found.status}"
            )


def lost_payments_stay_used(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """C12: what was lost is unknown, and its merchantReference counts as used."""
    for reference, each in restored.lost.items():
        if reference in books.transactions:
            yield f"{reference} was lost with the backup, and is there"
        merchant_reference = each.order.merchant_reference
        if (
            merchant_reference is not None
            and (each.order.brand, merchant_reference) not in books.ledger.references
        ):
            yield (
                f"{merchant_reference} of {each.order.brand} may be used again, and "
                f"{reference} was lost"
            )


def what_was_restored_ends(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """S3: every payment of the store ends, those too that were marked. One that a merchant has made
    again after the release may be younger than three days."""
    born_until = earlier(world.now(), Span(LIFE_MAX))
    for reference, each in books.transactions.items():
        if each.progress.completed_at is None and each.order.created_at <= born_until:
            yield f"{reference} is still {each.progress.stage}"


def no_retired_key_works(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """A4: the key that leaked, and was in the backup, opens nothing once it is retired again."""
    if restored.retired_at_s is None:
        return
    for at_s, status in restored.thefts:
        is_late = at_s > restored.retired_at_s + RETIRED_WITHIN_S
        if is_late and status != 401 and status < 500:
            yield f"the key was retired, and the answer at {at_s:.3f} was {status}"


def a_restored_store_is_recognised(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """C6: where the mark knows of more, the backup serves nobody before it is prepared."""
    if restored.served_unprepared:
        yield "it was served before anybody had prepared it"


def every_brand_is_released(
    world: SimulatedWorld, restored: RestoredStore, books: WorldBooks
) -> Iterator[str]:
    """Staff can end the holds that a restore has set."""
    if restored.released_at_s is None:
        yield "staff could not release the brands"


JudgeOfRestore: TypeAlias = Callable[[SimulatedWorld, RestoredStore, WorldBooks], Iterator[str]]

OF_RESTORES: Final[Sequence[JudgeOfRestore]] = (
    nothing_paid_is_told_failed,
    no_end_changes,
    lost_payments_stay_used,
    what_was_restored_ends,
    no_retired_key_works,
    a_restored_store_is_recognised,
    every_brand_is_released,
)
"""Judges of what a restore alone may break."""


def play_restored(
    seed: int,
    make: Callable[[Restoration, Path], RestoredStore] = RestoredStore,
    draw: Callable[[int], WorldPlan] = restored_plan,
) -> tuple[SimulatedWorld, RestoredStore, list[str]]:
    """Play the world of this seed; return it, what was restored, and every violation."""
    plan, file = draw(seed), world_directory() / "store.mark"
    file.unlink(missing_ok=True)
    restored = make(draw_restoration(plan), file)
    world = run_world(plan, restored.run, {"database.mark_file": str(file)})
    return world, restored, list(judge_restored(world, restored))


def main() -> int:
    """Play the seeds that the arguments say; return 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.restored_worlds")
    parser.add_argument("seeds", type=int, nargs="?", default=50)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    failed = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        _, restored, violations = play_restored(seed)
        failed += bool(violations)
        plan = restored.restoration
        recognised = "recognised" if restored.was_recognisable else "not recognisable"
        about = f"mark {plan.mark.value}, {recognised}, {len(restored.lost)} payments lost"
        print(
            f"seed {seed}: {about}{'' if restored.key is None else ', a key leaked'}",
            *violations,
            sep="\n  ",
            flush=True,
        )
    print(f"{failed} of {arguments.seeds} worlds have violations.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
