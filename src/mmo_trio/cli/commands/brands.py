"""`mmo brands`: the merchants, their methods and their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from attrs import evolve

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.admin.audit_event import record_command
from mmo_trio.brands.apply import BrandsPlan, apply_plan, create_key, plan_brands
from mmo_trio.brands.file import read_brands_file
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.output import format_instant, print_json, print_status, print_table
from mmo_trio.cli.support.target import CommandTarget, find_target, json_option, target_options
from mmo_trio.settings.service import provider_titles
from mmo_trio.storage.interface.admin_types import BrandRecord
from mmo_trio.storage.interface.store import Store


@click.group()
def brands() -> None:
    """Merchants, their methods and keys."""


@brands.command("apply")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--prune", is_flag=True, help="Remove brands that the file doesn't have.")
@target_options
@json_option
def apply_(file: Path, prune: bool, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Add and update brands from brands.toml. Nothing is removed but with --prune; changes are shown first."""
    place = find_target(data, config)
    rules = EgressRules(allow_private=place.settings.egress.allow_private)
    titles = provider_titles(place.settings, is_sandbox=place.data_directory is not None)
    wanted = read_brands_file(file, providers=titles, rules=rules)
    keyring = place.keyring(create=True)

    async def planned(store: Store) -> BrandsPlan:
        return plan_brands(await store.admin.brands(), wanted, keyring, prune=prune)

    plan = place.with_store(planned, create=True)
    _print_plan(plan)
    now = place.clock().now()

    async def applied(store: Store) -> Mapping[str, str]:
        await record_command(
            store,
            now,
            "brands_applied",
            added=[each.id for each in plan.added],
            changed=[each.id for each in plan.changed],
            removed=list(plan.removed),
        )
        return await apply_plan(store, keyring, plan, now=now)

    made = place.with_store(applied)
    if as_json:
        print_json(
            {
                "added": [each.id for each in plan.added],
                "changed": [each.id for each in plan.changed],
                "removed": list(plan.removed),
                "unchanged": list(plan.unchanged),
                "madeKeys": dict(made),
            }
        )
    elif made:
        print_table(("brand", "API key (shown this once)"), made.items())


@brands.command("list")
@target_options
@json_option
def list_(data: Path | None, config: Path | None, as_json: bool) -> None:
    """List the brands."""
    records = find_target(data, config).with_store(lambda store: store.admin.brands())
    if as_json:
        print_json([brand_to_json(each) for each in records])
        return
    print_table(
        ("id", "name", "enabled", "methods", "keys in use"),
        (
            (
                each.brand.id,
                each.brand.name,
                "yes" if each.brand.enabled else "no",
                ", ".join(f"{method.key} ({method.country})" for method in each.brand.methods),
                sum(key.retired_at is None for key in each.keys),
            )
            for each in records
        ),
    )


@brands.command()
@click.argument("brand")
@target_options
@json_option
def show(brand: str, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Show one brand: methods, limits, and its keys by number; a key itself is never shown."""
    record = find_target(data, config).with_store(lambda store: find_brand(store, brand))
    members = brand_to_json(record)
    if as_json:
        print_json(members)
        return
    simple = {k: v for k, v in members.items() if k not in ("methods", "keys")}
    print_table(("member", "value"), ((k, _format_cell(v)) for k, v in simple.items()))
    click.echo()
    print_table(
        ("method", "country", "provider", "flows", "limits"),
        (
            (
                each.key,
                each.country,
                each.provider,
                ", ".join(sorted(each.operations)),
                ", ".join(f"{one.minimum} to {one.maximum}" for one in each.limits.values()),
            )
            for each in record.brand.methods
        ),
    )
    click.echo()
    print_table(
        ("key", "added", "retired"),
        (
            (key.id, format_instant(key.added_at), format_instant(key.retired_at))
            for key in record.keys
        ),
    )


@brands.group()
def key() -> None:
    """A brand's API keys: several may be in use at once."""


@key.command()
@click.argument("brand")
@target_options
@json_option
def add(brand: str, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Make a further key; it is shown this once. Callbacks carry the oldest key in use."""
    place = find_target(data, config)
    keyring, now = place.keyring(create=True), place.clock().now()

    async def made(store: Store) -> str:
        await find_brand(store, brand)
        await record_command(store, now, "key_added", f"brand:{brand}")
        return await create_key(store, keyring, brand, now=now)

    api_key = place.with_store(made)
    if as_json:
        print_json({"brand": brand, "apiKey": api_key})
    else:
        click.echo(api_key)
    print_status(
        "It is not shown again. Callbacks carry the oldest key in use until that is retired."
    )


@key.command()
@click.argument("brand")
@click.argument("key")
@target_options
def retire(brand: str, key: str, data: Path | None, config: Path | None) -> None:
    """Retire a key, by its number (`mmo brands show`) or itself; it is refused everywhere within a minute."""
    place = find_target(data, config)
    digest = None if key.isdecimal() else place.keyring().digest(key.encode())
    now = place.clock().now()

    async def retired(store: Store) -> Sequence[int]:
        record = await find_brand(store, brand)
        in_use = {each.id: each for each in record.keys if each.retired_at is None}
        for id, each in in_use.items():
            if each.digest == digest or (digest is None and id == int(key)):
                await record_command(store, now, "key_retired", f"brand:{brand}", key=id)
                await store.admin.retire_key(brand, id, now=now)
                return [other for other in in_use if other != id]
        raise NegativeAnswer(
            f"{brand} has no such key in use; in use are: {_format_ids([*in_use])}."
        )

    left = place.with_store(retired)
    print_status(
        f"The key is retired; every node refuses it within a minute. In use: {_format_ids(left)}."
    )
    if not left:
        print_status(
            f"{brand} has no key any more: its requests are refused, and callbacks are not sent."
        )


@brands.command()
@click.argument("brand")
@target_options
def enable(brand: str, data: Path | None, config: Path | None) -> None:
    """Take the brand's requests again."""
    _set_enabled(find_target(data, config), brand, enabled=True)
    print_status(f"{brand} is enabled, on every node within a minute.")


@brands.command()
@click.argument("brand")
@target_options
def disable(brand: str, data: Path | None, config: Path | None) -> None:
    """Refuse the brand's requests; its pending payments and their callbacks go on."""
    _set_enabled(find_target(data, config), brand, enabled=False)
    print_status(f"{brand} is disabled, on every node within a minute.")


async def find_brand(store: Store, id: str) -> BrandRecord:
    """The brand with this id; raises Negative when there is none."""
    for each in await store.admin.brands():
        if each.brand.id == id:
            return each
    raise NegativeAnswer(f"There is no brand {id}. `mmo brands list` shows those there are.")


def brand_to_json(record: BrandRecord) -> dict[str, object]:
    """A brand as JSON has it: its keys by number, never themselves (A5)."""
    brand = record.brand
    return {
        "id": brand.id,
        "name": brand.name,
        "enabled": brand.enabled,
        "pushResultUrl": brand.push_result_url,
        "host": brand.host,
        "referenceReuse": brand.reference_reuse,
        "redirectSchemes": sorted(brand.redirect_schemes),
        "methods": [
            {
                "key": each.key,
                "country": each.country,
                "provider": each.provider,
                "flows": sorted(each.operations),
                "limits": {
                    currency: {"min": one.minimum.text, "max": one.maximum.text}
                    for currency, one in each.limits.items()
                },
            }
            for each in brand.methods
        ],
        "keys": [
            {
                "id": key.id,
                "addedAt": format_instant(key.added_at),
                "retiredAt": format_instant(key.retired_at),
            }
            for key in record.keys
        ],
    }


def _set_enabled(target: CommandTarget, id: str, *, enabled: bool) -> None:
    now, act = target.clock().now(), "brand_enabled" if enabled else "brand_disabled"

    async def switched(store: Store) -> None:
        record = await find_brand(store, id)
        await record_command(store, now, act, f"brand:{id}")
        await store.admin.save_brands([evolve(record.brand, enabled=enabled)])

    target.with_store(switched)


def _print_plan(plan: BrandsPlan) -> None:
    for what, which in (
        ("add", [each.id for each in plan.added]),
        ("change", [each.id for each in plan.changed]),
        ("remove", plan.removed),
        ("leave as they are", plan.unchanged),
        ("make a key for", plan.brands_needing_keys),
    ):
        if which:
            print_status(f"{what}: {', '.join(which)}")
    if plan.keys_to_add:
        print_status(f"add keys: {len(plan.keys_to_add)}")


def _format_ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _format_cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value
