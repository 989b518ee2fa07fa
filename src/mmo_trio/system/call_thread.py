"""A thread that runs the calls of Trio tasks one by one.

`trio.to_thread.run_sync` takes a limiter, copies the context and finds a thread for each call. And it tells the result
by a message to Trio's loop, which wakes a task of the loop first and the caller one turn later; here the thread wakes
the caller itself, by a byte into a socket on which it waits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeVar

import outcome
import trio
from attrs import Factory, define

T = TypeVar("T")


class _ReturnPath:
    """Wakes one waiting task from the thread. Its sockets are closed when neither needs it any more."""

    def __init__(self) -> None:
        self._receiving, self._sending = socket.socketpair()
        self._receiving.setblocking(False)

    def __del__(self) -> None:
        self._receiving.close()
        self._sending.close()

    def wake(self) -> None:
        """Wake the task that waits, or the next one that will; called in the thread, once for each wait."""
        self._sending.send(b"\0")

    async def wait(self) -> None:
        """Wait for `wake`."""
        await trio.lowlevel.wait_readable(self._receiving)
        self._receiving.recv(1)


@define(eq=False)
class CallThread:
    """Runs calls in the order in which they came. Its thread begins with the first one and ends with the last; a call
    that hangs does not keep the process from ending."""

    name: str
    _calls: SimpleQueue[Callable[[], None] | None] = Factory(SimpleQueue)
    _has_begun: bool = False
    _idle_path: _ReturnPath | None = None
    """The way back of the last call, for the next one. Calls rarely overlap, and others have one of their own, which
    is closed after them, so that a crowd leaves no descriptor open."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises. A task that is cancelled goes on at once; its call is
        run all the same, and its result dropped."""
        await trio.lowlevel.checkpoint_if_cancelled()
        path, self._idle_path = self._idle_path or _ReturnPath(), None
        results: list[outcome.Outcome[T]] = []

        def run_and_wake() -> None:
            results.append(outcome.capture(call))
            path.wake()

        self._calls.put(run_and_wake)
        if not self._has_begun:
            self._has_begun = True
            context = copy_context()  # Log lines name their process by it.
            threading.Thread(target=context.run, args=(self._run_calls,), name=self.name, daemon=True).start()
        await path.wait()  # After a cancellation the path is not used again: its byte comes too late.
        self._idle_path = path
        return results.pop().unwrap()

    def end(self) -> None:
        """End the thread after the calls that are there. No further one may come."""
        self._calls.put(None)

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # What it refers to lives no longer than its caller wants.
