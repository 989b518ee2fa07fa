"""`mmo sandbox --reset` begins again: without payments, brands and keys, and with everything else
as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from mmo_sansio.values.clock import DAY, Span
from mmo_trio.cli.commands import serve
from mmo_trio.cli.group import main
from mmo_trio.sandbox.demo_brand import build_demo_brand
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sqlite.files import ServingLock
from mmo_trio.system.clock import read_offset, write_offset


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a sandbox with a brand, whose clock is a day ahead; `mmo sandbox` ends
    before it serves."""

    async def fill() -> None:
        async with open_store(f"sqlite:///{tmp_path}/gateway.db", serving=True) as store:
            await store.admin.save_brands([build_demo_brand(provider="sandbox", title="Sandbox")])

    trio.run(fill)
    write_offset(tmp_path / "clock-offset", Span(DAY))
    for name in (
        "sandbox-provider.ndjson",
        "gateway.db.hints",
        "ca.pem",
        "master.key",
        "notes.txt",
    ):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(serve, "run", lambda *_, **__: None)
    return tmp_path


def sandbox(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["sandbox", "--data", str(data), *arguments])


async def brands_in(data: Path) -> list[str]:
    async with open_store(f"sqlite:///{data}/gateway.db", serving=True) as store:
        return [each.brand.id for each in await store.admin.brands()]


def test_a_reset_removes_the_payments_and_what_belongs_to_them(data: Path) -> None:
    done = sandbox(data, "--reset")
    assert done.exit_code == 0, done.output
    assert trio.run(brands_in, data) == []
    assert read_offset(data / "clock-offset") == 0
    assert not (data / "sandbox-provider.ndjson").exists()
    assert not (data / "gateway.db.hints").exists()
    assert all((data / name).read_text() == name for name in ("ca.pem", "master.key", "notes.txt"))


def test_nothing_is_removed_without_it(data: Path) -> None:
    assert sandbox(data).exit_code == 0
    assert trio.run(brands_in, data) == ["demo"]
    assert read_offset(data / "clock-offset") == DAY


def test_a_running_sandbox_is_not_reset(data: Path) -> None:
    lock = ServingLock(data / "gateway.db")
    try:
        done = sandbox(data, "--reset")
    finally:
        lock.release()
    assert done.exit_code == 3
    assert "another process serves" in done.stderr
    assert trio.run(brands_in, data) == ["demo"]


def test_a_store_elsewhere_is_not_reset(data: Path) -> None:
    file = data / "mmo.toml"
    file.write_text('[database]\nurl = "sqlite:///elsewhere.db"\n')
    done = sandbox(data, "--reset", "--config", str(file))
    assert done.exit_code == 2
    assert "--reset" in done.stderr
    assert trio.run(brands_in, data) == ["demo"]
