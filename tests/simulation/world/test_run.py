"""A seed decides the whole run of a program: its time, its order and its bytes."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
import trio

from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Span
from mmo_trio.system.clock import GatewayClock
from tests.simulation.clocks.machine_clock import MachineClocks, MachineGatewayClock
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.world.run import Simulation, SimulationStalled, run_simulated
from tests.support.time_limits import HANGS_AFTER_S


async def _race(simulation: Simulation, *, runners: int = 6) -> list[str]:
    """Let tasks wake one another and draw; return what they did, in order."""
    done: list[str] = []
    start = trio.Event()

    async def run(number: int) -> None:
        await start.wait()
        for _ in range(3):
            await trio.sleep(random.choice((1, 1, 2)))
            done.append(
                f"{number} at {trio.current_time()} with {secrets.token_hex(2)}, {time.time_ns()}"
            )

    async with trio.open_nursery() as nursery:
        for number in range(runners):
            nursery.start_soon(run, number)
        await trio.sleep(1)
        start.set()
    return done


def test_the_same_seed_gives_the_same_order_times_and_bytes() -> None:
    assert run_simulated(_race, seed=1) == run_simulated(_race, seed=1)
    orders = {tuple(each[0] for each in run_simulated(_race, seed=seed)) for seed in range(5)}
    assert len(orders) == 5


def test_another_process_with_another_order_of_hashes_runs_the_same() -> None:
    program = f"from {__name__} import _race, run_simulated; print(run_simulated(_race, seed=3))"
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert printed == [str(run_simulated(_race, seed=3))] * 2


def test_years_pass_at_once_and_every_clock_shows_them() -> None:
    async def sleep(simulation: Simulation) -> tuple[float, ...]:
        clock = GatewayClock()
        began_at, monotonic = clock.own_time(), clock.monotonic()
        await trio.sleep(3 * 365 * DAY / SECOND)
        spans = (
            clock.own_time() - began_at,
            clock.monotonic() - monotonic,
            simulation.clock.true_time() - began_at,
        )
        assert began_at == TRUE_TIME_AT_START
        return (*spans, time.time() * SECOND - began_at, time.monotonic() * SECOND)

    real = time.time()
    assert run_simulated(sleep, seed=0) == (3 * 365 * DAY,) * 5
    assert time.time() - real < HANGS_AFTER_S


def test_events_happen_in_their_order_before_tasks_that_wake_at_the_same_time() -> None:
    async def watch(simulation: Simulation) -> list[str]:
        seen: list[str] = []
        for name, delay_s in (("late", 2.0), ("early", 1.0), ("early too", 1.0)):
            simulation.clock.call_after(delay_s, partial(seen.append, name))
        for second in (1, 2):
            await trio.sleep(1)
            seen.append(f"awake at {second}")
        return seen

    expected = ["early", "early too", "awake at 1", "late", "awake at 2"]
    assert run_simulated(watch, seed=0) == expected


def test_what_is_given_to_threads_runs_in_its_task() -> None:
    async def call(simulation: Simulation) -> int:
        return await trio.to_thread.run_sync(threading.get_ident)

    assert run_simulated(call, seed=0) == threading.get_ident()

    async def start(simulation: Simulation) -> None:
        threading.Thread(target=print).start()

    with pytest.raises(RuntimeError, match="no threads"):
        run_simulated(start, seed=0)


def test_a_program_that_waits_for_ever_is_ended() -> None:
    async def wait(simulation: Simulation) -> None:
        with trio.move_on_after(5):
            await trio.sleep_forever()
        await trio.Event().wait()

    with pytest.raises(SimulationStalled):
        run_simulated(wait, seed=0)


def test_tasks_that_wait_for_idleness_see_no_time_pass() -> None:
    async def wait(simulation: Simulation) -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            await trio.testing.wait_all_tasks_blocked()
            return trio.current_time()

    assert run_simulated(wait, seed=0) == 0


def test_a_machine_has_a_wall_clock_that_steps_and_a_boot_clock_that_begins_anew() -> None:
    async def step(simulation: Simulation) -> None:
        machine = MachineClocks("gateway 1", simulation.clock)
        clock = MachineGatewayClock(machine)
        first = clock.record()
        assert first.utc == TRUE_TIME_AT_START
        await trio.sleep(60)
        machine.step(Span(-MINUTE))
        assert clock.observe() == -MINUTE
        assert (clock.own_time() - first.time, clock.raw_wall_time() - first.utc) == (MINUTE, 0)
        machine.boot()
        machine.set_right()
        again = MachineGatewayClock(machine)
        assert (again.monotonic(), again.raw_wall_time() - first.utc, machine.wall_ahead) == (
            0,
            MINUTE,
            0,
        )
        assert again.boot_id() != first.boot_id

    run_simulated(step, seed=0)


def test_sleeping_is_that_of_trio() -> None:
    async def sleep(simulation: Simulation) -> list[float]:
        woken: list[float] = []

        async def nap(seconds: float) -> None:
            await trio.sleep(seconds)
            woken.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for seconds in (3, 1, 2, 0):
                nursery.start_soon(nap, seconds)
            with trio.move_on_after(1.5) as scope:
                await trio.sleep_until(10)
            assert scope.cancelled_caught
            with trio.move_on_at(2.5) as scope:
                await trio.sleep_forever()
            assert scope.cancelled_caught
        assert trio.current_time() == 3
        with pytest.raises(ValueError, match="non-negative"):
            await trio.sleep(-1)
        await trio.sleep_until(1)
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await trio.sleep_until(0)
            woken.append(-1)
        return woken

    assert run_simulated(sleep, seed=0) == [0, 1, 2, 3]
    assert trio.sleep.__module__ == "trio"
