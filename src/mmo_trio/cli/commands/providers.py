"""`mmo providers` lists the providers, and closes one for new payments while it has a fault."""

from __future__ import annotations

import getpass

import click

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import format_instant, print_rows, print_status
from mmo_trio.cli.support.target import CommandTarget, json_option, target_options
from mmo_trio.settings.errors import near_match
from mmo_trio.storage.interface.admin_types import ClosedProvider
from mmo_trio.storage.interface.store import Store


@click.group()
def providers() -> None:
    """Show, close and open providers of mobile money."""


@providers.command("list")
@target_options
@json_option
def list_(target: CommandTarget, as_json: bool) -> None:
    """List the configured providers, and which are closed for new payments."""
    closed = {
        each.name: each for each in target.with_store(lambda store: store.admin.closed_providers())
    }
    rows = [
        _provider_row(target, name, title, closed.get(name))
        for name, title in target.provider_titles().items()
    ]
    columns = ("name", "kind", "title", "open", "closedAt", "closedBy", "reason")
    print_rows(columns, rows, as_json=as_json)


@providers.command()
@click.argument("name")
@click.option("--reason", required=True, help="Why; shown by `mmo providers list`.")
@click.option("--operator", help="Who decides; by default the user of this machine.")
@target_options
def disable(name: str, reason: str, operator: str | None, target: CommandTarget) -> None:
    """Close a provider for new payments, on every node within seconds.

    New payments are accepted and fail at once with provider_unavailable; no request that moves
    money is sent. Payments that were sent before are polled as always, and notifications are
    accepted.
    """
    if not reason.strip():
        raise UsageProblem("--reason is empty: say why.")
    _check_provider_exists(target, name)
    closed = ClosedProvider(name, target.clock().now(), operator or getpass.getuser(), reason)

    async def close(store: Store) -> bool:
        subject = f"provider:{name}"
        await target.record(store, "provider_closed", subject, operator, reason=reason)
        return await store.admin.close_provider(closed)

    if not target.with_store(close):
        raise NegativeAnswer(f"{name} is closed already. `mmo providers list` says since when.")
    print_status(
        f"{name} is closed for new payments. `mmo providers enable {name}` opens it again."
    )


@providers.command()
@click.argument("name")
@target_options
def enable(name: str, target: CommandTarget) -> None:
    """Open a provider again."""

    async def open_(store: Store) -> bool:
        await target.record(store, "provider_opened", f"provider:{name}")
        return await store.admin.open_provider(name)

    if not target.with_store(open_):
        _check_provider_exists(target, name)
        raise NegativeAnswer(f"{name} isn't closed.")
    print_status(f"{name} is open.")


def _check_provider_exists(target: CommandTarget, name: str) -> None:
    titles = target.provider_titles()
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
