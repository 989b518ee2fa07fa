"""`mmo db restored` prepares a store that was restored from a backup, and closes the gap behind the backup."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from mmo_merchant.reconciliation.statement_file import PRESETS
from mmo_sansio.messages.inputs import RecordLostUse
from mmo_trio.admin.brand_hold import SubmitBatch
from mmo_trio.admin.restoration import begin_restoration, record_lost_uses
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.machine_user import machine_user
from mmo_trio.cli.support.output import format_instant, print_status, print_table
from mmo_trio.cli.support.statements import lines_of, read_columns, read_record, statement_lines
from mmo_trio.cli.support.target import CommandTarget, report_in_force, target_options
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.service.store_recognition import keep_mark
from mmo_trio.storage.sql.store import Store

_EVERY_BRAND = "*"
_file_type = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--retire-key", "retired", type=int, multiple=True, help="The number of a key that holds no more.")
@click.option("--statement", type=_file_type, help="A CSV file: the references in it count as used.")
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help="The columns of an operator's statement.")
@click.option("--map", "columns", multiple=True, help="FIELD=HEADING of a column, as for `mmo records reconcile`.")
@click.option("--currency", help="The currency of a statement that has no column for it.")
@click.option("--records", type=_file_type, help="Transaction objects, one a line: their references count as used.")
@click.option("--brand", help="Whose payments the statement or the records are about.")
@click.option("--finish", "finished", is_flag=False, flag_value=_EVERY_BRAND, help="Release this brand, or every one.")
@target_options
def restored(
    retired: Sequence[int],
    statement: Path | None,
    preset: str | None,
    columns: Sequence[str],
    currency: str | None,
    records: Path | None,
    brand: str | None,
    finished: str | None,
    target: CommandTarget,
) -> None:
    """Prepare a store that was restored from a backup, so that nothing is paid twice.

    The first run, before anything serves the store, holds every brand: it takes no payments, and what is not found of
    it is answered 503. Payments that had not ended are marked as possibly sent, and are never sent again. Later runs
    retire keys and close the gap behind the backup; --finish releases the brands.
    """
    user = machine_user().name
    has_begun = bool(retired or statement or records or finished)
    headings = read_columns(preset, columns) if statement is not None else {}

    async def run(store: Store) -> None:
        submit = partial(submit_batch_once, store, clock=target.clock())
        if not (has_begun or (await store.configuration()).restored_brands):
            await _begin(target, store, submit)
        for each in retired:
            await _retire_key(target, store, each)
        if statement is not None or records is not None:
            known = [each.brand.id for each in await store.admin.brands()]
            uses = _read_uses(statement, headings, currency, records, brand, user)
            count = await record_lost_uses(store, submit, (_of_known_brand(each, known) for each in uses))
            print_status(f"The references of {count} payments that the store lacks count as used.")
        if finished is not None:
            await _finish(target, store, finished)
        await _report(store)

    target.with_store(run)
    if retired or finished:
        report_in_force(target)


async def _begin(target: CommandTarget, store: Store, submit: SubmitBatch) -> None:
    serving = await store.serving_processes()
    if serving:
        raise NegativeAnswer(f"Stop the gateway first: {', '.join(each.name for each in serving)} serves this store.")
    await target.record(store, "store_restored")
    marked = await begin_restoration(store, submit, user=machine_user().name, now=target.clock().now())
    await keep_mark(store, target.settings)
    print_status(f"Every brand is on hold. {marked} payments had not ended and may have been sent: never sent again.")


async def _retire_key(target: CommandTarget, store: Store, id: int) -> None:
    owner = next((each.brand.id for each in await store.admin.brands() if id in [key.id for key in each.keys]), None)
    if owner is None:
        raise NegativeAnswer(f"There is no key {id}.")
    await target.record(store, "key_retired", f"brand:{owner}", key=id, leaked=False)
    await store.admin.retire_key(owner, id, now=target.clock().now())


def _read_uses(
    statement: Path | None,
    headings: Mapping[str, str],
    currency: str | None,
    records: Path | None,
    brand: str | None,
    user: str,
) -> Iterator[RecordLostUse]:
    """Yield the use of each reference that a statement or records have. Raises UsageProblem."""
    for line in () if statement is None else statement_lines(statement, headings, currency):
        if line.reference is not None:
            yield RecordLostUse(brand or "", line.reference, line.reference, user)
    for text in () if records is None else lines_of(records):
        found = read_record(text)
        if found.merchant_reference is not None:
            owner = brand or json.loads(text).get("brand", "")
            yield RecordLostUse(owner, found.merchant_reference, found.gateway_reference, user)


def _of_known_brand(use: RecordLostUse, brands: Sequence[str]) -> RecordLostUse:
    if use.brand not in brands:
        raise UsageProblem(f"--brand: name whose payments they are, one of {', '.join(brands)}.")
    return use


async def _finish(target: CommandTarget, store: Store, finished: str) -> None:
    """Release a brand, or all of them, once the audit log says so. Raises NegativeAnswer for one that is not held."""
    held = (await store.configuration()).restored_brands
    if finished != _EVERY_BRAND and finished not in held:
        raise NegativeAnswer(f"{finished} waits for nothing; on hold are: {', '.join(sorted(held)) or 'none'}.")
    for each in sorted(held) if finished == _EVERY_BRAND else [finished]:
        await target.record(store, "restoration_finished", f"brand:{each}")
        await store.admin.finish_restoration(each)
    await keep_mark(store, target.settings)


async def _report(store: Store) -> None:
    """Print which brands are on hold, with the keys of which somebody has to say whether they still hold."""
    held = (await store.configuration()).restored_brands
    if not held:
        print_status("No brand waits any more.")
        return
    print_table(
        ("brand", "key", "added"),
        (
            (each.brand.id, key.id, format_instant(key.added_at))
            for each in await store.admin.brands()
            if each.brand.id in held
            for key in each.keys
            if key.retired_at is None
        ),
    )
    print_status("Do these keys of the backup still hold? End the others by --retire-key, before the gateway serves.")
    print_status(f"On hold until --finish: {', '.join(sorted(held))}.")
