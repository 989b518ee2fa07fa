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
from mmo_trio.service.supervisor.policy import State, begin, decide, next_due

logger = structlog.get_logger(__name__)

SIGNALS: Mapping[Order, signal.Signals] = {
    Order.DRAIN: signal.SIGTERM,
    Order.RETIRE: signal.SIGUSR2,
    Order.RELOAD: signal.SIGHUP,
    Order.KILL: signal.SIGKILL,
}
"""How a process is told."""

REQUESTS: Mapping[int, Callable[[], Event]] = {
    signal.SIGTERM: Stop,
    signal.SIGINT: Stop,
    signal.SIGHUP: Reload,
    signal.SIGUSR2: Roll,
    signal.SIGCHLD: TimePassed,
}
"""What a signal to the supervisor means; for children that have ended it looks itself."""

FAULT = 70
"""The exit code of a process that failed in a way nobody foresaw (EX_SOFTWARE)."""


@frozen
class Link:
    """What a process has of its supervisor."""

    post: str
    """What this process is there for; its predecessor had the same."""
    lifeline: int
    """A pipe that ends when the supervisor is gone; nothing is ever written to it."""
    _told: int

    def serves(self) -> None:
        """Tell the supervisor that this process serves; once."""
        os.write(self._told, b"s")
        os.close(self._told)


Job = Callable[[Link], int]
"""What the process of a post does, in a process of its own; its exit code."""


def run_once(job: Callable[[], int]) -> int:
    """Do this in a process of its own and wait for it; its exit code."""
    pid = _fork()
    if pid == 0:
        _live(job)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@define(eq=False)
class Supervisor:
    """Keeps a process at every post until it is told to stop."""

    jobs: Mapping[str, Job]
    """By post."""
    state: State
    on_ready: Callable[[], None]
    """Called once, when all workers serve."""
    may_roll: Callable[[], bool]
    """Called before workers are replaced, to get ready for it; False lets everything stay as it is."""
    _selector: selectors.BaseSelector = Factory(selectors.DefaultSelector)
    _lifeline: tuple[int, int] = Factory(os.pipe)
    _ends: deque[End] = field(factory=deque, init=False)

    def run(self) -> int:
        """Supervise until all processes have ended; the service's exit code."""
        with self._listening() as alarm:
            self._selector.register(alarm, selectors.EVENT_READ, None)
            self._follow(begin(self.state, now=time.monotonic()))
            while not self._ends:
                self._wait(alarm)
        end = self._ends[0]
        if end.reason is not None:
            print(f"Error: {end.reason}", file=sys.stderr, flush=True)
        return end.code

    def _wait(self, alarm: int) -> None:
        """Sleep until something happens, and see to it."""
        due = next_due(self.state)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.fd == alarm:
                for number in os.read(alarm, 4_096):
                    self._asked(REQUESTS[number]())
            else:
                self._heard(key.fd, key.data)
        self._reap()
        self._happened(TimePassed())

    def _asked(self, event: Event) -> None:
        if not isinstance(event, Roll) or self.may_roll():
            self._happened(event)

    def _heard(self, pipe: int, pid: int) -> None:
        """A process says that it serves, or it is gone, which is learnt elsewhere."""
        said = os.read(pipe, 1)
        self._selector.unregister(pipe)
        os.close(pipe)
        if said and pid in self.state.processes:
            self._happened(Serves(pid))

    def _reap(self) -> None:
        for pid in list(self.state.processes):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                self._happened(Ended(pid, os.waitstatus_to_exitcode(status)))

    def _happened(self, event: Event) -> None:
        self._follow(decide(self.state, event, now=time.monotonic()))

    def _follow(self, decided: tuple[State, tuple[Action, ...]]) -> None:
        self.state, actions = decided
        for action in actions:
            match action:
                case Start(post):
                    self._start(post)
                case Tell(pid, order):
                    os.kill(pid, SIGNALS[order])  # Not reaped yet, so the number is still its own.
                case Announce():
                    self.on_ready()
                case Note(text, pid, code):
                    facts = {"pid": pid, "exit_code": code}
                    logger.info(text, **{k: v for k, v in facts.items() if v is not None})
                case End():
                    self._ends.append(action)

    def _start(self, post: str) -> None:
        hear, tell = os.pipe()
        try:
            pid = _fork()
        except OSError as error:
            logger.error("no process can be started", post=post, error=str(error))
            os.close(hear)
            os.close(tell)
            self._happened(NotForked(post))
            return
        if pid == 0:
            watched = [each.fd for each in self._selector.get_map().values()]
            self._selector.close()
            for descriptor in (hear, self._lifeline[1], *watched):
                os.close(descriptor)
            _live(lambda: self.jobs[post](Link(post, self._lifeline[0], tell)))
        os.close(tell)
        self._selector.register(hear, selectors.EVENT_READ, pid)
        self._happened(Forked(post, pid))

    @contextmanager
    def _listening(self) -> Iterator[int]:
        """A pipe into which the number of every signal for us is written."""
        alarm, bell = os.pipe()
        for end in (alarm, bell):
            os.set_blocking(end, False)
        before = {number: signal.signal(number, _let_pass) for number in REQUESTS}
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
    signal.pthread_sigmask(signal.SIG_BLOCK, REQUESTS)
    try:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in REQUESTS:
                signal.signal(number, signal.SIG_DFL)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, REQUESTS)


def _live(job: Callable[[], int]) -> None:
    """Do the job as this process's whole life; never returns."""
    code = FAULT
    try:
        code = job()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _let_pass(number: int, frame: object) -> None:
    """A handler must be there for the pipe to be written."""
