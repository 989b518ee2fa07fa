"""The mark of a store in its file: written as a whole, shared by processes, and never taken
back."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.resilience.store_mark import StoreMark, StoreState
from mmo_sansio.values.clock import Instant
from mmo_trio.service.store_recognition import read_mark, write_mark
from mmo_trio.system.damaged_file import DamagedFile


@pytest.mark.spec("C6")
def test_a_mark_never_goes_back(tmp_path: Path) -> None:
    file, later = tmp_path / "store.mark", StoreMark("one", 7, 3, Instant(5), 2)
    assert read_mark(file) is None
    write_mark(file, StoreState(later))
    assert read_mark(file) == later
    write_mark(file, StoreState(StoreMark("one", 6, 3)))
    assert read_mark(file) == later, "a slower process of the same machine"
    write_mark(file, StoreState(StoreMark("one", 6, 9)))
    assert read_mark(file) == later, "commands that have used an older backup"
    write_mark(file, StoreState(StoreMark("two", 9)))
    assert read_mark(file) == later, "another store"

    write_mark(file, StoreState(StoreMark("two", 1), frozenset({"one"})))
    assert read_mark(file) == StoreMark("two", 1), "the store was prepared and named anew"
    write_mark(file, StoreState(later))
    assert read_mark(file) == StoreMark("two", 1), "what a process knew before that"
    assert [each.name for each in tmp_path.iterdir()] == ["store.mark"], "nothing is left aside"


@pytest.mark.spec("C6")
def test_a_draft_that_another_user_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    file, draft = tmp_path / "store.mark", tmp_path / ".store.mark.part"
    draft.write_text("{")
    draft.chmod(0o000)
    write_mark(file, StoreState(StoreMark("one", 7)))
    assert read_mark(file) == StoreMark("one", 7)
    assert file.stat().st_mode & 0o777 == 0o644, "also where a command of root wrote it"


@pytest.mark.spec("C6")
@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"epoch": 7}', '{"store_id": "one", "epoch": 7, "more": 1}']
)
def test_a_damaged_mark_is_never_taken_for_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "store.mark"
    file.write_text(content)
    with pytest.raises(DamagedFile, match=r"store\.mark .*mmo db restored"):
        read_mark(file)
