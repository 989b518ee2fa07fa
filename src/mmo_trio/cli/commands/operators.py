"""`mmo operators`: who may sign in at the console."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
from attrs import evolve

from mmo_trio.admin.audit_event import note_command
from mmo_trio.cli.support.errors import Negative, Unusable
from mmo_trio.cli.support.output import moment, print_json, print_table, say
from mmo_trio.cli.support.target import Place, find_place, json_option, place_options
from mmo_trio.console.passwords import UnusablePassword, hash_password
from mmo_trio.storage.interface.admin_types import Operator, Role
from mmo_trio.storage.interface.store import Store

NAME_MAX = 64

password_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, a line."
)


@click.group()
def operators() -> None:
    """Operators of the console."""


@operators.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([each.value for each in Role]),
    required=True,
    help="viewer: looks, personal data masked; support: sees it, closes suspense entries, proposes;"
    " approver: also approves; admin: also closes providers and reads the audit log.",
)
@password_option
@place_options
def add(name: str, role: str, password_stdin: bool, data: Path | None, config: Path | None) -> None:
    """Add an operator; the password is asked for."""
    if not 0 < len(name) <= NAME_MAX or not name.isprintable() or name != name.strip():
        raise Unusable(f"A name has 1 to {NAME_MAX} printable characters.")
    place = find_place(data, config)
    now = place.clock().now()
    operator = Operator(name, Role(role), _password(from_stdin=password_stdin), now)

    async def added(store: Store) -> bool:
        await note_command(store, now, "operator_added", f"operator:{name}", role=role)
        return await store.office.add_operator(operator)

    if not place.with_store(added):
        raise Negative(f"There is an operator {name} already. `mmo operators list` shows all.")
    say(f"{name} may sign in as {role}.")


@operators.command("list")
@place_options
@json_option
def list_(data: Path | None, config: Path | None, as_json: bool) -> None:
    """List the operators."""
    every = find_place(data, config).with_store(lambda store: store.office.operators())
    rows: list[dict[str, object]] = [
        {
            "name": each.name,
            "role": each.role,
            "addedAt": moment(each.added_at),
            "disabledAt": moment(each.disabled_at),
        }
        for each in every
    ]
    if as_json:
        print_json(rows)
    else:
        names = ("name", "role", "addedAt", "disabledAt")
        print_table(names, ([row[name] for name in names] for row in rows))


@operators.command()
@click.argument("name")
@place_options
def disable(name: str, data: Path | None, config: Path | None) -> None:
    """Let an operator sign in no more; its sessions end at once."""
    place = find_place(data, config)
    now = place.clock().now()
    _change(place, name, "operator_disabled", lambda was: evolve(was, disabled_at=now))
    say(f"{name} can't sign in any more. `mmo operators enable {name}` lets it again.")


@operators.command()
@click.argument("name")
@place_options
def enable(name: str, data: Path | None, config: Path | None) -> None:
    """Let a disabled operator sign in again."""
    place = find_place(data, config)
    _change(place, name, "operator_enabled", lambda was: evolve(was, disabled_at=None))
    say(f"{name} may sign in again.")


@operators.command()
@click.argument("name")
@password_option
@place_options
def password(name: str, password_stdin: bool, data: Path | None, config: Path | None) -> None:
    """Give an operator another password; its sessions end at once."""
    place = find_place(data, config)
    _change(place, name, None, lambda was: was)
    hashed = _password(from_stdin=password_stdin)
    _change(place, name, "password_changed", lambda was: evolve(was, password_hash=hashed))
    say(f"{name} has another password.")


def _change(
    place: Place, name: str, act: str | None, change: Callable[[Operator], Operator]
) -> None:
    """Without an act nothing is changed: it is only seen whether there is such an operator."""
    now = place.clock().now()

    async def changed(store: Store) -> bool:
        was = await store.office.operator(name)
        if was is None or act is None:
            return was is not None
        await note_command(store, now, act, f"operator:{name}")
        return await store.office.change_operator(change(was))

    if not place.with_store(changed):
        raise Negative(f"There is no operator {name}. `mmo operators list` shows all.")


def _password(*, from_stdin: bool) -> str:
    """The hash of what is typed, twice; or of a line of standard input."""
    if from_stdin:
        typed = sys.stdin.readline().rstrip("\r\n")
    else:
        typed = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    try:
        return hash_password(typed)
    except UnusablePassword as fault:
        raise Unusable(f"Not taken: {fault}.") from None
