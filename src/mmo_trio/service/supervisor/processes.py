"""Forks the processes of a service, watches them, and does what the policy decides.

The supervisor runs no event loop and no thread, so it can fork at any time, and children have every imported module at
once. It waits in one place for signals, for reports of its children, and for time.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import structlog
from attrs import Factory, define, field, frozen

from mmo_trio.service.stop_signals import STOP_SIGNALS
from mmo_trio.service.supervisor import events
from mmo_trio.service.supervisor.policy import SupervisorState, Transition, begin, next_due, transition
from mmo_trio.system.logs import name_process

logger = structlog.get_logger(__name__)

SIGNAL_EVENTS: Mapping[int, Callable[[], events.SupervisorEvent]] = {
    signal.SIGTERM: events.StopRequested,
    signal.SIGINT: events.StopRequested,
    signal.SIGHUP: events.ReloadRequested,
    signal.SIGUSR2: events.RollingRestartRequested,
    signal.SIGCHLD: events.TimePassed,
}
"""The events that signals cause; the supervisor looks for ended children after each signal."""

EXIT_SOFTWARE_ERROR = 70
"""The exit code of a process that ended with an unexpected exception (EX_SOFTWARE)."""


@frozen
class SupervisorLink:
    """Connects a process with its supervisor."""

    slot: str
    """The place that this process fills; its successor gets the same."""
    parent_pipe: int
    """A pipe that ends when the supervisor is gone; nothing is ever written to it."""
    _ready_pipe: int

    def report_serving(self) -> None:
        """Report to the supervisor, once, that this process serves."""
        os.write(self._ready_pipe, b"s")
        os.close(self._ready_pipe)


ProcessJob = Callable[[SupervisorLink], int]
"""Runs as the process of a slot, and returns its exit code."""


def run_in_child(job: Callable[[], int]) -> int:
    """Do the job in a process of its own, wait for it, and return its exit code."""
    pid = _fork()
    if pid == 0:
        _run_and_exit(job)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@define(eq=False)
class Supervisor:
    """Keeps a process in every slot until the service shall stop."""

    jobs: Mapping[str, ProcessJob]
    """The jobs by slot."""
    state: SupervisorState
    on_ready: Callable[[], None]
    """Called once, when all workers serve."""
    prepare_restart: Callable[[], bool]
    """Called before workers are replaced, to read the settings; False cancels the replacement."""
    close_listeners: Callable[[], None]
    """Called when the service stops, so that workers that accept no more leave nobody waiting; more than once."""
    _selector: selectors.BaseSelector = Factory(selectors.DefaultSelector)
    _parent_pipe: tuple[int, int] = Factory(os.pipe)
    _exit: events.ExitService | None = field(default=None, init=False)

    def run(self) -> int:
        """Supervise until all processes have ended, and return the service's exit code."""
        name_process("supervisor")
        with self._open_signal_pipe() as signal_pipe:
            self._selector.register(signal_pipe, selectors.EVENT_READ, None)
            self._apply(begin(self.state, now=time.monotonic()))
            while self._exit is None:
                self._wait(signal_pipe)
        if self._exit.reason is not None:
            print(f"Error: {self._exit.reason}", file=sys.stderr, flush=True)
        return self._exit.exit_code

    def _wait(self, signal_pipe: int) -> None:
        due = next_due(self.state)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.fd == signal_pipe:
                for number in os.read(signal_pipe, 4_096):
                    event = SIGNAL_EVENTS[number]()
                    if not isinstance(event, events.RollingRestartRequested) or self.prepare_restart():
                        self._handle_event(event)
            else:
                self._read_ready_pipe(key.fd, key.data)
        self._reap()
        self._handle_event(events.TimePassed())

    def _read_ready_pipe(self, pipe: int, pid: int) -> None:
        """Read a report that a process serves; the pipe ends without one when the process ends."""
        report = os.read(pipe, 1)
        self._selector.unregister(pipe)
        os.close(pipe)
        if report and pid in self.state.processes:
            self._handle_event(events.ProcessServing(pid))

    def _reap(self) -> None:
        for pid in list(self.state.processes):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                self._handle_event(events.ProcessExited(pid, os.waitstatus_to_exitcode(status)))

    def _handle_event(self, event: events.SupervisorEvent) -> None:
        self._apply(transition(self.state, event, now=time.monotonic()))

    def _apply(self, result: Transition) -> None:
        self.state, actions = result
        if self.state.is_stopping:
            self.close_listeners()
        for action in actions:
            match action:
                case events.StartProcess(slot):
                    self._start_process(slot)
                case events.SendCommand(pid, command):
                    os.kill(pid, command.value)  # Not reaped yet, so the pid is still its own.
                case events.AnnounceReady():
                    self.on_ready()
                case events.LogMessage(event, slot, pid, code):
                    facts = {"slot": slot, "pid": pid, "exit_code": code}
                    logger.info(event, **{k: v for k, v in facts.items() if v is not None})
                case events.ExitService():
                    self._exit = action

    def _start_process(self, slot: str) -> None:
        read_end, write_end = os.pipe()
        try:
            pid = _fork()
        except OSError as error:
            logger.error("process_fork_failed", slot=slot, error=str(error))
            os.close(read_end)
            os.close(write_end)
            self._handle_event(events.ForkFailed(slot))
            return
        if pid == 0:
            watched = [each.fd for each in self._selector.get_map().values()]
            self._selector.close()
            for descriptor in (read_end, self._parent_pipe[1], *watched):
                os.close(descriptor)
            link = SupervisorLink(slot, self._parent_pipe[0], write_end)
            name_process(slot)
            _run_and_exit(lambda: self.jobs[slot](link))
        os.close(write_end)
        self._selector.register(read_end, selectors.EVENT_READ, pid)
        self._handle_event(events.ProcessForked(slot, pid))

    @contextmanager
    def _open_signal_pipe(self) -> Iterator[int]:
        """Open a pipe into which the number of every signal to this process is written.

        Once the service ends, further requests to end are ignored."""
        read_end, write_end = os.pipe()
        for end in (read_end, write_end):
            os.set_blocking(end, False)
        before = {number: signal.signal(number, _ignore_signal) for number in SIGNAL_EVENTS}
        signal.set_wakeup_fd(write_end)
        try:
            yield read_end
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                is_ending = self._exit is not None and number in STOP_SIGNALS
                signal.signal(number, signal.SIG_IGN if is_ending else handler)
            for end in (read_end, write_end):
                os.close(end)


def _fork() -> int:
    """Fork while signals are blocked; the child has the default handlers. Return as os.fork."""
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
    """Do the job, then end this process; never returns."""
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
    """Do nothing: a handler must exist for the signal pipe to be written."""
