"""The supervisor's policy, with one row for each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mmo_trio.service.supervisor_policy import (
    PREPARATION,
    RESTART_DELAY_MAX_S,
    RESTART_DELAY_S,
    START_FAILURES_MAX,
    START_TIMEOUT_S,
    UPTIME_MIN_S,
    AnnounceReady,
    ExitService,
    ForkFailed,
    LogMessage,
    Process,
    ProcessCommand,
    ProcessExited,
    ProcessForked,
    ProcessPhase,
    ProcessServing,
    ReloadRequested,
    RestartBackoff,
    RollingRestartRequested,
    SendCommand,
    StartProcess,
    StopRequested,
    SupervisorAction,
    SupervisorEvent,
    SupervisorState,
    TimePassed,
    begin,
    next_due,
    transition,
)

NOW = 100.0
BEFORE = 95.0
STARTING, SERVING, STOPPING = ProcessPhase.STARTING, ProcessPhase.SERVING, ProcessPhase.STOPPING


def state(processes: Mapping[int, tuple[str, ProcessPhase]], **more: object) -> SupervisorState:
    """Return a state with two workers; the last digit of a pid is that of its slot."""
    known = {pid: Process(slot, phase, BEFORE) for pid, (slot, phase) in processes.items()}
    backoffs = {slot: RestartBackoff() for slot in ("w1", "w2")}
    members: Any = {"backoffs": backoffs, "is_announced": True, "stop_timeout_s": 95.0} | more
    return SupervisorState(("w1", "w2"), processes=known, **members)


def after_events(
    before: SupervisorState, *events: SupervisorEvent, now: float = NOW
) -> tuple[SupervisorState, list[SupervisorAction]]:
    """Return the state after these events, and the actions without log messages."""
    done: list[SupervisorAction] = []
    for event in events:
        before, actions = transition(before, event, now=now)
        done += [each for each in actions if not isinstance(each, LogMessage)]
    return before, done


BOTH = {11: ("w1", SERVING), 12: ("w2", SERVING)}
STARTED = {pid: (slot, STARTING) for pid, (slot, _) in BOTH.items()}
SUCCESSOR_STARTS = BOTH | {21: ("w1", STARTING)}
SUCCESSOR_SERVES = {12: BOTH[12], 11: ("w1", STOPPING), 21: ("w1", SERVING)}
BOTH_STOP = {11: ("w1", STOPPING), 12: ("w2", STOPPING)}

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
        "a worker that died is replaced at once",
        state(BOTH),
        [ProcessExited(11, -9)],
        [StartProcess("w1")],
    ),
    (
        "so is a worker that ended by itself",
        state(BOTH),
        [ProcessExited(12, 0)],
        [StartProcess("w2")],
    ),
    ("a retired worker is not", state(SUCCESSOR_SERVES), [ProcessExited(11, 0)], []),
    (
        "certificates: all serving workers reload",
        state(SUCCESSOR_STARTS),
        [ReloadRequested()],
        [SendCommand(11, ProcessCommand.RELOAD), SendCommand(12, ProcessCommand.RELOAD)],
    ),
    (
        "and one that was starting, once it serves",
        state(SUCCESSOR_STARTS),
        [ReloadRequested(), ProcessServing(21)],
        [
            SendCommand(11, ProcessCommand.RELOAD),
            SendCommand(12, ProcessCommand.RELOAD),
            SendCommand(21, ProcessCommand.RELOAD),
            SendCommand(11, ProcessCommand.RETIRE),
        ],
    ),
    (
        "a rolling restart starts one successor",
        state(BOTH),
        [RollingRestartRequested()],
        [StartProcess("w1")],
    ),
    (
        "and no second one meanwhile",
        state(BOTH),
        [RollingRestartRequested(), ProcessForked("w1", 21), TimePassed()],
        [StartProcess("w1")],
    ),
    (
        "the old one retires when the new one serves",
        state(SUCCESSOR_STARTS),
        [ProcessServing(21)],
        [SendCommand(11, ProcessCommand.RETIRE)],
    ),
    (
        "the next worker waits for the end of the old one",
        state(SUCCESSOR_SERVES, workers_to_restart=("w2",)),
        [TimePassed()],
        [],
    ),
    (
        "and is replaced then",
        state(SUCCESSOR_SERVES, workers_to_restart=("w2",)),
        [ProcessExited(11, 0)],
        [StartProcess("w2")],
    ),
    (
        "a successor that fails aborts the rolling restart",
        state(SUCCESSOR_STARTS, workers_to_restart=("w2",)),
        [ProcessExited(21, 3), TimePassed()],
        [],
    ),
    (
        "a worker that dies meanwhile has its successor",
        state(SUCCESSOR_STARTS),
        [ProcessExited(11, -9)],
        [],
    ),
    (
        "a successor that fails then is replaced",
        state(SUCCESSOR_STARTS),
        [ProcessExited(11, -9), ProcessExited(21, 3)],
        [StartProcess("w1")],
    ),
    (
        "a failed fork aborts the rolling restart",
        state(BOTH, workers_to_restart=("w2",)),
        [ForkFailed("w1"), TimePassed()],
        [],
    ),
    (
        "a rolling restart waits until all slots are filled",
        state({12: BOTH[12]}, workers_to_restart=("w1",)),
        [TimePassed()],
        [],
    ),
    ("stop: the workers drain", state(BOTH), [StopRequested()], DRAINED),
    (
        "stop: starting workers too",
        state(SUCCESSOR_STARTS),
        [StopRequested()],
        [
            SendCommand(11, ProcessCommand.DRAIN),
            SendCommand(21, ProcessCommand.DRAIN),
            SendCommand(12, ProcessCommand.DRAIN),
        ],
    ),
    (
        "stop: a retiring worker gets a second command",
        state(SUCCESSOR_SERVES),
        [StopRequested()],
        [
            SendCommand(21, ProcessCommand.DRAIN),
            SendCommand(12, ProcessCommand.DRAIN),
            SendCommand(11, ProcessCommand.DRAIN),
        ],
    ),
    ("stop has effect once", state(BOTH), [StopRequested(), StopRequested()], DRAINED),
    (
        "stopping: no worker is replaced",
        state(BOTH_STOP, is_stopping=True),
        [ProcessExited(11, 0)],
        [],
    ),
    (
        "stopping: no rolling restart",
        state(BOTH_STOP, is_stopping=True),
        [RollingRestartRequested()],
        [],
    ),
    (
        "the end comes after the last worker",
        state(BOTH_STOP, is_stopping=True),
        [ProcessExited(12, 0), ProcessExited(11, 0)],
        [ExitService(0)],
    ),
    (
        "an end by SIGTERM is no failure",
        state({11: ("w1", STOPPING)}, is_stopping=True),
        [ProcessExited(11, -15)],
        [ExitService(0)],
    ),
    (
        "a failed drain is reported",
        state({11: ("w1", STOPPING)}, is_stopping=True),
        [ProcessExited(11, -9)],
        [ExitService(1)],
    ),
]


@pytest.mark.parametrize(
    ("before", "events", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_actions_that_follow_from_events(
    before: SupervisorState, events: Sequence[SupervisorEvent], expected: Sequence[SupervisorAction]
) -> None:
    assert after_events(before, *events)[1] == list(expected)


def prepared() -> SupervisorState:
    """Return the state while a process prepares the store."""
    before, actions = begin(SupervisorState(("w1", "w2")), now=NOW)
    assert actions == (StartProcess(PREPARATION),)
    before, done = after_events(before, TimePassed(), ProcessForked(PREPARATION, 10))
    assert done == []
    return before


def test_the_supervisor_begins_with_the_preparation_and_then_starts_every_worker() -> None:
    before, done = after_events(prepared(), ProcessExited(10, 0))
    assert done == [StartProcess("w1"), StartProcess("w2")]
    assert after_events(before, TimePassed())[1] == []


def test_the_preparation_of_a_large_store_takes_its_time() -> None:
    assert next_due(prepared()) is None
    assert after_events(prepared(), TimePassed(), now=NOW + 100 * START_TIMEOUT_S)[1] == []


def test_a_store_that_cannot_be_prepared_ends_the_service() -> None:
    assert after_events(prepared(), ProcessExited(10, 3))[1] == [ExitService(3)]
    (end,) = after_events(prepared(), ProcessExited(10, -9))[1]
    assert end == ExitService(1, "the preparation of the store was ended by signal 9.")


def test_a_stop_ends_the_preparation_and_starts_no_worker() -> None:
    before, done = after_events(prepared(), StopRequested())
    assert done == [SendCommand(10, ProcessCommand.DRAIN)]
    assert after_events(before, ProcessExited(10, -15))[1] == [ExitService(0)]
    assert after_events(before, ProcessExited(10, 0))[1] == [ExitService(0)]


def test_restarts_of_a_worker_that_fails_repeatedly_are_delayed() -> None:
    now, current, pauses = NOW, state(BOTH), []
    current, done = after_events(current, ProcessExited(11, -9), now=now)
    for pid in range(100, 110):
        assert done == [StartProcess("w1")]
        current, _ = after_events(current, ProcessForked("w1", pid), ProcessServing(pid), now=now)
        current, done = after_events(current, ProcessExited(pid, 1), now=now)
        due = now if done else next_due(current)
        assert due is not None
        pauses.append(round(due - now, 6))
        now = due
        if not done:
            current, done = after_events(current, TimePassed(), now=now)
    assert pauses == [0, *(min(RESTART_DELAY_S * 2**n, RESTART_DELAY_MAX_S) for n in range(9))]
    current, _ = after_events(current, ProcessForked("w1", 110), ProcessServing(110), now=now)
    _, done = after_events(current, ProcessExited(110, -9), now=now + UPTIME_MIN_S)
    assert done == [StartProcess("w1")], "one that has settled is replaced at once again"


def fail_repeatedly(before: SupervisorState) -> list[SupervisorAction]:
    """Let one slot fail as often as allowed, and return the actions after the last failure."""
    now = NOW
    done: list[SupervisorAction] = []
    for pid in range(100, 100 + START_FAILURES_MAX):
        before, _ = after_events(before, TimePassed(), now=now)
        before, _ = after_events(before, ProcessForked("w1", pid), now=now)
        before, done = after_events(before, ProcessExited(pid, 3), now=now)
        now = next_due(before) or now
    return done


def test_a_service_whose_workers_cannot_start_ends_and_says_why() -> None:
    (end,) = fail_repeatedly(state({}, is_announced=False))
    assert isinstance(end, ExitService)
    assert end.exit_code == 3
    assert f"{START_FAILURES_MAX} workers in a row couldn't start" in str(end.reason)


def test_the_service_goes_on_while_another_worker_serves() -> None:
    assert fail_repeatedly(state({12: ("w2", SERVING)}, is_announced=False)) == []


def test_a_service_that_has_served_does_not_give_up() -> None:
    assert fail_repeatedly(state({})) == []


@pytest.mark.parametrize(("phase", "after_s"), [(STARTING, START_TIMEOUT_S), (STOPPING, 95.0)])
def test_a_process_that_takes_too_long_is_killed(phase: ProcessPhase, after_s: float) -> None:
    before = state(BOTH | {21: ("w1", phase)})
    assert next_due(before) == BEFORE + after_s
    _, done = after_events(before, TimePassed(), now=BEFORE + after_s - 0.1)
    assert done == []
    _, done = after_events(before, TimePassed(), now=BEFORE + after_s)
    assert done == [SendCommand(21, ProcessCommand.KILL)]


def test_a_failed_fork_is_tried_again_soon() -> None:
    before, done = after_events(state({12: BOTH[12]}), ForkFailed("w1"))
    assert done == []
    due = next_due(before)
    assert due is not None
    assert after_events(before, TimePassed(), now=due)[1] == [StartProcess("w1")]
