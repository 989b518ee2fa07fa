"""`mmo db` migrates the store, checks its integrity and corrects what a wrong clock has written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import click
import trio
from attrs import evolve

from mmo_sansio.values.clock import (
    DAY,
    FIRST_INSTANT,
    LAST_INSTANT,
    SECOND,
    Instant,
    Moment,
    Span,
    elapsed,
    format_with_microseconds,
)
from mmo_sansio.values.model import Status
from mmo_trio.admin.clock_repair import ClockErrors, correct_clock_errors, find_clock_errors
from mmo_trio.admin.retention import (
    AgedDuty,
    RetentionPace,
    RetentionRun,
    cutoffs,
    find_aged,
    rows_by_name,
)
from mmo_trio.brands.master_key import check_master_key
from mmo_trio.cli.commands.restored import restored
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import print_json, print_status, progress_bar
from mmo_trio.cli.support.tables import print_rows, print_table
from mmo_trio.cli.support.target import CommandTarget, machine_user, target_options
from mmo_trio.engine.engine import continue_clock, submit_batch_once
from mmo_trio.storage.interface.admin_types import CountQuery
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.storage.open_store import distribute_store, migrate_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock


@click.group()
def db() -> None:
    """Migrate, check, correct and restore the store."""


@db.command()
@click.option(
    "--distribute",
    "distributes",
    is_flag=True,
    help="Distribute the tables about payments by brand over the workers of Citus.",
)
@target_options
def migrate(target: CommandTarget, distributes: bool) -> None:
    """Make the store, or migrate its schema to this version; a second time changes nothing."""
    with progress_bar() as bar:
        task = bar.add_task("migrating", total=None)

        def report(number: int, last: int) -> None:
            bar.update(task, description=f"migration {number}", completed=number - 1, total=last)
            # Without a terminal there is no bar, and a long migration would look like one that
            # hangs.
            if bar.disable:
                print_status(f"Migration {number} of {last} begins.")

        url = target.settings.database.url
        if distributes:
            trio.run(distribute_store, url)

        trio.run(migrate_store, url, report)

    print_status("The store has this version's schema.")
    if distributes:
        print_status("Its tables about payments are distributed by brand.")


@db.command()
@click.option(
    "--copy",
    metavar="FILE_OR_URL",
    help="Check a restored copy that stands aside, and say how old it is.",
)
@target_options
@json_option
def check(copy: str | None, target: CommandTarget, as_json: bool) -> None:
    """Check that the store is reachable, writable and sound, and that the master key is its own;
    reads all of it."""
    if copy is not None:
        target = _with_copy(target, copy)

    with progress_bar() as bar:
        bar.add_task("checking", total=None)
        # A damaged store may not say how far it has come, and a copy aside is no store to serve.
        damage, misdated = target.with_store(partial(_find_faults, target), compares=False)
        unplaced: Sequence[str] = ()
        contents: Mapping[str, object] = {}
        # What reads more of a damaged store may fail, and would hide what was found.
        if not damage:
            unplaced = target.with_store(
                lambda store: store.rows_without_partition(), compares=copy is None
            )

        if not damage and copy is not None:
            contents = target.with_store(partial(_find_contents, target), compares=False)

    faults = (*damage, *misdated)
    if as_json:
        print_json({"faults": list(faults), **contents})
    else:
        for name, value in contents.items():
            click.echo(f"{name}: {value}")
        for fault in faults:
            click.echo(fault)

    for intent in unplaced:
        print_status(f"Warning: {intent}")

    if damage:
        raise NegativeAnswer(
            f"{len(faults)} faults: restore a backup, and keep this store to look at."
        )

    if misdated:
        raise NegativeAnswer(f"{len(faults)} faults, which `mmo db mend-clock` corrects.")

    print_status("The store is reachable, writable and sound.")


def _with_copy(target: CommandTarget, copy: str) -> CommandTarget:
    """Return a target with the settings of the gateway and the store of a copy, a file or a URL."""
    url = copy
    if "://" not in copy:
        url = f"sqlite:///{copy}"

    database = evolve(target.settings.database, url=url)
    return evolve(target, settings=evolve(target.settings, database=database))


async def _find_faults(target: CommandTarget, store: Store) -> tuple[Sequence[str], Sequence[str]]:
    """Return a sentence for each damage, and for each time that a wrong clock wrote, unless there
    is damage."""
    await store.check()
    if damage := await store.integrity_errors():
        return damage, ()
    await check_master_key(
        store, target.settings.keys.master_key_file, now=target.clock().wall_time()
    )
    return (), (await _find_clock_errors(store, target.clock())).sentences()


async def _find_contents(target: CommandTarget, store: Store) -> Mapping[str, object]:
    """Return how old a copy is, and how much it holds."""
    state = await store.state()
    now = target.clock().wall_time()

    # `pending` counts every payment by its creation, whatever has become of it.
    counted = await store.admin.count_payments(
        CountQuery(Span(DAY), FIRST_INSTANT, LAST_INSTANT), by=None
    )
    created = sum(row.count for row in counted if row.status is Status.PENDING)
    backlog = await store.admin.backlog(now, overdue_before=now)
    return {
        "lastCommit": format_with_microseconds(state.mark.raised_at),
        "ageSeconds": elapsed(state.mark.raised_at, now) // SECOND,
        "epoch": state.mark.epoch,
        "brands": len(await store.admin.brands()),
        "payments": created,
        "pending": backlog.pending,
        "callbacks": backlog.callbacks,
        "suspense": backlog.suspense,
    }


@db.command("mend-clock")
@click.option(
    "--apply", "is_applied", is_flag=True, help="Correct them; without this they are only shown."
)
@target_options
def correct_clock(target: CommandTarget, is_applied: bool) -> None:
    """Correct what a wall clock that was ahead has written, once it is right: times in the future.

    A merchant sees the corrected createdAt from then on. The journal stays as it is.
    """
    errors = target.with_store(lambda store: _find_clock_errors(store, target.clock()))
    _print_clock_errors(errors)
    if not errors:
        print_status("No time in the store lies in the future.")
        return

    # While the clock is ahead still, the corrected times would lie in the future again.
    if not is_applied:
        print_status("Is the machine's clock right now? Then `--apply` corrects them.")
        return

    with progress_bar() as bar:
        task = bar.add_task("correcting", total=len(errors.corrections))
        target.with_store(lambda store: _correct(target, store, errors, partial(bar.advance, task)))

    print_status(f"Corrected the times of {len(errors.payments)} payments.")


def _print_clock_errors(errors: ClockErrors) -> None:
    print_table(
        ("gatewayReference", "brand", "status", "createdAt"),
        (
            (
                payment.reference,
                payment.order.brand,
                payment.status,
                format_with_microseconds(payment.order.created_at),
            )
            for payment in errors.payments
        ),
    )
    for what, count in (
        ("reversals", len(errors.reversals)),
        ("claims of deposits", len(errors.claims)),
    ):
        if count:
            print_status(f"Times of {count} {what} lie in the future.")

    if errors.held_until is not None:
        print_status(f"Stamps reach to {format_with_microseconds(errors.held_until)}.")


async def _find_clock_errors(store: Store, clock: GatewayClock) -> ClockErrors:
    await continue_clock(clock, store)
    return await find_clock_errors(store, now=Moment(clock.own_time(), clock.wall_time()))


async def _correct(
    target: CommandTarget, store: Store, errors: ClockErrors, report: Callable[[int], object]
) -> None:
    """Correct these errors, once the audit log says so."""
    # First: no time is corrected without an event that says so.
    await target.record(store, "clock_mended", payments=len(errors.payments))
    clock = target.clock()
    submit = partial(submit_batch_once, store, clock=clock)
    await correct_clock_errors(
        store, submit, errors, now=clock.wall_time(), user=machine_user().name, report=report
    )


@db.command()
@click.option("--dry-run", is_flag=True, help="Only show what is too old.")
@click.option(
    "--at-once",
    is_flag=True,
    help="Take all the time of the store, not only `retention.time_share` of it.",
)
@target_options
@json_option
def retention(dry_run: bool, at_once: bool, target: CommandTarget, as_json: bool) -> None:
    """Remove and mask what is older than the settings of `[retention]` say.

    A serving gateway does it once a day. What is removed or masked does not come back, except from
    a backup."""

    async def find(store: Store) -> Sequence[AgedDuty]:
        return await find_aged(
            store.retention, target.settings.retention, now=await _retention_time(target, store)
        )

    if dry_run:
        _print_aged(target.with_store(find), as_json=as_json)
        return

    with progress_bar() as bar:
        task = bar.add_task("removing old rows", total=None)
        report = partial(bar.advance, task)
        changed = target.with_store(lambda store: _remove_aged(target, store, at_once, report))

    if as_json:
        print_json({"rows": rows_by_name(changed)})
    else:
        print_table(("what", "rows"), ((duty.value, count) for duty, count in changed.items()))


def _print_aged(aged: Sequence[AgedDuty], *, as_json: bool) -> None:
    rows = [
        {
            "what": row.duty.value,
            "olderThan": format_with_microseconds(row.before)[:10],
            "rows": row.found.rows,
            "hasMore": row.found.has_more,
            "firstDay": _day(row.found.first_at),
            "lastDay": _day(row.found.last_at),
        }
        for row in aged
    ]
    if not as_json:
        for row in rows:
            # The store counts so many at once: the number is a lower bound.
            if row["hasMore"]:
                row["rows"] = f"{row['rows']} or more"

    columns = {
        "what": "what",
        "older than": "olderThan",
        "rows": "rows",
        "first day": "firstDay",
        "last day": "lastDay",
    }
    print_rows(columns, rows, as_json=as_json)


def _day(at: Instant | None) -> str | None:
    if at is None:
        return None
    return format_with_microseconds(at)[:10]


async def _retention_time(target: CommandTarget, store: Store) -> Instant:
    """Return the time by which rows are old: the wall time, and never later than the gateway's
    own."""
    clock = target.clock()
    await continue_clock(clock, store)
    # A wall clock that is ahead would remove too much, and what is removed does not come back.
    return min(clock.wall_time(), clock.own_time())


async def _remove_aged(
    target: CommandTarget, store: Store, at_once: bool, report: Callable[[int], object]
) -> Mapping[RetentionDuty, int]:
    """Remove what is too old, once the audit log says so, and report the rows of each step; return
    how many each duty has changed. Raises NegativeAnswer while another process is at it."""
    section = target.settings.retention
    share = section.time_share
    if at_once:
        share = 1.0

    pace = RetentionPace(store.retention, share)
    now = await _retention_time(target, store)
    # One process at a time: two would only wait for each other's rows.
    if not await pace.begin():
        raise NegativeAnswer("Another process removes old rows at the moment.")

    try:
        due = {duty.value: _day(before) for duty, before in cutoffs(section, now).items()}
        await target.record(store, "retention_begun", older_than=due)
        changed = await RetentionRun(
            store.retention, section, pace, lambda _, count: report(count)
        ).run(now)
        await target.record(store, "retention_ended", rows=rows_by_name(changed))
        return changed
    finally:
        # Also after a failure: the next run need not wait until the lease is over.
        await pace.end()


db.add_command(restored)
