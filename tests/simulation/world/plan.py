"""Says what one seed's world is made of: how many gateways and merchants it has, what they do, and
which faults occur when. A plan is data, so that a failing one can be made smaller, fault by
fault."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Final

from attrs import evolve, frozen

from tests.simulation.world.files import MERCHANTS_MAX, OPERATORS_MAX

DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0
QUIET_BEFORE_END_S: Final = 3.2 * DAY_S
"""Every fault is over so long before the end, so that every payment can end: the longest life of
one is three days."""


class FaultKind(StrEnum):
    """Names what can go wrong in a world."""

    GATEWAY_KILLED = "gateway_killed"
    """A gateway's process ends as by `kill -9`; another one starts later."""
    GATEWAY_RESTARTED = "gateway_restarted"
    """A gateway drains and ends, and another process starts, as when a version is rolled out."""
    GATEWAY_LOSES_POWER = "gateway_loses_power"
    """A gateway's machine stops without a word to anybody, and starts later."""
    GATEWAY_SUSPENDED = "gateway_suspended"
    """A gateway's process is stopped, and goes on later where it stood."""
    CLOCK_STEPPED = "clock_stepped"
    """The wall clock of a gateway's machine is wrong for a while."""
    PARTITION = "partition"
    """Nothing passes between a gateway and a merchant or an operator."""
    CONNECTIONS_BREAK = "connections_break"
    """Some connections between a gateway and another party are reset or half-open from some byte
    on."""
    NETWORK_SLOW = "network_slow"
    """Segments between a gateway and another party are late or lost, and some connections drip."""
    NAMES_FAIL = "names_fail"
    """Names can't be looked up, or only after a while."""
    CERTIFICATE_WRONG = "certificate_wrong"
    """The receiver of a merchant shows a wrong certificate."""
    OPERATOR_UNAVAILABLE = "operator_unavailable"
    OPERATOR_RATE_LIMITED = "operator_rate_limited"
    OPERATOR_LOSES_REQUESTS = "operator_loses_requests"
    OPERATOR_LOSES_ANSWERS = "operator_loses_answers"
    NOTIFICATIONS_LOST = "notifications_lost"
    NOTIFICATIONS_LATE = "notifications_late"
    NOTIFICATIONS_REPEATED = "notifications_repeated"
    NOTIFICATIONS_FORGED = "notifications_forged"
    """Somebody who knows the address sends results that no operator has reported."""
    RECEIVER_DOWN = "receiver_down"
    RECEIVER_HANGS = "receiver_hangs"
    STORE_REFUSES = "store_refuses"
    """Statements fail, and nothing is stored."""
    STORE_UNCERTAIN = "store_uncertain"
    """Connections to the store are lost, so that the outcome of some statements is unknown."""
    STORE_STALLS = "store_stalls"
    """Commits stall."""
    STORE_FAILS_OVER = "store_fails_over"
    """A standby takes over, which has all that was acknowledged."""
    STORE_FULL = "store_full"
    """The disk is full."""
    STORE_CUT_OFF = "store_cut_off"
    """A gateway and the store that it shares with others do not reach each other."""
    STORE_STANDS_STILL = "store_stands_still"
    """The server of a shared store answers nobody, and goes on later with what it was asked."""
    CUT_ONE_WAY = "cut_one_way"
    """Nothing passes in one direction between a gateway and a merchant or an operator."""
    READERS_SLOW = "readers_slow"
    """The ends of some connections between a gateway and another party take little at a time."""
    DESCRIPTORS_SHORT = "descriptors_short"
    """A gateway's process has descriptors for few connections more than it has open."""
    NOTIFICATIONS_CONTRADICT = "notifications_contradict"
    """An operator notifies of another result than the one in its book, and then of the true one."""
    BRAND_HELD = "brand_held"
    """Staff put a merchant on hold for a while."""
    STAFF_RESOLVE = "staff_resolve"
    """Staff end payments by hand, rightly and wrongly."""
    OPERATOR_GARBLES = "operator_garbles"
    """An operator answers with pages of its maintenance, whatever it has done."""
    REQUESTS_LATE = "requests_late"
    """Requests arrive at an operator when nobody waits for their answers any more."""
    API_OPERATORS_REFUSED = "api_operators_refused"
    """The password of an API operator expires or is locked, or a role is missing."""


class PromptsConfirmed(StrEnum):
    """Says whether M-Pesa confirms what prompts have paid as deposits, too, which are booked
    without a question."""

    NOT = "not"
    BY_REFERENCE = "by_reference"
    """It names the payment."""
    BY_NOTHING = "by_nothing"
    """Prompts pay to a till, and it names no payment: the deposit is the first merchant's."""


WEIGHTS: Final[Mapping[FaultKind, float]] = MappingProxyType(
    dict.fromkeys(FaultKind, 0.3)
    | dict.fromkeys(
        (FaultKind.GATEWAY_KILLED, FaultKind.GATEWAY_RESTARTED, FaultKind.STORE_CUT_OFF), 0.5
    )
    | {FaultKind.STAFF_RESOLVE: 0.5}
)
"""The share of seeds in which each kind of fault exists at all."""
OF_STAFF: Final = frozenset({FaultKind.BRAND_HELD, FaultKind.STAFF_RESOLVE})
"""What staff do, of which each kind is drawn by a generator of its own."""
OF_OPERATORS: Final = (
    FaultKind.OPERATOR_GARBLES,
    FaultKind.REQUESTS_LATE,
    FaultKind.API_OPERATORS_REFUSED,
)
"""What goes wrong only where all that can be done with an operator is played."""
OF_ONE_OPERATOR: Final = frozenset(
    each for each in FaultKind if each.startswith(("operator_", "notifications_"))
)
"""Kinds of faults that meet one operator."""
CALM_SHARE: Final = 0.15
"""The share of seeds without any fault, in which everything must go well."""
OF_OPERATORS_SHARE: Final = 0.7
"""The share of the seeds of such worlds in which each of these kinds exists."""
TOLD_LATE_S: Final = 3.2 * DAY_S
"""How much longer such a world lasts: some payments are made after their expiry, and an operator
that answers by notifications is asked about these for three days more."""
OCCURRENCES_MAX: Final = 6
AWAITING: Final = frozenset(
    {
        FaultKind.GATEWAY_KILLED,
        FaultKind.GATEWAY_RESTARTED,
        FaultKind.GATEWAY_LOSES_POWER,
        FaultKind.GATEWAY_SUSPENDED,
        FaultKind.STORE_CUT_OFF,
        FaultKind.STORE_FAILS_OVER,
    }
)
"""Sudden kinds of faults, some of which wait for the end of a payment: a callback takes
milliseconds."""
AWAITING_SHARE: Final = 0.4
AIMED_SHARE: Final = 0.5
"""The share of faults that begin soon after a payment does. A payment passes its first stages in
seconds, so these would else meet few faults."""
AIMED_AFTER_S: Final = 3.0
"""How long after it on average."""
MET_FOR_S: Final = 6.0
"""How long a fault lasts that meets one payment, from a second before it until its callback has
arrived where nothing is wrong."""
PAUSES_ONE_GATEWAY: Final = frozenset({FaultKind.GATEWAY_SUSPENDED, FaultKind.STORE_CUT_OFF})
TAKES_OVER_AFTER_S: Final = 40.0
"""How long these last that meet one payment: meanwhile another gateway takes over."""
ASKED_BACK_WITHIN_S: Final = (60.0, 600.0, 6_000.0)
"""How soon after the beginning of a payment staff ask for money back, one of these at most."""


@frozen
class WorldFault:
    """Is one fault of a plan."""

    kind: FaultKind
    at_s: float
    """Seconds after the beginning of the world."""
    lasts_s: float
    target: int
    """Which gateway, merchant or operator it meets, by number, modulo how many there are."""
    strength: float
    """How bad it is, from 0 to 1: a share, or a part of the longest time."""
    awaits_end: bool = False
    """Whether it waits for the next payment that ends, and occurs while the callback of that is on
    its way."""


@frozen
class WorldPlan:
    """Describes a whole world. The seed also decides all that a plan does not say, such as the
    order of tasks."""

    seed: int
    gateways: int
    """More than one share a store; one may have a store of its own, as SQLite is."""
    is_store_shared: bool
    merchants: int
    operators: int
    """How many operators are paid with."""
    payments: tuple[float, ...]
    """When each payment is begun, in seconds after the beginning of the world."""
    lasts_s: float
    rest_step_s: float
    """The longest step in which time passes while nothing happens."""
    faults: tuple[WorldFault, ...]
    prompts_confirmed: PromptsConfirmed = PromptsConfirmed.NOT
    reversals: tuple[float, ...] = ()
    """When staff ask for the money of some payment back, in seconds after the beginning of the
    world."""
    only_with: tuple[str, ...] = ()
    """The operators that there are, with all that can be done with each: payers act, and forgers,
    and operators err by more. Empty: the three, with prompts and pay-outs only."""

    def without(self, left_out: Collection[int]) -> WorldPlan:
        """Return the same plan without the faults with these numbers, the first being 0."""
        return evolve(
            self, faults=tuple(each for nth, each in enumerate(self.faults) if nth not in left_out)
        )

    def with_payments(self, count: int) -> WorldPlan:
        """Return the same plan with its first payments only."""
        return evolve(self, payments=self.payments[:count])

    def with_operators(self, names: Collection[str]) -> WorldPlan:
        """Return the same plan with these operators, and all that can be done with each, and with
        what can go wrong there unless nothing does."""
        more = (each for kind in OF_OPERATORS for each in self._faults_of_operators(kind))
        faults = sorted((*self.faults, *more), key=lambda each: each.at_s) if self.faults else ()
        return evolve(
            self,
            operators=len(names),
            prompts_confirmed=PromptsConfirmed.NOT,
            only_with=tuple(names),
            faults=tuple(faults),
            lasts_s=self.lasts_s + TOLD_LATE_S,
        )

    def _faults_of_operators(self, kind: FaultKind) -> Iterator[WorldFault]:
        random = Random(f"{self.seed}/{kind}")
        if random.random() < OF_OPERATORS_SHARE:
            for _ in range(random.randint(1, OCCURRENCES_MAX)):
                at_s = random.choice(self.payments) + random.expovariate(1 / AIMED_AFTER_S)
                lasts_s = random.choice((12.0, 300.0, 3_000.0))
                yield WorldFault(kind, at_s, lasts_s, random.randrange(60), random.random())

    def with_each_payment_met(self, *kinds: FaultKind) -> WorldPlan:
        """Return the same plan with two gateways on one store and with a fault of each of these
        kinds at each payment: what is rare among those that are drawn is certain there. What meets
        one operator meets all, as any may be paid with."""
        faults = tuple(
            WorldFault(
                kind,
                max(0.0, at_s - 1.0),
                TAKES_OVER_AFTER_S if kind in PAUSES_ONE_GATEWAY else MET_FOR_S,
                nth + operator,
                nth % 10 / 10,
                awaits_end=kind in AWAITING and nth % 2 == 0,
            )
            for nth, at_s in enumerate(self.payments)
            for kind in kinds
            for operator in range(OPERATORS_MAX if kind in OF_ONE_OPERATOR else 1)
        )
        return evolve(self, gateways=2, is_store_shared=True, faults=faults)


def draw_plan(
    seed: int,
    *,
    payments: int = 200,
    days: float = 4.0,
    kinds: Collection[FaultKind] = tuple(FaultKind),
    reversals: int = 0,
) -> WorldPlan:
    """Draw the plan of this seed, with this many payments in all, faults of some of these kinds,
    and this many times at which staff ask for money back.

    Which kinds exist at all is drawn first, so that some worlds have many faults of few kinds."""
    random = Random(f"{seed}/plan")
    is_store_shared = random.random() < 0.6
    busy_s = max(HOUR_S, days * DAY_S - QUIET_BEFORE_END_S)
    begins = sorted(random.uniform(0.0, busy_s) for _ in range(random.choice((1, 2, 5, 20))))
    times = sorted(random.choice(begins) + random.expovariate(1 / 120.0) for _ in range(payments))
    is_calm, asks = random.random() < CALM_SHARE, Random(f"{seed}/reversals")
    asked = (
        asks.choice(times) + asks.uniform(5.0, asks.choice(ASKED_BACK_WITHIN_S))
        for _ in range(reversals)
    )
    faults: list[WorldFault] = []
    for kind in FaultKind:
        if kind in OF_OPERATORS:
            continue
        drawn = Random(f"{seed}/{kind}") if kind in OF_STAFF else random
        exists, count = drawn.random() < WEIGHTS[kind], drawn.randint(1, OCCURRENCES_MAX)
        for _ in range(count):
            at_s = max(0.0, drawn.choice(begins) + drawn.uniform(-60.0, 600.0))
            aimed_at_s = drawn.choice(times) + drawn.expovariate(1 / AIMED_AFTER_S)
            if drawn.random() < AIMED_SHARE:
                at_s = aimed_at_s
            lasts_s = drawn.choice((0.3, 3.0, 12.0, 40.0, 300.0, 3_000.0)) * drawn.uniform(0.5, 1.5)
            awaits_end = drawn.random() < AWAITING_SHARE and kind in AWAITING
            fault = WorldFault(kind, at_s, lasts_s, drawn.randrange(60), drawn.random(), awaits_end)
            if exists and not is_calm and kind in kinds:
                faults.append(fault)
    return WorldPlan(
        seed=seed,
        gateways=random.choice((1, 2, 2, 3)) if is_store_shared else 1,
        is_store_shared=is_store_shared,
        merchants=random.randint(1, MERCHANTS_MAX),
        operators=random.randint(1, OPERATORS_MAX),
        payments=tuple(times),
        rest_step_s=random.choice((120.0, 600.0, 1_800.0)),
        lasts_s=busy_s + QUIET_BEFORE_END_S,
        faults=tuple(sorted(faults, key=lambda each: each.at_s)),
        prompts_confirmed=random.choice((PromptsConfirmed.NOT, *PromptsConfirmed)),
        reversals=tuple(sorted(asked)),
    )
