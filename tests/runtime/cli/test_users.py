"""`mmo users` and `mmo audit` work, and commands leave audit events."""

from __future__ import annotations

import os
import pwd
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from mmo_sansio.values.clock import Instant
from mmo_trio.admin.auditing import audit_event
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import create_master_key, load_master_keys
from mmo_trio.cli.support.target import machine_user
from mmo_trio.storage.interface.admin_types import AuditEvent
from mmo_trio.storage.interface.audit_chain import row_hash
from mmo_trio.storage.sql.store import Store
from tests.support.commands import as_json, in_store, mmo, refusal

PASSWORD = "correct horse battery"


@pytest.fixture
def data(data: Path) -> Path:
    """A sandbox's data folder with an empty store."""

    async def nothing(_: Store) -> None:
        """Make the store, and leave it as it is."""

    in_store(data, nothing)
    return data


def add(name: str = "ada", role: str = "admin") -> Result:
    """Add a user of the console."""
    return mmo("users add", name, f"--role={role}", "--password-stdin", typed=f"{PASSWORD}\n")


def five_events(data: Path) -> None:
    """Rows 1 to 5 of the audit log."""
    create_master_key(data / "master.key")
    key = KeyRing(*load_master_keys(data / "master.key")).audit_key

    async def append(store: Store) -> None:
        for number in range(5):
            about = f"payment:{number}"
            event = audit_event(Instant(number), "cli:somebody", "looked", about, why="a test")
            await store.admin.append_audit(event, key)

    in_store(data, append)


def forge(data: Path, *, begin: int, with_macs: bool) -> None:
    """Change every actor from a row on and hash the log again, which needs no key; macs are kept or
    removed."""
    with sqlite3.connect(data / "gateway.db") as connection:
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


def change(data: Path, *statements: str) -> None:
    """What somebody does who can write to the database."""
    with closing(sqlite3.connect(data / "gateway.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_users_are_added_listed_disabled_and_given_passwords(data: Path) -> None:
    assert add().exit_code == 0
    assert add().exit_code == 1
    assert add("  ").exit_code == 2
    assert add("bob", "boss").exit_code == 2
    short = mmo("users add eve --role viewer", typed="short\nshort\n")
    assert short.exit_code == 2
    assert "12 to 256" in short.output
    typed = f"{PASSWORD}\n{PASSWORD}\n"
    assert mmo("users add vera --role viewer", typed=typed).exit_code == 0
    assert mmo("users password vera", typed=typed).exit_code == 0
    assert mmo("users password nobody", typed=typed).exit_code == 1
    assert mmo("users disable vera").exit_code == 0
    listed = as_json("users list")
    assert [(each["name"], each["role"]) for each in listed] == [
        ("ada", "admin"),
        ("vera", "viewer"),
    ]
    assert [each["disabledAt"] is None for each in listed] == [True, False]
    assert mmo("users enable vera").exit_code == 0
    raw = b"".join(each.read_bytes() for each in data.glob("gateway.db*"))
    assert PASSWORD.encode() not in raw
    assert b"$argon2id$" in raw


def test_a_second_factor_that_nobody_has_is_not_reset(data: Path) -> None:
    add()
    assert "ada has no second factor" in refusal(1, "users totp reset ada")
    assert "There is no user nobody" in refusal(1, "users totp reset nobody")


def test_passwords_are_hashed_as_rfc_9106_recommends(data: Path) -> None:
    line = "users add ada --role admin --password-stdin"
    assert mmo(line, typed=f"{PASSWORD}\n", password_hasher=None).exit_code == 0
    raw = b"".join(each.read_bytes() for each in data.glob("gateway.db*"))
    assert b"$argon2id$v=19$m=65536,t=3,p=4$" in raw


def test_what_is_refused_does_not_stand_in_the_audit_log_as_done(data: Path) -> None:
    assert [add().exit_code for _ in range(2)] == [0, 1]
    events = as_json("audit list")
    assert [each["act"] for each in events].count("user_added") == 1


def test_commands_stand_in_the_audit_log(data: Path) -> None:
    add()
    mmo("providers disable sandbox --reason", "a test", "--user", "kim")
    mmo("suspense close 1 --note", "nothing there")
    rows = as_json("audit list")
    acts = [(row["act"], row["about"]) for row in reversed(rows)]
    assert acts == [
        ("user_added", "user:ada"),
        ("provider_closed", "provider:sandbox"),
        ("suspense_closed", "suspense:1"),
    ]
    assert (rows[1]["actor"], rows[1]["detail"]["user"]) == (f"cli:{machine_user().name}", "kim")
    assert rows[0]["previous"] == rows[1]["hash"]
    about = as_json("audit list --about user:ada")
    assert [row["number"] for row in about] == [1]


def test_the_environment_cannot_change_who_did_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "mallory")
    monkeypatch.setenv("SUDO_USER", "ada")
    mmo("providers disable sandbox --reason", "a test")
    [row] = as_json("audit list")
    assert row["actor"] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert row["detail"]["sudoUser"] == "ada"
    [provider] = as_json("providers list")
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
def test_what_is_changed_removed_or_reordered_is_found(data: Path, tampering: str) -> None:
    five_events(data)
    whole = mmo("audit verify")
    assert (whole.exit_code, whole.stdout[:2]) == (0, "5:")
    change(data, tampering)
    if "-4" in tampering:
        change(data, "UPDATE audit SET number = -number WHERE number < 0")
    found = mmo("audit verify")
    assert found.exit_code == 1, tampering
    assert "not whole" in found.output


@pytest.mark.parametrize("with_macs", [True, False])
@pytest.mark.parametrize("begin", [1, 4])
def test_a_forged_log_is_not_authentic(data: Path, begin: int, with_macs: bool) -> None:
    five_events(data)
    forge(data, begin=begin, with_macs=with_macs)
    found = mmo("audit verify")
    assert (found.exit_code, "authentic" in found.output) == (1, True)
    assert mmo("audit verify --without-key").exit_code == 0
    add()
    assert mmo("audit verify").exit_code == 1


def test_another_master_key_authenticates_nothing(data: Path) -> None:
    five_events(data)
    (data / "master.key").unlink()
    assert mmo("audit verify").exit_code == 2
    assert len(as_json("audit list")) == 5
    assert mmo("users disable ada").exit_code == 1
    assert add().exit_code == 2
    create_master_key(data / "master.key")
    found = mmo("audit verify")
    assert (found.exit_code, "which this master key can't open" in found.stderr) == (1, True)


def test_a_row_without_a_mac_is_not_authentic(data: Path) -> None:
    """Not even between rows that have one."""
    five_events(data)
    change(data, "UPDATE audit SET mac = '' WHERE number IN (2, 3)")
    found = mmo("audit verify")
    assert (found.exit_code, "row 2 was changed: it isn't authentic" in found.stderr) == (1, True)


def test_a_log_that_was_forged_whole_is_found_by_an_end_that_was_kept(data: Path) -> None:
    add()
    seen = mmo("audit verify").stdout.strip()
    add("bob")
    assert mmo(f"audit verify --seen {seen}").exit_code == 0
    change(data, "DELETE FROM audit", f"UPDATE audit_head SET number = 0, hash = '{'0' * 64}'")
    add("mallory")
    assert mmo("audit verify").exit_code == 0
    assert mmo(f"audit verify --seen {seen}").exit_code == 1
    assert mmo("audit verify --seen 1:x").exit_code == 2
