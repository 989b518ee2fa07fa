"""Every inbox lets each result be taken once, together with the work of its handler."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import evolve

from mmo_merchant import GapProgress, Inbox, PostgresInbox, SqliteInbox, WatchedPayment
from mmo_merchant.inbox import sql_inbox
from mmo_sansio.values.clock import from_datetime
from tests.support.time_limits import HANGS_AFTER_S

NOW = datetime(2026, 11, 22, 9, 30, 0, 123_456, tzinfo=UTC)
AnyInbox = Inbox[Any]


@pytest.fixture(params=["sqlite", "postgres"])
def open_inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AnyInbox]:
    """Return a function that opens the same inbox, as another program would, with a table of the
    merchant's own."""
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE orders (reference TEXT)")
        return partial(SqliteInbox, path)
    url: str = request.getfixturevalue("database")
    with psycopg.connect(url) as own:
        own.execute("CREATE TABLE orders (reference TEXT)")
    inbox = PostgresInbox(lambda: psycopg.connect(url))
    inbox.create_tables()
    inbox.create_tables()
    return lambda: PostgresInbox(lambda: psycopg.connect(url))


@pytest.fixture
def inbox(open_inbox: Callable[[], AnyInbox]) -> AnyInbox:
    """Return the inbox."""
    return open_inbox()


def paid(inbox: AnyInbox) -> list[str]:
    """Return the orders that a handler has marked as paid."""
    with inbox.take("look") as connection:
        assert connection is not None
        found = connection.execute("SELECT reference FROM orders ORDER BY reference").fetchall()
        connection.execute("DELETE FROM mmo_taken_results WHERE gateway_reference = 'look'")
    return [row[0] for row in found]


def take(inbox: AnyInbox, reference: str) -> bool:
    """Take a result and mark its order; return whether it was new."""
    with inbox.take(reference) as connection:
        if connection is None:
            return False
        connection.execute(f"INSERT INTO orders VALUES ('{reference}')")
    return True


def test_a_result_is_taken_once_with_its_work(open_inbox: Callable[[], AnyInbox]) -> None:
    assert take(open_inbox(), "A")
    assert not take(open_inbox(), "A")
    assert take(open_inbox(), "B")
    assert paid(open_inbox()) == ["A", "B"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_work_that_fails_takes_nothing(inbox: AnyInbox, error: type[BaseException]) -> None:
    def fail() -> None:
        with inbox.take("A") as connection:
            assert connection is not None
            connection.execute("INSERT INTO orders VALUES ('A')")
            raise error

    with pytest.raises(error):
        fail()
    assert paid(inbox) == []
    assert take(inbox, "A")
    assert paid(inbox) == ["A"]


@pytest.mark.parametrize("first_fails", [False, True])
def test_of_two_at_the_same_time_one_waits_for_the_other(
    open_inbox: Callable[[], AnyInbox], first_fails: bool
) -> None:
    """The second learns whether the first has succeeded, and takes the result if it has not."""
    began, outcomes = threading.Event(), list[bool]()

    def second() -> None:
        began.wait(HANGS_AFTER_S)
        outcomes.append(take(open_inbox(), "A"))

    thread = threading.Thread(target=second)
    thread.start()
    with contextlib.suppress(RuntimeError), open_inbox().take("A"):
        began.set()
        if first_fails:
            raise RuntimeError
    thread.join(HANGS_AFTER_S)
    assert outcomes == [first_fails]


def test_of_many_at_once_one_takes_it(open_inbox: Callable[[], AnyInbox]) -> None:
    outcomes: list[bool] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(take(open_inbox(), "A"))) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(HANGS_AFTER_S)
    assert sorted(outcomes) == [False] * 7 + [True]
    assert paid(open_inbox()) == ["A"]


def a_progress(**changes: Any) -> GapProgress:
    """The progress of a listing that is active."""
    hour = timedelta(hours=1)
    progress = GapProgress(
        through=NOW, list_at=NOW + hour, window_end=NOW + hour, through_after=NOW, page="cursor"
    )
    return evolve(progress, **changes)


def a_watch(reference: str, *, created_s: int = 0, ask_s: int = 0) -> WatchedPayment:
    """A watched payment, created and due so many seconds after NOW."""
    return WatchedPayment(
        gateway_reference=reference,
        created_at=NOW + timedelta(seconds=created_s),
        ask_at=NOW + timedelta(seconds=ask_s),
    )


def test_progress_survives_a_restart(open_inbox: Callable[[], AnyInbox]) -> None:
    assert open_inbox().load_progress() is None
    assert open_inbox().save_progress(a_progress())
    assert open_inbox().load_progress() == a_progress()
    bare = GapProgress(through=NOW, list_at=NOW, version=1)
    assert open_inbox().save_progress(bare)
    assert open_inbox().load_progress() == bare


def test_of_two_programs_that_go_on_at_once_one_fails(open_inbox: Callable[[], AnyInbox]) -> None:
    one, other = open_inbox(), open_inbox()
    assert one.save_progress(a_progress())
    assert not other.save_progress(a_progress(page="other"))
    assert one.save_progress(a_progress(version=1))
    assert not other.save_progress(a_progress(version=1, page="other"), watched=[a_watch("A")])
    assert not other.save_progress(a_progress(version=3))
    assert other.load_progress() == a_progress(version=1)
    assert other.next_watched(NOW + timedelta(days=1)) is None, "a save that fails stores nothing"


def test_a_look_up_of_one_program_hinders_no_listing_of_another(
    open_inbox: Callable[[], AnyInbox],
) -> None:
    """Of two that look one payment up at once, one fails; a listing that goes on meanwhile
    doesn't."""
    one, other = open_inbox(), open_inbox()
    first, then, last = (a_watch("A", ask_s=seconds) for seconds in (0, 120, 240))
    assert one.save_progress(a_progress(), watched=[first])
    assert one.save_progress(a_progress(version=1))
    assert other.begin_look_up(first, then)
    assert not one.begin_look_up(first, last)
    assert one.save_progress(a_progress(version=2)), "the listing goes on"
    assert one.next_watched(NOW + timedelta(days=1)) == then
    assert one.begin_look_up(then, last)


def test_the_watched_payment_that_is_due_first_comes_first(inbox: AnyInbox) -> None:
    day = NOW + timedelta(days=1)
    watched = [
        a_watch("late", ask_s=30),
        a_watch("soon", ask_s=10, created_s=100),
        a_watch("next", ask_s=20),
    ]
    inbox.save_progress(a_progress(), watched=watched)
    assert inbox.next_watched(day) == watched[1]
    assert inbox.next_watched(NOW + timedelta(seconds=100)) == watched[2], "created before"
    inbox.save_watched([a_watch("soon", ask_s=40, created_s=100)], forgotten=["next"])
    assert inbox.next_watched(day) == watched[0]
    assert take(inbox, "late")
    assert inbox.next_watched(day) == a_watch("soon", ask_s=40, created_s=100)
    inbox.save_progress(a_progress(version=1), watched=[a_watch("late", ask_s=5)])
    assert inbox.next_watched(day) == a_watch("soon", ask_s=40, created_s=100), (
        "its result was taken"
    )


def test_old_results_are_forgotten_when_asked(
    open_inbox: Callable[[], SqliteInbox | PostgresInbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = open_inbox()
    monkeypatch.setattr(sql_inbox, "_now", lambda: 1_000_000)
    assert take(inbox, "old")
    monkeypatch.undo()
    assert take(inbox, "new")
    inbox.purge(NOW - timedelta(days=365))
    assert take(inbox, "old")
    assert not take(inbox, "new")


def test_what_is_forgotten_is_not_watched_any_more(
    open_inbox: Callable[[], SqliteInbox | PostgresInbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback may come while the listing that shows its payment as pending is read: the watch is
    stored after the result was taken, and must not bring the result again when its mark is
    purged."""
    inbox = open_inbox()
    monkeypatch.setattr(sql_inbox, "_now", lambda: 1_000_000)
    assert take(inbox, "A")
    inbox.save_progress(a_progress(), watched=[a_watch("A")])
    inbox.purge(NOW - timedelta(days=365))
    assert inbox.next_watched(NOW + timedelta(days=1)) is None


def test_nothing_is_forgotten_that_may_be_listed_again(
    open_inbox: Callable[[], SqliteInbox | PostgresInbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap closer that did not run for months lists from where it was."""
    inbox = open_inbox()
    monkeypatch.setattr(sql_inbox, "_now", lambda: from_datetime(NOW - timedelta(days=60)))
    assert take(inbox, "A")
    inbox.save_progress(a_progress(through=NOW - timedelta(days=70)))
    inbox.purge(NOW - timedelta(days=30))
    assert not take(inbox, "A")
    inbox.save_progress(a_progress(version=1))
    inbox.purge(NOW - timedelta(days=30))
    assert take(inbox, "A")
