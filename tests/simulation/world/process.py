"""Runs programs as processes of simulated machines, which can be killed at any checkpoint,
suspended and resumed."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio
from attrs import Factory, define, field

from tests.simulation.clocks.machine_clock import CURRENT_MACHINE, MachineGatewayClock
from tests.simulation.clocks.task_order import CURRENT_PROCESS, ProcessTasks, SeededTaskQueue
from tests.simulation.network.connection_end import ConnectionEnd
from tests.simulation.network.identities import ServerIdentity
from tests.simulation.network.machines import SimulatedMachine
from tests.simulation.network.outside import ProcessNetwork
from tests.simulation.network.simulated_listener import SimulatedListener

CONNECTIONS_MAX: Final = 1_000


class ProcessKilled(OSError):
    """The process was killed, so nothing that it still does reaches anybody."""


@define(eq=False)
class SimulatedProcess:
    """Is one life of a program on a machine."""

    name: str
    machine: SimulatedMachine
    task_queue: SeededTaskQueue
    tasks: ProcessTasks = field(
        default=Factory(lambda self: ProcessTasks(self.task_queue), takes_self=True), init=False
    )
    network: ProcessNetwork = field(
        default=Factory(lambda self: ProcessNetwork(self), takes_self=True), init=False
    )
    """Connects its clients and looks up names for them."""
    ends: dict[ConnectionEnd, None] = field(factory=dict, init=False)
    """Its open ends of connections."""
    ended: trio.Event = field(factory=trio.Event, init=False)
    """Set when no task of it is left."""
    on_death: list[Callable[[], None]] = field(factory=list, init=False)
    """Called when it is killed, before any of its tasks learns it; a store breaks its connections
    there."""
    _connection_limits: list[int] = field(factory=lambda: [CONNECTIONS_MAX], init=False)
    """How many connections it has descriptors for; the least counts."""
    _listeners: list[SimulatedListener] = field(factory=list, init=False)
    _when_running: list[Callable[[], None]] = field(factory=list, init=False)
    _suspended_since_rest_s: float = field(default=0.0, init=False)
    """For how long the world had been at rest in all when it was last suspended."""
    _rested_suspended_s: float = field(default=0.0, init=False)
    """For how long the world was at rest in all while it was suspended."""
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    def is_alive(self) -> bool:
        """Return whether it was neither killed nor has ended."""
        return not self.tasks.is_killed and not self.ended.is_set()

    @property
    def is_killed(self) -> bool:
        """Whether it was killed; its tasks may still be ending."""
        return self.tasks.is_killed

    @property
    def is_suspended(self) -> bool:
        """Whether none of its tasks runs."""
        return self.tasks.is_suspended

    def require_alive(self) -> None:
        """Raise ProcessKilled unless it is alive; whatever leads out of the process asks first."""
        if not self.is_alive():
            raise ProcessKilled(errno.ESHUTDOWN, f"{self.name} was killed")

    def require_descriptor(self) -> None:
        """Raise OSError (EMFILE) when it has no descriptor for one more connection. Those that wait
        to be accepted have none yet."""
        if len(self.ends) - sum(map(len, self._listeners)) >= min(self._connection_limits):
            self.machine.network.report_fault("no_descriptor", process=self.name)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    @contextmanager
    def short_of_descriptors(self, connections: int) -> Iterator[None]:
        """Let it have descriptors for so many connections at most while the block lasts; blocks may
        overlap."""
        self._connection_limits.append(connections)
        try:
            yield
        finally:
            self._connection_limits.remove(connections)

    def gateway_clock(self) -> MachineGatewayClock:
        """Return the clock of a gateway in this process."""
        return MachineGatewayClock(self.machine.clocks, self._rested_while_running_s)

    def listen(self, port: int, *, identity: ServerIdentity | None = None) -> SimulatedListener:
        """Listen on a port of the machine, with TLS when there is an identity. Raises OSError when
        it is in use."""
        self.require_alive()
        if port in self.machine.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = SimulatedListener(self, port, identity)
        self.machine.listeners[port] = listener
        self._listeners.append(listener)
        return listener

    async def run(self, main: Callable[[SimulatedProcess], Awaitable[object]]) -> None:
        """Run this program as the process, in a task of its own, until it ends or is killed. Raises
        what the program raises, unless the process was killed."""
        CURRENT_PROCESS.set(self.tasks)
        CURRENT_MACHINE.set(self.machine.clocks)
        try:
            with self._scope:
                self.require_alive()
                await main(self)
        except Exception:
            if not self.is_killed:
                raise
        except BaseExceptionGroup as errors:
            rest = errors.split(Exception)[1] if self.is_killed else errors
            if rest is not None:
                raise rest from None
        finally:
            self._release()
            self.ended.set()

    async def call(self, action: Callable[[], Awaitable[object]]) -> None:
        """Do this in a task of the process, as it does a request, until that ends or the process
        does. Raises what the action raises, unless the process was killed."""
        with trio.CancelScope() as scope:
            self.on_death.append(scope.cancel)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._call, action, scope)
                await self.ended.wait()
                scope.cancel()

    async def _call(self, action: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
        CURRENT_PROCESS.set(self.tasks)
        CURRENT_MACHINE.set(self.machine.clocks)
        try:
            await action()
        except Exception:
            if not self.is_killed:
                raise
        scope.cancel()

    def kill(self) -> None:
        """End it at once, as SIGKILL does: nothing that it would still do reaches anybody, and its
        machine closes its connections."""
        self._die(self._release)

    def kill_after_steps(self, steps: int) -> None:
        """Kill it when its tasks have made so many more steps from one checkpoint to the next."""
        self.tasks.call_after_steps(steps, self.kill)

    def lose_power(self) -> None:
        """End it without a word to anybody, with its machine, on which it is the only process."""
        self._die(self.machine.lose_power)

    def suspend(self) -> None:
        """Let none of its tasks run, as SIGSTOP does; its machine goes on to accept connections and
        bytes. One that was killed is not stopped any more."""
        if not self.is_alive():
            return
        self.machine.network.report_fault("suspension", process=self.name)
        if not self.is_suspended:
            self._suspended_since_rest_s = self.machine.clocks.rested_s()
        self.tasks.suspend()

    def resume(self) -> None:
        """Let its tasks go on where they stood."""
        self.machine.network.trace("resumed", process=self.name)
        if self.is_suspended:
            self._rested_suspended_s += (
                self.machine.clocks.rested_s() - self._suspended_since_rest_s
            )
        self.tasks.resume()
        waiting, self._when_running = self._when_running, []
        for call in waiting:
            call()

    def own(self, end: ConnectionEnd) -> None:
        """Count an end of a connection as one of this process until it is closed."""
        self.ends[end] = self.machine.ends[end] = None
        end.on_close, end.when_running = self._forget_end, self.call_when_running

    def listen_no_more(self, listener: SimulatedListener) -> None:
        """Make the port of this listener free."""
        if self.machine.listeners.get(listener.port) is listener:
            del self.machine.listeners[listener.port]

    def call_when_running(self, call: Callable[[], None]) -> None:
        """Call this now, or as soon as the process is resumed."""
        if self.tasks.is_suspended:
            self._when_running.append(call)
        else:
            call()

    def _rested_while_running_s(self) -> float:
        """Return for how many seconds in all the world was at rest while this was not suspended."""
        return self.machine.clocks.rested_s() - self._rested_suspended_s

    def _forget_end(self, end: ConnectionEnd) -> None:
        self.ends.pop(end, None)
        self.machine.ends.pop(end, None)

    def _die(self, release: Callable[[], None]) -> None:
        if not self.is_alive():
            return
        self.tasks.is_killed = True
        self.machine.network.trace("killed", process=self.name)
        for call in self.on_death:
            call()
        release()
        if self.tasks.is_suspended:
            self.tasks.resume()
        self._scope.cancel()

    def _release(self) -> None:
        """Close everything that the machine kept for the process."""
        for listener in self._listeners:
            listener.end()
        for end in tuple(self.ends):
            end.close()
        self._when_running.clear()
