"""`mmo db`: bring the store up to date, and look for damage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import click

from mmo_trio.cli.support.errors import Negative
from mmo_trio.cli.support.output import print_json, progress, say
from mmo_trio.cli.support.target import find_place, json_option, place_options
from mmo_trio.storage.interface.store import Store


@click.group()
def db() -> None:
    """The store."""


@db.command()
@place_options
def migrate(data: Path | None, config: Path | None) -> None:
    """Make the store, or bring its schema up to this version's; doing it again changes nothing."""
    place = find_place(data, config)
    with progress() as bar:
        bar.add_task("migrating", total=None)
        place.with_store(_nothing_more, make=True, serving=True)
    say("The store has this version's schema.")


@db.command()
@place_options
@json_option
def check(data: Path | None, config: Path | None, as_json: bool) -> None:
    """Check that the store is reachable, writable and sound; reads all of it."""
    place = find_place(data, config)
    with progress() as bar:
        bar.add_task("checking", total=None)
        faults = place.with_store(_faults)
    if as_json:
        print_json({"faults": list(faults)})
    else:
        for fault in faults:
            click.echo(fault)
    if faults:
        raise Negative(f"{len(faults)} faults: restore a backup, and keep this store to look at.")
    say("The store is reachable, writable and sound.")


@runtime_checkable
class _Examined(Protocol):
    """A store that can look at itself."""

    async def faults(self) -> Sequence[str]: ...


async def _nothing_more(store: Store) -> None:
    """Who opens a store to serve it has brought it up to date, and keeps others from serving it meanwhile."""


async def _faults(store: Store) -> Sequence[str]:
    await store.check()
    return await store.faults() if isinstance(store, _Examined) else ()
