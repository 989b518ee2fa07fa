"""`mmo brands`: the merchants, their methods and their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from attrs import evolve

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.admin.audit_event import note_command
from mmo_trio.brands.apply import Plan, apply_plan, make_key, plan_apply
from mmo_trio.brands.file import read_brands_file
from mmo_trio.cli.support.errors import Negative
from mmo_trio.cli.support.output import moment, print_json, print_table, say
from mmo_trio.cli.support.target import Place, find_place, json_option, place_options
from mmo_trio.settings.service import provider_titles
from mmo_trio.storage.interface.store import BrandRecord, Store


@click.group()
def brands() -> None:
    """Merchants, their methods and keys."""


@brands.command("apply")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--prune", is_flag=True, help="Remove brands that the file doesn't have.")
@place_options
@json_option
def apply_(file: Path, prune: bool, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Add and update brands from brands.toml. Nothing is removed but with --prune; changes are shown first."""
    place = find_place(data, config)
    rules = EgressRules(allow_private=place.settings.egress.allow_private)
    titles = provider_titles(place.settings, is_sandbox=place.data_directory is not None)
    wanted = read_brands_file(file, providers=titles, rules=rules)
    keyring = place.keyring(create=True)

    async def planned(store: Store) -> Plan:
        return plan_apply(await store.brands(), wanted, keyring, prune=prune)

    plan = place.with_store(planned, make=True)
    _show_plan(plan)
    now = place.clock().now()

    async def applied(store: Store) -> Mapping[str, str]:
        await note_command(
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
@place_options
@json_option
def list_(data: Path | None, config: Path | None, as_json: bool) -> None:
    """List the brands."""
    records = find_place(data, config).with_store(lambda store: store.brands())
    if as_json:
        print_json([as_data(each) for each in records])
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
@place_options
@json_option
def show(brand: str, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Show one brand: methods, limits, and its keys by number; a key itself is never shown."""
    record = find_place(data, config).with_store(lambda store: find_brand(store, brand))
    members = as_data(record)
    if as_json:
        print_json(members)
        return
    simple = {k: v for k, v in members.items() if k not in ("methods", "keys")}
    print_table(("member", "value"), ((k, _as_text(v)) for k, v in simple.items()))
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
        ((key.id, moment(key.added_at), moment(key.retired_at)) for key in record.keys),
    )


@brands.group()
def key() -> None:
    """A brand's API keys: several may be in use at once."""


@key.command()
@click.argument("brand")
@place_options
@json_option
def add(brand: str, data: Path | None, config: Path | None, as_json: bool) -> None:
    """Make a further key; it is shown this once. Callbacks carry the oldest key in use."""
    place = find_place(data, config)
    keyring, now = place.keyring(create=True), place.clock().now()

    async def made(store: Store) -> str:
        await find_brand(store, brand)
        await note_command(store, now, "key_added", f"brand:{brand}")
        return await make_key(store, keyring, brand, now=now)

    api_key = place.with_store(made)
    if as_json:
        print_json({"brand": brand, "apiKey": api_key})
    else:
        click.echo(api_key)
    say("It is not shown again. Callbacks carry the oldest key in use until that is retired.")


@key.command()
@click.argument("brand")
@click.argument("key")
@place_options
def retire(brand: str, key: str, data: Path | None, config: Path | None) -> None:
    """Retire a key, by its number (`mmo brands show`) or itself; it is refused everywhere within a minute."""
    place = find_place(data, config)
    digest = None if key.isdecimal() else place.keyring().digest(key.encode())
    now = place.clock().now()

    async def retired(store: Store) -> Sequence[int]:
        record = await find_brand(store, brand)
        in_use = {each.id: each for each in record.keys if each.retired_at is None}
        for id, each in in_use.items():
            if each.digest == digest or (digest is None and id == int(key)):
                await note_command(store, now, "key_retired", f"brand:{brand}", key=id)
                await store.retire_key(brand, id, now=now)
                return [other for other in in_use if other != id]
        raise Negative(f"{brand} has no such key in use; in use are: {_numbers([*in_use])}.")

    left = place.with_store(retired)
    say(f"The key is retired; every node refuses it within a minute. In use: {_numbers(left)}.")
    if not left:
        say(f"{brand} has no key any more: its requests are refused, and callbacks are not sent.")


@brands.command()
@click.argument("brand")
@place_options
def enable(brand: str, data: Path | None, config: Path | None) -> None:
    """Take the brand's requests again."""
    _switch(find_place(data, config), brand, enabled=True)
    say(f"{brand} is enabled, on every node within a minute.")


@brands.command()
@click.argument("brand")
@place_options
def disable(brand: str, data: Path | None, config: Path | None) -> None:
    """Refuse the brand's requests; its pending payments and their callbacks go on."""
    _switch(find_place(data, config), brand, enabled=False)
    say(f"{brand} is disabled, on every node within a minute.")


async def find_brand(store: Store, id: str) -> BrandRecord:
    """The brand with this id; raises Negative when there is none."""
    for each in await store.brands():
        if each.brand.id == id:
            return each
    raise Negative(f"There is no brand {id}. `mmo brands list` shows those there are.")


def as_data(record: BrandRecord) -> dict[str, object]:
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
            {"id": key.id, "addedAt": moment(key.added_at), "retiredAt": moment(key.retired_at)}
            for key in record.keys
        ],
    }


def _switch(place: Place, id: str, *, enabled: bool) -> None:
    now, act = place.clock().now(), "brand_enabled" if enabled else "brand_disabled"

    async def switched(store: Store) -> None:
        record = await find_brand(store, id)
        await note_command(store, now, act, f"brand:{id}")
        await store.save_brands([evolve(record.brand, enabled=enabled)])

    place.with_store(switched)


def _show_plan(plan: Plan) -> None:
    for what, which in (
        ("add", [each.id for each in plan.added]),
        ("change", [each.id for each in plan.changed]),
        ("remove", plan.removed),
        ("leave as they are", plan.unchanged),
        ("make a key for", plan.keys_to_make),
    ):
        if which:
            say(f"{what}: {', '.join(which)}")
    if plan.keys_to_add:
        say(f"add keys: {len(plan.keys_to_add)}")


def _numbers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _as_text(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value
