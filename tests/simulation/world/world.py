"""Runs the world of one seed: gateways over one store, operators, merchants, a network between
them, and the faults of a plan, each in its time. What came of it is left for judges, who see what
the outside saw and what the books say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final

import trio
from attrs import Factory, define, field

from mmo_merchant import RecordsWindow, TransactionNotFound
from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Span, earlier, to_datetime
from mmo_trio.service.wiring import Components
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from tests.simulation.network.machines import SimulatedMachine, SimulatedNetwork
from tests.simulation.world.books import WorldBooks, read_books
from tests.simulation.world.commits import WorldCommits
from tests.simulation.world.faults import FaultPeriod, FaultRunner
from tests.simulation.world.files import (
    GATEWAY_HOST,
    hint_file,
    merchant_name,
    world_config,
    world_directory,
)
from tests.simulation.world.forger import WorldForger
from tests.simulation.world.gateway import WorldGateway, WorldLife, run_gateway
from tests.simulation.world.merchant import WorldMerchant
from tests.simulation.world.operator import WorldOperator
from tests.simulation.world.operator_kinds import (
    OperatorKind,
    all_operator_kinds,
    operator_host,
    operator_kinds,
    prepare_operators,
)
from tests.simulation.world.party import WorldParty
from tests.simulation.world.payers import WorldPayers
from tests.simulation.world.plan import PromptsConfirmed, WorldPlan
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.run import Simulation, run_simulated
from tests.simulation.world.schedule import WorldSchedule
from tests.simulation.world.staff import WorldStaff
from tests.simulation.world.store import WorldStore
from tests.simulation.world.trace import SimulationTrace, logs_in_trace
from tests.support.sqlite_store import migrated_database

DRAIN_S: Final = 120.0
"""Seconds that the gateways have to end at last."""
ASKED_AT_END: Final = 10
"""How often a merchant asks about a payment at the end until it is answered."""
ASKED_AGAIN_AFTER_S: Final = 60.0
LOOKED_UP_EVERY: Final = 4
"""A merchant looks up one in so many of the payments that its list at the end contains."""
RESTART_AFTER_S: Final = 1.0
"""Seconds until a process that has ended is followed by the next one."""
RESTART_AFTER_MAX_S: Final = 60.0
"""Seconds until the next one at most, as the time doubles with each process that could not
start."""
READ_MEANWHILE_SHARE: Final = 0.15
"""The share of payments while whose creation records are read."""
READ_MEANWHILE_AFTER_S: Final = (0.02, 0.1, 5.0)
SETTLED_EVERY_S: Final = 4 * 3_600.0
"""How often staff look at what is open, in a world of reversals, or of all that operators do."""
TOLD_EVERY_S: Final = 200.0
"""How often somebody notifies of what no operator has got, in such a world."""
UNASKED_EVERY: Final = 5
"""How many payments are begun for each that somebody makes of his own accord."""
READINGS: Final = 3
"""How often each merchant reads records while payments are made."""


@define(eq=False)
class SimulatedWorld:
    """Holds the parties of one plan while they live, and what is left of them."""

    plan: WorldPlan
    simulation: Simulation
    meanwhile: Callable[[SimulatedWorld], Awaitable[None]] | None = None
    """What happens besides the plan."""
    options: Mapping[str, str] = Factory(dict)
    """Settings of the gateways by dotted key."""
    config: ServiceConfig = field(init=False)
    trace: SimulationTrace = Factory(SimulationTrace)
    network: SimulatedNetwork = field(init=False)
    schedule: WorldSchedule = field(init=False)
    store: WorldStore = field(init=False)
    machines: list[SimulatedMachine] = Factory(list)
    gateways: list[WorldGateway] = Factory(list)
    merchants: list[WorldMerchant] = Factory(list)
    operators: dict[str, WorldOperator] = Factory(dict)
    staff: WorldStaff = field(init=False)
    payers: WorldPayers | None = None
    """Who acts on pay-ins, where more than prompts is asked for."""
    kinds: Mapping[str, OperatorKind] = field(init=False)
    commits: WorldCommits = field(init=False)
    periods: list[FaultPeriod] = Factory(list)
    """Every fault that has occurred."""
    left: list[str] = Factory(list)
    """Sentences about what gateways had not finished when everything was quiet."""
    is_over: bool = False
    """Whether no gateway is started any more."""
    books: WorldBooks | None = None
    """The gateway's books at the end."""

    def __attrs_post_init__(self) -> None:
        simulation = self.simulation
        self.kinds = operator_kinds(self.plan.prompts_confirmed)
        if self.plan.only_with:
            kinds = all_operator_kinds()
            self.kinds = {name: kinds[name] for name in self.plan.only_with}
        self.network = SimulatedNetwork(
            simulation.clock, simulation.choices.of("network"), self._record
        )
        self.commits = WorldCommits(self.trace)
        self.store = WorldStore(
            self.plan.is_store_shared, simulation.choices.of("store"), self.trace, self.commits
        )
        self.schedule = WorldSchedule(
            self.trace, self.has_traffic, self.store.next_work_at, self.plan.rest_step_s
        )

    def now(self) -> Instant:
        """Return the world's true time."""
        return self.simulation.clock.true_time()

    def has_traffic(self) -> bool:
        """Return whether any connection is open, or a gateway has yet to poll an operator: it
        pauses between polls of payments that have ended, while no connection need be open."""
        return any(each.ends for each in self.machines) or any(
            each.has_waiting_polls for each in self.gateways
        )

    async def run(self) -> WorldBooks:
        """Run the plan from its beginning until everything is at rest, and return the gateway's
        books."""
        self.config = world_config(
            [each.method for each in self.kinds.values()],
            is_store_shared=self.plan.is_store_shared,
            options=self.options,
        )
        self._build()
        await self.staff.sign_up()
        async with trio.open_nursery() as parties:
            await parties.start(self.store.run)
            for operator in self.operators.values():
                parties.start_soon(operator.party.process.run, operator.run)
            for merchant in self.merchants:
                parties.start_soon(merchant.party.process.run, merchant.receive)
            async with trio.open_nursery() as business:
                if self.payers is not None:
                    await business.start(self.payers.run)
                    business.start_soon(self._pay_unasked)
                    business.start_soon(self._look)
                    for operator in self.operators.values():
                        business.start_soon(self._forge, operator)
                for gateway in self.gateways:
                    business.start_soon(self._run_processes, gateway, business)
                for number, at_s in enumerate(self.plan.payments):
                    business.start_soon(self._pay, number, at_s)
                faults = FaultRunner(self)
                for fault in self.plan.faults:
                    business.start_soon(faults.run, fault)
                for merchant in self.merchants:
                    business.start_soon(
                        self._read_records,
                        merchant,
                        self.simulation.choices.of(f"{merchant.brand} reads"),
                    )
                for at_s in self.plan.reversals:
                    business.start_soon(self._ask_back, at_s)
                if self.plan.reversals:
                    business.start_soon(self._settle)
                    business.start_soon(self._tell_of_lost_reversals)
                if self.meanwhile is not None:
                    business.start_soon(self.meanwhile, self)
                await self.schedule.sleep_until(self.plan.lasts_s)
                self.left += self._what_is_left()
                await self._look_up_all()
                self.is_over = True
                for gateway in self.gateways:
                    if gateway.life is not None:
                        gateway.life.drain.set()
                await self.schedule.sleep(DRAIN_S)
                self.left += self.store.what_is_left()
                business.cancel_scope.cancel()
            parties.cancel_scope.cancel()
        async with self.store.open_outside(serving=True) as store:
            self.books = await read_books(
                store, [each.brand for each in self.merchants], self.commits.ledger
            )
        return self.books

    def _what_is_left(self) -> Iterator[str]:
        """Yield sentences about what gateways have not finished."""
        for gateway in self.gateways:
            if gateway.life is None or gateway.life.components is None:
                yield f"{gateway.machine.name} does not serve"
                continue
            name, workers = gateway.machine.name, gateway.life.components.workers
            if gateway.machine.ends:
                yield f"{name} has {len(gateway.machine.ends)} open connections"
            if workers.callbacks.claimed() or workers.qr_codes.claimed():
                yield f"{name} has deliveries that have not ended"
            if workers.providers.active or workers.providers.waiting:
                yield f"{name} has conversations with operators that have not ended"
        if hint_file().exists():
            yield "hints of operators are kept that the store lacks"

    def _build(self) -> None:
        names, choices = self.network.names, self.simulation.choices
        for number in range(self.plan.gateways):
            self.gateways.append(
                WorldGateway(self._machine(f"gateway-{number}", f"41.0.0.{number + 1}"))
            )
        names.set_addresses(GATEWAY_HOST, [each.machine.addresses[0] for each in self.gateways])
        for number, (name, kind) in enumerate(self.kinds.items(), start=1):
            party = self._party(name, f"41.0.1.{number}", operator_host(name))
            self.operators[name] = WorldOperator(
                name,
                kind,
                kind.open(),
                party,
                self.now,
                choices.of(name),
                self.trace,
                self.schedule,
                insists=bool(self.plan.reversals),
            )
            if self.plan.only_with:
                self.operators[name].opening = self.operators[name].balances()
                self.operators[name].is_whole = True
        if self.plan.only_with:
            party = self._party("payers", "41.0.3.1", "payers.example")
            self.payers = WorldPayers(party, self.operators, choices, self.trace, self.schedule)
        for number in range(self.plan.merchants):
            name = merchant_name(number)
            party = self._party(name, f"41.0.2.{number + 1}", f"{name}.example")
            self.merchants.append(
                WorldMerchant(
                    number, party, choices.of(name), self.trace, self.schedule, self.payers
                )
            )
        self.staff = WorldStaff(
            self.gateways, self.operators, self.store, choices.of("staff"), self.trace
        )

    def _party(self, name: str, address: str, host: str) -> WorldParty:
        process = SimulatedProcess(name, self._machine(name, address), self.simulation.tasks)
        self.network.names.set_addresses(host, [address])
        return WorldParty(host, process, self.simulation.choices.of(f"{name} chooses addresses"))

    def _machine(self, name: str, address: str) -> SimulatedMachine:
        machine = self.network.add_machine(name, address)
        self.machines.append(machine)
        return machine

    def _record(self, event: str, /, **details: object) -> None:
        """Record what happens in the network."""
        kind = details.pop("kind", "")
        self.trace.add(f"{event} {kind}".strip(), *details.values())

    async def _run_processes(self, gateway: WorldGateway, nursery: trio.Nursery) -> None:
        """Run one process after the other on this machine."""
        name, starts, restart_after_s = gateway.machine.name, 0, RESTART_AFTER_S
        gateway.may_start.set()
        while True:
            await gateway.may_start.wait()
            starts += 1
            process = SimulatedProcess(
                f"{name}, process {starts}", gateway.machine, self.simulation.tasks
            )
            gateway.life = life = WorldLife(process)
            self.trace.add("gateway_starts", name)
            nursery.start_soon(process.run, partial(self._run_process, gateway, life))
            await process.ended.wait()
            gateway.life = None
            self.trace.add("gateway_ended", name)
            if life.components is not None:  # It may have held a lease.
                self.schedule.stay_awake()
                restart_after_s = RESTART_AFTER_S
            if self.is_over:
                return
            await self.schedule.sleep(restart_after_s)
            restart_after_s = min(2 * restart_after_s, RESTART_AFTER_MAX_S)

    async def _run_process(
        self, gateway: WorldGateway, life: WorldLife, process: SimulatedProcess
    ) -> None:
        """Run a gateway. One that cannot start because of its store ends, and is started again like
        any other."""

        def serve(components: Components) -> None:
            life.components = components
            self.trace.add("gateway_serves", gateway.machine.name)

        try:
            await run_gateway(
                self.config,
                process,
                self.store.open,
                drain=life.drain,
                commits=self.commits,
                on_ready=serve,
            )
        except* (StoreUnavailable, StoreUnusable):
            if life.components is not None:
                raise  # Once it serves, no failure of its store may end it.
            self.trace.add("gateway_cannot_start", gateway.machine.name)

    async def _pay(self, number: int, at_s: float) -> None:
        await self.schedule.sleep_until(at_s)
        merchant = self.merchants[number % len(self.merchants)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                self._read_meanwhile, merchant, self.simulation.choices.of(f"{number} is read")
            )
            kinds = list(self.kinds.values())
            if self.plan.prompts_confirmed is not PromptsConfirmed.NOT:
                kinds.reverse()  # M-Pesa does business first.
            method = kinds[number // len(self.merchants) % self.plan.operators].method
            await merchant.pay(f"order-{number}", method)

    async def _look(self) -> None:
        """Let staff look at what is open from time to time, until the world ends."""
        while True:
            await self.schedule.sleep(SETTLED_EVERY_S)
            with suppress(StoreUnavailable):
                await self.staff.look(self.now())

    async def _forge(self, operator: WorldOperator) -> None:
        """Let somebody forge an operator's notifications, as many as there are payments."""
        random = self.simulation.choices.of(f"forger of {operator.name}")
        forger = WorldForger(
            operator,
            random,
            self.trace,
            self.schedule,
            lambda: self.commits.ledger.transactions,
        )
        await forger.run(self.plan.payments[0], times=len(self.plan.payments))

    async def _pay_unasked(self) -> None:
        """Let somebody pay now and then of his own accord where that can be done."""
        assert self.payers is not None
        takers = [each for each in self.operators.values() if each.kind.takes_deposits]
        for number, at_s in enumerate(self.plan.payments[::UNASKED_EVERY]):
            await self.schedule.sleep_until(at_s)
            for operator in takers:
                self.payers.pay_unasked(
                    operator, self.simulation.choices.of(f"{number} of own accord")
                )

    async def _ask_back(self, at_s: float) -> None:
        await self.schedule.sleep_until(at_s)
        await self.staff.ask_back()

    async def _settle(self) -> None:
        """Let staff look at what is open from time to time, until the world ends."""
        while True:
            await self.schedule.sleep(SETTLED_EVERY_S)
            await self.staff.settle()

    async def _tell_of_lost_reversals(self) -> None:
        """Let somebody notify of requests for money back that no operator has got."""
        while True:
            await self.schedule.sleep(TOLD_EVERY_S)
            for operator in self.operators.values():
                await operator.tell_of_lost()

    async def _read_meanwhile(self, merchant: WorldMerchant, random: Random) -> None:
        """Read, for some payments, the latest records while they are created: a window that is over
        is complete."""
        if random.random() < READ_MEANWHILE_SHARE:
            await self.schedule.sleep(random.random() * random.choice(READ_MEANWHILE_AFTER_S))
            end = self.now()
            await merchant.records(
                RecordsWindow(begin=to_datetime(earlier(end, MINUTE)), end=to_datetime(end))
            )

    async def _read_records(self, merchant: WorldMerchant, random: Random) -> None:
        """Let a merchant read records of windows that are over, and of the latest hour."""
        first, last = self.plan.payments[0], self.plan.payments[-1] + 7_200
        for at_s in sorted(random.uniform(first, last) for _ in range(READINGS)):
            await self.schedule.sleep_until(at_s)
            end = self.now()
            begin = earlier(end, Span(random.choice((1, 24)) * HOUR))
            await merchant.records(RecordsWindow(begin=to_datetime(begin), end=to_datetime(end)))

    async def _look_up_all(self) -> None:
        """Let every merchant list everything, and look up what was answered but not listed, and
        some of the rest."""
        for merchant in self.merchants:
            end = self.now()
            window = RecordsWindow(
                begin=to_datetime(earlier(end, Span(100 * 24 * HOUR))), end=to_datetime(end)
            )
            await self._ask(merchant, "all", partial(merchant.records, window))
            listed = (
                {each.gateway_reference for each in merchant.listed[-1].transactions}
                if merchant.listed
                else set()
            )
            for number, (reference, started) in enumerate(merchant.started.items()):
                if number % LOOKED_UP_EVERY == 0 or started.gateway_reference not in listed:
                    await self._ask(
                        merchant, reference, partial(merchant.look_up, started.gateway_reference)
                    )

    async def _ask(
        self, merchant: WorldMerchant, reference: str, ask: Callable[[], Awaitable[object]]
    ) -> None:
        for _ in range(ASKED_AT_END):
            try:
                if await ask() is not None:
                    return
            except TransactionNotFound:
                merchant.lost.append(reference)
                return
            await self.schedule.sleep(ASKED_AGAIN_AFTER_S)


def run_world(
    plan: WorldPlan,
    meanwhile: Callable[[SimulatedWorld], Awaitable[None]] | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> SimulatedWorld:
    """Run this plan from its beginning to its end, with what else happens and with further
    settings, and return what is left of the world.

    Raises whatever ends a gateway that nobody has ended."""
    world_directory()
    migrated_database()
    prepare_operators()

    async def run(simulation: Simulation) -> SimulatedWorld:
        world = SimulatedWorld(plan, simulation, meanwhile, options)
        simulation.clock.rest_until = world.schedule.rest_until
        with logs_in_trace(world.trace):
            await world.run()
        return world

    return run_simulated(run, seed=plan.seed)
