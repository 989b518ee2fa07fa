"""Lets the faults of a plan occur, each in its time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from attrs import Factory, define

from mmo_trio.testing.simulated_trace import SimulationTrace
from mmo_trio.testing.world_gateway import WorldGateway
from mmo_trio.testing.world_merchant import ReceiverMood, WorldMerchant
from mmo_trio.testing.world_operator import OperatorWeather, WorldOperator
from mmo_trio.testing.world_plan import FaultKind, WorldFault
from mmo_trio.testing.world_schedule import WorldSchedule

HANGS_MAX_S: Final = 40.0
"""The longest that a receiver hangs; a gateway waits for 15 s."""
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
                case FaultKind.GATEWAY_KILLED:
                    await self._kill(fault)
                case FaultKind.GATEWAY_RESTARTED:
                    await self._restart(fault)
                case FaultKind.NOTIFICATIONS_FORGED:
                    await self._forge(fault)
                case _:
                    self._adjust()
                    await schedule.sleep(fault.lasts_s)
        finally:
            self.lasting.remove(fault)
            self._adjust()

    async def _kill(self, fault: WorldFault) -> None:
        gateway = self.world.gateways[fault.target % len(self.world.gateways)]
        if gateway.life is None:
            return
        self.world.may_repeat_callbacks = True
        gateway.kill()
        await self.world.schedule.sleep(fault.lasts_s)
        gateway.start_again.set()

    async def _restart(self, fault: WorldFault) -> None:
        gateway = self.world.gateways[fault.target % len(self.world.gateways)]
        if gateway.life is None:
            return
        life = gateway.life
        life.drain.set()
        await life.ended.wait()
        gateway.start_again.set()

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

    def _meeting(self, number: int, of: int, kinds: Collection[FaultKind]) -> list[WorldFault]:
        """Return the lasting faults of these kinds that meet the party with this number."""
        return [each for each in self.lasting if each.kind in kinds and each.target % of == number]
