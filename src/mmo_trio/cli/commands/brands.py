"""`mmo brands` shows and changes brands, their methods and their keys."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import asdict

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand
from mmo_sansio.values.number_format import format_amounts_in
from mmo_trio.admin.brand_hold import HoldReport, stop_unsubmitted
from mmo_trio.brands.apply import (
    BrandsOvertaken,
    BrandsPlan,
    apply_plan,
    check_new_ids,
    check_removed,
    create_key,
    plan_brands,
)
from mmo_trio.brands.delivery_key import keys_disclosed_through
from mmo_trio.brands.description import brand_texts, brand_to_json, method_name
from mmo_trio.brands.file import read_brands_file
from mmo_trio.brands.used_hosts import open_hosts
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_instant, print_json, print_status, print_table
from mmo_trio.cli.support.target import (
    CommandTarget,
    chosen_gateway,
    machine_user,
    report_in_force,
    report_readable_secrets,
    target_options,
)
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.storage.interface.admin_types import BrandHold, BrandRecord, StoredApiKey
from mmo_trio.storage.sql.store import Store


@click.group()
def brands() -> None:
    """Show and change brands, their methods and keys."""


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

    # First the brand's own members, then its keys by number: a key itself is never shown (A5).
    texts = ((member, format_amounts_in(text)) for member, text in brand_texts(record.brand))
    print_table(("member", "value"), [*texts, *held])
    click.echo()
    print_table(
        ("key", "added", "retired", "leaked"), (key.values() for key in brand_keys_to_json(record))
    )


def _record_to_json(record: BrandRecord, hold: BrandHold | None) -> dict[str, Any]:
    """Return a brand and its hold as a JSON object: its keys by number, never themselves (A5)."""
    return {
        **brand_to_json(record.brand),
        "heldAt": hold and format_instant(hold.held_at),
        "heldBy": hold and hold.held_by,
        "keys": brand_keys_to_json(record),
    }


def brand_keys_to_json(record: BrandRecord) -> list[dict[str, object]]:
    """Return the number of each key of a brand, and when it was added, retired and reported as
    leaked."""
    return [
        {
            "id": key.id,
            "addedAt": format_instant(key.added_at),
            "retiredAt": format_instant(key.retired_at),
            "leakedAt": format_instant(key.leaked_at),
        }
        for key in record.keys
    ]


@brands.group()
def key() -> None:
    """Manage a brand's API keys: several may be in use at once."""


@key.command()
@click.argument("brand")
@target_options
@json_option
def add(brand: str, target: CommandTarget, as_json: bool) -> None:
    """Make another key, which is shown this once. Callbacks carry the key that made their
    payment."""
    now = target.clock().wall_time()

    async def create(store: Store) -> str:
        await find_brand(store, brand)
        keyring = await target.open_keyring(store)
        # First: no key exists without an event that says so.
        await target.record(store, "key_added", f"brand:{brand}")
        return await create_key(store, keyring, brand, now=now)

    api_key = target.with_store(create)
    if as_json:
        print_json({"brand": brand, "apiKey": api_key})
    else:
        click.echo(api_key)

    print_status(
        "For the merchant: accept both keys before you use this one. A callback carries the key"
        " that made its payment, or the oldest in use once that is retired; that of a deposit"
        " always carries the oldest."
    )
    print_status("The key is not shown again.")


@key.command()
@click.argument("brand")
@click.argument("key")
@click.option(
    "--leaked",
    is_flag=True,
    help="Somebody else knows the key: send nothing more for payments made with it.",
)
@click.option("--yes", is_flag=True, help="Nobody else knows the key: don't ask.")
@target_options
def retire(brand: str, key: str, leaked: bool, yes: bool, target: CommandTarget) -> None:
    """Retire a key, given by its number (`mmo brands show`) or by itself.

    When the command ends, every process rejects it. Payments that were made with it go on, and
    their callbacks carry the oldest key in use, but none goes to a host that no other key's
    payments use: these hosts are listed. If somebody else knows the key, --leaked ends all its
    callbacks, also for a key that is retired already."""
    digests: Sequence[bytes] = ()
    if not key.isdecimal():
        digests = target.keyring().digests(key.encode())

    now = target.clock().wall_time()

    def select_key(record: BrandRecord) -> StoredApiKey:
        return _select_key(record, key, digests, is_leaked=leaked)

    async def find_open_hosts(store: Store) -> Mapping[str, bool]:
        record = await find_brand(store, brand)
        return await open_hosts(store.admin, record, select_key(record))

    async def retire_it(store: Store) -> tuple[BrandRecord, StoredApiKey]:
        selected = select_key(await find_brand(store, brand))
        await target.record(store, "key_retired", f"brand:{brand}", key=selected.id, leaked=leaked)
        if leaked:
            await store.admin.mark_key_leaked(brand, selected.id, now=now)
        else:
            await store.admin.retire_key(brand, selected.id, now=now)
        return await find_brand(store, brand), selected

    # A key that has leaked has no host to be asked about: nothing more is sent anywhere.
    if not leaked:
        _confirm_hosts(target.with_store(find_open_hosts), is_asked=not yes and sys.stdin.isatty())

    record, retired = target.with_store(retire_it)
    in_use = [key.id for key in record.keys if key.retired_at is None]
    print_status(f"The key is retired. In use: {_format_ids(in_use)}.")
    if leaked:
        _report_leaked(brand, retired, record, now=now)

    if not in_use:
        print_status(
            f"{brand} has no key any more: its requests are refused, and callbacks are not sent."
        )

    report_in_force(target)


def _select_key(
    record: BrandRecord, named: str, digests: Sequence[bytes], *, is_leaked: bool
) -> StoredApiKey:
    """Return the key of a brand that is named by its number or by itself; of itself the digests are
    given. Raises NegativeAnswer for one that has ended so already."""
    # A key that is retired may still be found to have leaked; one that has leaked needs no more.
    candidates = []
    for key in record.keys:
        ended_at = key.retired_at
        if is_leaked:
            ended_at = key.leaked_at
        if ended_at is None:
            candidates.append(key)

    for candidate in candidates:
        if candidate.digest in digests or (not digests and candidate.id == int(named)):
            return candidate

    kind = "in use"
    if is_leaked:
        kind = "not yet marked as leaked"
    ids = _format_ids([candidate.id for candidate in candidates])
    raise NegativeAnswer(f"{record.brand.id} has no such key {kind}; {kind} are: {ids}.")


def _report_leaked(brand: str, retired: StoredApiKey, record: BrandRecord, *, now: Instant) -> None:
    """Say what follows from a key that somebody else knows."""
    print_status(
        "Nothing more is sent for payments that were made with it: the merchant looks them up."
    )

    # Whoever has the key could have had results sent to himself, with a newer key in them.
    disclosed = keys_disclosed_through(retired, record.keys, now=now)
    if not disclosed:
        return

    ids = _format_ids([key.id for key in disclosed])
    print_status(
        f"Callbacks of its payments may have carried these keys: {ids}. Retire them as leaked, too:"
    )
    for key in disclosed:
        print_status(f"    mmo brands key retire {brand} {key.id} --leaked{chosen_gateway()}")


def _confirm_hosts(hosts: Mapping[str, bool], *, is_asked: bool) -> None:
    """List to which hosts results of the key's payments are still to go, and whether these are held
    back; ask whether the key has leaked. Raises NegativeAnswer when it has."""
    for host, is_held in hosts.items():
        held = ""
        if is_held:
            held = ", held back, as no other key has used it"
        print_status(f"Results to come: {host}{held}")

    if is_asked and click.confirm("Is the key known to somebody else?", err=True):
        raise NegativeAnswer("Nothing was changed. End the key with --leaked.")


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


async def find_brand(store: Store, id: str) -> BrandRecord:
    """Return the brand with this id. Raises NegativeAnswer when there is none."""
    record = await store.brand_record(id)
    if record is None:
        raise NegativeAnswer(f"There is no brand {id}. `mmo brands list` shows those there are.")
    return record


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
    event = await target.event(store, action, f"brand:{id}", hold=hold and True)

    # The brand may have been removed meanwhile; then there is nothing to switch, which is told.
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


def _format_ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
