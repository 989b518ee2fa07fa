"""The gateway's HTTP server and client work over a simulated network, and fail on it as on a real
one."""

from __future__ import annotations

import errno
import os

import pytest
import trio
from attrs import evolve

from mmo_sansio.values.clock import DAY, later
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.network.conditions import PathConditions
from tests.simulation.network.identities import ServerIdentity
from tests.simulation.network.simulated_names import NameConditions
from tests.simulation.network.two_machines import ADDRESS, NAME, TwoMachines, simulate


def test_a_request_is_answered_in_a_few_milliseconds() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        assert await machines.success() == b"thanks"
        assert (machines.bodies, machines.clients) == ([b"paid"], ["10.0.0.1"])
        assert 0 < trio.current_time() < 0.1

    simulate(test)


def test_large_bodies_wait_for_room() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.answer = os.urandom(900_000)
        body = os.urandom(900_000)
        assert await machines.success(body=body) == machines.answer
        assert machines.bodies == [body]

    simulate(test)


def test_lost_segments_and_small_pieces_only_delay() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.network.set_conditions(PathConditions(loss=0.2, dripping=1.0))
        assert await machines.success(body=b"p" * 500, deadline_s=600) == b"thanks"
        assert trio.current_time() > 1
        assert machines.network.fault_counts == {"dripping": 1}

    simulate(test)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (PathConditions(refusal=1.0), f"Connecting failed: {os.strerror(errno.ECONNREFUSED)}."),
        (PathConditions(silence=1.0), "Connecting wasn't over after the 15 s that all may take."),
        (
            PathConditions(failed_handshake=1.0),
            "The TLS handshake failed: TLS says sslv3 alert handshake failure.",
        ),
        (PathConditions(reset=1.0, fault_bytes_max=1), None),
        (
            PathConditions(half_open=1.0, fault_bytes_max=1),
            "Waiting for the answer wasn't over after the 15 s",
        ),
    ],
)
def test_a_path_fails_as_its_conditions_say(conditions: PathConditions, reason: str | None) -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.network.set_conditions(conditions, "gateway", "shop")
        detail = await machines.failure()
        assert reason is None or detail.startswith(reason)
        assert machines.network.fault_counts.total() == 1

    simulate(test)


def test_a_reset_may_come_at_any_byte_of_either_side() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.network.set_conditions(PathConditions(reset=1.0, fault_bytes_max=400))
        arrived: set[bool] = set()
        for _ in range(40):
            before = len(machines.bodies)
            await machines.exchange(body=b"p" * 300)
            arrived.add(len(machines.bodies) > before)
        assert arrived == {True, False}

    simulate(test)


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        (ServerIdentity(frozenset({"other.example"})), "Hostname mismatch"),
        (
            ServerIdentity(frozenset({NAME}), is_trusted=False),
            "unable to get local issuer certificate",
        ),
        (
            ServerIdentity(frozenset({NAME}), expires_at=TRUE_TIME_AT_START),
            "certificate has expired",
        ),
    ],
)
def test_a_certificate_that_proves_nothing_is_refused(
    identity: ServerIdentity, reason: str
) -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve(identity)
        detail = await machines.failure()
        assert detail.startswith(
            f"The TLS handshake failed: the certificate is not accepted ({reason}"
        )
        assert machines.bodies == []

    simulate(test)


def test_a_client_whose_clock_is_ahead_finds_a_good_certificate_expired() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve(ServerIdentity(frozenset({NAME}), expires_at=later(TRUE_TIME_AT_START, DAY)))
        await machines.success()
        machines.client.machine.step_clock(DAY)
        assert "certificate has expired" in await machines.failure()

    simulate(test)


def test_a_server_without_tls_and_a_machine_without_a_server_are_told_apart() -> None:
    async def test(machines: TwoMachines) -> None:
        assert "Connection refused" in await machines.failure()
        machines.serve(None)
        assert (
            await machines.failure() == "The TLS handshake failed: TLS says wrong version number."
        )
        assert "No route to host" in await machines.failure(url="http://203.0.113.99/")

    simulate(test)


def test_names_fail_hang_and_change() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        names = machines.network.names
        names.set_addresses(NAME, ["203.0.113.99"], [ADDRESS])
        assert "No route to host" in await machines.failure()
        await machines.success()
        for conditions, reason in (
            (
                NameConditions(failure=1.0),
                "Looking up the name failed: Temporary failure in name resolution.",
            ),
            (NameConditions(empty=1.0), "Looking up the name failed: Name or service not known."),
            (
                NameConditions(hang=1.0),
                "Looking up the name wasn't over after the 15 s that all may take.",
            ),
        ):
            names.conditions = conditions
            assert await machines.failure() == reason
        names.conditions = evolve(names.conditions, hang=0)
        assert "Name or service not known" in await machines.failure(url="https://nobody.example/")

    simulate(test)


def test_what_is_sent_into_a_partition_arrives_when_it_heals() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.work_s = 5

        async def part_for_a_minute() -> None:
            await trio.sleep(2)
            machines.network.partition("gateway", "shop")
            await trio.sleep(60)
            machines.network.heal()

        machines.nursery.start_soon(part_for_a_minute)
        assert await machines.success(deadline_s=600) == b"thanks"
        assert 62 <= trio.current_time() <= 125

    simulate(test)


def test_no_connection_is_made_through_a_partition() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        for source, target in (("gateway", "shop"), ("shop", "gateway")):
            machines.network.cut(source, target)
            assert "Connecting wasn't over" in await machines.failure()
            assert "Connection timed out" in await machines.failure(deadline_s=300)
            assert not machines.client.ends, "a connection is left"
            machines.network.heal()
        await machines.success()
        assert machines.bodies == [b"paid"]

    simulate(test)


def test_a_slow_reader_makes_its_sender_wait() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        machines.network.set_conditions(PathConditions(latency_s=(0.01, 0.01), slow_reading=1.0))
        machines.answer = b"t" * 3_000
        assert await machines.success(body=b"p" * 3_000) == machines.answer
        assert machines.bodies == [b"p" * 3_000]
        assert trio.current_time() > 2 * 3_000 / 64 * 0.01
        assert machines.network.fault_counts == {"slow_reading": 1}

    simulate(test)


def test_descriptors_come_back_also_where_two_shortages_overlap() -> None:
    async def test(machines: TwoMachines) -> None:
        first, second = (
            machines.client.short_of_descriptors(0),
            machines.client.short_of_descriptors(0),
        )
        machines.serve()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert await machines.failure() == "Connecting failed: Too many open files."
        second.__exit__(None, None, None)
        await machines.success()

    simulate(test)


def test_a_server_without_descriptors_accepts_when_it_has_some_again() -> None:
    async def test(machines: TwoMachines) -> None:
        machines.serve()
        with machines.server.short_of_descriptors(0):
            assert "The TLS handshake" not in await machines.failure(), (
                "the machine itself completes it"
            )
        with machines.server.short_of_descriptors(1):
            await machines.success()
        with machines.client.short_of_descriptors(0):
            assert await machines.failure() == "Connecting failed: Too many open files."
        assert machines.network.fault_counts["no_descriptor"] > 2

    simulate(test)
