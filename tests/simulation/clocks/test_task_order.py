"""The tasks of a simulated process can be stopped, continued and counted, from one checkpoint to
the next."""

from __future__ import annotations

from functools import partial

import trio

from tests.simulation.clocks.task_order import CURRENT_PROCESS, ProcessTasks
from tests.simulation.world.run import Simulation, run_simulated


async def _count(steps: list[float], *, process: ProcessTasks, pause_s: float = 1) -> None:
    CURRENT_PROCESS.set(process)
    while True:
        await trio.sleep(pause_s)
        steps.append(trio.current_time())


def test_a_suspended_process_makes_no_step_and_goes_on_where_it_stood() -> None:
    async def main(simulation: Simulation) -> list[float]:
        process, steps = ProcessTasks(simulation.tasks), list[float]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: _count(steps, process=process))
            await trio.sleep(2.5)
            process.suspend()
            await trio.sleep(100)
            assert steps == [1, 2]
            process.resume()
            await trio.sleep(1.1)
            nursery.cancel_scope.cancel()
        assert not simulation.tasks.watched
        return steps

    assert run_simulated(main, seed=0) == [1, 2, 102.5, 103.5]


def test_no_task_makes_a_step_between_the_last_one_and_the_call() -> None:
    async def main(simulation: Simulation, *, steps_before: int) -> int:
        process, steps, at_call = ProcessTasks(simulation.tasks), list[float](), list[int]()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(lambda: _count(steps, process=process))
            await trio.sleep(0.5)
            process.call_after_steps(steps_before, lambda: at_call.append(len(steps)))
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
        assert len(steps) == 50
        assert not simulation.tasks.watched
        return at_call[0]

    for steps_before in range(12):
        found = run_simulated(partial(main, steps_before=steps_before), seed=steps_before)
        assert found == steps_before


def test_a_process_that_nobody_continues_goes_on_when_nothing_else_happens() -> None:
    async def main(simulation: Simulation) -> float:
        process = ProcessTasks(simulation.tasks)
        async with trio.open_nursery() as nursery:

            async def sleep() -> None:
                CURRENT_PROCESS.set(process)
                await trio.sleep(5)

            nursery.start_soon(sleep)
            await trio.sleep(1)
            process.suspend()
        return trio.current_time()

    assert run_simulated(main, seed=0) == 5
