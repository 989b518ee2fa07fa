"""Lets the faults of a plan occur, each in its time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import trio
from attrs import Factory, define, evolve

from mmo_sansio.values.clock import DAY, Span
from tests.simulation.network.conditions import PathConditions
from tests.simulation.network.machines import SimulatedNetwork
from tests.simulation.network.simulated_names import NameConditions
from tests.simulation.world.commits import WorldCommits
from tests.simulation.world.gateway import WorldGateway
from tests.simulation.world.merchant import ReceiverMood, WorldMerchant
from tests.simulation.world.operator import OperatorWeather, WorldOperator
from tests.simulation.world.plan import FaultKind, WorldFault
from tests.simulation.world.schedule import WorldSchedule
from tests.simulation.world.staff import WorldStaff
from tests.simulation.world.store import WorldStore, store_faults
from tests.simulation.world.trace import SimulationTrace

KILLED_AFTER_STEPS_MAX: Final = 400
"""Steps, from one checkpoint to the next, that a process makes at most before it is killed."""
KILLED_AFTER_S: Final = 20.0
"""When it is killed at the latest."""
AWAITED_MAX_S: Final = 300.0
"""How long a fault waits for the end of a payment."""
STEPS_TO_CALLBACK_MAX: Final = 120
CLOCK_STEP_MAX: Final = 8 * DAY
"""More than any payment lives."""
LATENCY_MAX_S: Final = 3.0
HANGS_MAX_S: Final = 40.0
"""The longest that a receiver hangs; a gateway waits for 15 s."""
STATEMENTS_SHARE_MAX: Final = 0.3
UNCERTAIN_SHARE_MAX: Final = 0.8
"""So many that a process does not learn for seconds whether it has committed."""
STANDSTILL_MAX_S: Final = 60.0
SPARE_DESCRIPTORS_MAX: Final = 6
FORGERIES_MAX: Final = 20
RESOLUTIONS_MAX: Final = 10
RELEASED_AGAIN_AFTER_S: Final = 20.0
CHECKS: Final = 3
CHECKED_AGAIN_AFTER_S: Final = 600.0
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
        FaultKind.NOTIFICATIONS_CONTRADICT: "notification_contradicts",
        FaultKind.OPERATOR_GARBLES: "garbled",
        FaultKind.REQUESTS_LATE: "request_late",
    }
)
OF_ONE_GATEWAY: Final = frozenset(
    {
        FaultKind.GATEWAY_KILLED,
        FaultKind.GATEWAY_LOSES_POWER,
        FaultKind.GATEWAY_RESTARTED,
        FaultKind.GATEWAY_SUSPENDED,
        FaultKind.CLOCK_STEPPED,
        FaultKind.STORE_CUT_OFF,
        FaultKind.DESCRIPTORS_SHORT,
    }
)
"""Kinds of faults that meet one gateway."""
COSTS_LEASES: Final = OF_ONE_GATEWAY | {each for each in FaultKind if each.startswith("store_")}
"""Kinds of faults by which a process may lose its lease."""
OF_ONE_WAY: Final = frozenset(
    {
        FaultKind.PARTITION,
        FaultKind.CUT_ONE_WAY,
        FaultKind.CONNECTIONS_BREAK,
        FaultKind.NETWORK_SLOW,
        FaultKind.READERS_SLOW,
    }
)
"""Kinds of faults that meet the way between one gateway and one other party."""


@define
class FaultPeriod:
    """Is the time in which a fault has lasted."""

    kind: FaultKind
    machine: str
    """The machine of the gateway that it has met; the empty text when it has met no single one."""
    began_s: float
    ended_s: float = math.inf
    """In seconds after the beginning of the world."""

    def meets(self, machine: str, begin_s: float, end_s: float) -> bool:
        """Return whether it met this machine at some time between these two."""
        return self.machine in ("", machine) and self.began_s <= end_s and self.ended_s >= begin_s


class FaultyWorld(Protocol):
    """Is a world, as far as faults touch it."""

    commits: WorldCommits
    schedule: WorldSchedule
    trace: SimulationTrace
    gateways: list[WorldGateway]
    merchants: list[WorldMerchant]
    operators: dict[str, WorldOperator]
    network: SimulatedNetwork
    store: WorldStore
    staff: WorldStaff
    periods: list[FaultPeriod]
    """Every fault that has occurred."""


@define(eq=False)
class FaultRunner:
    """Begins and ends faults; several may last at a time."""

    world: FaultyWorld
    lasting: list[WorldFault] = Factory(list)

    async def run(self, fault: WorldFault) -> None:
        """Wait for the time of this fault, and let it occur until it is over."""
        schedule = self.world.schedule
        await schedule.sleep_until(fault.at_s)
        if fault.awaits_end:
            with trio.move_on_after(AWAITED_MAX_S):
                await self.world.commits.wait_for_end()
                await self._make_steps(fault)
        self.world.trace.add(f"fault {fault.kind}", fault.target)
        period = FaultPeriod(fault.kind, self._met_machine(fault), trio.current_time())
        self.world.periods.append(period)
        self.lasting.append(fault)
        self._note_lasting()
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
                case FaultKind.DESCRIPTORS_SHORT:
                    await self._take_descriptors(fault)
                case FaultKind.API_OPERATORS_REFUSED:
                    await self._refuse_api_operators(fault)
                case FaultKind.BRAND_HELD:
                    await self._hold(fault)
                case FaultKind.STAFF_RESOLVE:
                    for _ in range(1 + round(fault.strength * RESOLUTIONS_MAX)):
                        await self.world.staff.end_payments()
                        await schedule.sleep(fault.lasts_s / RESOLUTIONS_MAX)
                case FaultKind.STORE_FAILS_OVER:
                    down_s = self.world.store.fail_over(fault.strength)
                    await schedule.sleep(max(down_s, fault.lasts_s))
                case FaultKind.STORE_STANDS_STILL:
                    await schedule.sleep(
                        self.world.store.stand_still(fault.strength * STANDSTILL_MAX_S)
                    )
                case FaultKind.STORE_FULL:
                    self.world.store.fill_disk(fault.lasts_s)
                    await schedule.sleep(fault.lasts_s)
                case _:
                    self._adjust()
                    await schedule.sleep(fault.lasts_s)
        finally:
            self.lasting.remove(fault)
            period.ended_s = trio.current_time()
            if fault.kind in COSTS_LEASES:
                schedule.stay_awake()
            self._note_lasting()
            self._adjust()

    async def _make_steps(self, fault: WorldFault) -> None:
        """Let the gateway that a fault meets make some steps: to the record, or to the callback, of
        what has ended."""
        life = self._gateway(fault).life
        if life is not None:
            made = trio.Event()
            life.process.tasks.call_after_steps(
                1 + round(fault.strength * STEPS_TO_CALLBACK_MAX), made.set
            )
            await made.wait()

    def _note_lasting(self) -> None:
        self.world.commits.lasting = tuple(dict.fromkeys(each.kind for each in self.lasting))

    def _met_machine(self, fault: WorldFault) -> str:
        """Return the machine of the one gateway that a fault meets; the empty text when it may meet
        several."""
        if fault.kind in OF_ONE_GATEWAY:
            return self._gateway(fault).machine.name
        if fault.kind in OF_ONE_WAY:
            return self.world.gateways[
                fault.target % self._count_ways() // len(self._others())
            ].machine.name
        return ""

    async def _kill(self, fault: WorldFault) -> None:
        """Kill a gateway at some checkpoint, and keep it down for a while."""
        gateway = self._gateway(fault)
        if gateway.life is None:
            return
        process = gateway.life.process
        with gateway.kept_down():
            if fault.kind is FaultKind.GATEWAY_LOSES_POWER:
                process.lose_power()
                await self.world.schedule.sleep(fault.lasts_s)
                gateway.machine.start()
            else:
                process.kill_after_steps(round(fault.strength * KILLED_AFTER_STEPS_MAX))
                with trio.move_on_after(KILLED_AFTER_S):
                    await process.ended.wait()
                process.kill()
                await self.world.schedule.sleep(fault.lasts_s)

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
        process = gateway.life.process
        process.suspend()
        await self.world.schedule.sleep(fault.lasts_s)
        if process.is_alive():
            process.resume()

    async def _step_clock(self, fault: WorldFault) -> None:
        """Set the wall clock of a gateway's machine wrong for a while, forward or back."""
        machine = self._gateway(fault).machine
        sign = 1 if fault.target % 2 else -1
        machine.step_clock(Span(sign * round(fault.strength * CLOCK_STEP_MAX)))
        await self.world.schedule.sleep(fault.lasts_s)
        machine.clocks.set_right()

    async def _take_descriptors(self, fault: WorldFault) -> None:
        """Let a gateway's process have few descriptors left for connections."""
        gateway = self._gateway(fault)
        if gateway.life is None:
            return
        process = gateway.life.process
        with process.short_of_descriptors(
            len(process.ends) + round(fault.strength * SPARE_DESCRIPTORS_MAX)
        ):
            await self.world.schedule.sleep(fault.lasts_s)

    def _gateway(self, fault: WorldFault) -> WorldGateway:
        return self.world.gateways[fault.target % len(self.world.gateways)]

    async def _forge(self, fault: WorldFault) -> None:
        """Forge results of payments, half of which exist."""
        operators = list(self.world.operators.values())
        operator = operators[fault.target % len(operators)]
        for _ in range(1 + round(fault.strength * FORGERIES_MAX)):
            known = [
                each.gateway_reference
                for merchant in self.world.merchants
                for each in merchant.started.values()
            ]
            reference = operator.random.choice(known[-10:] or ["01M3250V0AWP6N2Y6A31RYKF8Y"])
            await operator.forge(reference, is_success=operator.random.random() < 0.5)
            await self.world.schedule.sleep(operator.random.uniform(0.0, 2.0))

    async def _refuse_api_operators(self, fault: WorldFault) -> None:
        """Refuse a merchant's API operators for a while. Once that is mended, staff ask whether it
        is, as the alarm makes them."""
        for operator in self.world.operators.values():
            if operator.kind.refusals:
                active, *refusals = operator.kind.refusals
                operator.change_accounts(refusals[fault.target % len(refusals)])
                await self.world.schedule.sleep(fault.lasts_s)
                operator.change_accounts(active)
                for _ in range(CHECKS):
                    await self.world.staff.ask_for_check(operator.name)
                    await self.world.schedule.sleep(CHECKED_AGAIN_AFTER_S)

    async def _hold(self, fault: WorldFault) -> None:
        """Put a merchant on hold for a while; who ends that goes on until it is done."""
        staff, merchants = self.world.staff, self.world.merchants
        brand = merchants[fault.target % len(merchants)].brand
        await staff.hold(brand)
        await self.world.schedule.sleep(fault.lasts_s)
        while not await staff.release(brand):
            await self.world.schedule.sleep(RELEASED_AGAIN_AFTER_S)

    def _adjust(self) -> None:
        """Bring the parties into the state that the lasting faults ask for."""
        for number, operator in enumerate(self.world.operators.values()):
            weather = OperatorWeather()
            for fault in self._meeting(number, len(self.world.operators), _WEATHER):
                setattr(weather, _WEATHER[fault.kind], fault.strength * SHARE_MAX)
            operator.weather = weather
        for merchant in self.world.merchants:
            mood = ReceiverMood()
            for fault in self._meeting(
                merchant.number, len(self.world.merchants), (FaultKind.RECEIVER_DOWN,)
            ):
                mood.is_down = mood.is_down or fault.strength > 0
            for fault in self._meeting(
                merchant.number, len(self.world.merchants), (FaultKind.RECEIVER_HANGS,)
            ):
                mood.hangs_s = max(mood.hangs_s, fault.strength * HANGS_MAX_S)
            merchant.mood = mood
            wrong = self._meeting(
                merchant.number, len(self.world.merchants), (FaultKind.CERTIFICATE_WRONG,)
            )
            merchant.party.show_certificate(is_right=not wrong)
        self._adjust_network()
        self._adjust_store()

    def _adjust_store(self) -> None:
        shares = {
            FaultKind.STORE_REFUSES: STATEMENTS_SHARE_MAX,
            FaultKind.STORE_UNCERTAIN: UNCERTAIN_SHARE_MAX,
            FaultKind.STORE_STALLS: STATEMENTS_SHARE_MAX,
        }
        strengths = dict.fromkeys(shares, 0.0)
        for fault in self.lasting:
            if fault.kind in shares:
                strengths[fault.kind] = max(
                    strengths[fault.kind], fault.strength * shares[fault.kind]
                )
        self.world.store.set_faults(store_faults(*strengths.values()))
        cut_off = (each for each in self.lasting if each.kind is FaultKind.STORE_CUT_OFF)
        self.world.store.cut_off = frozenset(self._gateway(each).machine.name for each in cut_off)

    def _adjust_network(self) -> None:
        """Cut and spoil the ways that the lasting faults meet, and heal the others."""
        network, others = self.world.network, self._others()
        for gateway_number, gateway in enumerate(self.world.gateways):
            for number, other in enumerate(others):
                way = gateway_number * len(others) + number
                ways = self._count_ways()
                cuts = set(self._cuts(way, gateway.machine.name, other))
                if len(cuts) < 2:
                    network.heal(gateway.machine.name, other)
                for source, target in sorted(cuts):
                    network.cut(source, target)
                conditions = PathConditions()
                for fault in self._meeting(way, ways, (FaultKind.CONNECTIONS_BREAK,)):
                    share = fault.strength * SHARE_MAX
                    conditions = evolve(
                        conditions, reset=share / 2, half_open=share / 4, failed_handshake=share / 8
                    )
                for fault in self._meeting(way, ways, (FaultKind.NETWORK_SLOW,)):
                    latency_s = (0.01, 0.01 + fault.strength * LATENCY_MAX_S)
                    conditions = evolve(
                        conditions, latency_s=latency_s, loss=fault.strength / 4, dripping=0.1
                    )
                for fault in self._meeting(way, ways, (FaultKind.READERS_SLOW,)):
                    conditions = evolve(conditions, slow_reading=fault.strength)
                network.set_conditions(conditions, gateway.machine.name, other)
        names = NameConditions()
        for fault in self.lasting:
            if fault.kind is FaultKind.NAMES_FAIL:
                share = fault.strength / 3
                names = NameConditions(failure=share, hang=share, empty=share)
        network.names.conditions = names

    def _cuts(self, way: int, gateway: str, other: str) -> Iterator[tuple[str, str]]:
        """Yield the directions in which nothing passes between this gateway and another party."""
        if self._meeting(way, self._count_ways(), (FaultKind.PARTITION,)):
            yield from ((gateway, other), (other, gateway))
        for fault in self._meeting(way, self._count_ways(), (FaultKind.CUT_ONE_WAY,)):
            yield (gateway, other) if fault.strength < 0.5 else (other, gateway)

    def _count_ways(self) -> int:
        return len(self.world.gateways) * len(self._others())

    def _others(self) -> list[str]:
        """Return the names of the machines of merchants and operators."""
        parties = [
            *(each.party for each in self.world.operators.values()),
            *(m.party for m in self.world.merchants),
        ]
        return [each.process.machine.name for each in parties]

    def _meeting(self, number: int, of: int, kinds: Collection[FaultKind]) -> list[WorldFault]:
        """Return the lasting faults of these kinds that meet the party with this number."""
        return [each for each in self.lasting if each.kind in kinds and each.target % of == number]
