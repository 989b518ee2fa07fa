"""What a supervisor does, on what: one row for each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mmo_trio.service.supervisor.events import (
    Action,
    Announce,
    End,
    Ended,
    Event,
    Forked,
    Note,
    NotForked,
    Order,
    Reload,
    Roll,
    Serves,
    Start,
    Stop,
    Tell,
    TimePassed,
)
from mmo_trio.service.supervisor.policy import (
    FAILURES_MOST,
    PAUSE_S,
    PAUSE_S_MOST,
    SETTLED_S,
    START_S_MOST,
    Phase,
    Process,
    Setback,
    State,
    begin,
    decide,
    next_due,
)

NOW = 100.0
BEFORE = 95.0
STARTING, SERVING, LEAVING = Phase.STARTING, Phase.SERVING, Phase.LEAVING


def state(processes: Mapping[int, tuple[str, Phase]], **more: object) -> State:
    """Two workers and an operator, each process in its phase for a while; a pid's last digit is its post's."""
    given: dict[str, object] = {"is_announced": True, "leave_s": 95.0} | more
    found = {pid: Process(post, phase, BEFORE) for pid, (post, phase) in processes.items()}
    setbacks = {post: Setback() for post in ("operator", "w1", "w2")}
    return State(("w1", "w2"), ("operator",), processes=found, **({"setbacks": setbacks} | given))  # type: ignore[arg-type]


def happening(before: State, *events: Event, now: float = NOW) -> tuple[State, list[Action]]:
    """The state after these events, and what was done, notes left out."""
    done: list[Action] = []
    for event in events:
        before, actions = decide(before, event, now=now)
        done += [each for each in actions if not isinstance(each, Note)]
    return before, done


BOTH = {10: ("operator", SERVING), 11: ("w1", SERVING), 12: ("w2", SERVING)}
STARTED = {pid: (post, STARTING) for pid, (post, _) in BOTH.items()}
NEWCOMER = BOTH | {21: ("w1", STARTING)}
REPLACED = {10: BOTH[10], 12: BOTH[12], 11: ("w1", LEAVING), 21: ("w1", SERVING)}
OPERATOR = {10: ("operator", SERVING)}
ENDING = {10: ("operator", SERVING), 11: ("w1", LEAVING), 12: ("w2", LEAVING)}

DRAINED = [Tell(11, Order.DRAIN), Tell(12, Order.DRAIN)]

ROWS: Sequence[tuple[str, State, Sequence[Event], Sequence[Action]]] = [
    ("one serves: not ready yet", state(STARTED, is_announced=False), [Serves(11)], []),
    (
        "all serve: ready",
        state(STARTED, is_announced=False),
        [Serves(11), Serves(12)],
        [Announce()],
    ),
    ("ready is said once", state(BOTH | {12: ("w2", STARTING)}), [Serves(12)], []),
    ("a dead worker is replaced at once", state(BOTH), [Ended(11, -9)], [Start("w1")]),
    ("also one that ended by itself", state(BOTH), [Ended(12, 0)], [Start("w2")]),
    ("the dead operator, too", state(BOTH), [Ended(10, -9)], [Start("operator")]),
    ("a retired one isn't", state(REPLACED), [Ended(11, 0)], []),
    (
        "certificates: all that serve",
        state(NEWCOMER),
        [Reload()],
        [Tell(11, Order.RELOAD), Tell(12, Order.RELOAD)],
    ),
    ("a roll starts one newcomer", state(BOTH), [Roll()], [Start("w1")]),
    (
        "and no second one meanwhile",
        state(BOTH),
        [Roll(), Forked("w1", 21), TimePassed()],
        [Start("w1")],
    ),
    (
        "the old one retires when the new one serves",
        state(NEWCOMER),
        [Serves(21)],
        [Tell(11, Order.RETIRE)],
    ),
    (
        "the next one's turn waits for the old one's end",
        state(REPLACED, to_roll=("w2",)),
        [TimePassed()],
        [],
    ),
    ("and comes then", state(REPLACED, to_roll=("w2",)), [Ended(11, 0)], [Start("w2")]),
    (
        "a newcomer that fails stops the roll",
        state(NEWCOMER, to_roll=("w2",)),
        [Ended(21, 3), TimePassed()],
        [],
    ),
    ("an old one that dies meanwhile has its successor", state(NEWCOMER), [Ended(11, -9)], []),
    (
        "a successor that fails then is replaced",
        state(NEWCOMER),
        [Ended(11, -9), Ended(21, 3)],
        [Start("w1")],
    ),
    (
        "no room for a newcomer stops the roll",
        state(BOTH, to_roll=("w2",)),
        [NotForked("w1"), TimePassed()],
        [],
    ),
    (
        "a roll waits until all posts are filled",
        state(OPERATOR | {12: BOTH[12]}, to_roll=("w1",)),
        [TimePassed()],
        [],
    ),
    ("stop: workers drain first", state(BOTH), [Stop()], DRAINED),
    (
        "stop: newcomers too",
        state(NEWCOMER),
        [Stop()],
        [Tell(11, Order.DRAIN), Tell(21, Order.DRAIN), Tell(12, Order.DRAIN)],
    ),
    (
        "stop: who retires hears it again",
        state(REPLACED),
        [Stop()],
        [Tell(21, Order.DRAIN), Tell(12, Order.DRAIN), Tell(11, Order.DRAIN)],
    ),
    ("stop is heard once", state(BOTH), [Stop(), Stop()], DRAINED),
    ("stopping: nobody is replaced", state(ENDING, is_stopping=True), [Ended(11, 0)], []),
    (
        "stopping: the operator is, for workers need it",
        state(ENDING, is_stopping=True),
        [Ended(10, -9)],
        [Start("operator")],
    ),
    ("stopping: no roll", state(ENDING, is_stopping=True), [Roll()], []),
    (
        "the operator goes after the last worker",
        state(OPERATOR | {11: ("w1", LEAVING)}, is_stopping=True),
        [Ended(11, 0)],
        [Tell(10, Order.DRAIN)],
    ),
    ("the end", state({10: ("operator", LEAVING)}, is_stopping=True), [Ended(10, 0)], [End(0)]),
    (
        "ended by our own SIGTERM is no fault",
        state({11: ("w1", LEAVING)}, is_stopping=True),
        [Ended(11, -15)],
        [End(0)],
    ),
    (
        "a drain that failed shows",
        state({11: ("w1", LEAVING)}, is_stopping=True),
        [Ended(11, -9)],
        [End(1)],
    ),
]


@pytest.mark.parametrize(
    ("before", "events", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_follows(before: State, events: Sequence[Event], expected: Sequence[Action]) -> None:
    assert happening(before, *events)[1] == list(expected)


def test_it_begins_with_a_process_for_every_post() -> None:
    before, actions = begin(State(("w1", "w2"), ("operator",)), now=NOW)
    assert actions == (Start("operator"), Start("w1"), Start("w2"))
    assert happening(before, TimePassed())[1] == []


def test_a_worker_that_dies_again_and_again_is_waited_for() -> None:
    now, current, pauses = NOW, state(BOTH), []
    current, done = happening(current, Ended(11, -9), now=now)
    for pid in range(100, 110):
        assert done == [Start("w1")]
        current, _ = happening(current, Forked("w1", pid), Serves(pid), now=now)
        current, done = happening(current, Ended(pid, 1), now=now)
        due = now if done else next_due(current)
        assert due is not None
        pauses.append(round(due - now, 6))
        now = due
        if not done:
            current, done = happening(current, TimePassed(), now=now)
    assert pauses == [0, *(min(PAUSE_S * 2**n, PAUSE_S_MOST) for n in range(9))]
    current, _ = happening(current, Forked("w1", 110), Serves(110), now=now)
    _, done = happening(current, Ended(110, -9), now=now + SETTLED_S)
    assert done == [Start("w1")], "one that has settled is replaced at once again"


def failing(before: State) -> list[Action]:
    """One worker's post fails as often as it may; what is done at the last time."""
    now = NOW
    done: list[Action] = []
    for pid in range(100, 100 + FAILURES_MOST):
        before, _ = happening(before, TimePassed(), now=now)
        before, _ = happening(before, Forked("w1", pid), now=now)
        before, done = happening(before, Ended(pid, 3), now=now)
        now = next_due(before) or now
    return done


def test_a_service_whose_workers_cannot_start_ends_and_says_why() -> None:
    (end,) = failing(state({}))
    assert isinstance(end, End)
    assert end.code == 3
    assert f"{FAILURES_MOST} workers in a row couldn't start" in str(end.reason)


def test_it_goes_on_while_another_worker_serves() -> None:
    assert failing(state({12: ("w2", SERVING)})) == []


@pytest.mark.parametrize(("phase", "after_s"), [(STARTING, START_S_MOST), (LEAVING, 95.0)])
def test_a_process_that_takes_too_long_is_killed(phase: Phase, after_s: float) -> None:
    before = state(BOTH | {21: ("w1", phase)})
    assert next_due(before) == BEFORE + after_s
    _, done = happening(before, TimePassed(), now=BEFORE + after_s - 0.1)
    assert done == []
    _, done = happening(before, TimePassed(), now=BEFORE + after_s)
    assert done == [Tell(21, Order.KILL)]


def test_whose_fork_failed_is_tried_again_soon() -> None:
    before, done = happening(state({12: BOTH[12]}), NotForked("w1"))
    assert done == []
    due = next_due(before)
    assert due is not None
    assert happening(before, TimePassed(), now=due)[1] == [Start("w1")]
