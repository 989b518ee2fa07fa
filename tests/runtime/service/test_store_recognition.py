"""Whatever a process or a command has committed is in the mark, so that no older backup is taken
for the store."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from trio.testing import MockClock

from mmo_sansio.testing import numbered_reference
from mmo_sansio.values.clock import Span
from mmo_trio.cli.group import main
from mmo_trio.service.store_recognition import LOOK_INTERVAL_S, QUIET_S, MarkKeeper, read_mark
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.conformance.driver import create_payments
from tests.support.restorable_gateway import RestorableGateway, SqliteFile, Step
from tests.support.sqlite_store import StoreFile


@pytest.fixture
def gateway(tmp_path: Path) -> RestorableGateway:
    """One that has served its store, and of which there is a backup."""
    (tmp_path / "store").mkdir()
    gateway = RestorableGateway(tmp_path, SqliteFile(tmp_path / "store" / "gateway.db"))
    gateway.set_up()
    gateway.play([Step.PAY, Step.BACK_UP])
    return gateway


def is_served(gateway: RestorableGateway) -> bool:
    """Whether the gateway takes its store."""
    return gateway.serve(gateway.submit_all)


# What commands have committed


RESOLUTION = ("--failed", "--reason", "it is not there", "--evidence", "the statement, line 7")
COMMANDS = [
    ("brands", "disable", "acme", "--hold"),
    ("brands", "key", "add", "acme"),
    ("tx", "resolve", numbered_reference(1), *RESOLUTION),
]


@pytest.mark.spec("C6", "S6", "A4")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_a_backup_of_before_a_command_is_not_taken_for_the_store(
    gateway: RestorableGateway, command: tuple[str, ...]
) -> None:
    """The gateway does not run, so nobody else notes what the command has done."""
    done = gateway.mmo(*command)
    assert done.exit_code == 0, done.output
    gateway.do(Step.RESTORE)
    assert not is_served(gateway)


@pytest.mark.spec("C6", "S6")
def test_commands_make_no_older_backup_pass_for_the_store(gateway: RestorableGateway) -> None:
    """Nor do those of a machine whose mark is as old as the backup."""
    other_mark, other = gateway.folder / "other.mark", gateway.folder / "other.toml"
    other_mark.write_bytes(gateway.mark_file.read_bytes())
    text = gateway.config.read_text()
    other.write_text(text.replace(str(gateway.mark_file), str(other_mark)))
    assert is_served(gateway)
    gateway.do(Step.RESTORE)
    for config in (gateway.config, other):
        for _ in range(3):
            added = CliRunner().invoke(
                main, ["brands", "key", "add", "acme", "--config", str(config)]
            )
            assert added.exit_code == 0, added.output
    assert not is_served(gateway)


@pytest.mark.spec("S6")
def test_who_uses_a_restored_store_that_nobody_has_prepared_is_told_so(
    gateway: RestorableGateway,
) -> None:
    remark = f"is not prepared: run `mmo db restored --config {gateway.config}`"
    commands = [("tx", "list"), ("db", "check")]
    for command in commands:
        assert "not prepared" not in gateway.mmo(*command).output
    assert is_served(gateway)
    gateway.do(Step.RESTORE)
    for command in commands:
        assert gateway.mmo(*command).output.count(remark) == 1
    aside = gateway.mmo("db", "check", "--copy", gateway.folder / "store" / "gateway.db")
    assert "not prepared" not in aside.output, "nobody serves it there"
    assert gateway.mmo("db", "restored").exit_code == 0
    assert "not prepared" not in gateway.mmo("db", "check").output


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("content", "remark"),
    [
        (None, "the file database.mark_file is missing"),
        ("not what a gateway writes", "the mark of this store can't be read"),
    ],
)
def test_who_uses_a_store_whose_mark_is_missing_or_damaged_is_told_so(
    gateway: RestorableGateway, content: str | None, remark: str
) -> None:
    """The gateway serves neither."""
    assert is_served(gateway)
    gateway.mark_file.unlink()
    if content is not None:
        gateway.mark_file.write_text(content)
    for command in (("tx", "list"), *COMMANDS):
        assert gateway.mmo(*command).output.count(remark) == 1
    assert not is_served(gateway)


# What the gateway has committed


class _Killed(Exception):
    """The process is gone."""


@pytest.mark.spec("C6", "S6")
def test_a_backup_of_before_a_start_is_not_taken_for_the_store_after_a_kill(
    gateway: RestorableGateway,
) -> None:
    """Nothing was noted any more of what was submitted."""

    async def submit_and_die(store: Store, clock: GatewayClock) -> None:
        await gateway.submit_all(store, clock)
        raise _Killed

    with pytest.raises(_Killed):
        gateway.serve(submit_and_die)
    assert gateway.book == {"salary-1": 1}
    gateway.do(Step.RESTORE)
    assert not is_served(gateway)


@pytest.mark.spec("C6")
async def test_the_last_commits_of_a_busy_second_are_in_the_mark(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Also where nothing follows for hours: such as what staff have approved in the console."""
    file = tmp_path / "store.mark"
    async with StoreFile().open() as store:
        keeper = MarkKeeper(store, file, Span(0))
        await create_payments(store, [1])
        await keeper.write()
        await trio.sleep(0.5)
        await create_payments(store, [2])
        await keeper.write()
        assert store.has_unmarked_commits
        backup = (await store.state()).mark

        await trio.sleep(QUIET_S)
        await keeper.write()  # A commit of its own raises the epoch, and the next look notes it.
        await keeper.write()
        known = read_mark(file)
        assert known is not None
        assert known.epoch == backup.epoch + 1
        assert not store.has_unmarked_commits
        await trio.sleep(3_600)
        await keeper.write()
        assert read_mark(file) == known, "nothing was committed since"


@pytest.mark.spec("C6")
async def test_what_a_process_commits_last_is_in_the_mark(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    file = tmp_path / "store.mark"
    async with StoreFile().open() as store:
        keeper = MarkKeeper(store, file, Span(0))
        await create_payments(store, [1])
        await create_payments(store, [2])
        await keeper.write_last()
        assert read_mark(file) == (await store.state()).mark
        assert not store.has_unmarked_commits


@pytest.mark.spec("C6")
async def test_a_gateway_notes_what_commands_of_other_machines_have_done(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    file, stored = tmp_path / "store.mark", StoreFile()
    async with stored.open() as store, trio.open_nursery() as nursery:
        await create_payments(store, [1])
        nursery.start_soon(MarkKeeper(store, file, Span(0)).run, lambda: None)
        async with stored.open(serving=False) as command:
            command.count_commands()
            await create_payments(command, [2])
        while (known := read_mark(file)) is None or not known.command_epoch:  # noqa: ASYNC110
            await trio.sleep(LOOK_INTERVAL_S)
        assert known == (await store.state()).mark
        nursery.cancel_scope.cancel()
