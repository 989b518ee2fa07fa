"""Lets the faults of a plan occur, each in its time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import trio
from attrs import Factory, define, evolve

from mmo_sansio.values.clock import DAY, Span
from mmo_trio.testing.network.conditions import PathConditions
from mmo_trio.testing.network.machines import SimulatedNetwork
from mmo_trio.testing.network.simulated_names import NameConditions
from mmo_trio.testing.simulated_trace import SimulationTrace
from mmo_trio.testing.world_gateway import WorldGateway
from mmo_trio.testing.world_merchant import ReceiverMood, WorldMerchant
from mmo_trio.testing.world_operator import OperatorWeather, WorldOperator
from mmo_trio.testing.world_plan import FaultKind, WorldFault
from mmo_trio.testing.world_schedule import WorldSchedule
from mmo_trio.testing.world_store import WorldStore, store_faults

KILLED_AFTER_STEPS_MAX: Final = 400
"""Steps, from one checkpoint to the next, that a process makes at most before it is killed."""
KILLED_AFTER_S: Final = 20.0
"""When it is killed at the latest."""
CLOCK_STEP_MAX: Final = 3 * DAY
LATENCY_MAX_S: Final = 3.0
HANGS_MAX_S: Final = 40.0
"""The longest that a receiver hangs; a gateway waits for 15 s."""
STATEMENTS_SHARE_MAX: Final = 0.3
FORGERIES_MAX: Final = 20
SHARE_MAX: Final = 0.7
"""The largest share of messages that a fault affects, so that something gets through."""

_WEATHER: Final[Mapping[FaultKind, str]] = MappingProxyType(
    {
        FaultKind.OPERATOR_UNAVAILABLE: "unavailable",
        FaultKind.OPERATOR_RATE_LIMITED: "rate_limited",
        FaultKind.OPERATOR_LOSES_REQUESTS: "request_lost",
        FaultKind.OPERATOR_LOSES_ANSWERS: "answer_lost",
        FaultKind.NOTIFICATIONS_LOST: "notification_lost",
        FaultKind.NOTIFICATIONS_LATE: "notification_late",
        FaultKind.NOTIFICATIONS_REPEATED: "notification_repeated",
    }
)


class FaultyWorld(Protocol):
    """Is a world, as far as faults touch it."""

    schedule: WorldSchedule
    trace: SimulationTrace
    gateways: list[WorldGateway]
    merchants: list[WorldMerchant]
    operators: dict[str, WorldOperator]
    network: SimulatedNetwork
    store: WorldStore
    had_wrong_clocks: bool
    may_repeat_callbacks: bool
    """Whether a process has died or may have lost its lease, so that a callback may arrive twice."""


@define(eq=False)
class FaultRunner:
    """Begins and ends faults; several may last at a time."""

    world: FaultyWorld
    lasting: list[WorldFault] = Factory(list)

    async def run(self, fault: WorldFault) -> None:
        """Wait for the time of this fault, and let it occur until it is over."""
        schedule = self.world.schedule
        await schedule.sleep_until(fault.at_s)
        self.world.trace.add(f"fault {fault.kind}", fault.target)
        self.lasting.append(fault)
        try:
            match fault.kind:
                case FaultKind.GATEWAY_KILLED | FaultKind.GATEWAY_LOSES_POWER:
                    await self._kill(fault)
                case FaultKind.GATEWAY_SUSPENDED:
                    await self._suspend(fault)
                case FaultKind.CLOCK_STEPPED:
                    await self._step_clock(fault)
                case FaultKind.GATEWAY_RESTARTED:
                    await self._restart(fault)
                case FaultKind.NOTIFICATIONS_FORGED:
                    await self._forge(fault)
                case FaultKind.STORE_FAILS_OVER:
                    self.world.may_repeat_callbacks = True
                    self.world.store.fail_over(fault.strength)
                    await schedule.sleep(fault.lasts_s)
                case FaultKind.STORE_FULL:
                    self.world.store.fill_disk(fault.lasts_s)
                    await schedule.sleep(fault.lasts_s)
                case _:
                    self._adjust()
                    await schedule.sleep(fault.lasts_s)
        finally:
            self.lasting.remove(fault)
            self._adjust()

    async def _kill(self, fault: WorldFault) -> None:
        """Kill a gateway at some checkpoint, and keep it down for a while."""
        gateway = self._gateway(fault)
        if gateway.life is None:
            return
        self.world.may_repeat_callbacks = True
        process = gateway.life.process
        gateway.may_start = trio.Event()
        if fault.kind is FaultKind.GATEWAY_LOSES_POWER:
            process.lose_power()
        else:
            process.kill_after_steps(round(fault.strength * KILLED_AFTER_STEPS_MAX))
            with trio.move_on_after(KILLED_AFTER_S):
                await process.ended.wait()
            process.kill()
        await self.world.schedule.sleep(fault.lasts_s)
        if fault.kind is FaultKind.GATEWAY_LOSES_POWER:
            gateway.machine.start()
        gateway.may_start.set()

    async def _restart(self, fault: WorldFault) -> None:
        """Let a gateway drain; the next process follows when it has ended."""
        gateway = self._gateway(fault)
        if gateway.life is not None:
            gateway.life.drain.set()
            await gateway.life.process.ended.wait()

    async def _suspend(self, fault: WorldFault) -> None:
        """Stop a gateway's process where it stands, and let it go on later."""
        gateway = self._gateway(fault)
        if gateway.life is None or gateway.life.process.is_suspended:
            return
        self.world.may_repeat_callbacks = True
        process = gateway.life.process
        process.suspend()
        await self.world.schedule.sleep(fault.lasts_s)
        if process.is_alive():
            process.resume()

    async def _step_clock(self, fault: WorldFault) -> None:
        """Set the wall clock of a gateway's machine wrong for a while, forward or back."""
        self.world.had_wrong_clocks = True
        machine = self._gateway(fault).machine
        sign = 1 if fault.target % 2 else -1
        machine.step_clock(Span(sign * round(fault.strength * CLOCK_STEP_MAX)))
        await self.world.schedule.sleep(fault.lasts_s)
        machine.clocks.set_right()

    def _gateway(self, fault: WorldFault) -> WorldGateway:
        return self.world.gateways[fault.target % len(self.world.gateways)]

    async def _forge(self, fault: WorldFault) -> None:
        """Forge results of payments, half of which exist."""
        operators = list(self.world.operators.values())
        operator = operators[fault.target % len(operators)]
        for _ in range(1 + round(fault.strength * FORGERIES_MAX)):
            known = [each.gateway_reference for merchant in self.world.merchants for each in merchant.started.values()]
            reference = operator.random.choice(known[-10:] or ["01M3250V0AWP6N2Y6A31RYKF8Y"])
            await operator.forge(reference, operator.random.choice(("SUCCESSFUL", "FAILED", "PENDING")))
            await self.world.schedule.sleep(operator.random.uniform(0.0, 2.0))

    def _adjust(self) -> None:
        """Bring the parties into the state that the lasting faults ask for."""
        for number, operator in enumerate(self.world.operators.values()):
            weather = OperatorWeather()
            for fault in self._meeting(number, len(self.world.operators), _WEATHER):
                setattr(weather, _WEATHER[fault.kind], fault.strength * SHARE_MAX)
            operator.weather = weather
        for merchant in self.world.merchants:
            mood = ReceiverMood()
            for fault in self._meeting(merchant.number, len(self.world.merchants), (FaultKind.RECEIVER_DOWN,)):
                mood.is_down = mood.is_down or fault.strength > 0
            for fault in self._meeting(merchant.number, len(self.world.merchants), (FaultKind.RECEIVER_HANGS,)):
                mood.hangs_s = max(mood.hangs_s, fault.strength * HANGS_MAX_S)
            merchant.mood = mood
            wrong = self._meeting(merchant.number, len(self.world.merchants), (FaultKind.CERTIFICATE_WRONG,))
            merchant.party.show_certificate(is_right=not wrong)
        self._adjust_network()
        self._adjust_store()

    def _adjust_store(self) -> None:
        shares = dict.fromkeys((FaultKind.STORE_REFUSES, FaultKind.STORE_UNCERTAIN, FaultKind.STORE_STALLS), 0.0)
        for fault in self.lasting:
            if fault.kind in shares:
                shares[fault.kind] = max(shares[fault.kind], fault.strength * STATEMENTS_SHARE_MAX)
        if shares[FaultKind.STORE_UNCERTAIN] or shares[FaultKind.STORE_STALLS]:
            self.world.may_repeat_callbacks = True
        self.world.store.set_faults(store_faults(*shares.values()))

    def _adjust_network(self) -> None:
        """Cut and spoil the ways that the lasting faults meet, and heal the others."""
        network, others = self.world.network, self._others()
        for gateway_number, gateway in enumerate(self.world.gateways):
            for number, other in enumerate(others):
                way = gateway_number * len(others) + number
                ways = len(self.world.gateways) * len(others)
                if self._meeting(way, ways, (FaultKind.PARTITION,)):
                    network.partition(gateway.machine.name, other)
                else:
                    network.heal(gateway.machine.name, other)
                conditions = PathConditions()
                for fault in self._meeting(way, ways, (FaultKind.CONNECTIONS_BREAK,)):
                    share = fault.strength * SHARE_MAX
                    conditions = evolve(conditions, reset=share / 2, half_open=share / 4, failed_handshake=share / 8)
                for fault in self._meeting(way, ways, (FaultKind.NETWORK_SLOW,)):
                    latency_s = (0.01, 0.01 + fault.strength * LATENCY_MAX_S)
                    conditions = evolve(conditions, latency_s=latency_s, loss=fault.strength / 4, dripping=0.1)
                network.set_conditions(conditions, gateway.machine.name, other)
        names = NameConditions()
        for fault in self.lasting:
            if fault.kind is FaultKind.NAMES_FAIL:
                share = fault.strength / 3
                names = NameConditions(failure=share, hang=share, empty=share)
        network.names.conditions = names

    def _others(self) -> list[str]:
        """Return the names of the machines of merchants and operators."""
        parties = [*(each.party for each in self.world.operators.values()), *(m.party for m in self.world.merchants)]
        return [each.process.machine.name for each in parties]

    def _meeting(self, number: int, of: int, kinds: Collection[FaultKind]) -> list[WorldFault]:
        """Return the lasting faults of these kinds that meet the party with this number."""
        return [each for each in self.lasting if each.kind in kinds and each.target % of == number]
