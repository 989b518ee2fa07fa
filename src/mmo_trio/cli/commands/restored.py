"""`mmo db restored` prepares a store that was restored from a backup, so that nothing is paid
twice.

Whether a restoration has begun is a question about this copy of the store, which its mark answers,
and not about brands on hold: a backup may have been taken while brands were on hold after an
earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path

import click

from mmo_sansio.resilience.store_mark import Recognition
from mmo_sansio.values.model import Status
from mmo_trio.admin.brand_hold import SubmitBatch
from mmo_trio.admin.restoration import ToldPayment, record_lost_uses
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import file_type
from mmo_trio.cli.support.output import format_instant, print_status
from mmo_trio.cli.support.statements import (
    Statement,
    brand_of,
    lines_of,
    read_record,
    statement_options,
)
from mmo_trio.cli.support.tables import print_table
from mmo_trio.cli.support.target import (
    CommandTarget,
    chosen_gateway,
    machine_user,
    report_in_force,
    target_options,
)
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.service.store_recognition import (
    StoreComparison,
    compare_store,
    counted_commits,
    find_mark_file,
    restore_store,
)
from mmo_trio.storage.interface.admin_types import RESTORATION
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.damaged_file import DamagedFile

# What `--finish` without a brand stands for; no brand has this id.
_EVERY_BRAND = "*"

# Ends of gatewayReferences that are named; there may be thousands.
ENDS_NAMED_MAX = 10


@click.command()
@click.option(
    "--retire-key",
    "retired",
    type=int,
    multiple=True,
    help="The number of a key that holds no more.",
)
@statement_options("A table, CSV or .xlsx: the references in it count as used.")
@click.option(
    "--records",
    type=file_type,
    help="Transaction objects, one a line: their references count as used.",
)
@click.option("--brand", help="Whose payments the statement or the records are about.")
@click.option(
    "--finish",
    "finished",
    is_flag=False,
    flag_value=_EVERY_BRAND,
    help="Release this brand, or every one.",
)
@click.option(
    "--again",
    "begins_again",
    is_flag=True,
    help="Begin once more: a backup was restored that has an earlier restoration under way.",
)
@click.option(
    "--skip-without-reference",
    "skips_blank",
    is_flag=True,
    help="Skip lines of the statement that have no reference.",
)
@target_options
def restored(
    retired: Sequence[int],
    statement: Statement | None,
    records: Path | None,
    brand: str | None,
    finished: str | None,
    begins_again: bool,
    skips_blank: bool,
    target: CommandTarget,
) -> None:
    """Prepare a store that was restored from a backup, so that nothing is paid twice.

    The first run, before anything serves the store, holds every brand: it takes no payments, and
    what is not found of it is answered 503. Payments that had not ended are marked as possibly
    sent, and are never sent again. Later runs retire keys and close the gap behind the backup;
    --finish releases the brands."""
    if begins_again and finished is not None:
        raise UsageProblem("--again holds every brand, and --finish releases: give one of them.")

    # Without any option this is the first run, which marks and holds.
    is_first = not (retired or statement or records or finished)
    user = machine_user().name
    ledger: Sequence[str] = ()
    if statement is not None:
        ledger = statement.references(skips_blank=skips_blank)

    async def run(store: Store) -> None:
        # 1. Is this copy prepared, and is what is asked for possible?
        submit = partial(submit_batch_once, store, clock=target.clock())
        compared = await _compare(target, store)
        is_prepared = compared.found in (Recognition.CURRENT, Recognition.BEHIND)
        if finished is not None:
            await _require_begun(store, is_prepared=is_prepared)

        if is_first and not begins_again and compared.found is Recognition.CURRENT:
            await _require_none_under_way(store)

        # 2. Prepare it. Whatever else is asked for, nothing comes before that.
        if is_first or begins_again or not is_prepared:
            await _begin(target, store, submit, compared)

        # 3. Close the gap, and release.
        async with _counted(target, store):
            for key in retired:
                await _retire_key(target, store, key)

            if statement is not None or records is not None:
                await _close_gap(store, submit, _read_told(ledger, records, brand), user=user)

            if finished is not None:
                await _finish(target, store, finished)

        await _report(store)

    # `run` compares the store itself and acts on what it finds: a warning would only repeat it.
    target.with_store(run, compares=False)
    if retired or finished:
        report_in_force(target)


async def _compare(target: CommandTarget, store: Store) -> StoreComparison:
    """Compare the store with its mark; a damaged one says nothing, so it counts as missing."""
    is_sandbox = target.data_directory is not None
    try:
        return await compare_store(store, target.settings, serves=False, is_sandbox=is_sandbox)
    except DamagedFile:
        file = find_mark_file(target.settings)
        return StoreComparison(Recognition.UNMARKED, await store.state(), None, file)


async def _require_begun(store: Store, *, is_prepared: bool) -> None:
    """Raise NegativeAnswer where nothing can be finished, as no restoration of this copy has
    begun."""
    if not is_prepared:
        raise NegativeAnswer(
            "This store was restored, or may have been, and is not prepared: what had not ended in"
            f" it could be paid twice. First run `mmo db restored{chosen_gateway()}`, then close"
            " the gap."
        )

    if not (await store.configuration()).restored_brands:
        raise NegativeAnswer(
            "No brand waits. If a backup was restored, first run `mmo db "
            f"restored{chosen_gateway()}`, then close the gap."
        )


async def _require_none_under_way(store: Store) -> None:
    """Raise NegativeAnswer while a restoration is under way. A backup from that time has it, too,
    and where its mark went back with it, only people know whether one was restored."""
    if not (await store.configuration()).restored_brands:
        return

    # The restoration began with the first of its holds.
    begun = [
        brand_hold.held_at
        for brand_hold in await store.admin.brand_holds()
        if brand_hold.held_by == RESTORATION
    ]
    since = ""
    if begun:
        since = f", since {format_instant(min(begun))}"

    await _report(store)
    raise NegativeAnswer(
        f"A restoration is under way in this store{since}. Go on with --retire-key, --statement, "
        "--records and --finish. If a backup was put in its place since then, run "
        f"`mmo db restored --again{chosen_gateway()}`."
    )


async def _begin(
    target: CommandTarget, store: Store, submit: SubmitBatch, compared: StoreComparison
) -> None:
    # A process that serves would go on submitting what is being marked.
    serving = await store.serving_processes()
    if serving:
        names = ", ".join(process.name for process in serving)
        raise NegativeAnswer(f"Stop the gateway first: {names} serves this store.")

    await target.record(store, "store_restored")
    marked = await restore_store(
        store, submit, compared, user=machine_user().name, now=target.clock().wall_time()
    )
    print_status(
        f"Every brand is on hold. {marked} payments had not ended and may have been sent: never "
        f"sent again."
    )


def _counted(
    target: CommandTarget, store: Store
) -> AbstractAsyncContextManager[Recognition | None]:
    """Let the mark have what is committed during the block; a sandbox's store has none."""
    if target.data_directory is not None:
        return nullcontext()
    return counted_commits(store, target.settings)


async def _retire_key(target: CommandTarget, store: Store, id: int) -> None:
    owner = None
    for record in await store.admin.brands():
        if id in [key.id for key in record.keys]:
            owner = record.brand.id

    if owner is None:
        raise NegativeAnswer(f"There is no key {id}.")

    await target.record(store, "key_retired", f"brand:{owner}", key=id, leaked=False)
    await store.admin.retire_key(owner, id, now=target.clock().wall_time())


def _read_told(
    ledger: Sequence[str], records: Path | None, brand: str | None
) -> Iterator[ToldPayment]:
    """Yield what a ledger or records tell of, also failed payments: a second one under the same
    reference may be missing. Raises UsageProblem."""
    for reference in ledger:
        yield ToldPayment(brand or "", reference)

    if records is None:
        return

    for text in lines_of(records):
        payment = read_record(text)

        # Without a merchantReference there is nothing that anybody could use again.
        if payment.merchant_reference is not None:
            yield ToldPayment(
                brand_of(text, brand),
                payment.gateway_reference,
                payment.merchant_reference,
                has_failed=payment.status is Status.FAILED,
            )


def _of_known_brand(payment: ToldPayment, brands: Sequence[str]) -> ToldPayment:
    if payment.brand not in brands:
        raise UsageProblem(f"--brand: name whose payments they are, one of {', '.join(brands)}.")
    return payment


async def _close_gap(
    store: Store, submit: SubmitBatch, told: Iterator[ToldPayment], *, user: str
) -> None:
    """Let the references of these payments count as used. Raises UsageProblem for one of no known
    brand."""
    brand_ids = [brand.brand.id for brand in await store.admin.brands()]
    # Checked while they are read, as a file may have any length.
    of_known = (_of_known_brand(payment, brand_ids) for payment in told)
    recorded = await record_lost_uses(store, submit, of_known, user=user)
    print_status(f"References that count as used: {recorded.count}.")

    if unknown := recorded.unknown_ends:
        named = ", ".join(unknown[:ENDS_NAMED_MAX])
        more = len(unknown) - ENDS_NAMED_MAX
        if more > 0:
            named = f"{named} and {more} more"

        print_status(
            f"{named}: where"
            " these are ends of gatewayReferences, the payments are lost, and only the merchant"
            " knows their merchantReferences. Before --finish, give its ledger, or its --records."
        )


async def _finish(target: CommandTarget, store: Store, finished: str) -> None:
    """Release a brand, or all of them, once the audit log says so. Raises NegativeAnswer for one
    that is not held."""
    held = (await store.configuration()).restored_brands
    if finished != _EVERY_BRAND and finished not in held:
        raise NegativeAnswer(
            f"{finished} waits for nothing; on hold are: {', '.join(sorted(held)) or 'none'}."
        )

    names = [finished]
    if finished == _EVERY_BRAND:
        names = sorted(held)

    for brand in names:
        await target.record(store, "restoration_finished", f"brand:{brand}")
        await store.admin.finish_restoration(brand)


async def _report_people(store: Store) -> None:
    """Print what the backup has of the console's users and of closed providers."""
    # Whoever was disabled since the backup may sign in again: people have to compare.
    factors = {factor.user: factor for factor in await store.admin.second_factors()}
    users = await store.admin.users()
    if users:
        rows = []
        for user in users:
            factor = factors.get(user.name)
            confirmed_at = None
            if factor is not None:
                confirmed_at = factor.confirmed_at

            rows.append(
                (
                    user.name,
                    user.role.value,
                    format_instant(user.disabled_at),
                    format_instant(confirmed_at),
                )
            )

        print_table(("user", "role", "disabledAt", "secondFactorAt"), rows)
        print_status(
            "All sessions of the console have ended. Passwords, roles and second factors are those"
            " of the backup: repeat what was changed since (`mmo users password`, `disable`,"
            " `totp reset`). `mmo audit list` of the damaged store says what it was."
        )

    closed = await store.admin.closed_providers()
    if closed:
        names = [(provider.name, format_instant(provider.closed_at)) for provider in closed]
        print_table(("closed provider", "closedAt"), names)
    else:
        print_status("No provider is closed: close again what was closed since the backup.")


async def _report(store: Store) -> None:
    """Print which brands are on hold, with the keys of which somebody has to say whether they still
    hold."""
    held = (await store.configuration()).restored_brands
    if not held:
        print_status("No brand waits any more.")
        return

    # Once a process serves, keys are what they are: the question is for the time before.
    if not await store.serving_processes():
        brands = [brand for brand in await store.admin.brands() if brand.brand.id in held]
        keys = (
            (brand.brand.id, key)
            for brand in brands
            for key in brand.keys
            if key.retired_at is None
        )
        print_table(
            ("brand", "key", "added"),
            ((id, key.id, format_instant(key.added_at)) for id, key in keys),
        )
        print_status(
            "Do these keys still hold? End the others by --retire-key, before the gateway serves."
        )
        await _report_people(store)

    print_status(f"On hold until --finish: {', '.join(sorted(held))}.")
