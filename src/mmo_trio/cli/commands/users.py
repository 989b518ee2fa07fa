"""`mmo users` shows and changes the users of the console."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from argon2 import PasswordHasher
from attrs import evolve

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import format_instant, print_status
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.console.passwords import UnusablePassword, hash_password
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role, SecondFactor
from mmo_trio.storage.sql.store import Store

# Names stand in tables and in the audit log.
NAME_CHARACTERS_MAX = 64

password_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, a line."
)


@click.group()
def users() -> None:
    """Show and change the users of the console."""


@users.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="viewer: looks, personal data masked; support: sees it, closes suspense entries, proposes;"
    " approver: also approves; admin: also closes providers and reads the audit log.",
)
@password_option
@target_options
def add(name: str, role: str, password_stdin: bool, target: CommandTarget) -> None:
    """Add a user; the command asks for the password."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        raise UsageProblem(f"A name has 1 to {NAME_CHARACTERS_MAX} printable characters.")

    now = target.clock().wall_time()
    user = ConsoleUser(name, Role(role), _read_password_hash(from_stdin=password_stdin), now)

    async def add_user(store: Store) -> bool:
        # Before the audit log says that somebody was added.
        if any(user.name == name for user in await store.admin.users()):
            return False
        await target.record(store, "user_added", f"user:{name}", role=role)
        return await store.admin.add_user(user)

    if not target.with_store(add_user):
        raise NegativeAnswer(f"There is a user {name} already. `mmo users list` shows all.")

    print_status(f"{name} may sign in as {role}.")


@users.command("list")
@target_options
@json_option
def list_(target: CommandTarget, as_json: bool) -> None:
    """List the users."""

    async def list_users(store: Store) -> list[dict[str, object]]:
        factors = {
            second_factor.user: second_factor
            for second_factor in await store.admin.second_factors()
        }
        # A user without a second factor has none of its times.
        without = SecondFactor("")
        return [
            {
                "name": user.name,
                "role": user.role,
                "addedAt": format_instant(user.added_at),
                "disabledAt": format_instant(user.disabled_at),
                "secondFactorAt": format_instant(factors.get(user.name, without).confirmed_at),
                "lockedAt": format_instant(factors.get(user.name, without).locked_at),
            }
            for user in await store.admin.users()
        ]

    columns = ("name", "role", "addedAt", "disabledAt", "secondFactorAt", "lockedAt")
    print_rows(columns, target.with_store(list_users), as_json=as_json)


@users.command()
@click.argument("name")
@target_options
def disable(name: str, target: CommandTarget) -> None:
    """Disable a user, whose sessions end at once."""
    now = target.clock().wall_time()
    _change_user(target, name, "user_disabled", lambda user: evolve(user, disabled_at=now))
    print_status(f"{name} can't sign in any more. `mmo users enable {name}` permits it again.")


@users.command()
@click.argument("name")
@target_options
def enable(name: str, target: CommandTarget) -> None:
    """Let a user sign in again who was disabled, or whose second factor was locked by wrong
    codes."""
    _change_user(target, name, "user_enabled", lambda user: evolve(user, disabled_at=None))
    print_status(f"{name} may sign in again.")


@users.command()
@click.argument("name")
@password_option
@target_options
def password(name: str, password_stdin: bool, target: CommandTarget) -> None:
    """Change a user's password; the user's sessions end at once."""
    # Before the password is asked for: a name that is wrong shows at once.
    target.with_store(lambda store: _find_user(store, name))
    hashed = _read_password_hash(from_stdin=password_stdin)
    _change_user(target, name, "password_changed", lambda user: evolve(user, password_hash=hashed))
    print_status(f"{name} has another password.")


@users.group()
def totp() -> None:
    """Remove the second factors of users."""


@totp.command()
@click.argument("name")
@target_options
def reset(name: str, target: CommandTarget) -> None:
    """Remove a user's second factor and recovery codes, for example when the phone is lost.

    The user's sessions end at once. Where a second factor is required, the user sets up another one
    after the next sign-in."""

    async def reset_factor(store: Store) -> bool:
        await _find_user(store, name)
        await target.record(store, "second_factor_reset", f"user:{name}")
        return await store.admin.remove_second_factor(name)

    if not target.with_store(reset_factor):
        raise NegativeAnswer(f"{name} has no second factor.")

    print_status(
        f"{name} has no second factor any more. Change the password, too, if it may be known "
        f"to others."
    )


def _change_user(
    target: CommandTarget, name: str, action: str, change: Callable[[ConsoleUser], ConsoleUser]
) -> None:
    async def change_user(store: Store) -> None:
        user = await _find_user(store, name)
        # Recorded first: no user is changed without an event that says so.
        await target.record(store, action, f"user:{name}")
        await store.admin.replace_user(change(user))

    target.with_store(change_user)


async def _find_user(store: Store, name: str) -> ConsoleUser:
    user = await store.admin.user(name)
    if user is None:
        raise NegativeAnswer(f"There is no user {name}. `mmo users list` shows all.")
    return user


def _read_password_hash(*, from_stdin: bool) -> str:
    """Return the hash of the typed password, or of a line of standard input, by the hasher of the
    context, if any."""
    # A line feed belongs to the line, and not to the password.
    if from_stdin:
        typed = sys.stdin.readline().rstrip("\r\n")
    else:
        typed = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    try:
        return hash_password(click.get_current_context().ensure_object(PasswordHasher), typed)
    except UnusablePassword as fault:
        raise UsageProblem(f"Not taken: {fault}.") from None
