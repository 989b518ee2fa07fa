"""A file is brought to the schema of a later version, with all its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from mmo_sansio.messages.inputs import BeginSubmission, Input
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.sqlite import open_sqlite, startup
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.time_limits import HANGS_AFTER_S

LATER = {
    2: "CREATE TABLE colours (name TEXT PRIMARY KEY);\nALTER TABLE transactions ADD COLUMN "
    "colour TEXT;\n"
}
"""What a later version might bring."""


async def test_a_later_version_adds_to_a_file_that_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, steps = tmp_path / "gateway.db", list[tuple[int, int]]()

    def report(number: int, last: int) -> None:
        steps.append((number, last))

    with trio.fail_after(HANGS_AFTER_S), capture_logs() as logged:
        async with open_sqlite(file, serving=True) as store:
            inputs: list[Input] = [
                creation(1),
                BeginSubmission(reference(1)),
                succeeded(1),
                creation(2),
            ]
            await submit_batch(store, *((each, after_noon(at)) for at, each in enumerate(inputs)))
            before = [await store.transaction(reference(number)) for number in (1, 2)]
            told = [await store.admin.timeline(reference(number)) for number in (1, 2)]
        every = startup.scripts() | LATER
        monkeypatch.setattr(startup, "scripts", lambda: every)
        monkeypatch.setattr(startup, "scripts", lambda: every)
        with pytest.raises(
            StoreUnusable, match=r"has schema 1: bring it up to date with `mmo db migrate`"
        ):
            async with open_sqlite(file, serving=False):
                pass
        for _ in range(2):
            async with open_sqlite(file, serving=True, report_migration=report) as store:
                assert [await store.transaction(reference(number)) for number in (1, 2)] == before
                assert [await store.admin.timeline(reference(number)) for number in (1, 2)] == told
                assert not await store.integrity_errors()
    assert steps == [(2, 2)]
    [migrated] = [each for each in logged if each["event"] == "store_migrated"]
    assert (migrated["from"], migrated["to"], migrated["way_back"]) == (1, 2, "a backup of before")
    assert migrated["seconds"] >= 0
