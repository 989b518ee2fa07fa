"""`mmo providers`: the configured providers, and closing one for new payments while it is out of order."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from mmo_trio.admin.audit_event import record_command
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import format_instant, print_json, print_status, print_table
from mmo_trio.cli.support.target import CommandTarget, find_target, json_option, target_options
from mmo_trio.settings.errors import near_match
from mmo_trio.settings.service import provider_titles
from mmo_trio.storage.interface.admin_types import ClosedProvider
from mmo_trio.storage.interface.store import Store


@click.group()
def providers() -> None:
    """Providers of mobile money."""


@providers.command("list")
@target_options
@json_option
def list_(data: Path | None, config: Path | None, as_json: bool) -> None:
    """List the configured providers, and which are closed for new payments."""
    place = find_target(data, config)
    closed = {
        each.name: each for each in place.with_store(lambda store: store.admin.closed_providers())
    }
    titles = _provider_titles(place)
    rows = [_provider_row(place, name, title, closed.get(name)) for name, title in titles.items()]
    if as_json:
        print_json(rows)
    else:
        names = ("name", "kind", "title", "open", "closedAt", "closedBy", "reason")
        print_table(names, ([row[name] for name in names] for row in rows))


@providers.command()
@click.argument("name")
@click.option("--reason", required=True, help="Why; shown by `mmo providers list`.")
@click.option("--operator", help="Who decides; by default the user of this machine.")
@target_options
def disable(
    name: str, reason: str, operator: str | None, data: Path | None, config: Path | None
) -> None:
    """Close a provider for new payments, on every node within seconds.

    New payments are taken and fail at once with provider_unavailable; nothing that moves money is sent. Payments that
    were sent before are asked about as always, and its notifications are taken.
    """
    if not reason.strip():
        raise UsageProblem("--reason is empty: say why.")
    place = find_target(data, config)
    _check_provider_exists(place, name)
    closed = ClosedProvider(name, place.clock().now(), operator or getpass.getuser(), reason)

    async def close(store: Store) -> bool:
        subject = f"provider:{name}"
        await record_command(
            store, closed.closed_at, "provider_closed", subject, operator, reason=reason
        )
        return await store.admin.close_provider(closed)

    if not place.with_store(close):
        raise NegativeAnswer(f"{name} is closed already. `mmo providers list` says since when.")
    print_status(
        f"{name} is closed for new payments. `mmo providers enable {name}` opens it again."
    )


@providers.command()
@click.argument("name")
@target_options
def enable(name: str, data: Path | None, config: Path | None) -> None:
    """Open a provider again."""
    place = find_target(data, config)
    now = place.clock().now()

    async def open_(store: Store) -> bool:
        await record_command(store, now, "provider_opened", f"provider:{name}")
        return await store.admin.open_provider(name)

    if not place.with_store(open_):
        _check_provider_exists(place, name)
        raise NegativeAnswer(f"{name} isn't closed.")
    print_status(f"{name} is open.")


def _provider_titles(target: CommandTarget) -> dict[str, str]:
    is_sandbox = target.data_directory is not None
    return dict(provider_titles(target.settings, is_sandbox=is_sandbox))


def _check_provider_exists(target: CommandTarget, name: str) -> None:
    titles = _provider_titles(target)
    if name not in titles:
        raise UsageProblem(f"There is no provider {name}. {near_match(name, titles)}")


def _provider_row(
    target: CommandTarget, name: str, title: str, closed: ClosedProvider | None
) -> dict[str, object]:
    section = target.settings.providers.get(name)
    return {
        "name": name,
        "kind": section.kind if section else "sandbox",
        "title": title,
        "open": closed is None,
        "closedAt": closed and format_instant(closed.closed_at),
        "closedBy": closed and closed.closed_by,
        "reason": closed and closed.reason,
    }
