"""Hints that wait for the store stand in a file, whole and for nobody else, until it has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from attrs import evolve

from mmo_sansio.messages.inputs import ProviderHinted
from mmo_sansio.testing import KES, REFERENCE, hinted, numbered_reference
from mmo_sansio.values.model import Evidence
from mmo_trio.workers.providers import kept_hints
from mmo_trio.workers.providers.kept_hints import HintFile, hint_file_of

FULL = ProviderHinted(
    REFERENCE,
    "mpesa_ke",
    "a line\nand h\u00e9 more",
    native_code="0",
    evidence=Evidence("RKL51ZDR4F", "0", KES(150), settles=True),
    version=3,
    says_paid=True,
)
"""A hint with everything that it can have."""


async def call_at_once(call: Callable[[], None]) -> None:
    await trio.lowlevel.checkpoint()
    call()


@pytest.mark.spec("P5")
async def test_a_kept_hint_is_read_as_it_came_and_goes_once_it_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db.hints"
    first = HintFile(path)
    await first.append(FULL)
    await first.append(hinted())
    assert path.stat().st_mode & 0o777 == 0o600
    following = HintFile(path)
    left = await following.load()
    assert [hint for _, hint in left] == [FULL, hinted()]
    for number, _ in left:
        assert path.exists()
        await following.conclude(number)
    assert not path.exists()


@pytest.mark.spec("P5")
async def test_a_line_that_was_written_in_part_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db.hints"
    path.write_bytes(kept_hints.format_hint(FULL)[:40])
    file = HintFile(path, call_at_once)
    assert await file.load() == []
    await file.append(FULL)
    assert [hint for _, hint in await HintFile(path, call_at_once).load()] == [FULL]


@pytest.mark.spec("P5")
async def test_what_was_not_read_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gateway.db.hints"
    await HintFile(path, call_at_once).append(FULL)
    monkeypatch.setattr(kept_hints, "LINES_MAX", 1)
    file = HintFile(path, call_at_once)
    for number in range(3):
        await file.conclude(await file.append(hinted(numbered_reference(number))))
    assert FULL in [hint for _, hint in await HintFile(path, call_at_once).load()]


async def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_hints, "LINES_MAX", 4)
    file = HintFile(tmp_path / "gateway.db.hints", call_at_once)
    assert await file.load() == []
    await file.append(FULL)
    for number in range(20):
        stored = await file.append(hinted(numbered_reference(number)))
        await file.conclude(stored)
    left = await HintFile(file.path, call_at_once).load()
    assert FULL in [hint for _, hint in left]
    assert len(left) <= 4
    with pytest.raises(ValueError, match="too long"):
        await file.append(evolve(FULL, content="x" * kept_hints.LINE_BYTES_MAX))


def test_hints_stand_beside_a_database_that_is_a_file_or_in_the_data_directory() -> None:
    beside = Path("/var/lib/mmo/gateway.db.hints")
    assert hint_file_of("sqlite:////var/lib/mmo/gateway.db", None) == beside
    postgres = "postgresql://mmo@db/mmo"
    assert hint_file_of(postgres, Path("/var/lib/mmo")) == Path("/var/lib/mmo/gateway.hints")
    assert hint_file_of(postgres, None) is None
