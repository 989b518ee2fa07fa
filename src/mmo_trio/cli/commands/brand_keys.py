"""`mmo brands key` adds and retires the API keys of brands."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from mmo_sansio.values.clock import Instant
from mmo_trio.brands.apply import create_key
from mmo_trio.brands.delivery_key import keys_disclosed_through
from mmo_trio.brands.used_hosts import open_hosts
from mmo_trio.cli.support.brand_records import find_brand
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import print_json, print_status
from mmo_trio.cli.support.target import (
    CommandTarget,
    chosen_gateway,
    report_in_force,
    target_options,
)
from mmo_trio.storage.interface.admin_types import BrandRecord, StoredApiKey
from mmo_trio.storage.sql.store import Store


@click.group()
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
@click.argument("named", metavar="KEY")
@click.option(
    "--leaked",
    is_flag=True,
    help="Somebody else knows the key: send nothing more for payments made with it.",
)
@click.option("--yes", is_flag=True, help="Nobody else knows the key: don't ask.")
@target_options
def retire(brand: str, named: str, leaked: bool, yes: bool, target: CommandTarget) -> None:
    """Retire a key, given by its number (`mmo brands show`) or by itself.

    When the command ends, every process rejects it. Payments that were made with it go on, and
    their callbacks carry the oldest key in use, but none goes to a host that no other key's
    payments use: these hosts are listed. If somebody else knows the key, --leaked ends all its
    callbacks, also for a key that is retired already."""
    digests: Sequence[bytes] = ()
    if not named.isdecimal():
        digests = target.keyring().digests(named.encode())

    now = target.clock().wall_time()

    def select_key(record: BrandRecord) -> StoredApiKey:
        return _select_key(record, named, digests, is_leaked=leaked)

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
    in_use = [stored.id for stored in record.keys if stored.retired_at is None]
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
    """Return the key of a brand that is named by its number, or by itself: then `digests` has what
    the store may have of it. Raises NegativeAnswer for one that has ended so already."""
    # A key that is retired may still be found to have leaked; one that has leaked needs no more.
    candidates = []
    for stored in record.keys:
        ended_at = stored.retired_at
        if is_leaked:
            ended_at = stored.leaked_at
        if ended_at is None:
            candidates.append(stored)

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

    ids = _format_ids([leaked.id for leaked in disclosed])
    print_status(
        f"Callbacks of its payments may have carried these keys: {ids}. Retire them as leaked, too:"
    )
    for leaked in disclosed:
        print_status(f"    mmo brands key retire {brand} {leaked.id} --leaked{chosen_gateway()}")


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


def _format_ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
