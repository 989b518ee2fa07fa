"""The file of the master key: who may read it, what it may hold, and how it is replaced (A5)."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from mmo_trio.brands.master_key import create_master_key, load_master_keys, replace_master_keys
from mmo_trio.settings import SettingsError

ONE, TWO = (base64.b64encode(bytes([number]) * 32) for number in (1, 2))


def test_a_master_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "master.key"
    create_master_key(path)
    made = load_master_keys(path)
    assert [len(key) for key in made] == [32]
    assert path.stat().st_mode & 0o777 == 0o600
    create_master_key(path)
    assert load_master_keys(path) == made
    assert os.listdir(path.parent) == ["master.key"]


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (None, "Name the file"),
        (b"", "Restore it"),
        (b"AAAA", "Restore it"),
        (b"\xff\xfe nothing", "Restore it"),
        (ONE + b"\nAAAA\n", "Restore it"),
        (ONE + b"\n" + ONE, "Restore it"),
        (b"\n".join((ONE, TWO, base64.b64encode(b"3" * 32))), "Restore it"),
    ],
)
def test_a_master_key_that_cannot_be_used_stops_the_start(
    content: bytes | None, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "master.key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(SettingsError, match=remedy) as raised:
        load_master_keys(path)
    assert "master.key" in str(raised.value)


@pytest.mark.parametrize(
    ("owner", "mode", "accepted"),
    [
        ("self", 0o600, True),
        ("self", 0o400, True),
        ("self", 0o640, False),
        ("self", 0o620, False),
        ("self", 0o604, False),
        ("self", 0o602, False),
        ("self", 0o601, False),
        ("root", 0o400, True),
        ("root", 0o440, True),
        ("root", 0o460, False),
        ("root", 0o444, False),
        ("foreign", 0o400, False),
    ],
)
def test_only_the_gateway_s_user_and_root_may_read_or_change_it(
    owner: str, mode: int, accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "master.key"
    path.write_bytes(ONE)
    path.chmod(mode)
    mine = path.stat().st_uid
    if owner == "root":
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1_000)
        if mine != 0:
            real = path.stat()
            monkeypatch.setattr(
                Path, "stat", lambda self: os.stat_result((*real[:4], 0, *real[5:]))
            )
    else:
        monkeypatch.setattr(os, "geteuid", lambda: mine if owner == "self" else mine + 1_000)
        if mine == 0:  # Root's own files are looked at as those of another user.
            real = path.stat()
            monkeypatch.setattr(
                Path, "stat", lambda self: os.stat_result((*real[:4], 1_000, *real[5:]))
            )
            monkeypatch.setattr(os, "geteuid", lambda: 1_000 if owner == "self" else 2_000)
    if accepted:
        assert load_master_keys(path) == [bytes([1]) * 32]
        return
    with pytest.raises(SettingsError, match=r"chmod 600|chown"):
        load_master_keys(path)


def keys(path: Path) -> Sequence[bytes]:
    return load_master_keys(path)


def test_replaced_keys_keep_the_file_s_permissions_and_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "real.key", tmp_path / "master.key"
    path.write_bytes(ONE)
    path.chmod(0o400)
    link.symlink_to(path)
    replace_master_keys(link, [b"2" * 32, b"1" * 32])
    assert keys(link) == keys(path) == [b"2" * 32, b"1" * 32]
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o400
    assert sorted(os.listdir(tmp_path)) == ["master.key", "real.key"]
