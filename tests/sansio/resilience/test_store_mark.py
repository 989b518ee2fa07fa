"""A store that was restored from a backup is recognised by the mark that a machine has kept of it
(C6, S6)."""

from __future__ import annotations

import pytest

from mmo_sansio.resilience.store_mark import Recognition, StoreMark, StoreState, recognise
from mmo_sansio.values.clock import SECOND, Instant, Span

CURRENT, BEHIND, RESTORED, UNMARKED = Recognition


def mark(
    epoch: int,
    *,
    commands: int = 0,
    id: str = "one",
    timeline: int | None = None,
    at_s: int | None = None,
    is_synchronous: bool = False,
) -> StoreMark:
    """The mark of an epoch, which was raised so many seconds after the begin of time: as many as
    its number."""
    raised_at = Instant((epoch if at_s is None else at_s) * SECOND)
    return StoreMark(id, epoch, commands, raised_at, timeline, is_synchronous)


@pytest.mark.spec("C6", "S6")
@pytest.mark.parametrize(
    ("stored", "kept", "means"),
    [
        pytest.param(mark(7), mark(7), CURRENT, id="an ordinary restart"),
        pytest.param(mark(8), mark(7), CURRENT, id="the mark was not written any more"),
        pytest.param(mark(6), mark(7), RESTORED, id="an older backup of this store"),
        pytest.param(mark(0), mark(7), RESTORED, id="a backup of before the first payment"),
        pytest.param(
            mark(9, id="other"),
            mark(7),
            RESTORED,
            id="another store, or a backup of before a restore",
        ),
        pytest.param(
            mark(0, id="other"), mark(7), RESTORED, id="an empty database in the place of ours"
        ),
        pytest.param(
            mark(2),
            mark(7, id="former"),
            CURRENT,
            id="another node has dealt with the restored store",
        ),
        pytest.param(
            mark(6, timeline=2),
            mark(7, timeline=1),
            RESTORED,
            id="an asynchronous standby that lacks more",
        ),
        pytest.param(
            mark(7, timeline=2),
            mark(7, timeline=1, is_synchronous=True),
            CURRENT,
            id="a synchronous standby",
        ),
        pytest.param(
            mark(7, timeline=2),
            mark(7, timeline=1),
            RESTORED,
            id="an asynchronous standby that may lack the last second",
        ),
        pytest.param(
            mark(9, timeline=2),
            mark(7, timeline=1, id="former"),
            CURRENT,
            id="an asynchronous standby that another node has dealt with",
        ),
        pytest.param(mark(9, timeline=1), mark(7, timeline=1), CURRENT, id="the same server"),
        pytest.param(
            mark(7, commands=2), mark(7, commands=2), CURRENT, id="nothing since a command"
        ),
        pytest.param(
            mark(7, commands=2), mark(7, commands=3), RESTORED, id="a backup of before a command"
        ),
        pytest.param(
            mark(6, commands=9),
            mark(7, commands=3),
            RESTORED,
            id="commands make an older backup no younger",
        ),
    ],
)
def test_a_store_that_lacks_what_the_mark_knows_is_recognised(
    stored: StoreMark, kept: StoreMark, means: Recognition
) -> None:
    state = StoreState(stored, frozenset({"former"}))
    assert recognise(state, kept, must_be_marked=True, is_served=False, loss_max=Span(0)) is means


@pytest.mark.spec("C6", "S6")
@pytest.mark.parametrize(
    ("stored", "kept", "means"),
    [
        pytest.param(
            mark(6, timeline=2), mark(8, timeline=1), BEHIND, id="no more than two epochs"
        ),
        pytest.param(mark(8, timeline=2), mark(8, timeline=1), BEHIND, id="part of one"),
        pytest.param(mark(5, timeline=2), mark(8, timeline=1), RESTORED, id="three"),
        pytest.param(
            mark(1, timeline=2),
            mark(8, timeline=1, at_s=3),
            BEHIND,
            id="seven of four processes in 2 s",
        ),
        pytest.param(
            mark(7, timeline=2, at_s=7),
            mark(8, timeline=1, at_s=60),
            BEHIND,
            id="one, after a quiet minute",
        ),
        pytest.param(
            mark(1, timeline=2, at_s=3_600),
            mark(10_001, timeline=1, at_s=1_800),
            RESTORED,
            id="ten thousand, and the clock was set back",
        ),
        pytest.param(
            mark(1, timeline=2, at_s=60),
            mark(10_001, timeline=1, at_s=60),
            RESTORED,
            id="ten thousand, and the clock stood still",
        ),
        pytest.param(
            mark(7, timeline=2, at_s=60),
            mark(8, timeline=1, at_s=50),
            BEHIND,
            id="one, and the clock was set back",
        ),
        pytest.param(
            mark(7, commands=1, timeline=2, at_s=7),
            mark(8, commands=3, timeline=1, at_s=70),
            RESTORED,
            id="one, and two of commands",
        ),
        pytest.param(
            mark(7, timeline=1), mark(8, timeline=1), RESTORED, id="a dump in the same server"
        ),
        pytest.param(
            mark(7, timeline=1), mark(8, timeline=2), RESTORED, id="a copy of the server of before"
        ),
        pytest.param(
            mark(7), mark(8, timeline=1), RESTORED, id="a server that doesn't tell its timeline"
        ),
        pytest.param(mark(7), mark(8), RESTORED, id="SQLite"),
    ],
)
def test_a_failover_may_lose_what_the_setting_allows(
    stored: StoreMark, kept: StoreMark, means: Recognition
) -> None:
    found = recognise(
        StoreState(stored), kept, must_be_marked=True, is_served=True, loss_max=Span(2 * SECOND)
    )
    assert found is means


@pytest.mark.spec("C6", "S6")
@pytest.mark.parametrize(
    ("epoch", "must_be_marked", "is_served", "means"),
    [
        (7, True, False, UNMARKED),
        (7, True, True, CURRENT),
        (0, True, False, CURRENT),
        (7, False, False, CURRENT),
    ],
)
def test_a_missing_mark_is_missed_where_it_was_named_and_nobody_serves(
    epoch: int, must_be_marked: bool, is_served: bool, means: Recognition
) -> None:
    state = StoreState(mark(epoch))
    assert (
        recognise(state, None, must_be_marked=must_be_marked, is_served=is_served, loss_max=Span(0))
        is means
    )
