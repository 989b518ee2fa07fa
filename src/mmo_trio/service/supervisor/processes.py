"""The processes of a service: forked from this one, watched, told, and replaced as the policy has it.

The supervisor runs no event loop and no thread, so it can be forked at any time; what was imported before is there at
once in every child. It waits in one place, for signals, for what its children say, and for time.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import structlog
from attrs import Factory, define, field, frozen

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
from mmo_trio.service.supervisor.policy import SupervisorState, begin, next_due, transition

logger = structlog.get_logger(__name__)

COMMAND_SIGNALS: Mapping[ProcessCommand, signal.Signals] = {
    ProcessCommand.DRAIN: signal.SIGTERM,
    ProcessCommand.RETIRE: signal.SIGUSR2,
    ProcessCommand.RELOAD: signal.SIGHUP,
    ProcessCommand.KILL: signal.SIGKILL,
}
"""How a process is told."""

SIGNAL_EVENTS: Mapping[int, Callable[[], SupervisorEvent]] = {
    signal.SIGTERM: StopRequested,
    signal.SIGINT: StopRequested,
    signal.SIGHUP: ReloadRequested,
    signal.SIGUSR2: RollingRestartRequested,
    signal.SIGCHLD: TimePassed,
}
"""What a signal to the supervisor means; for children that have ended it looks itself."""

EXIT_SOFTWARE_ERROR = 70
"""The exit code of a process that failed in a way nobody foresaw (EX_SOFTWARE)."""


@frozen
class SupervisorLink:
    """What a process has of its supervisor."""

    slot: str
    """What this process is there for; its predecessor had the same."""
    parent_pipe: int
    """A pipe that ends when the supervisor is gone; nothing is ever written to it."""
    _ready_pipe: int

    def report_serving(self) -> None:
        """Tell the supervisor that this process serves; once."""
        os.write(self._ready_pipe, b"s")
        os.close(self._ready_pipe)


ProcessJob = Callable[[SupervisorLink], int]
"""What the process of a post does, in a process of its own; its exit code."""


def run_in_child(job: Callable[[], int]) -> int:
    """Do this in a process of its own and wait for it; its exit code."""
    pid = _fork()
    if pid == 0:
        _run_and_exit(job)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@define(eq=False)
class Supervisor:
    """Keeps a process at every post until it is told to stop."""

    jobs: Mapping[str, ProcessJob]
    """By post."""
    state: SupervisorState
    on_ready: Callable[[], None]
    """Called once, when all workers serve."""
    prepare_restart: Callable[[], bool]
    """Called before workers are replaced, to get ready for it; False lets everything stay as it is."""
    _selector: selectors.BaseSelector = Factory(selectors.DefaultSelector)
    _parent_pipe: tuple[int, int] = Factory(os.pipe)
    _exits: deque[ExitService] = field(factory=deque, init=False)

    def run(self) -> int:
        """Supervise until all processes have ended; the service's exit code."""
        with self._open_signal_pipe() as alarm:
            self._selector.register(alarm, selectors.EVENT_READ, None)
            self._apply(begin(self.state, now=time.monotonic()))
            while not self._exits:
                self._wait(alarm)
        end = self._exits[0]
        if end.reason is not None:
            print(f"Error: {end.reason}", file=sys.stderr, flush=True)
        return end.exit_code

    def _wait(self, signal_pipe: int) -> None:
        """Sleep until something happens, and see to it."""
        due = next_due(self.state)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.fd == signal_pipe:
                for number in os.read(signal_pipe, 4_096):
                    self._handle_request(SIGNAL_EVENTS[number]())
            else:
                self._read_ready_pipe(key.fd, key.data)
        self._reap()
        self._handle_event(TimePassed())

    def _handle_request(self, event: SupervisorEvent) -> None:
        if not isinstance(event, RollingRestartRequested) or self.prepare_restart():
            self._handle_event(event)

    def _read_ready_pipe(self, pipe: int, pid: int) -> None:
        """A process says that it serves, or it is gone, which is learnt elsewhere."""
        said = os.read(pipe, 1)
        self._selector.unregister(pipe)
        os.close(pipe)
        if said and pid in self.state.processes:
            self._handle_event(ProcessServing(pid))

    def _reap(self) -> None:
        for pid in list(self.state.processes):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                self._handle_event(ProcessExited(pid, os.waitstatus_to_exitcode(status)))

    def _handle_event(self, event: SupervisorEvent) -> None:
        self._apply(transition(self.state, event, now=time.monotonic()))

    def _apply(self, result: tuple[SupervisorState, tuple[SupervisorAction, ...]]) -> None:
        self.state, actions = result
        for action in actions:
            match action:
                case StartProcess(post):
                    self._start_process(post)
                case SendCommand(pid, order):
                    os.kill(
                        pid, COMMAND_SIGNALS[order]
                    )  # Not reaped yet, so the number is still its own.
                case AnnounceReady():
                    self.on_ready()
                case LogMessage(event, slot, pid, code):
                    facts = {"slot": slot, "pid": pid, "exit_code": code}
                    logger.info(event, **{k: v for k, v in facts.items() if v is not None})
                case ExitService():
                    self._exits.append(action)

    def _start_process(self, slot: str) -> None:
        hear, tell = os.pipe()
        try:
            pid = _fork()
        except OSError as error:
            logger.error("process_fork_failed", post=slot, error=str(error))
            os.close(hear)
            os.close(tell)
            self._handle_event(ForkFailed(slot))
            return
        if pid == 0:
            watched = [each.fd for each in self._selector.get_map().values()]
            self._selector.close()
            for descriptor in (hear, self._parent_pipe[1], *watched):
                os.close(descriptor)
            _run_and_exit(lambda: self.jobs[slot](SupervisorLink(slot, self._parent_pipe[0], tell)))
        os.close(tell)
        self._selector.register(hear, selectors.EVENT_READ, pid)
        self._handle_event(ProcessForked(slot, pid))

    @contextmanager
    def _open_signal_pipe(self) -> Iterator[int]:
        """A pipe into which the number of every signal for us is written."""
        alarm, bell = os.pipe()
        for end in (alarm, bell):
            os.set_blocking(end, False)
        before = {number: signal.signal(number, _ignore_signal) for number in SIGNAL_EVENTS}
        signal.set_wakeup_fd(bell)
        try:
            yield alarm
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in (alarm, bell):
                os.close(end)


def _fork() -> int:
    """Fork with no signal in between: the child begins as a fresh program would, 0 to it and its pid to us."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNAL_EVENTS)
    try:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in SIGNAL_EVENTS:
                signal.signal(number, signal.SIG_DFL)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNAL_EVENTS)


def _run_and_exit(job: Callable[[], int]) -> None:
    """Do the job as this process's whole life; never returns."""
    code = EXIT_SOFTWARE_ERROR
    try:
        code = job()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ignore_signal(number: int, frame: object) -> None:
    """A handler must be there for the pipe to be written."""
