"""Decides what the supervisor does: a pure function of a state and an event.

    state, actions = transition(state, event, now=now)

A *slot* is a place that one process fills: `worker-1`, `worker-2`, and so on, and before all of
them `preparation`, whose process makes the store ready and ends. A process is *starting* until it
reports that it serves, then *serving*, and *stopping* once it was sent a command to end. `now` is
monotonic, in seconds; `next_due` says when to call again without an event.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias, assert_never

from attrs import evolve, frozen

# The slot of the process that makes the store ready: workers begin when it has ended well.
PREPARATION = "preparation"

# A process that ends sooner than this after it began to serve counts as a failed start.
UPTIME_MIN_S = 1.0

# This many failed starts of one slot in a row end a service that has not served yet, unless another
# worker serves.
START_FAILURES_MAX = 5

# Seconds before the second start in a row, doubled each time. The first start is immediate.
RESTART_DELAY_S = 0.2

RESTART_DELAY_MAX_S = 10.0

# Seconds before the next start after the system could start no process.
FORK_RETRY_DELAY_S = 1.0

# Seconds that a worker has to begin to serve before it is killed. A preparation has no such end: a
# large store takes its time.
START_TIMEOUT_S = 60.0


class ProcessCommand(Enum):
    """Defines the commands to a process, each with its signal."""

    DRAIN = signal.SIGTERM
    """Finish active requests and deliveries, close idle connections, and end."""
    RETIRE = signal.SIGUSR2
    """Drain, but leave idle connections time for one last request: a successor serves already."""
    RELOAD = signal.SIGHUP
    """Read the certificates again."""
    KILL = signal.SIGKILL


@frozen
class StopRequested:
    """The service shall end."""


@frozen
class RollingRestartRequested:
    """Every worker shall be replaced, one after the other."""


@frozen
class ReloadRequested:
    """The certificates shall be read again."""


@frozen
class ProcessForked:
    """A process was started for this slot."""

    slot: str
    pid: int


@frozen
class ForkFailed:
    """The system can start no process for this slot now."""

    slot: str


@frozen
class ProcessServing:
    """The process reports that it serves."""

    pid: int


@frozen
class ProcessExited:
    """The process has ended with this exit code, negative if a signal ended it."""

    pid: int
    exit_code: int


@frozen
class TimePassed:
    """Time has passed without another event."""


SupervisorEvent: TypeAlias = (
    StopRequested
    | RollingRestartRequested
    | ReloadRequested
    | ProcessForked
    | ForkFailed
    | ProcessServing
    | ProcessExited
    | TimePassed
)


@frozen
class StartProcess:
    """Start a process for this slot; `ProcessForked` or `ForkFailed` follows."""

    slot: str


@frozen
class SendCommand:
    """Send a command to a process."""

    pid: int
    command: ProcessCommand


@frozen
class AnnounceReady:
    """Announce, once, that the service is ready."""


@frozen
class LogMessage:
    """Write this event to the log."""

    event: str
    slot: str | None = None
    pid: int | None = None
    exit_code: int | None = None


@frozen
class ExitService:
    """End the service, as all processes have ended; `reason` explains a failure to a person."""

    exit_code: int
    reason: str | None = None


SupervisorAction: TypeAlias = StartProcess | SendCommand | AnnounceReady | LogMessage | ExitService


class ProcessPhase(Enum):
    """Defines the phases of a process's life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "leaving"


@frozen
class Process:
    """Describes a process of the service."""

    slot: str
    phase: ProcessPhase
    since: float
    """When this phase began."""


@frozen
class RestartBackoff:
    """Says when a slot gets its next process."""

    failures: int = 0
    """Failed starts in a row."""
    start_at: float | None = None
    """When to start the next process; None while the slot has one."""


@frozen
class SupervisorState:
    """Holds everything that the supervisor knows."""

    workers: tuple[str, ...]
    stop_timeout_s: float = 60.0
    """Seconds that a process has to end before it is killed."""
    processes: Mapping[int, Process] = MappingProxyType({})
    backoffs: Mapping[str, RestartBackoff] = MappingProxyType({})
    workers_to_restart: tuple[str, ...] = ()
    """Workers that a rolling restart has still to replace, in this order."""
    reload_requested_at: float = -math.inf
    """When processes were told last to read again what they have read; one that was starting is
    told once it serves."""
    is_announced: bool = False
    is_stopping: bool = False
    exit_code: int = 0
    reason: str | None = None

    def pids_in(self, slot: str, *phases: ProcessPhase) -> list[int]:
        """Return the processes of a slot that are in one of these phases."""
        return [
            pid
            for pid, process in self.processes.items()
            if process.slot == slot and process.phase in phases
        ]

    def pids(self, *phases: ProcessPhase) -> list[int]:
        """Return the processes that are in one of these phases, by the order of their slots."""
        return [pid for slot in (PREPARATION, *self.workers) for pid in self.pids_in(slot, *phases)]

    @property
    def all_workers_serve(self) -> bool:
        return all(self.pids_in(slot, ProcessPhase.SERVING) for slot in self.workers)


Transition: TypeAlias = tuple[SupervisorState, tuple[SupervisorAction, ...]]


def begin(state: SupervisorState, *, now: float) -> Transition:
    """Return the first action, which starts the preparation."""
    backoffs = {PREPARATION: RestartBackoff(start_at=now)}
    return transition(evolve(state, backoffs=backoffs), TimePassed(), now=now)


def transition(state: SupervisorState, event: SupervisorEvent, *, now: float) -> Transition:
    """Return the next state and the actions that follow from the event."""
    # First what the event says, then what follows from the state, in this order: whoever is killed
    # may be replaced in the same step, and the end is looked for last.
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
    """Return when `transition` has something to do without an event; None for never."""
    starts = [backoff.start_at for backoff in state.backoffs.values()]
    deadlines = [_phase_deadline(state, process) for process in state.processes.values()]
    return min((start for start in (*starts, *deadlines) if start is not None), default=None)


def _apply_event(state: SupervisorState, event: SupervisorEvent, now: float) -> Transition:
    match event:
        case StopRequested():
            return _begin_stop(state, now)
        case RollingRestartRequested():
            if state.is_stopping:
                return state, ()
            started = LogMessage("rolling_restart_started")
            return evolve(state, workers_to_restart=state.workers), (started,)
        case ReloadRequested():
            # One that is starting is told once it serves: it may have read the old files already.
            serving = state.pids(ProcessPhase.SERVING)
            commands = tuple(SendCommand(pid, ProcessCommand.RELOAD) for pid in serving)
            return evolve(state, reload_requested_at=now), commands
        case ProcessForked(slot, pid):
            state = _with_process(state, pid, Process(slot, ProcessPhase.STARTING, now))
            return state, (LogMessage("process_started", slot, pid),)
        case ForkFailed(slot):
            # The old worker serves on: a successor can wait, an empty slot cannot.
            if state.pids_in(slot, ProcessPhase.SERVING):
                return _abort_rolling_restart(state)
            later = evolve(state.backoffs[slot], start_at=now + FORK_RETRY_DELAY_S)
            return evolve(state, backoffs={**state.backoffs, slot: later}), ()
        case ProcessServing(pid):
            return _on_serving(state, pid, now)
        case ProcessExited(pid, exit_code):
            return _on_exited(state, pid, exit_code, now)
        case TimePassed():
            return state, ()
        case _:
            assert_never(event)


def _on_serving(state: SupervisorState, pid: int, now: float) -> Transition:
    """Let the process serve, and its predecessor retire."""
    process = state.processes[pid]

    # It was told to stop while its report was on its way.
    if process.phase is not ProcessPhase.STARTING:
        return state, ()

    # The new one serves before the old one retires, so no connection is refused in between.
    predecessors = state.pids_in(process.slot, ProcessPhase.SERVING)
    state = _with_process(state, pid, evolve(process, phase=ProcessPhase.SERVING, since=now))
    state, commands = _stop_processes(state, predecessors, ProcessCommand.RETIRE, now)
    if process.since <= state.reload_requested_at:
        commands = (SendCommand(pid, ProcessCommand.RELOAD), *commands)
    return state, (LogMessage("process_ready", process.slot, pid), *commands)


def _on_exited(state: SupervisorState, pid: int, exit_code: int, now: float) -> Transition:
    process = state.processes[pid]

    # The cases in this order: the preparation; one that was to end; one of two in its slot; the
    # only one.
    others = {other: process for other, process in state.processes.items() if other != pid}
    state = evolve(state, processes=others)
    exited = LogMessage("process_exited", process.slot, pid, exit_code)
    if process.slot == PREPARATION and not state.is_stopping:
        state, further = _on_prepared(state, exit_code, now)
        return state, (exited, *further)

    if process.phase is ProcessPhase.STOPPING:
        # A process that dies while it is replaced is no failure of the service.
        is_failure = exit_code not in (0, -15) and state.is_stopping
        return evolve(state, exit_code=state.exit_code or int(is_failure)), (exited,)

    if state.pids_in(process.slot, ProcessPhase.STARTING, ProcessPhase.SERVING):
        if process.phase is ProcessPhase.SERVING:
            return state, (exited,)

        state, aborted = _abort_rolling_restart(state)
        return state, (exited, *aborted)

    return _schedule_restart(state, process, exit_code, now, exited)


def _on_prepared(state: SupervisorState, exit_code: int, now: float) -> Transition:
    """Start a process for every worker, or end the service; who prepared has said why."""
    if exit_code == 0:
        backoffs = {slot: RestartBackoff(start_at=now) for slot in state.workers}
        return evolve(state, backoffs=backoffs), ()

    reason = None
    if exit_code < 0:
        reason = f"the preparation of the store was ended by signal {-exit_code}."
    failed = evolve(state, exit_code=exit_code if exit_code > 0 else 1, reason=reason)
    return _begin_stop(failed, now)


def _abort_rolling_restart(state: SupervisorState) -> Transition:
    return evolve(state, workers_to_restart=()), (LogMessage("rolling_restart_aborted"),)


def _schedule_restart(
    state: SupervisorState, process: Process, exit_code: int, now: float, exited: LogMessage
) -> Transition:
    """Start a process for the empty slot, at once the first time, or give up before the service has
    served: what it needs may come back later, and until then connections wait for it."""
    # One that serves for a moment and dies has not started either.
    is_failure = process.phase is ProcessPhase.STARTING or now - process.since < UPTIME_MIN_S
    if is_failure:
        failures = state.backoffs[process.slot].failures + 1
    else:
        failures = 0

    serving = state.pids(ProcessPhase.SERVING)

    # A service that has served before goes on trying: its database may come back.
    is_hopeless = failures >= START_FAILURES_MAX and not serving and not state.is_announced
    if is_hopeless:
        if exit_code < 0:
            last = f"was ended by signal {-exit_code}"
        else:
            last = f"ended with exit code {exit_code}"

        reason = f"{failures} workers in a row couldn't start; the last one {last}."
        failed = evolve(state, exit_code=exit_code if exit_code > 0 else 1, reason=reason)
        return _begin_stop(failed, now)

    # At once, then after 0.2 s, doubled: most faults are over at once, others take long.
    delay_s = 0.0
    if failures >= 2:
        delay_s = min(RESTART_DELAY_S * 2 ** (failures - 2), RESTART_DELAY_MAX_S)

    backoff = RestartBackoff(failures, now + delay_s)
    return evolve(state, backoffs={**state.backoffs, process.slot: backoff}), (exited,)


def _begin_stop(state: SupervisorState, now: float) -> Transition:
    if state.is_stopping:
        return state, ()
    backoffs = {slot: evolve(backoff, start_at=None) for slot, backoff in state.backoffs.items()}
    state = evolve(state, is_stopping=True, workers_to_restart=(), backoffs=backoffs)
    retiring = state.pids(ProcessPhase.STOPPING)
    running = state.pids(ProcessPhase.STARTING, ProcessPhase.SERVING)
    state, commands = _stop_processes(state, running, ProcessCommand.DRAIN, now)
    # Their idle connections need no grace any more: nobody takes over.
    hurry = (SendCommand(pid, ProcessCommand.DRAIN) for pid in retiring)
    return state, (LogMessage("drain_started"), *commands, *hurry)


def _kill_overdue(state: SupervisorState, now: float) -> Transition:
    actions: list[SupervisorAction] = []
    for pid, process in state.processes.items():
        deadline = _phase_deadline(state, process)
        if deadline is not None and deadline <= now:
            killed = LogMessage("process_killed_overdue", process.slot, pid)
            actions += killed, SendCommand(pid, ProcessCommand.KILL)
            # The phase begins again, so that the process is killed again if it doesn't end.
            state = _with_process(state, pid, evolve(process, since=now))
    return state, tuple(actions)


def _start_due(state: SupervisorState, now: float) -> Transition:
    due = [
        slot
        for slot, backoff in state.backoffs.items()
        if backoff.start_at is not None and backoff.start_at <= now
    ]
    started = {slot: evolve(state.backoffs[slot], start_at=None) for slot in due}
    return evolve(state, backoffs={**state.backoffs, **started}), tuple(map(StartProcess, due))


def _announce_ready(state: SupervisorState, now: float) -> Transition:
    if state.is_announced or state.is_stopping or not state.all_workers_serve:
        return state, ()
    return evolve(state, is_announced=True), (AnnounceReady(),)


def _continue_rolling_restart(state: SupervisorState, now: float) -> Transition:
    """Replace the next worker once all slots are filled and no process is stopping, so that there
    is never more than one process too many."""
    is_changing = state.pids(ProcessPhase.STARTING, ProcessPhase.STOPPING)
    if not state.workers_to_restart or not state.all_workers_serve or is_changing:
        return state, ()
    slot, *others = state.workers_to_restart
    return evolve(state, workers_to_restart=tuple(others)), (StartProcess(slot),)


def _finish_stop(state: SupervisorState, now: float) -> Transition:
    if not state.is_stopping or state.processes:
        return state, ()
    return state, (ExitService(state.exit_code, state.reason),)


def _stop_processes(
    state: SupervisorState, pids: list[int], command: ProcessCommand, now: float
) -> Transition:
    for pid in pids:
        stopping = evolve(state.processes[pid], phase=ProcessPhase.STOPPING, since=now)
        state = _with_process(state, pid, stopping)
    return state, tuple(SendCommand(pid, command) for pid in pids)


def _with_process(state: SupervisorState, pid: int, process: Process) -> SupervisorState:
    return evolve(state, processes={**state.processes, pid: process})


def _phase_deadline(state: SupervisorState, process: Process) -> float | None:
    """Return when the process has to leave its phase; None for no limit."""
    match process.phase:
        case ProcessPhase.STARTING:
            if process.slot == PREPARATION:
                return None
            return process.since + START_TIMEOUT_S
        case ProcessPhase.STOPPING:
            return process.since + state.stop_timeout_s
        case ProcessPhase.SERVING:
            return None
        case _:
            assert_never(process.phase)
