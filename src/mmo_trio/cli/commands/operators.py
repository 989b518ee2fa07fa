"""`mmo operators`: who may sign in at the console."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
from attrs import evolve

from mmo_trio.admin.audit_event import record_command
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import format_instant, print_json, print_status, print_table
from mmo_trio.cli.support.target import CommandTarget, find_target, json_option, target_options
from mmo_trio.console.passwords import UnusablePassword, hash_password
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role
from mmo_trio.storage.interface.store import Store

NAME_CHARACTERS_MAX = 64

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
@target_options
def add(name: str, role: str, password_stdin: bool, data: Path | None, config: Path | None) -> None:
    """Add an operator; the password is asked for."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        raise UsageProblem(f"A name has 1 to {NAME_CHARACTERS_MAX} printable characters.")
    place = find_target(data, config)
    now = place.clock().now()
    operator = ConsoleUser(name, Role(role), _read_password_hash(from_stdin=password_stdin), now)

    async def added(store: Store) -> bool:
        await record_command(store, now, "operator_added", f"operator:{name}", role=role)
        return await store.admin.add_user(operator)

    if not place.with_store(added):
        raise NegativeAnswer(
            f"There is an operator {name} already. `mmo operators list` shows all."
        )
    print_status(f"{name} may sign in as {role}.")


@operators.command("list")
@target_options
@json_option
def list_(data: Path | None, config: Path | None, as_json: bool) -> None:
    """List the operators."""
    every = find_target(data, config).with_store(lambda store: store.admin.users())
    rows: list[dict[str, object]] = [
        {
            "name": each.name,
            "role": each.role,
            "addedAt": format_instant(each.added_at),
            "disabledAt": format_instant(each.disabled_at),
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
@target_options
def disable(name: str, data: Path | None, config: Path | None) -> None:
    """Let an operator sign in no more; its sessions end at once."""
    place = find_target(data, config)
    now = place.clock().now()
    _change_user(place, name, "operator_disabled", lambda was: evolve(was, disabled_at=now))
    print_status(f"{name} can't sign in any more. `mmo operators enable {name}` lets it again.")


@operators.command()
@click.argument("name")
@target_options
def enable(name: str, data: Path | None, config: Path | None) -> None:
    """Let a disabled operator sign in again."""
    place = find_target(data, config)
    _change_user(place, name, "operator_enabled", lambda was: evolve(was, disabled_at=None))
    print_status(f"{name} may sign in again.")


@operators.command()
@click.argument("name")
@password_option
@target_options
def password(name: str, password_stdin: bool, data: Path | None, config: Path | None) -> None:
    """Give an operator another password; its sessions end at once."""
    place = find_target(data, config)
    _change_user(place, name, None, lambda was: was)
    hashed = _read_password_hash(from_stdin=password_stdin)
    _change_user(place, name, "password_changed", lambda was: evolve(was, password_hash=hashed))
    print_status(f"{name} has another password.")


def _change_user(
    target: CommandTarget,
    name: str,
    action: str | None,
    change: Callable[[ConsoleUser], ConsoleUser],
) -> None:
    """Without an act nothing is changed: it is only seen whether there is such an operator."""
    now = target.clock().now()

    async def changed(store: Store) -> bool:
        was = await store.admin.user(name)
        if was is None or action is None:
            return was is not None
        await record_command(store, now, action, f"operator:{name}")
        return await store.admin.replace_user(change(was))

    if not target.with_store(changed):
        raise NegativeAnswer(f"There is no operator {name}. `mmo operators list` shows all.")


def _read_password_hash(*, from_stdin: bool) -> str:
    """The hash of what is typed, twice; or of a line of standard input."""
    if from_stdin:
        typed = sys.stdin.readline().rstrip("\r\n")
    else:
        typed = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    try:
        return hash_password(typed)
    except UnusablePassword as fault:
        raise UsageProblem(f"Not taken: {fault}.") from None
