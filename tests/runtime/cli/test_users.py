"""`mmo users` and `mmo audit` work, and commands leave audit events."""

from __future__ import annotations

import json
import os
import pwd
import sqlite3
from pathlib import Path

import pytest
import trio
from argon2 import PasswordHasher
from click.testing import CliRunner, Result

from mmo_sansio.values.clock import Instant
from mmo_trio.admin.auditing import audit_event
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import create_master_key, load_master_keys
from mmo_trio.cli.group import main
from mmo_trio.cli.support.target import machine_user
from mmo_trio.storage.interface.admin_types import AuditEvent
from mmo_trio.storage.interface.audit_chain import row_hash
from mmo_trio.storage.open_store import open_store
from tests.support.password_hasher import CHEAP_HASHER

PASSWORD = "correct horse battery"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sandbox's data folder with an empty store."""

    async def make() -> None:
        async with open_store(f"sqlite:///{tmp_path / 'gateway.db'}", serving=False):
            pass

    trio.run(make)
    return tmp_path


def mmo(
    folder: Path,
    *words: str,
    typed: str | None = None,
    password_hasher: PasswordHasher | None = CHEAP_HASHER,
) -> Result:
    """Give a command; without a hasher, it uses its own."""
    return CliRunner().invoke(
        main, [*words, "--data", str(folder)], input=typed, obj=password_hasher
    )


def add(folder: Path, name: str = "ada", role: str = "admin") -> Result:
    """Add a user of the console."""
    words = ("users", "add", name, "--role", role, "--password-stdin")
    return mmo(folder, *words, typed=f"{PASSWORD}\n")


async def five_events(folder: Path) -> None:
    """Rows 1 to 5 of the audit log."""
    create_master_key(folder / "master.key")
    key = KeyRing(*load_master_keys(folder / "master.key")).audit_key
    async with open_store(f"sqlite:///{folder / 'gateway.db'}", serving=False) as store:
        for number in range(5):
            event = audit_event(
                Instant(number), "cli:somebody", "looked", f"payment:{number}", why="a test"
            )
            await store.admin.append_audit(event, key)


def forge(folder: Path, *, begin: int, with_macs: bool) -> None:
    """Change every actor from a row on and hash the log again, which needs no key; macs are kept or
    removed."""
    with sqlite3.connect(folder / "gateway.db") as connection:
        rows = connection.execute(
            "SELECT number, at, act, about, detail, previous FROM audit ORDER BY number"
        )
        previous = ""
        for number, at, action, about, detail, kept in rows.fetchall():
            if number < begin:
                continue
            previous = previous or kept
            event = AuditEvent(at, "user:eve", action, about, detail)
            hash = row_hash(number, event, previous)
            values = (event.actor, previous, hash, number)
            connection.execute(
                "UPDATE audit SET actor = ?, previous = ?, hash = ? WHERE number = ?", values
            )
            previous = hash
        connection.execute("UPDATE audit_head SET hash = ?", (previous,))
        if not with_macs:
            connection.execute("UPDATE audit SET mac = '', key_id = '' WHERE number >= ?", (begin,))
    connection.close()


def change(folder: Path, statement: str) -> None:
    """What somebody does who can write to the database."""
    with sqlite3.connect(folder / "gateway.db") as connection:
        connection.execute(statement)
    connection.close()


def test_users_are_added_listed_disabled_and_given_passwords(folder: Path) -> None:
    assert add(folder).exit_code == 0
    assert add(folder).exit_code == 1
    assert add(folder, "  ").exit_code == 2
    assert add(folder, "bob", "boss").exit_code == 2
    short = mmo(folder, "users", "add", "eve", "--role", "viewer", typed="short\nshort\n")
    assert short.exit_code == 2
    assert "12 to 256" in short.output
    typed = f"{PASSWORD}\n{PASSWORD}\n"
    assert mmo(folder, "users", "add", "vera", "--role", "viewer", typed=typed).exit_code == 0
    assert mmo(folder, "users", "password", "vera", typed=typed).exit_code == 0
    assert mmo(folder, "users", "password", "nobody", typed=typed).exit_code == 1
    assert mmo(folder, "users", "disable", "vera").exit_code == 0
    listed = json.loads(mmo(folder, "users", "list", "--json").stdout)
    assert [(each["name"], each["role"]) for each in listed] == [
        ("ada", "admin"),
        ("vera", "viewer"),
    ]
    assert [each["disabledAt"] is None for each in listed] == [True, False]
    assert mmo(folder, "users", "enable", "vera").exit_code == 0
    raw = b"".join(each.read_bytes() for each in folder.glob("gateway.db*"))
    assert PASSWORD.encode() not in raw
    assert b"$argon2id$" in raw


def test_a_second_factor_that_nobody_has_is_not_reset(folder: Path) -> None:
    add(folder)
    for name, answer in (
        ("ada", "ada has no second factor"),
        ("nobody", "There is no user nobody"),
    ):
        refused = mmo(folder, "users", "totp", "reset", name)
        assert (refused.exit_code, answer in refused.stderr) == (1, True)


def test_passwords_are_hashed_as_rfc_9106_recommends(folder: Path) -> None:
    words = ("users", "add", "ada", "--role", "admin", "--password-stdin")
    assert mmo(folder, *words, typed=f"{PASSWORD}\n", password_hasher=None).exit_code == 0
    raw = b"".join(each.read_bytes() for each in folder.glob("gateway.db*"))
    assert b"$argon2id$v=19$m=65536,t=3,p=4$" in raw


def test_what_is_refused_does_not_stand_in_the_audit_log_as_done(folder: Path) -> None:
    assert [add(folder).exit_code for _ in range(2)] == [0, 1]
    events = json.loads(mmo(folder, "audit", "list", "--json").stdout)
    assert [each["act"] for each in events].count("user_added") == 1


def test_commands_stand_in_the_audit_log(folder: Path) -> None:
    add(folder)
    mmo(folder, "providers", "disable", "sandbox", "--reason", "a test", "--user", "kim")
    mmo(folder, "suspense", "close", "1", "--note", "nothing there")
    rows = json.loads(mmo(folder, "audit", "list", "--json").stdout)
    acts = [(row["act"], row["about"]) for row in reversed(rows)]
    assert acts == [
        ("user_added", "user:ada"),
        ("provider_closed", "provider:sandbox"),
        ("suspense_closed", "suspense:1"),
    ]
    assert (rows[1]["actor"], rows[1]["detail"]["user"]) == (f"cli:{machine_user().name}", "kim")
    assert rows[0]["previous"] == rows[1]["hash"]
    about = json.loads(mmo(folder, "audit", "list", "--about", "user:ada", "--json").stdout)
    assert [row["number"] for row in about] == [1]


def test_the_environment_cannot_change_who_did_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "mallory")
    monkeypatch.setenv("SUDO_USER", "ada")
    mmo(folder, "providers", "disable", "sandbox", "--reason", "a test")
    [row] = json.loads(mmo(folder, "audit", "list", "--json").stdout)
    assert row["actor"] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert row["detail"]["sudoUser"] == "ada"
    [provider] = json.loads(mmo(folder, "providers", "list", "--json").stdout)
    assert provider["closedBy"] == pwd.getpwuid(os.getuid()).pw_name


def test_the_kernel_says_who_logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = tmp_path / "loginuid"
    monkeypatch.setattr("mmo_trio.cli.support.target.LOGIN_USER_FILE", login)
    me = pwd.getpwuid(os.getuid()).pw_name
    for text, expected in (
        ("4294967295", None),
        ("", None),
        (str(os.getuid()), None),
        ("1234567", "1234567"),
    ):
        login.write_text(text)
        assert (machine_user().name, machine_user().login_user) == (me, expected)


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit SET actor = 'user:eve' WHERE number = 3",
        "UPDATE audit SET at = at + 1 WHERE number = 3",
        "UPDATE audit SET hash = previous WHERE number = 3",
        "DELETE FROM audit WHERE number = 3",
        "DELETE FROM audit WHERE number = 5",
        "DELETE FROM audit WHERE number = 1",
        "DELETE FROM audit",
        "UPDATE audit SET number = CASE number WHEN 3 THEN -4 ELSE -3 END WHERE number IN (3, 4)",
        "UPDATE audit SET detail = '{}' WHERE number = 5",
        "INSERT INTO audit SELECT 6, at, actor, act, about, detail, previous, hash, key_id, mac "
        "FROM audit LIMIT 1",
    ],
)
def test_what_is_changed_removed_or_reordered_is_found(folder: Path, tampering: str) -> None:
    trio.run(five_events, folder)
    whole = mmo(folder, "audit", "verify")
    assert (whole.exit_code, whole.stdout[:2]) == (0, "5:")
    change(folder, tampering)
    if "-4" in tampering:
        change(folder, "UPDATE audit SET number = -number WHERE number < 0")
    found = mmo(folder, "audit", "verify")
    assert found.exit_code == 1, tampering
    assert "not whole" in found.output


@pytest.mark.parametrize("with_macs", [True, False])
@pytest.mark.parametrize("begin", [1, 4])
def test_a_forged_log_is_not_authentic(folder: Path, begin: int, with_macs: bool) -> None:
    trio.run(five_events, folder)
    forge(folder, begin=begin, with_macs=with_macs)
    found = mmo(folder, "audit", "verify")
    assert (found.exit_code, "authentic" in found.output) == (1, True)
    assert mmo(folder, "audit", "verify", "--without-key").exit_code == 0
    add(folder)
    assert mmo(folder, "audit", "verify").exit_code == 1


def test_another_master_key_authenticates_nothing(folder: Path) -> None:
    trio.run(five_events, folder)
    (folder / "master.key").unlink()
    assert mmo(folder, "audit", "verify").exit_code == 2
    assert len(json.loads(mmo(folder, "audit", "list", "--json").stdout)) == 5
    assert mmo(folder, "users", "disable", "ada").exit_code == 1
    assert add(folder).exit_code == 2
    create_master_key(folder / "master.key")
    found = mmo(folder, "audit", "verify")
    assert (found.exit_code, "which this master key can't open" in found.stderr) == (1, True)


def test_a_row_without_a_mac_is_not_authentic(folder: Path) -> None:
    """Not even between rows that have one."""
    trio.run(five_events, folder)
    change(folder, "UPDATE audit SET mac = '' WHERE number IN (2, 3)")
    found = mmo(folder, "audit", "verify")
    assert (found.exit_code, "row 2 was changed: it isn't authentic" in found.stderr) == (1, True)


def test_a_log_that_was_forged_whole_is_found_by_an_end_that_was_kept(folder: Path) -> None:
    add(folder)
    seen = mmo(folder, "audit", "verify").stdout.strip()
    add(folder, "bob")
    assert mmo(folder, "audit", "verify", "--seen", seen).exit_code == 0
    change(folder, "DELETE FROM audit")
    change(folder, f"UPDATE audit_head SET number = 0, hash = '{'0' * 64}'")
    add(folder, "mallory")
    assert mmo(folder, "audit", "verify").exit_code == 0
    assert mmo(folder, "audit", "verify", "--seen", seen).exit_code == 1
    assert mmo(folder, "audit", "verify", "--seen", "1:x").exit_code == 2
