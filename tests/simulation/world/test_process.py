"""A simulated process dies, sleeps and starts anew as a real one does, seen from outside."""

from __future__ import annotations

import errno
from functools import partial

import pytest
import structlog
import trio

from tests.simulation.network.machines import SimulatedNetwork
from tests.simulation.network.two_machines import HTTPS, NAME, TwoMachines, simulate
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.run import Simulation, run_simulated
from tests.simulation.world.trace import SimulationTrace, logs_in_trace


def _again(process: SimulatedProcess, simulation: Simulation) -> SimulatedProcess:
    return SimulatedProcess(process.name, process.machine, simulation.tasks)


def test_a_killed_server_breaks_its_connections_and_is_started_anew() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.work_s = 10
        machines.simulation.clock.call_after(2, machines.server.kill)
        assert (
            await machines.failure()
            == "The connection was closed before the answer's head was whole."
        )
        assert trio.current_time() < 2.1
        assert "Connection refused" in await machines.failure()
        await machines.server.ended.wait()
        machines.server = _again(machines.server, machines.simulation)
        machines.serve()
        await machines.success()

    simulate(test)


def test_a_server_without_power_says_nothing_and_later_that_it_has_forgotten() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.work_s = 10
        machines.simulation.clock.call_after(2, machines.server.lose_power)
        assert "Waiting for the answer wasn't over after the 60 s" in await machines.failure(
            deadline_s=60
        )
        assert "Connecting wasn't over" in await machines.failure()
        machines.server.machine.start()
        machines.server = _again(machines.server, machines.simulation)
        machines.serve()
        await machines.success()
        assert machines.server.gateway_clock().monotonic() < 13_000_000

    simulate(test)


def test_a_suspended_server_is_connected_to_and_answers_later() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve(None)
        machines.server.suspend()
        machines.simulation.clock.call_after(5, machines.server.resume)
        await machines.exchange(url=f"http://{NAME}:{HTTPS}/")
        assert 5 <= trio.current_time() < 5.1
        assert machines.bodies == [b"paid"]
        machines.server.suspend()
        assert "Waiting for the answer wasn't over" in await machines.failure(
            url=f"http://{NAME}:{HTTPS}/"
        )

    simulate(test)


def test_a_suspended_server_completes_no_handshake() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.server.suspend()
        assert "The TLS handshake wasn't over" in await machines.failure()
        machines.server.resume()
        await machines.success()

    simulate(test)


def test_wherever_a_client_is_killed_the_server_gets_its_request_whole_or_not_at_all() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        received: list[bool] = []
        for steps in range(40):
            machines.bodies.clear()
            process = _again(machines.client, machines.simulation)
            machines.client = process

            async def send(_: SimulatedProcess) -> None:
                try:
                    await machines.success()
                finally:
                    with trio.move_on_after(1, shield=True):
                        await machines.exchange(body=b"what a dead process sends")

            process.kill_after_steps(steps)
            machines.nursery.start_soon(process.run, send)
            await process.ended.wait()
            await trio.sleep(5)
            assert process.is_killed or machines.bodies == [b"paid", b"what a dead process sends"]
            assert not process.is_killed or machines.bodies in (
                [],
                [b"paid"],
                [b"paid", b"what a dead process sends"],
            )
            received.append(bool(machines.bodies))
            if not process.is_killed:
                break
        assert not received[0]
        assert received == sorted(received)
        assert not process.is_killed

    simulate(test)


def test_a_killed_process_hides_the_errors_of_its_end_and_a_failed_one_does_not() -> None:
    async def main(simulation: Simulation) -> None:
        async def fail_at_the_end(process: SimulatedProcess) -> None:
            try:
                await trio.sleep_forever()
            finally:
                process.require_alive()

        async def fail(_: SimulatedProcess) -> None:
            raise ValueError("a fault of its own")

        network = SimulatedNetwork(simulation.clock, simulation.choices.of("network"))
        machine = network.add_machine("one", "10.0.0.1")
        process = SimulatedProcess("one", machine, simulation.tasks)
        deaths: list[str] = []
        process.on_death.append(lambda: deaths.append("told first"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run, fail_at_the_end)
            await trio.sleep(1)
            process.suspend()
            process.kill()
            process.kill()
            await process.ended.wait()
        assert deaths == ["told first"]
        other = SimulatedProcess("one", machine, simulation.tasks)
        other.listen(80)
        with pytest.raises(OSError, match="in use") as caught:
            SimulatedProcess("two", machine, simulation.tasks).listen(80)
        assert caught.value.errno == errno.EADDRINUSE
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="its own")):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.run, fail)
        assert not machine.listeners

    run_simulated(main, seed=0)


def test_a_killed_process_logs_nothing_while_its_tasks_end() -> None:
    async def main(simulation: Simulation) -> None:
        async def serve(_: SimulatedProcess) -> None:
            log = structlog.get_logger()
            log.info("begun")
            try:
                await trio.sleep_forever()
            finally:
                log.error("conversation_failed", fault="ClosedResourceError")

        network = SimulatedNetwork(simulation.clock, simulation.choices.of("network"))
        process = SimulatedProcess("one", network.add_machine("one", "10.0.0.1"), simulation.tasks)
        trace = SimulationTrace()
        with logs_in_trace(trace):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.run, serve)
                await trio.sleep(1)
                process.kill()
        assert trace.counts == {"log begun": 1}
        assert not trace.faults

    run_simulated(main, seed=0)


def test_a_killed_process_that_is_suspended_while_its_tasks_end_ends_all_the_same() -> None:
    async def main(simulation: Simulation) -> None:
        network = SimulatedNetwork(simulation.clock, simulation.choices.of("network"))
        process = SimulatedProcess("one", network.add_machine("one", "10.0.0.1"), simulation.tasks)

        async def run(_: object) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run, run)
            await trio.sleep(1)
            process.kill()
            process.suspend()
            with trio.fail_after(60):
                await process.ended.wait()

    run_simulated(main, seed=0)


@pytest.mark.parametrize("kills", [False, True])
def test_a_call_in_a_process_ends_with_it(kills: bool) -> None:
    steps: list[float] = []

    async def act() -> None:
        while True:
            steps.append(trio.current_time())
            await trio.sleep(1)

    async def live(_: SimulatedProcess) -> None:
        await trio.sleep(2.5)

    async def test(machines: TwoMachines) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(machines.server.run, live)
            if kills:
                machines.simulation.clock.call_after(1.5, machines.server.kill)
            await machines.server.call(act)
        assert trio.current_time() == (1.5 if kills else 2.5)

    simulate(test)
    assert len(steps) == (2 if kills else 3)


def test_a_call_in_a_process_stands_still_while_it_is_suspended() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.simulation.clock.call_after(1, machines.server.suspend)
        machines.simulation.clock.call_after(5, machines.server.resume)
        await machines.server.call(partial(trio.sleep, 2))
        assert trio.current_time() == 5

    simulate(test)
