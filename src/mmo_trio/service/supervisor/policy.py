"""What a supervisor does, on what: a pure function from its state and an event to the next state and actions.

    state, actions = decide(state, event, now=now)

A *post* is a place that a process fills: `worker-1`, `worker-2`, ..., and one for what all workers share. A process is
*starting* until it says that it serves, *serving*, and *leaving* once it was told to end. `now` is monotonic, in
seconds; `next_due` says when to come again without an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias, assert_never

from attrs import evolve, frozen

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

SETTLED_S = 1.0
"""A process that ends sooner than this after it began to serve counts as one that couldn't start."""

FAILURES_MOST = 5
"""So many failed starts of one post in a row end the service, when no worker serves."""

PAUSE_S = 0.2
"""The wait before the second start in a row; twice as long each time. The first one is at once."""

PAUSE_S_MOST = 10.0
FORK_AGAIN_S = 1.0
"""The wait when the system has no room for another process."""

START_S_MOST = 60.0
"""A process that doesn't serve by then is killed."""

STAYS = "the new worker didn't start: the others stay as they are"


class Phase(Enum):
    """How far a process is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    LEAVING = "leaving"


@frozen
class Process:
    """A process of ours."""

    post: str
    phase: Phase
    since: float
    """When this phase began."""


@frozen
class Setback:
    """How a post fares that has lost its process."""

    failures: int = 0
    """Failed starts in a row."""
    start_at: float | None = None
    """When the next process is to be started for it; None when there is one."""


@frozen
class State:
    """Everything a supervisor has to know."""

    workers: tuple[str, ...]
    helpers: tuple[str, ...] = ()
    """Posts that workers need: first to start, last to end, never rolled."""
    leave_s: float = 60.0
    """How long a process may take to end before it is killed."""
    processes: Mapping[int, Process] = MappingProxyType({})
    setbacks: Mapping[str, Setback] = MappingProxyType({})
    to_roll: tuple[str, ...] = ()
    """Workers that still are to be replaced, in this order."""
    is_announced: bool = False
    is_stopping: bool = False
    exit_code: int = 0
    reason: str | None = None

    def at(self, post: str, *phases: Phase) -> list[int]:
        """The processes of a post that are in one of these phases."""
        return [
            pid
            for pid, each in self.processes.items()
            if each.post == post and each.phase in phases
        ]

    def of_workers(self, *phases: Phase) -> list[int]:
        """The workers' processes that are in one of these phases."""
        return [pid for post in self.workers for pid in self.at(post, *phases)]


Next: TypeAlias = tuple[State, tuple[Action, ...]]


def begin(state: State, *, now: float) -> Next:
    """The first actions: a process for every post."""
    posts = (*state.helpers, *state.workers)
    setbacks = {post: Setback(start_at=now) for post in posts}
    return decide(evolve(state, setbacks=setbacks), TimePassed(), now=now)


def decide(state: State, event: Event, *, now: float) -> Next:
    """What follows from the event."""
    state, first = _take(state, event, now)
    actions = [*first]
    for step in (_kill_the_late, _start_the_due, _announce, _roll_on, _end):
        state, further = step(state, now)
        actions += further
    return state, tuple(actions)


def next_due(state: State) -> float | None:
    """When time alone will have something done."""
    starts = [each.start_at for each in state.setbacks.values() if each.start_at is not None]
    ends = [_patience_until(state, each) for each in state.processes.values()]
    times = [each for each in (*starts, *ends) if each is not None]
    return min(times, default=None)


def _take(state: State, event: Event, now: float) -> Next:
    match event:
        case Stop():
            return _stop(state, now)
        case Roll():
            if state.is_stopping:
                return state, ()
            return evolve(state, to_roll=state.workers), (Note("replacing every worker in turn"),)
        case Reload():
            told = state.of_workers(Phase.SERVING)
            return state, tuple(Tell(pid, Order.RELOAD) for pid in told)
        case Forked(post, pid):
            state = _with_process(state, pid, Process(post, Phase.STARTING, now))
            return state, (Note(f"{post} starts", pid=pid),)
        case NotForked(post):
            if state.at(post, Phase.SERVING):
                return evolve(state, to_roll=()), (Note(STAYS),)
            later = evolve(state.setbacks[post], start_at=now + FORK_AGAIN_S)
            return evolve(state, setbacks={**state.setbacks, post: later}), ()
        case Serves(pid):
            return _serves(state, pid, now)
        case Ended(pid, code):
            return _ended(state, pid, code, now)
        case TimePassed():
            return state, ()
        case _:
            assert_never(event)


def _serves(state: State, pid: int, now: float) -> Next:
    """A newcomer serves, so its predecessor may go."""
    process = state.processes[pid]
    if process.phase is not Phase.STARTING:
        return state, ()
    before = state.at(process.post, Phase.SERVING)
    state = _with_process(state, pid, evolve(process, phase=Phase.SERVING, since=now))
    state, told = _leave(state, before, Order.RETIRE, now)
    return state, (Note(f"{process.post} serves", pid=pid), *told)


def _ended(state: State, pid: int, code: int, now: float) -> Next:
    process = state.processes[pid]
    left = {each: other for each, other in state.processes.items() if each != pid}
    state = evolve(state, processes=left)
    note = Note(f"{process.post} ended", pid=pid, code=code)
    if process.phase is Phase.LEAVING:
        is_fault = code not in (0, -15) and state.is_stopping
        return evolve(state, exit_code=state.exit_code or int(is_fault)), (note,)
    if state.at(process.post, Phase.STARTING, Phase.SERVING):
        if process.phase is Phase.SERVING:
            return state, (note,)
        return evolve(state, to_roll=()), (note, Note(STAYS))
    if state.is_stopping and not state.of_workers(*Phase):
        return state, (note,)
    return _replace(state, process, code, now, note)


def _replace(state: State, process: Process, code: int, now: float, note: Note) -> Next:
    """The post is empty: fill it, at once the first time, or give up."""
    is_failure = process.phase is Phase.STARTING or now - process.since < SETTLED_S
    failures = state.setbacks[process.post].failures + 1 if is_failure else 0
    serving = state.of_workers(Phase.SERVING)
    if failures >= FAILURES_MOST and not serving and process.post in state.workers:
        reason = f"{failures} workers in a row couldn't start; the last one {_how(code)}."
        return _stop(evolve(state, exit_code=code if code > 0 else 1, reason=reason), now)
    pause_s = 0.0 if failures < 2 else min(PAUSE_S * 2 ** (failures - 2), PAUSE_S_MOST)
    setback = Setback(failures, now + pause_s)
    return evolve(state, setbacks={**state.setbacks, process.post: setback}), (note,)


def _stop(state: State, now: float) -> Next:
    """Workers leave first; what they need goes when they are gone."""
    if state.is_stopping:
        return state, ()
    setbacks = {post: evolve(each, start_at=None) for post, each in state.setbacks.items()}
    state = evolve(state, is_stopping=True, to_roll=(), setbacks=setbacks)
    retiring = state.of_workers(Phase.LEAVING)
    state, told = _leave(state, state.of_workers(Phase.STARTING, Phase.SERVING), Order.DRAIN, now)
    return state, (Note("draining"), *told, *(Tell(pid, Order.DRAIN) for pid in retiring))


def _kill_the_late(state: State, now: float) -> Next:
    late = [
        pid
        for pid, each in state.processes.items()
        if (until := _patience_until(state, each)) is not None and until <= now
    ]
    told: list[Action] = []
    for pid in late:
        process = state.processes[pid]
        told += [
            Note(f"{process.post} takes too long: it is killed", pid=pid),
            Tell(pid, Order.KILL),
        ]
        state = _with_process(state, pid, evolve(process, since=now))  # And again, if need be.
    return state, tuple(told)


def _start_the_due(state: State, now: float) -> Next:
    due = [
        post
        for post, each in state.setbacks.items()
        if each.start_at is not None and each.start_at <= now
    ]
    started = {post: evolve(state.setbacks[post], start_at=None) for post in due}
    return evolve(state, setbacks={**state.setbacks, **started}), tuple(map(Start, due))


def _announce(state: State, now: float) -> Next:
    if state.is_announced or state.is_stopping:
        return state, ()
    if all(state.at(post, Phase.SERVING) for post in state.workers):
        return evolve(state, is_announced=True), (Announce(),)
    return state, ()


def _roll_on(state: State, now: float) -> Next:
    """The next worker is replaced once all posts are filled and nobody is leaving: never more than one too many."""
    is_calm = all(state.at(post, Phase.SERVING) for post in state.workers)
    if not state.to_roll or not is_calm or state.of_workers(Phase.STARTING, Phase.LEAVING):
        return state, ()
    post, *rest = state.to_roll
    return evolve(state, to_roll=tuple(rest)), (Start(post),)


def _end(state: State, now: float) -> Next:
    if not state.is_stopping:
        return state, ()
    if not state.processes:
        return state, (End(state.exit_code, state.reason),)
    phases = (Phase.STARTING, Phase.SERVING)
    helpers = [pid for post in state.helpers for pid in state.at(post, *phases)]
    if state.of_workers(*Phase):
        return state, ()
    return _leave(state, helpers, Order.DRAIN, now)


def _leave(state: State, pids: list[int], order: Order, now: float) -> Next:
    for pid in pids:
        leaving = evolve(state.processes[pid], phase=Phase.LEAVING, since=now)
        state = _with_process(state, pid, leaving)
    return state, tuple(Tell(pid, order) for pid in pids)


def _with_process(state: State, pid: int, process: Process) -> State:
    return evolve(state, processes={**state.processes, pid: process})


def _patience_until(state: State, process: Process) -> float | None:
    """When a process has had its time, if it has a limited one."""
    match process.phase:
        case Phase.STARTING:
            return process.since + START_S_MOST
        case Phase.LEAVING:
            return process.since + state.leave_s
        case Phase.SERVING:
            return None
        case _:
            assert_never(process.phase)


def _how(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
