"""The simulated operator's journal survives `kill -9`; an incomplete last line is no entry."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmo_sansio.providers.sandbox.journal import (
    SandboxAcknowledgement,
    SandboxJournalEntry,
    SandboxSubmission,
    format_entry,
)
from mmo_sansio.testing import KES, REFERENCE, START
from mmo_sansio.values.clock import Span, later
from mmo_trio.sandbox.operator_worker import OperatorJournal, read_operator_journal
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.system.damaged_file import DamagedFile
from tests.support.time_limits import HANGS_AFTER_S

WRITER = """
import sys
from pathlib import Path
from mmo_sansio.providers.sandbox.journal import SandboxAcknowledgement
from mmo_trio.sandbox.operator_worker import OperatorJournal

journal = OperatorJournal(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    journal.append([SandboxAcknowledgement(number, "R" * 200, number)])
    print(number, flush=True)
"""

ENTRIES: list[SandboxJournalEntry] = [
    SandboxSubmission(
        START, REFERENCE, "payin", KES(150), "+254700000200", "Ä. Ötieno\n", START, "slow"
    ),
    SandboxAcknowledgement(later(START, Span(1)), REFERENCE, 1),
]


@pytest.mark.spec("S6")
def test_written_entries_survive_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as writer:
        assert writer.stdout is not None
        confirmed = 0
        while confirmed < 200:
            confirmed = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        confirmed = max(confirmed, *(int(each) for each in writer.stdout.read().split()[:-1]), 0)
        writer.wait(timeout=HANGS_AFTER_S)
    entries = read_operator_journal(path)
    assert len(entries) >= confirmed
    assert [each.at for each in entries] == list(range(1, len(entries) + 1))
    OperatorJournal(path).close()
    assert read_operator_journal(path) == entries


def test_an_incomplete_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    first, last = (format_entry(each) for each in ENTRIES)
    for torn in range(len(last)):
        path.write_bytes(first + last[:torn])
        assert read_operator_journal(path) == ENTRIES[:1]
        journal = OperatorJournal(path)
        journal.append(ENTRIES[1:])
        journal.close()
        assert read_operator_journal(path) == ENTRIES


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    path.write_bytes(format_entry(ENTRIES[0]) + b"{}\n" + format_entry(ENTRIES[1]))
    with pytest.raises(DamagedFile, match=r"journal\.ndjson, line 2, "):
        read_operator_journal(path)


def test_a_missing_journal_has_no_entries(tmp_path: Path) -> None:
    assert read_operator_journal(tmp_path / "journal.ndjson") == []


def test_entries_that_could_not_be_written_are_written_first_by_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.ndjson"
    journal = OperatorJournal(path)
    real = os.write

    def write_until_full(descriptor: int, data: bytes) -> int:
        if len(data) < 30:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:-10])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_until_full)
        with pytest.raises(OSError, match="No space"):
            journal.append(ENTRIES[:1])
    assert read_operator_journal(path) == []
    journal.append(ENTRIES[1:])
    journal.close()
    assert read_operator_journal(path) == ENTRIES


def test_a_journal_belongs_to_one_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    journal = OperatorJournal(path)
    journal.append(ENTRIES)
    with pytest.raises(StoreUnusable, match="a sandbox is one process"):
        OperatorJournal(path)
    journal.close()
    OperatorJournal(path).close()
    assert read_operator_journal(path) == ENTRIES


def test_only_the_owner_may_read_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    OperatorJournal(path).close()
    assert path.stat().st_mode & 0o077 == 0
