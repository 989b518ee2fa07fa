"""What a supervisor does, on what: one row for each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mmo_trio.service.supervisor.events import (
    AnnounceReady,
    ExitService,
    ForkFailed,
    LogMessage,
    ProcessCommand,
    ProcessExited,
    ProcessForked,
    ProcessServing,
    ReloadRequested,
    RollingRestartRequested,
    SendCommand,
    StartProcess,
    StopRequested,
    SupervisorAction,
    SupervisorEvent,
    TimePassed,
)
from mmo_trio.service.supervisor.policy import (
    RESTART_DELAY_MAX_S,
    RESTART_DELAY_S,
    START_FAILURES_MAX,
    START_TIMEOUT_S,
    UPTIME_MIN_S,
    Process,
    ProcessPhase,
    RestartBackoff,
    SupervisorState,
    begin,
    next_due,
    transition,
)

NOW = 100.0
BEFORE = 95.0
STARTING, SERVING, LEAVING = ProcessPhase.STARTING, ProcessPhase.SERVING, ProcessPhase.STOPPING


def state(processes: Mapping[int, tuple[str, ProcessPhase]], **more: object) -> SupervisorState:
    """Two workers and an operator, each process in its phase for a while; a pid's last digit is its post's."""
    given: dict[str, object] = {"is_announced": True, "stop_timeout_s": 95.0} | more
    found = {pid: Process(post, phase, BEFORE) for pid, (post, phase) in processes.items()}
    setbacks = {post: RestartBackoff() for post in ("operator", "w1", "w2")}
    members: Any = {"backoffs": setbacks} | given
    return SupervisorState(("w1", "w2"), ("operator",), processes=found, **members)


def happening(
    before: SupervisorState, *events: SupervisorEvent, now: float = NOW
) -> tuple[SupervisorState, list[SupervisorAction]]:
    """The state after these events, and what was done, notes left out."""
    done: list[SupervisorAction] = []
    for event in events:
        before, actions = transition(before, event, now=now)
        done += [each for each in actions if not isinstance(each, LogMessage)]
    return before, done


BOTH = {10: ("operator", SERVING), 11: ("w1", SERVING), 12: ("w2", SERVING)}
STARTED = {pid: (post, STARTING) for pid, (post, _) in BOTH.items()}
NEWCOMER = BOTH | {21: ("w1", STARTING)}
REPLACED = {10: BOTH[10], 12: BOTH[12], 11: ("w1", LEAVING), 21: ("w1", SERVING)}
OPERATOR = {10: ("operator", SERVING)}
ENDING = {10: ("operator", SERVING), 11: ("w1", LEAVING), 12: ("w2", LEAVING)}

DRAINED = [SendCommand(11, ProcessCommand.DRAIN), SendCommand(12, ProcessCommand.DRAIN)]

ROWS: Sequence[
    tuple[str, SupervisorState, Sequence[SupervisorEvent], Sequence[SupervisorAction]]
] = [
    ("one serves: not ready yet", state(STARTED, is_announced=False), [ProcessServing(11)], []),
    (
        "all serve: ready",
        state(STARTED, is_announced=False),
        [ProcessServing(11), ProcessServing(12)],
        [AnnounceReady()],
    ),
    ("ready is said once", state(BOTH | {12: ("w2", STARTING)}), [ProcessServing(12)], []),
    (
        "a dead worker is replaced at once",
        state(BOTH),
        [ProcessExited(11, -9)],
        [StartProcess("w1")],
    ),
    ("also one that ended by itself", state(BOTH), [ProcessExited(12, 0)], [StartProcess("w2")]),
    ("the dead operator, too", state(BOTH), [ProcessExited(10, -9)], [StartProcess("operator")]),
    ("a retired one isn't", state(REPLACED), [ProcessExited(11, 0)], []),
    (
        "certificates: all that serve",
        state(NEWCOMER),
        [ReloadRequested()],
        [SendCommand(11, ProcessCommand.RELOAD), SendCommand(12, ProcessCommand.RELOAD)],
    ),
    ("a roll starts one newcomer", state(BOTH), [RollingRestartRequested()], [StartProcess("w1")]),
    (
        "and no second one meanwhile",
        state(BOTH),
        [RollingRestartRequested(), ProcessForked("w1", 21), TimePassed()],
        [StartProcess("w1")],
    ),
    (
        "the old one retires when the new one serves",
        state(NEWCOMER),
        [ProcessServing(21)],
        [SendCommand(11, ProcessCommand.RETIRE)],
    ),
    (
        "the next one's turn waits for the old one's end",
        state(REPLACED, workers_to_restart=("w2",)),
        [TimePassed()],
        [],
    ),
    (
        "and comes then",
        state(REPLACED, workers_to_restart=("w2",)),
        [ProcessExited(11, 0)],
        [StartProcess("w2")],
    ),
    (
        "a newcomer that fails stops the roll",
        state(NEWCOMER, workers_to_restart=("w2",)),
        [ProcessExited(21, 3), TimePassed()],
        [],
    ),
    (
        "an old one that dies meanwhile has its successor",
        state(NEWCOMER),
        [ProcessExited(11, -9)],
        [],
    ),
    (
        "a successor that fails then is replaced",
        state(NEWCOMER),
        [ProcessExited(11, -9), ProcessExited(21, 3)],
        [StartProcess("w1")],
    ),
    (
        "no room for a newcomer stops the roll",
        state(BOTH, workers_to_restart=("w2",)),
        [ForkFailed("w1"), TimePassed()],
        [],
    ),
    (
        "a roll waits until all posts are filled",
        state(OPERATOR | {12: BOTH[12]}, workers_to_restart=("w1",)),
        [TimePassed()],
        [],
    ),
    ("stop: workers drain first", state(BOTH), [StopRequested()], DRAINED),
    (
        "stop: newcomers too",
        state(NEWCOMER),
        [StopRequested()],
        [
            SendCommand(11, ProcessCommand.DRAIN),
            SendCommand(21, ProcessCommand.DRAIN),
            SendCommand(12, ProcessCommand.DRAIN),
        ],
    ),
    (
        "stop: who retires hears it again",
        state(REPLACED),
        [StopRequested()],
        [
            SendCommand(21, ProcessCommand.DRAIN),
            SendCommand(12, ProcessCommand.DRAIN),
            SendCommand(11, ProcessCommand.DRAIN),
        ],
    ),
    ("stop is heard once", state(BOTH), [StopRequested(), StopRequested()], DRAINED),
    ("stopping: nobody is replaced", state(ENDING, is_stopping=True), [ProcessExited(11, 0)], []),
    (
        "stopping: the operator is, for workers need it",
        state(ENDING, is_stopping=True),
        [ProcessExited(10, -9)],
        [StartProcess("operator")],
    ),
    ("stopping: no roll", state(ENDING, is_stopping=True), [RollingRestartRequested()], []),
    (
        "the operator goes after the last worker",
        state(OPERATOR | {11: ("w1", LEAVING)}, is_stopping=True),
        [ProcessExited(11, 0)],
        [SendCommand(10, ProcessCommand.DRAIN)],
    ),
    (
        "the end",
        state({10: ("operator", LEAVING)}, is_stopping=True),
        [ProcessExited(10, 0)],
        [ExitService(0)],
    ),
    (
        "ended by our own SIGTERM is no fault",
        state({11: ("w1", LEAVING)}, is_stopping=True),
        [ProcessExited(11, -15)],
        [ExitService(0)],
    ),
    (
        "a drain that failed shows",
        state({11: ("w1", LEAVING)}, is_stopping=True),
        [ProcessExited(11, -9)],
        [ExitService(1)],
    ),
]


@pytest.mark.parametrize(
    ("before", "events", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_follows(
    before: SupervisorState, events: Sequence[SupervisorEvent], expected: Sequence[SupervisorAction]
) -> None:
    assert happening(before, *events)[1] == list(expected)


def test_it_begins_with_a_process_for_every_post() -> None:
    before, actions = begin(SupervisorState(("w1", "w2"), ("operator",)), now=NOW)
    assert actions == (StartProcess("operator"), StartProcess("w1"), StartProcess("w2"))
    assert happening(before, TimePassed())[1] == []


def test_a_worker_that_dies_again_and_again_is_waited_for() -> None:
    now, current, pauses = NOW, state(BOTH), []
    current, done = happening(current, ProcessExited(11, -9), now=now)
    for pid in range(100, 110):
        assert done == [StartProcess("w1")]
        current, _ = happening(current, ProcessForked("w1", pid), ProcessServing(pid), now=now)
        current, done = happening(current, ProcessExited(pid, 1), now=now)
        due = now if done else next_due(current)
        assert due is not None
        pauses.append(round(due - now, 6))
        now = due
        if not done:
            current, done = happening(current, TimePassed(), now=now)
    assert pauses == [0, *(min(RESTART_DELAY_S * 2**n, RESTART_DELAY_MAX_S) for n in range(9))]
    current, _ = happening(current, ProcessForked("w1", 110), ProcessServing(110), now=now)
    _, done = happening(current, ProcessExited(110, -9), now=now + UPTIME_MIN_S)
    assert done == [StartProcess("w1")], "one that has settled is replaced at once again"


def failing(before: SupervisorState) -> list[SupervisorAction]:
    """One worker's post fails as often as it may; what is done at the last time."""
    now = NOW
    done: list[SupervisorAction] = []
    for pid in range(100, 100 + START_FAILURES_MAX):
        before, _ = happening(before, TimePassed(), now=now)
        before, _ = happening(before, ProcessForked("w1", pid), now=now)
        before, done = happening(before, ProcessExited(pid, 3), now=now)
        now = next_due(before) or now
    return done


def test_a_service_whose_workers_cannot_start_ends_and_says_why() -> None:
    (end,) = failing(state({}))
    assert isinstance(end, ExitService)
    assert end.exit_code == 3
    assert f"{START_FAILURES_MAX} workers in a row couldn't start" in str(end.reason)


def test_it_goes_on_while_another_worker_serves() -> None:
    assert failing(state({12: ("w2", SERVING)})) == []


@pytest.mark.parametrize(("phase", "after_s"), [(STARTING, START_TIMEOUT_S), (LEAVING, 95.0)])
def test_a_process_that_takes_too_long_is_killed(phase: ProcessPhase, after_s: float) -> None:
    before = state(BOTH | {21: ("w1", phase)})
    assert next_due(before) == BEFORE + after_s
    _, done = happening(before, TimePassed(), now=BEFORE + after_s - 0.1)
    assert done == []
    _, done = happening(before, TimePassed(), now=BEFORE + after_s)
    assert done == [SendCommand(21, ProcessCommand.KILL)]


def test_whose_fork_failed_is_tried_again_soon() -> None:
    before, done = happening(state({12: BOTH[12]}), ForkFailed("w1"))
    assert done == []
    due = next_due(before)
    assert due is not None
    assert happening(before, TimePassed(), now=due)[1] == [StartProcess("w1")]
