"""`mmo db` migrates the store and checks its integrity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import click

from mmo_trio.brands.master_key_check import check_master_key
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.output import print_json, print_status, progress_bar
from mmo_trio.cli.support.target import CommandTarget, json_option, target_options
from mmo_trio.storage.interface.store import Store


@click.group()
def db() -> None:
    """Migrate and check the store."""


@db.command()
@target_options
def migrate(target: CommandTarget) -> None:
    """Make the store, or migrate its schema to this version; a second time changes nothing."""
    with progress_bar() as bar:
        bar.add_task("migrating", total=None)
        target.with_store(_do_nothing, create=True, serving=True)
    print_status("The store has this version's schema.")


@db.command()
@target_options
@json_option
def check(target: CommandTarget, as_json: bool) -> None:
    """Check that the store is reachable, writable and sound, and that the master key is its own; reads all of it."""
    with progress_bar() as bar:
        bar.add_task("checking", total=None)
        faults = target.with_store(partial(_find_faults, target))
    if as_json:
        print_json({"faults": list(faults)})
    else:
        for fault in faults:
            click.echo(fault)
    if faults:
        raise NegativeAnswer(f"{len(faults)} faults: restore a backup, and keep this store to look at.")
    print_status("The store is reachable, writable and sound.")


@runtime_checkable
class _IntegrityCheckedStore(Protocol):
    """A store that can check its own integrity."""

    async def integrity_errors(self) -> Sequence[str]: ...


async def _do_nothing(store: Store) -> None:
    """Do nothing: opening a store to serve it migrates it, while no other process can serve it."""


async def _find_faults(target: CommandTarget, store: Store) -> Sequence[str]:
    await store.check()
    faults = await store.integrity_errors() if isinstance(store, _IntegrityCheckedStore) else ()
    if not faults:
        await check_master_key(store, target.settings.keys.master_key_file, now=target.clock().now())
    return faults
