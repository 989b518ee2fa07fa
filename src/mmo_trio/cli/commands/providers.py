"""`mmo providers`: the configured providers, and closing one for new payments while it is out of order."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from mmo_trio.admin.audit_event import note_command
from mmo_trio.cli.support.errors import Negative, Unusable
from mmo_trio.cli.support.output import moment, print_json, print_table, say
from mmo_trio.cli.support.target import Place, find_place, json_option, place_options
from mmo_trio.settings.errors import near_match
from mmo_trio.settings.service import provider_titles
from mmo_trio.storage.interface.store import ClosedProvider, Store


@click.group()
def providers() -> None:
    """Providers of mobile money."""


@providers.command("list")
@place_options
@json_option
def list_(data: Path | None, config: Path | None, as_json: bool) -> None:
    """List the configured providers, and which are closed for new payments."""
    place = find_place(data, config)
    closed = {each.name: each for each in place.with_store(lambda store: store.closed_providers())}
    titles = _titles(place)
    rows = [_row(place, name, title, closed.get(name)) for name, title in titles.items()]
    if as_json:
        print_json(rows)
    else:
        names = ("name", "kind", "title", "open", "closedAt", "closedBy", "reason")
        print_table(names, ([row[name] for name in names] for row in rows))


@providers.command()
@click.argument("name")
@click.option("--reason", required=True, help="Why; shown by `mmo providers list`.")
@click.option("--operator", help="Who decides; by default the user of this machine.")
@place_options
def disable(
    name: str, reason: str, operator: str | None, data: Path | None, config: Path | None
) -> None:
    """Close a provider for new payments, on every node within seconds.

    New payments are taken and fail at once with provider_unavailable; nothing that moves money is sent. Payments that
    were sent before are asked about as always, and its notifications are taken.
    """
    if not reason.strip():
        raise Unusable("--reason is empty: say why.")
    place = find_place(data, config)
    _check(place, name)
    closed = ClosedProvider(name, place.clock().now(), operator or getpass.getuser(), reason)

    async def close(store: Store) -> bool:
        subject = f"provider:{name}"
        await note_command(
            store, closed.closed_at, "provider_closed", subject, operator, reason=reason
        )
        return await store.close_provider(closed)

    if not place.with_store(close):
        raise Negative(f"{name} is closed already. `mmo providers list` says since when.")
    say(f"{name} is closed for new payments. `mmo providers enable {name}` opens it again.")


@providers.command()
@click.argument("name")
@place_options
def enable(name: str, data: Path | None, config: Path | None) -> None:
    """Open a provider again."""
    place = find_place(data, config)
    now = place.clock().now()

    async def open_(store: Store) -> bool:
        await note_command(store, now, "provider_opened", f"provider:{name}")
        return await store.open_provider(name)

    if not place.with_store(open_):
        _check(place, name)
        raise Negative(f"{name} isn't closed.")
    say(f"{name} is open.")


def _titles(place: Place) -> dict[str, str]:
    is_sandbox = place.data_directory is not None
    return dict(provider_titles(place.settings, is_sandbox=is_sandbox))


def _check(place: Place, name: str) -> None:
    titles = _titles(place)
    if name not in titles:
        raise Unusable(f"There is no provider {name}. {near_match(name, titles)}")


def _row(place: Place, name: str, title: str, closed: ClosedProvider | None) -> dict[str, object]:
    section = place.settings.providers.get(name)
    return {
        "name": name,
        "kind": section.kind if section else "sandbox",
        "title": title,
        "open": closed is None,
        "closedAt": closed and moment(closed.closed_at),
        "closedBy": closed and closed.closed_by,
        "reason": closed and closed.reason,
    }
