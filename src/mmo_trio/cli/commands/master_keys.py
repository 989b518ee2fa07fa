"""`mmo keys` shows the master keys of a gateway and replaces the one in use, while processes
serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import click

from mmo_trio.admin.sealed_secrets import RESEAL
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import (
    Reseal,
    RotationError,
    finish_rotation,
    load_master_keys,
    prepare_rotation,
    reseal_api_keys,
    rotate_master_key,
)
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_instant, print_status
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.open_store import is_shared_store
from mmo_trio.storage.sql.store import Store

# Brings every kind of secret that the store keeps sealed under another master key.
RESEALED_SECRETS: Final[tuple[Reseal, ...]] = (reseal_api_keys, *RESEAL)


@click.group()
def keys() -> None:
    """Show and replace the master key, with which the store's secrets are sealed."""


@keys.command()
@target_options
@json_option
def show(target: CommandTarget, as_json: bool) -> None:
    """Show the master keys of the file and of the store by their ids; a key itself is never
    shown."""
    keyring = target.keyring()

    async def load_rows(store: Store) -> list[dict[str, object]]:
        # Keys of the store that are not in the file have sealed something that nobody can open.
        stored = {
            master_key.id: master_key
            for master_key in await store.admin.master_keys()
            if master_key.ended_at is None
        }
        # How many API keys each has sealed: without it those are lost.
        sealed: Counter[str | None] = Counter(
            keyring.sealing_key_id(record.brand.id, key.sealed)
            for record in await store.admin.brands()
            for key in record.keys
        )
        in_file = keyring.master_key_ids
        ids = [*in_file, *(id for id in stored if id not in in_file)]
        rows: list[dict[str, object]] = []
        for id in ids:
            use = "missing"
            if id == keyring.master_key_id:
                use = "in use"
            elif id in in_file:
                use = "accepted"

            generation = None
            added_at = None
            if id in stored:
                generation = stored[id].generation
                added_at = format_instant(stored[id].added_at)

            rows.append(
                {
                    "id": id,
                    "inFile": use,
                    "generation": generation,
                    "addedAt": added_at,
                    "apiKeys": sealed[id],
                }
            )

        return rows

    columns = {"master key": "id", "in the file": "inFile", "generation in the store": "generation"}
    columns |= {"since": "addedAt", "API keys sealed": "apiKeys"}
    print_rows(columns, target.with_store(load_rows), as_json=as_json)


@keys.command()
@target_options
def prepare(target: CommandTarget) -> None:
    """Add the next master key to the file, which is accepted from then on and not yet used.

    The first step of a rotation where several processes share the store.
    """
    file = target.settings.keys.master_key_file

    async def prepare_it(store: Store) -> KeyRing:
        await target.record(store, "master_key_prepared")
        return prepare_rotation(file)

    keyring = _attempt(target, prepare_it)
    print_status(
        f"The file has a second master key, {keyring.master_key_ids[1]}, which is accepted and "
        f"not yet used."
    )
    print_status(
        f"Copy {file} to every node and replace each process (SIGUSR2). Then run `mmo keys rotate`."
    )


@keys.command()
@target_options
def rotate(target: CommandTarget) -> None:
    """Make the next master key the one in use, and seal the secrets of the store with it.

    Where several processes share the store, `mmo keys prepare` comes first. Both keys are accepted
    until `mmo keys finish`."""
    file = target.settings.keys.master_key_file
    now = target.clock().wall_time()

    async def rotate_it(store: Store) -> KeyRing:
        await target.record(store, "master_key_rotated")
        # With one process nobody else needs the next key before it is used, so both steps are one.
        if not is_shared_store(target.settings.database.url) and len(load_master_keys(file)) == 1:
            prepare_rotation(file)
        return await rotate_master_key(store, file, RESEALED_SECRETS, now=now)

    keyring = _attempt(target, rotate_it)
    print_status(
        f"The master key {keyring.master_key_id} is in use; {keyring.master_key_ids[1]} is "
        f"accepted as well."
    )
    print_status(
        f"Copy {file} to every node and replace each process; keep a copy in a safe place."
    )
    print_status(
        "Addresses for notifications have changed: register those that `mmo providers "
        "address` prints."
    )
    print_status(
        "Then run `mmo keys finish`, which also ends the cursors that were given out before."
    )


@keys.command()
@target_options
def finish(target: CommandTarget) -> None:
    """Remove the previous master key: what it alone has sealed or signed is not accepted any
    more."""
    file = target.settings.keys.master_key_file
    now = target.clock().wall_time()

    async def finish_it(store: Store) -> KeyRing:
        await target.record(store, "master_key_rotation_finished")
        return await finish_rotation(store, file, RESEALED_SECRETS, now=now)

    keyring = _attempt(target, finish_it)
    print_status(
        f"{keyring.master_key_id} is the only master key. Copy {file} to every node, replace "
        f"each process,"
    )
    print_status(
        "and destroy the copies of the previous key, except that which belongs to older backups."
    )


def _attempt(target: CommandTarget, step: Callable[[Store], Awaitable[KeyRing]]) -> KeyRing:
    """Take a step of the rotation. Raises NegativeAnswer when it can't be taken now."""
    try:
        return target.with_store(step)
    except RotationError as error:
        raise NegativeAnswer(f"{error}.") from None
