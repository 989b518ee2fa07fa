"""Runs a Trio program so that a seed decides everything: time is virtual, the order of tasks and
all random bytes come from the seed, and there are no threads.

The same seed gives the same run in any process and on any version of Python, as long as the program
itself does not depend on the order of a set or on the identity of an object."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import trio
import trio.lowlevel
from attrs import Factory, define, field
from trio._core import _run as trio_run  # Trio has no public place for the order of tasks.
from werkzeug.routing import Rule

from mmo_sansio.values.clock import SECOND, Instant
from tests.simulation.clocks.machine_clock import CURRENT_MACHINE
from tests.simulation.clocks.sleepers import Sleepers
from tests.simulation.clocks.task_order import SeededTaskQueue
from tests.simulation.clocks.virtual_clock import VirtualClock
from tests.simulation.world.route_builders import builder_of
from tests.simulation.world.seeded_choices import SeededChoices, seeded_randomness

T = TypeVar("T")

NANOSECONDS: Final = 1_000
TURNS_PER_QUESTION: Final = 1_000
"""After how many turns of Trio the system is asked whether anything came from outside."""


class SimulationStalled(Exception):
    """Every task waits for what will never happen."""


@define(eq=False)
class Simulation:
    """Is one run: its time, its choices and its tasks."""

    choices: SeededChoices
    clock: VirtualClock = Factory(VirtualClock)
    tasks: SeededTaskQueue = field(
        default=Factory(
            lambda self: SeededTaskQueue(self.choices.of("order of tasks")), takes_self=True
        )
    )
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _has_stalled: bool = field(default=False, init=False)

    async def run(self, main: Callable[[Simulation], Awaitable[T]]) -> T:
        """Run this program as the main task. Raises SimulationStalled when it can never end."""
        runner: Any = trio_run.GLOBAL_RUN_CONTEXT.runner
        self.tasks.extend(runner.runq)
        runner.runq = self.tasks
        self.clock.runnable = self.tasks
        self.clock.waiting_for_idle = runner.waiting_for_idle
        self.clock.on_stall = self._end_stall
        io_manager = runner.io_manager
        runner.io_manager = _SeldomAsked(io_manager)
        instruments, runner.instruments = (
            runner.instruments,
            {},
        )  # There are none, which a plain dict says sooner.
        try:
            with self._scope:
                return await main(self)
        finally:
            runner.io_manager, runner.instruments = io_manager, instruments
            self.clock.on_stall = lambda: None  # Trio wakes itself up to end its run.
        raise SimulationStalled("every task waits for what will never happen")

    def _end_stall(self) -> None:
        """Let suspended processes go on, as nobody else will; else end the run."""
        suspended = [each for each in self.tasks.watched if each.waiting]
        for process in suspended:
            process.resume()
        if suspended:
            return
        if self._has_stalled:
            raise SimulationStalled(
                "a task waits for what will never happen, shielded from cancellation"
            )
        self._has_stalled = True
        self._scope.cancel()


@define(eq=False)
class _SeldomAsked:
    """Stands for what tells Trio of input from outside, of which a simulation has none but an
    interruption from the keyboard: so the system is asked in few turns only."""

    _manager: Any
    _turns: int = 0

    def get_events(self, timeout: float) -> Any:
        """Return what the system has, at times; a simulation never waits, but for those who wait
        until all is idle."""
        self._turns += 1
        if timeout or self._turns % TURNS_PER_QUESTION == 0:
            return self._manager.get_events(timeout)
        return ()

    def process_events(self, events: Any) -> None:
        """Wake who waits for these."""
        if events:
            self._manager.process_events(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


def run_simulated(main: Callable[[Simulation], Awaitable[T]], *, seed: int) -> T:
    """Run this program to its end in a simulation that the seed decides, and return its result.

    Meanwhile the functions of `time` show the true time of the simulation, or the wall clock of the
    machine on which the caller's process runs; `secrets`, `uuid`, `os.urandom` and the functions of
    `random` draw from the seed; what is given to a thread runs at once, in the task. This holds for
    the whole interpreter, so one simulation runs in it at a time. Raises what the program raises,
    and SimulationStalled."""
    simulation = Simulation(SeededChoices(seed))
    with _simulated_sources(simulation):
        return trio.run(partial(simulation.run, main), clock=simulation.clock)


@contextmanager
def _simulated_sources(simulation: Simulation) -> Iterator[None]:
    """Let time, random bytes and threads be the simulation's while the block lasts."""
    state = random.getstate()
    random.seed(simulation.choices.of("random").getrandbits(64))
    with ExitStack() as undo:
        undo.callback(random.setstate, state)
        undo.enter_context(seeded_randomness(simulation.choices.of("system's source")))
        replaced: list[tuple[object, Mapping[str, Any]]] = [
            (time, _time_functions(simulation.clock)),
            (
                trio_run,
                {
                    "_r": simulation.choices.of("reversal of batches"),
                    "_ALLOW_DETERMINISTIC_SCHEDULING": False,
                },
            ),
            (trio, _sleep_functions(simulation.clock.sleepers)),
            (
                trio,
                {"current_time": simulation.clock.current_time},
            ),  # The same time, by one call instead of three.
            (trio_run, {"current_time": simulation.clock.current_time}),
            (trio.to_thread, {"run_sync": _run_in_task}),
            (threading.Thread, {"start": _refuse_thread}),
            (Rule, {"_compile_builder": builder_of}),
        ]
        for owner, attributes in replaced:
            for name, replacement in attributes.items():
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, replacement)
        yield


def _time_functions(clock: VirtualClock) -> dict[str, Callable[..., float]]:
    """Return the functions of the module `time` that show a clock."""

    def wall() -> Instant:
        machine = CURRENT_MACHINE.get()
        return clock.true_time() if machine is None else machine.wall()

    def clock_seconds(clock_id: int) -> float:
        return wall() / SECOND if clock_id == time.CLOCK_REALTIME else clock.current_time()

    def clock_nanoseconds(clock_id: int) -> int:
        if clock_id == time.CLOCK_REALTIME:
            return wall() * NANOSECONDS
        return round(clock.current_time() * SECOND) * NANOSECONDS

    return {
        "time": lambda: wall() / SECOND,
        "time_ns": lambda: wall() * NANOSECONDS,
        "monotonic": clock.current_time,
        "monotonic_ns": lambda: round(clock.current_time() * SECOND) * NANOSECONDS,
        "perf_counter": clock.current_time,
        "clock_gettime": clock_seconds,
        "clock_gettime_ns": clock_nanoseconds,
    }


def _sleep_functions(sleepers: Sleepers) -> dict[str, Callable[..., Awaitable[object]]]:
    """Return the functions of Trio with which a task sleeps."""
    return {
        "sleep": sleepers.sleep,
        "sleep_until": sleepers.sleep_until,
        "sleep_forever": sleepers.sleep_forever,
    }


async def _run_in_task(call: Callable[..., T], *args: object, **_: object) -> T:
    """Stand for `trio.to_thread.run_sync`: the call costs no time."""
    await trio.lowlevel.checkpoint()
    return call(*args)


def _refuse_thread(thread: threading.Thread) -> None:
    raise RuntimeError(f"a simulation has no threads, and this is one: {thread.name}")
