"""Whatever order people back a store up, serve it, put it back and prepare it in: nothing is paid
twice, and no copy is served that lacks something and was not prepared."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Hashable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import pytest
from attrs import define, field, frozen

from mmo_sansio.messages.queries import LookUpByMerchantReference
from mmo_sansio.resilience.store_mark import Recognition, StoreMark, StoreState
from mmo_trio.admin import restoration
from mmo_trio.cli.commands import restored
from mmo_trio.service import store_recognition
from mmo_trio.storage.sql.serialization import parse_transaction
from tests.support.effort import by_effort
from tests.support.restorable_gateway import (
    ON_HOLD,
    PAID,
    SERVED,
    CopiedTables,
    RestorableGateway,
    SavedGateway,
    SqliteFile,
    Step,
    Steps,
)

BACK_UP, SERVE, PAY, RESTORE, RESTORED, STATEMENT, FINISH_BRAND, FINISH, BACK, AHEAD = Step

STEPS_MAX: Final = 5
"""Steps of a sequence; behind them the gateway is started once more."""
SEED: Final = 20_261_129
BEGINNINGS: Final = {"served": SERVED, "on hold": ON_HOLD}
SAMPLED: Final = 30
"""How many sequences quick effort plays on SQLite, from each beginning."""
ON_POSTGRESQL: Final = by_effort(4, 500)

_UNNOTICED: Final[Steps] = (PAY, BACK_UP, SERVE, RESTORE, FINISH)
"""The sequence by which a restored store was once released that nobody had prepared."""
_UNNOTICED_ON_HOLD: Final[Steps] = (PAY, BACK_UP, SERVE, RESTORE, RESTORED, FINISH)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one: nothing here is about a loss of power."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def a_gateway(folder: Path, beginning: Steps) -> RestorableGateway:
    """A gateway on SQLite that has begun so."""
    (folder / "store").mkdir(parents=True)
    gateway = RestorableGateway(folder, SqliteFile(folder / "store" / "gateway.db"))
    gateway.set_up()
    gateway.play(beginning)
    assert not gateway.violations
    return gateway


def sampled(seed: int, count: int) -> Iterator[Steps]:
    """So many sequences; in each something is backed up and put back."""
    random = Random(seed)
    while count:
        steps = tuple(random.choices([*Step], k=STEPS_MAX))
        if BACK_UP in steps and RESTORE in steps[steps.index(BACK_UP) :]:
            yield steps
            count -= 1


def play_from(gateway: RestorableGateway, saved: SavedGateway, steps: Steps) -> list[str]:
    """Play a sequence, and start the gateway once more; return what was violated."""
    gateway.load(saved)
    gateway.play((*steps, SERVE))
    return gateway.violations


# Equal states


@frozen
class _Content:
    """What matters of a copy of the store."""

    state: StoreState
    payments: Hashable
    rest: Hashable

    @classmethod
    def read(cls, file: Path) -> _Content:
        """Read it from a file that nobody has open."""
        with closing(sqlite3.connect(file)) as connection:
            select = connection.execute
            [row] = select("SELECT id, epoch, command_epoch, former_ids FROM store_state")
            payments = [
                (each.order.merchant_reference, each.progress.stage, each.progress.is_restored)
                for each in (
                    parse_transaction(*found)
                    for found in select("SELECT order_row, progress FROM transactions")
                )
            ]
            rest = (
                tuple(select("SELECT brand FROM restored_brands ORDER BY 1")),
                tuple(select("SELECT brand, held_by FROM brand_holds ORDER BY 1")),
                tuple(select("SELECT merchant_reference FROM reference_uses WHERE is_lost = 1")),
            )
        state = StoreState(StoreMark(*row[:3]), frozenset(row[3].split()))
        return cls(state, tuple(sorted(payments, key=str)), rest)


@define(eq=False)
class _Search:
    """Plays every sequence, but of those that have come to an equal state only the first.

    Names of stores and numbers of epochs differ in equal states, their order does not. When an
    epoch was raised is left out: only a failover of PostgreSQL asks for it."""

    gateway: RestorableGateway
    backup: _Content | None = None
    found: list[str] = field(factory=list)

    def run(self) -> None:
        """Play them, and start the gateway behind each."""
        layer = [((), self.gateway.save(), self.backup)]
        seen = {self._state()}
        for _ in range(STEPS_MAX):
            later: list[Any] = []
            for steps, saved, backup in layer:
                for step in Step:
                    self.backup = backup
                    if not self._is_free_of_faults((*steps, step), saved):
                        continue
                    if (state := self._state()) not in seen:
                        seen.add(state)
                        later.append(((*steps, step), self.gateway.save(), self.backup))
            layer = later
            for steps, saved, _ in layer:
                self._is_free_of_faults((*steps, SERVE), saved)

    def _is_free_of_faults(self, steps: Steps, saved: SavedGateway) -> bool:
        gateway = self.gateway
        gateway.load(saved)
        gateway.do(steps[-1])
        if steps[-1] is BACK_UP:
            self.backup = self._content()
        self.found += [f"{[each.value for each in steps]}: {fault}" for fault in gateway.violations]
        return not gateway.violations

    def _content(self) -> _Content:
        assert isinstance(self.gateway.database, SqliteFile)
        return _Content.read(self.gateway.database.path)

    def _state(self) -> Hashable:
        gateway, mark = self.gateway, self.gateway.mark
        assert mark is not None, "the gateway has been served"
        copies = [self._content(), *([] if self.backup is None else [self.backup])]
        marks = [*(each.state.mark for each in copies), mark]

        ids = list(dict.fromkeys(each.store_id for each in marks))
        epochs = sorted({each.epoch for each in marks})
        commands = sorted({each.command_epoch for each in marks})
        relations = tuple(
            (ids.index(each.store_id), epochs.index(each.epoch), commands.index(each.command_epoch))
            for each in marks
        )
        former = tuple(each.state.former_ids.intersection(ids) for each in copies)
        named = tuple(frozenset(map(ids.index, each)) for each in former)
        return relations, named, *((each.payments, each.rest) for each in copies), gateway.knowledge


# Tests


@pytest.mark.spec("C6", "S6", "C12")
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_no_order_of_steps_pays_twice_or_serves_a_copy_that_is_not_prepared(
    folder: Path, beginning: Steps
) -> None:
    """Full effort plays all sequences, quick effort some."""
    gateway = a_gateway(folder, beginning)
    by_effort(_play_some, _play_all)(gateway)


def _play_some(gateway: RestorableGateway) -> None:
    saved = gateway.save()
    for steps in (_UNNOTICED, _UNNOTICED_ON_HOLD, *sampled(SEED, SAMPLED)):
        assert not play_from(gateway, saved, steps), steps


def _play_all(gateway: RestorableGateway) -> None:
    search = _Search(gateway)
    search.run()
    assert not search.found


@pytest.mark.long
@pytest.mark.spec("C6", "S6", "C12")
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_no_order_of_steps_does_on_postgresql(
    folder: Path, migrated_database: str, beginning: Steps
) -> None:
    """They follow each other, so what has once been lost, held or released goes on."""
    gateway = RestorableGateway(folder, CopiedTables(migrated_database))
    gateway.set_up()
    gateway.play(beginning)
    for steps in (_UNNOTICED, *sampled(SEED, ON_POSTGRESQL // len(BEGINNINGS))):
        gateway.play((*steps, SERVE))
        assert not gateway.violations, steps


@pytest.mark.parametrize("steps", [_UNNOTICED, _UNNOTICED_ON_HOLD], ids=["finish", "on hold"])
def test_a_restored_store_that_is_taken_for_current_is_noticed(folder: Path, steps: Steps) -> None:
    """The judge finds each of these where nothing compares the store with its mark."""
    gateway = a_gateway(folder, ON_HOLD)
    with patch.object(store_recognition, "recognise", lambda *_, **__: Recognition.CURRENT):
        found = play_from(gateway, gateway.save(), steps)
    assert found[0].endswith("was content with a copy that lacks something")
    assert "salary-1 was submitted 2 times" in found


def test_a_copy_that_nobody_compares_is_noticed(folder: Path) -> None:
    gateway = a_gateway(folder, SERVED)
    with patch.object(store_recognition, "recognise", lambda *_, **__: Recognition.CURRENT):
        found = play_from(gateway, gateway.save(), (BACK_UP, PAY, RESTORE))
    assert found == ["a copy was served that lacks something and was not prepared"]


def test_a_mark_that_goes_back_is_noticed(folder: Path) -> None:
    """As when each command wrote the mark of the store as it was."""
    gateway = a_gateway(folder, ON_HOLD)
    with (
        patch.object(StoreState, "has_all_of", lambda *_: True),
        patch.object(restored, "_require_begun", _agree),
    ):
        found = play_from(gateway, gateway.save(), _UNNOTICED)
    assert "salary-1 was submitted 2 times" in found


async def _agree(*_: object, **__: object) -> None:
    """Let a command go on."""


def test_payments_that_nobody_marks_are_noticed(folder: Path) -> None:
    async def mark_nothing(*_: object, **__: object) -> int:
        return 0

    gateway = a_gateway(folder, SERVED)
    with patch.object(restoration, "mark_unfinished", mark_nothing):
        found = play_from(gateway, gateway.save(), (PAY, BACK_UP, SERVE, RESTORE, RESTORED))
    assert "a payment was not marked" in found


def test_a_merchant_is_told_nothing_of_what_was_lost_before_its_brand_is_released(
    folder: Path,
) -> None:
    gateway = a_gateway(folder, SERVED)
    gateway.play((BACK_UP, PAY, SERVE, RESTORE, RESTORED, PAY, SERVE))
    asked = LookUpByMerchantReference(PAID, "salary-1")
    assert gateway.read(lambda store: store.look_up(asked)) is None
    gateway.play((STATEMENT, FINISH, PAY, SERVE))
    assert (gateway.book["salary-1"], gateway.book["salary-2"]) == (1, 1)
    assert not gateway.violations
