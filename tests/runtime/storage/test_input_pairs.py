"""Two processes decide at the same time about the same thing: whichever commits first, the outcome
is that of a sequence. Every pair of inputs is played of which one reads what the other writes;
docs/internals/concurrency.md lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.commits import Commit
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import open_sqlite
from tests.conformance.driver import submit_batch
from tests.support.effort import QUICK
from tests.support.input_pairs import (
    HELD,
    Events,
    Outcome,
    Pair,
    pairs,
    representatives,
    sequences,
    sort_hints,
)
from tests.support.input_variants import NOW, Event, HoldBrand, Names, histories, variants
from tests.support.time_limits import HANGS_AFTER_S

Choose: TypeAlias = Callable[[Sequence[Pair]], Sequence[Pair]]
"""Chooses the pairs to play."""


def a_fifth(every: Sequence[Pair]) -> Sequence[Pair]:
    """Choose what the short form of the long sessions plays."""
    return every[::5]


EVERY: Choose = a_fifth if QUICK else list
pytestmark = [
    pytest.mark.spec("C12", "S1", "S4", "S6"),
    pytest.mark.parametrize(
        "choose", [representatives, pytest.param(EVERY, marks=pytest.mark.long)]
    ),
]

PlayBoth: TypeAlias = Callable[[Events], Awaitable[dict[str, Reply]]]
"""Plays the second of two events between the load and the commit of the first; returns the replies
by name."""

Window: TypeAlias = list[Callable[[], Awaitable[None]]]
"""What happens, once, between the load and the commit of the next batch on PostgreSQL."""


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Window:
    window, run = Window(), Commit.run_whole_transaction

    async def run_after_window(self: Commit[Any], *arguments: Any, **options: Any) -> None:
        if window:
            await window.pop()()
        await run(self, *arguments, **options)

    monkeypatch.setattr(Commit, "run_whole_transaction", run_after_window)
    return window


async def test_postgresql_commits_as_in_a_sequence(
    choose: Choose, migrated_database: str, window: Window
) -> None:
    """Of two processes, the second ends between the load and the commit of the first."""
    async with (
        open_postgres(migrated_database, serving=True) as one,
        open_postgres(migrated_database, serving=True) as other,
    ):
        wrong = await wrong_pairs(
            one, choose(pairs()), lambda events: play_in_window(window, one, other, events)
        )
    assert not wrong, "\n".join(wrong)


async def test_sqlite_commits_in_the_order_of_arrival(choose: Choose, tmp_path: Path) -> None:
    """In the one process, the second waits for the end of the first."""
    async with open_sqlite(tmp_path / "gateway.db", serving=True) as store:
        wrong = await wrong_pairs(
            store, choose(pairs()), lambda events: play_behind(store, events), is_ordered=True
        )
    assert not wrong, "\n".join(wrong)


async def wrong_pairs(
    store: Store, every: Sequence[Pair], play_both: PlayBoth, *, is_ordered: bool = False
) -> Sequence[str]:
    """Play each pair in both orders; return the names of those whose outcome is that of no
    sequence. Where the store `is_ordered`, only the outcome of their own order is right; after a
    hold, only that of a submission that it met."""
    found: list[str] = []
    for number, (pair, is_reversed) in enumerate(product(every, (False, True))):
        names = Names(number)
        events = {
            "one": variants(names, 1)[pair.one.variant],
            "other": variants(names, 2)[pair.other.variant],
        }
        if is_reversed and isinstance(events["other"], HoldBrand):
            # It is decided from nothing, so nothing comes between its load and its commit.
            continue
        if is_reversed:
            events = dict(reversed(events.items()))
        with trio.fail_after(HANGS_AFTER_S):
            if history := histories(names)[pair.history]:
                await submit_batch(store, *history)
            outcome = await read_outcome(store, names, await play_both(events))
        in_order, in_reverse = sequences(pair.history, names, events)
        right = (
            [in_order]
            if is_ordered
            else [in_reverse]
            if pair.is_submission_and_hold
            else [in_order, in_reverse]
        )
        if outcome not in right:
            found.append(f"{pair.id}{' (the other first)' * is_reversed}")
    return found


async def play_in_window(
    window: Window, one: Store, other: Store, events: Events
) -> dict[str, Reply]:
    """Let the second event end between the load and the commit of the first."""
    (first, event), (second, overtaking) = events.items()
    replies: dict[str, Reply] = {}

    async def overtake() -> None:
        replies[second] = await play(other, overtaking)

    window.append(overtake)
    replies[first] = await play(one, event)
    assert not window, f"{event} has written nothing"
    return replies


async def play_behind(store: Store, events: Events) -> dict[str, Reply]:
    """Let the second event come while the first is decided in the writer's thread."""
    (first, event), (second, following) = events.items()
    replies: dict[str, Reply] = {}
    token = trio.lowlevel.current_trio_token()

    async def follow() -> None:
        replies[second] = await play(store, following)

    async with trio.open_nursery() as nursery:

        async def on_load() -> None:
            nursery.start_soon(follow)
            await wait_all_tasks_blocked()
            assert not replies

        replies[first] = await play(
            store, event, lambda _: trio.from_thread.run(on_load, trio_token=token)
        )
    return replies


async def play(
    store: Store, event: Event, look: Callable[[Ledger], None] = lambda _: None
) -> Reply:
    """Decide an input as an engine does, after a look at what was loaded."""
    if isinstance(event, HoldBrand):
        assert await store.admin.hold_brand(BrandHold(event.brand, NOW, "amina"))
        return HELD

    def decide_one(ledger: Ledger) -> Sequence[Decision]:
        look(ledger)
        decision = decide(ledger, event, now=NOW)
        ledger.apply(decision.changes, decision.intents)
        return [decision]

    (decision,) = await store.transact(reads(event), decide_one)
    return decision.reply


async def read_outcome(store: Store, names: Names, replies: dict[str, Reply]) -> Outcome:
    """Return what is stored of all that a pair may write, with the replies."""
    found = Outcome()

    def look(ledger: Ledger) -> Sequence[Decision]:
        held_brands = ledger.held_brands & {names.brand}
        found.ledger = evolve(
            ledger, prefetched=None, not_before=Instant(0), held_brands=held_brands
        )
        return []

    await store.transact(names.everything, look)
    sort_hints(found.ledger)
    entries = await store.admin.suspense_entries()
    ours = [
        each
        for each in entries
        if each.gateway_reference == names.payment or names.receipt in each.content
    ]
    found.suspense = Counter({(each.reason.value, each.content): each.times for each in ours})
    for name, reply in replies.items():
        found.note(name, reply)
    return found
