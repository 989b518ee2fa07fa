"""`mmo brands` shows and changes brands and their methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import asdict

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.model import Brand
from mmo_sansio.values.number_format import format_amounts_in
from mmo_trio.admin.brand_hold import HoldReport, stop_unsubmitted
from mmo_trio.brands.apply import (
    BrandsOvertaken,
    BrandsPlan,
    apply_plan,
    check_new_ids,
    check_removed,
    plan_brands,
)
from mmo_trio.brands.description import brand_texts, brand_to_json, method_name
from mmo_trio.brands.file import read_brands_file
from mmo_trio.cli.commands import brand_keys
from mmo_trio.cli.support.brand_records import brand_keys_to_json, find_brand
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_instant, print_json, print_status
from mmo_trio.cli.support.tables import print_table
from mmo_trio.cli.support.target import (
    CommandTarget,
    machine_user,
    report_in_force,
    report_readable_secrets,
    target_options,
)
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.storage.interface.admin_types import BrandHold, BrandRecord
from mmo_trio.storage.sql.store import Store


@click.group()
def brands() -> None:
    """Show and change brands, their methods and keys."""


brands.add_command(brand_keys.key)


@brands.command("apply")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--prune", is_flag=True, help="Remove the brands and methods that the file doesn't have."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option(
    "--reuse-id",
    "reused_ids",
    multiple=True,
    help="A new brand's id that a removed brand had: it is the same merchant.",
)
@target_options
@json_option
def apply_(
    file: Path,
    prune: bool,
    dry_run: bool,
    reused_ids: tuple[str, ...],
    target: CommandTarget,
    as_json: bool,
) -> None:
    """Add and update brands from brands.toml.

    Every change is shown with the value before. Brands and methods are removed only with --prune,
    and a brand only when none of its payments is pending. When the command ends, the changes are in
    force on every process that serves."""
    # 1. What the file describes. Without a brand in it, it would be a plan to remove everything.
    rules = EgressRules(allow_private=target.settings.egress.allow_private)
    titles = target.provider_titles()
    described = read_brands_file(
        file, providers=titles, rules=rules, elsewhere=target.elsewhere_providers()
    )
    if not described:
        raise UsageProblem(f"{file} has no brand. Begin each with [[brand]].")

    report_readable_secrets(None, file, target.settings)

    # 2. What would change. It is carried out only over what the plan has seen (BrandsOvertaken).
    async def make_plan(store: Store) -> BrandsPlan:
        keyring = await target.open_keyring(store)
        is_sandbox = target.data_directory is not None
        plan = plan_brands(
            await store.admin.brands(), described, keyring, prune=prune, is_sandbox=is_sandbox
        )
        await check_new_ids(store, plan, reused=reused_ids)
        await check_removed(store, plan)
        return plan

    # A dry run makes no store where there is none.
    plan = target.with_store(make_plan, create=not dry_run)
    _print_plan(plan)
    changes: dict[str, Any] = {
        "added": [brand.id for brand in plan.added],
        "changed": [change.id for change in plan.changed],
        "removed": list(plan.removed),
        "differences": [asdict(difference) for difference in plan.differences],
    }
    unchanged = {"unchanged": list(plan.unchanged)}
    if dry_run:
        if as_json:
            print_json(changes | unchanged)
        return

    # 3. Change it, and wait until every process uses it.
    now = target.clock().wall_time()

    async def carry_out(store: Store) -> Mapping[str, str]:
        event = await target.event(store, "brands_applied", **changes)
        keyring = await target.open_keyring(store)
        try:
            return await apply_plan(store, keyring, plan, now=now, event=event)
        except BrandsOvertaken as overtaken:
            raise NegativeAnswer(str(overtaken)) from None

    new_keys = target.with_store(carry_out)
    if as_json:
        print_json(changes | unchanged | {"madeKeys": dict(new_keys)})
    elif new_keys:
        print_table(("brand", "API key (shown this once)"), new_keys.items())

    report_in_force(target)


@brands.command("list")
@target_options
@json_option
def list_(target: CommandTarget, as_json: bool) -> None:
    """List the brands."""

    async def read(store: Store) -> tuple[Sequence[BrandRecord], Sequence[BrandHold]]:
        return await store.admin.brands(), await store.admin.brand_holds()

    records, holds = target.with_store(read)
    held = {hold.brand: hold for hold in holds}
    if as_json:
        print_json([_record_to_json(record, held.get(record.brand.id)) for record in records])
        return

    print_table(
        ("id", "name", "enabled", "methods", "keys in use"),
        (
            (
                record.brand.id,
                record.brand.name,
                _switch_text(record.brand, is_held=record.brand.id in held),
                ", ".join(map(method_name, record.brand.methods)),
                sum(key.retired_at is None for key in record.keys),
            )
            for record in records
        ),
    )


@brands.command()
@click.argument("brand")
@target_options
@json_option
def show(brand: str, target: CommandTarget, as_json: bool) -> None:
    """Show one brand: methods, limits, and its keys by number; a key itself is never shown."""

    async def read(store: Store) -> tuple[BrandRecord, BrandHold | None]:
        holds = {brand_hold.brand: brand_hold for brand_hold in await store.admin.brand_holds()}
        return await find_brand(store, brand), holds.get(brand)

    record, hold = target.with_store(read)
    if as_json:
        print_json(_record_to_json(record, hold))
        return

    held = []
    if hold is not None:
        held = [("held_at", format_instant(hold.held_at)), ("held_by", hold.held_by)]

    texts = ((member, format_amounts_in(text)) for member, text in brand_texts(record.brand))
    print_table(("member", "value"), [*texts, *held])
    click.echo()
    print_table(
        ("key", "added", "retired", "leaked"), (key.values() for key in brand_keys_to_json(record))
    )


def _record_to_json(record: BrandRecord, hold: BrandHold | None) -> dict[str, Any]:
    """Return a brand and its hold as a JSON object."""
    return {
        **brand_to_json(record.brand),
        "heldAt": hold and format_instant(hold.held_at),
        "heldBy": hold and hold.held_by,
        "keys": brand_keys_to_json(record),
    }


@brands.command()
@click.argument("brand")
@target_options
def enable(brand: str, target: CommandTarget) -> None:
    """Accept the brand's requests again, and end its hold."""
    target.with_store(lambda store: _switch(target, store, brand, enabled=True))
    print_status(f"{brand} is enabled.")
    report_in_force(target)


@brands.command()
@click.argument("brand")
@click.option(
    "--hold",
    is_flag=True,
    help="Also stop its payments that were not submitted to their provider yet.",
)
@target_options
def disable(brand: str, hold: bool, target: CommandTarget) -> None:
    """Reject the brand's requests, on every process from the end of the command on.

    Its pending payments and their callbacks go on. With --hold, no payment of the brand is
    submitted to a provider, from now on and on every node: payments that were not submitted yet
    fail with payment_stopped, also those that are still accepted meanwhile. Payments that were
    submitted before go on. `mmo brands enable` ends the hold."""
    clock = target.clock()
    user = machine_user().acting_for(None)

    async def put_on_hold(store: Store) -> HoldReport | None:
        if not hold:
            await _switch(target, store, brand, enabled=False)
            return None
        # The hold first: what is accepted from then on is not submitted either.
        await _switch(
            target, store, brand, enabled=False, hold=BrandHold(brand, clock.wall_time(), user)
        )
        return await stop_unsubmitted(
            store, brand, user=user, submit=lambda inputs: submit_batch_once(store, inputs, clock)
        )

    report = target.with_store(put_on_hold)
    print_status(f"{brand} is disabled.")
    if report is not None:
        print_status(
            f"It is on hold: no payment is submitted any more. Stopped: {report.stopped}."
            f" Submitted before, and going on: {report.going_on}."
        )

    report_in_force(target)


async def _switch(
    target: CommandTarget,
    store: Store,
    id: str,
    *,
    enabled: bool,
    hold: BrandHold | None = None,
) -> None:
    """Enable or disable a brand in one commit, over whatever else of it is in force."""
    await find_brand(store, id)
    action = "brand_enabled" if enabled else "brand_disabled"
    event = await target.event(store, action, f"brand:{id}", hold=None if hold is None else True)

    # It may have been removed since it was found: then it is not found again, which is told.
    if not await store.admin.switch_brand(id, enabled=enabled, hold=hold, event=event):
        await find_brand(store, id)


def _print_plan(plan: BrandsPlan) -> None:
    for action, names in (
        ("add", [brand.id for brand in plan.added]),
        ("change", [change.id for change in plan.changed]),
        ("remove", plan.removed),
        ("leave as they are", plan.unchanged),
        ("make a key for", plan.brands_needing_keys),
    ):
        if names:
            print_status(f"{action}: {', '.join(names)}")

    for difference in plan.differences:
        print_status(f"  {format_amounts_in(difference.text)}")

    # That the file lacks something must not be taken for its removal.
    for kept in plan.kept_methods:
        print_status(f"keep, though the file doesn't have it (--prune removes it): {kept}")

    if plan.keys_to_add:
        print_status(f"add keys: {len(plan.keys_to_add)}")


def _switch_text(brand: Brand, *, is_held: bool) -> str:
    enabled = "yes" if brand.enabled else "no"
    if is_held:
        return f"{enabled}, on hold"
    return enabled
