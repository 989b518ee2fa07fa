"""What a supervisor does, on what: a pure function from its state and an event to the next state and actions.

    state, actions = decide(state, event, now=now)

A *post* is a place that a process fills: `worker-1`, `worker-2`, ..., and one for what all workers share. A process is
*starting* until it says that it serves, *serving*, and *leaving* once it was told to end. `now` is monotonic, in
seconds; `next_due_at` says when to come again without an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias, assert_never

from attrs import evolve, frozen

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

UPTIME_MIN_S = 1.0
"""A process that ends sooner than this after it began to serve counts as one that couldn't start."""

START_FAILURES_MAX = 5
"""So many failed starts of one post in a row end the service, when no worker serves."""

RESTART_DELAY_S = 0.2
"""The wait before the second start in a row; twice as long each time. The first one is at once."""

RESTART_DELAY_MAX_S = 10.0
FORK_RETRY_DELAY_S = 1.0
"""The wait when the system has no room for another process."""

START_TIMEOUT_S = 60.0
"""A process that doesn't serve by then is killed."""

ROLL_ABORTED = "rolling_restart_aborted"


class ProcessPhase(Enum):
    """How far a process is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "leaving"


@frozen
class Process:
    """A process of ours."""

    slot: str
    phase: ProcessPhase
    since: float
    """When this phase began."""


@frozen
class RestartBackoff:
    """How a post fares that has lost its process."""

    failures: int = 0
    """Failed starts in a row."""
    start_at: float | None = None
    """When the next process is to be started for it; None when there is one."""


@frozen
class SupervisorState:
    """Everything a supervisor has to know."""

    workers: tuple[str, ...]
    helpers: tuple[str, ...] = ()
    """Posts that workers need: first to start, last to end, never rolled."""
    stop_timeout_s: float = 60.0
    """How long a process may take to end before it is killed."""
    processes: Mapping[int, Process] = MappingProxyType({})
    backoffs: Mapping[str, RestartBackoff] = MappingProxyType({})
    workers_to_restart: tuple[str, ...] = ()
    """Workers that still are to be replaced, in this order."""
    is_announced: bool = False
    is_stopping: bool = False
    exit_code: int = 0
    reason: str | None = None

    def pids_in(self, slot: str, *phases: ProcessPhase) -> list[int]:
        """The processes of a post that are in one of these phases."""
        return [
            pid
            for pid, each in self.processes.items()
            if each.slot == slot and each.phase in phases
        ]

    def worker_pids(self, *phases: ProcessPhase) -> list[int]:
        """The workers' processes that are in one of these phases."""
        return [pid for post in self.workers for pid in self.pids_in(post, *phases)]


Transition: TypeAlias = tuple[SupervisorState, tuple[SupervisorAction, ...]]


def begin(state: SupervisorState, *, now: float) -> Transition:
    """The first actions: a process for every post."""
    posts = (*state.helpers, *state.workers)
    setbacks = {post: RestartBackoff(start_at=now) for post in posts}
    return transition(evolve(state, backoffs=setbacks), TimePassed(), now=now)


def transition(state: SupervisorState, event: SupervisorEvent, *, now: float) -> Transition:
    """What follows from the event."""
    state, first = _apply_event(state, event, now)
    actions = [*first]
    for step in (
        _kill_overdue,
        _start_due,
        _announce_ready,
        _continue_rolling_restart,
        _finish_stop,
    ):
        state, further = step(state, now)
        actions += further
    return state, tuple(actions)


def next_due(state: SupervisorState) -> float | None:
    """When time alone will have something done."""
    starts = [each.start_at for each in state.backoffs.values() if each.start_at is not None]
    ends = [_phase_deadline(state, each) for each in state.processes.values()]
    times = [each for each in (*starts, *ends) if each is not None]
    return min(times, default=None)


def _apply_event(state: SupervisorState, event: SupervisorEvent, now: float) -> Transition:
    match event:
        case StopRequested():
            return _begin_stop(state, now)
        case RollingRestartRequested():
            if state.is_stopping:
                return state, ()
            return evolve(state, workers_to_restart=state.workers), (
                LogMessage("rolling_restart_started"),
            )
        case ReloadRequested():
            told = state.worker_pids(ProcessPhase.SERVING)
            return state, tuple(SendCommand(pid, ProcessCommand.RELOAD) for pid in told)
        case ProcessForked(post, pid):
            state = _with_process(state, pid, Process(post, ProcessPhase.STARTING, now))
            return state, (LogMessage("process_started", post, pid),)
        case ForkFailed(post):
            if state.pids_in(post, ProcessPhase.SERVING):
                return evolve(state, workers_to_restart=()), (LogMessage(ROLL_ABORTED),)
            later = evolve(state.backoffs[post], start_at=now + FORK_RETRY_DELAY_S)
            return evolve(state, backoffs={**state.backoffs, post: later}), ()
        case ProcessServing(pid):
            return _on_serving(state, pid, now)
        case ProcessExited(pid, code):
            return _on_exited(state, pid, code, now)
        case TimePassed():
            return state, ()
        case _:
            assert_never(event)


def _on_serving(state: SupervisorState, pid: int, now: float) -> Transition:
    """A newcomer serves, so its predecessor may go."""
    process = state.processes[pid]
    if process.phase is not ProcessPhase.STARTING:
        return state, ()
    before = state.pids_in(process.slot, ProcessPhase.SERVING)
    state = _with_process(state, pid, evolve(process, phase=ProcessPhase.SERVING, since=now))
    state, told = _stop_processes(state, before, ProcessCommand.RETIRE, now)
    return state, (LogMessage("process_ready", process.slot, pid), *told)


def _on_exited(state: SupervisorState, pid: int, exit_code: int, now: float) -> Transition:
    process = state.processes[pid]
    left = {each: other for each, other in state.processes.items() if each != pid}
    state = evolve(state, processes=left)
    note = LogMessage("process_exited", process.slot, pid, exit_code)
    if process.phase is ProcessPhase.STOPPING:
        is_fault = exit_code not in (0, -15) and state.is_stopping
        return evolve(state, exit_code=state.exit_code or int(is_fault)), (note,)
    if state.pids_in(process.slot, ProcessPhase.STARTING, ProcessPhase.SERVING):
        if process.phase is ProcessPhase.SERVING:
            return state, (note,)
        return evolve(state, workers_to_restart=()), (note, LogMessage(ROLL_ABORTED))
    if state.is_stopping and not state.worker_pids(*ProcessPhase):
        return state, (note,)
    return _schedule_restart(state, process, exit_code, now, note)


def _schedule_restart(
    state: SupervisorState, process: Process, exit_code: int, now: float, note: LogMessage
) -> Transition:
    """The post is empty: fill it, at once the first time, or give up."""
    is_failure = process.phase is ProcessPhase.STARTING or now - process.since < UPTIME_MIN_S
    failures = state.backoffs[process.slot].failures + 1 if is_failure else 0
    serving = state.worker_pids(ProcessPhase.SERVING)
    if failures >= START_FAILURES_MAX and not serving and process.slot in state.workers:
        reason = (
            f"{failures} workers in a row couldn't start; the last one {_describe_exit(exit_code)}."
        )
        return _begin_stop(
            evolve(state, exit_code=exit_code if exit_code > 0 else 1, reason=reason), now
        )
    pause_s = (
        0.0 if failures < 2 else min(RESTART_DELAY_S * 2 ** (failures - 2), RESTART_DELAY_MAX_S)
    )
    setback = RestartBackoff(failures, now + pause_s)
    return evolve(state, backoffs={**state.backoffs, process.slot: setback}), (note,)


def _begin_stop(state: SupervisorState, now: float) -> Transition:
    """Workers leave first; what they need goes when they are gone."""
    if state.is_stopping:
        return state, ()
    setbacks = {post: evolve(each, start_at=None) for post, each in state.backoffs.items()}
    state = evolve(state, is_stopping=True, workers_to_restart=(), backoffs=setbacks)
    retiring = state.worker_pids(ProcessPhase.STOPPING)
    state, told = _stop_processes(
        state,
        state.worker_pids(ProcessPhase.STARTING, ProcessPhase.SERVING),
        ProcessCommand.DRAIN,
        now,
    )
    return state, (
        LogMessage("drain_started"),
        *told,
        *(SendCommand(pid, ProcessCommand.DRAIN) for pid in retiring),
    )


def _kill_overdue(state: SupervisorState, now: float) -> Transition:
    late = [
        pid
        for pid, each in state.processes.items()
        if (until := _phase_deadline(state, each)) is not None and until <= now
    ]
    told: list[SupervisorAction] = []
    for pid in late:
        process = state.processes[pid]
        told += [
            LogMessage("process_killed_overdue", process.slot, pid),
            SendCommand(pid, ProcessCommand.KILL),
        ]
        state = _with_process(state, pid, evolve(process, since=now))  # And again, if need be.
    return state, tuple(told)


def _start_due(state: SupervisorState, now: float) -> Transition:
    due = [
        post
        for post, each in state.backoffs.items()
        if each.start_at is not None and each.start_at <= now
    ]
    started = {post: evolve(state.backoffs[post], start_at=None) for post in due}
    return evolve(state, backoffs={**state.backoffs, **started}), tuple(map(StartProcess, due))


def _announce_ready(state: SupervisorState, now: float) -> Transition:
    if state.is_announced or state.is_stopping:
        return state, ()
    if all(state.pids_in(post, ProcessPhase.SERVING) for post in state.workers):
        return evolve(state, is_announced=True), (AnnounceReady(),)
    return state, ()


def _continue_rolling_restart(state: SupervisorState, now: float) -> Transition:
    """The next worker is replaced once all posts are filled and nobody is leaving: never more than one too many."""
    is_calm = all(state.pids_in(post, ProcessPhase.SERVING) for post in state.workers)
    if (
        not state.workers_to_restart
        or not is_calm
        or state.worker_pids(ProcessPhase.STARTING, ProcessPhase.STOPPING)
    ):
        return state, ()
    post, *rest = state.workers_to_restart
    return evolve(state, workers_to_restart=tuple(rest)), (StartProcess(post),)


def _finish_stop(state: SupervisorState, now: float) -> Transition:
    if not state.is_stopping:
        return state, ()
    if not state.processes:
        return state, (ExitService(state.exit_code, state.reason),)
    phases = (ProcessPhase.STARTING, ProcessPhase.SERVING)
    helpers = [pid for post in state.helpers for pid in state.pids_in(post, *phases)]
    if state.worker_pids(*ProcessPhase):
        return state, ()
    return _stop_processes(state, helpers, ProcessCommand.DRAIN, now)


def _stop_processes(
    state: SupervisorState, pids: list[int], command: ProcessCommand, now: float
) -> Transition:
    for pid in pids:
        leaving = evolve(state.processes[pid], phase=ProcessPhase.STOPPING, since=now)
        state = _with_process(state, pid, leaving)
    return state, tuple(SendCommand(pid, command) for pid in pids)


def _with_process(state: SupervisorState, pid: int, process: Process) -> SupervisorState:
    return evolve(state, processes={**state.processes, pid: process})


def _phase_deadline(state: SupervisorState, process: Process) -> float | None:
    """When a process has had its time, if it has a limited one."""
    match process.phase:
        case ProcessPhase.STARTING:
            return process.since + START_TIMEOUT_S
        case ProcessPhase.STOPPING:
            return process.since + state.stop_timeout_s
        case ProcessPhase.SERVING:
            return None
        case _:
            assert_never(process.phase)


def _describe_exit(exit_code: int) -> str:
    return (
        f"was ended by signal {-exit_code}"
        if exit_code < 0
        else f"ended with exit code {exit_code}"
    )
