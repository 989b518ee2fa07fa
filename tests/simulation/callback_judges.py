"""Judges of callbacks: each goes out once, and twice only where the process that sent it was
disturbed before it could record that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.world.books import WorldBooks
from tests.simulation.world.faults import OF_ONE_WAY
from tests.simulation.world.merchant import ReceivedCallback
from tests.simulation.world.plan import FaultKind
from tests.simulation.world.world import SimulatedWorld

TAKEN = 204
"""The status with which a merchant takes a callback."""
DELIVERY_S = 15.0
"""The longest that a gateway waits for a receiver."""
RECORDED_WITHIN_S = 40.0
"""How long after its arrival a callback may be recorded where nothing is wrong, with what a commit
takes at most and what a process takes to begin again."""
SENT_WITHIN_S = 2.0
"""How long before its arrival a callback is sent where nothing is wrong with the network."""
ON_ITS_WAY_MAX_S = 600.0
"""How long a callback may be on its way through a network in which something is wrong."""

KEEPS_FROM_RECORDING = frozenset(
    {
        FaultKind.GATEWAY_KILLED,
        FaultKind.GATEWAY_RESTARTED,
        FaultKind.GATEWAY_LOSES_POWER,
        FaultKind.GATEWAY_SUSPENDED,
        FaultKind.STORE_REFUSES,
        FaultKind.STORE_UNCERTAIN,
        FaultKind.STORE_STALLS,
        FaultKind.STORE_FAILS_OVER,
        FaultKind.STORE_FULL,
        FaultKind.STORE_CUT_OFF,
        FaultKind.STORE_STANDS_STILL,
    }
)
"""Kinds of faults after which a process may not have recorded what it has sent, so that another
sends it as well."""


def each_end_is_called_back_once(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """K1, K3: one outcome is on record for each end; a callback arrives again only when the process
    that sent it before was disturbed between sending and recording."""
    arrived: defaultdict[str, list[ReceivedCallback]] = defaultdict(list)
    for merchant in world.merchants:
        for each in merchant.received:
            arrived[each.gateway_reference].append(each)
    for reference, ours in books.transactions.items():
        recorded = books.callbacks[reference]
        if ours.progress.stage.is_terminal and len(recorded) != 1:
            yield f"{reference} has {len(recorded)} recorded callbacks"
        yield from _repetitions(world, reference, arrived[reference])
        is_taken = any(each.status == TAKEN for each in arrived[reference])
        if not is_taken and any(each.attempt.outcome == "delivered" for each in recorded):
            yield f"the callback of {reference} is recorded as delivered, and was not taken"
    for merchant in world.merchants:
        yield from (
            f"{merchant.brand} can't take a callback: {each}" for each in merchant.wrong_callbacks
        )


def _repetitions(
    world: SimulatedWorld, reference: str, calls: list[ReceivedCallback]
) -> Iterator[str]:
    for earlier, later in pairwise(sorted(calls, key=lambda each: each.at)):
        if not _was_disturbed(world, earlier) and not _was_on_its_way(world, later):
            senders = f"{earlier.sender} and then {later.sender}"
            yield (
                f"{reference} was called back {len(calls)} times, by {senders}, and no process "
                f"was disturbed"
            )


def callbacks_go_through_one_process(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """K3: callbacks of one merchant come from one process at a time, unless one was disturbed
    meanwhile."""
    for merchant in world.merchants:
        calls = sorted(merchant.received, key=lambda each: each.at)
        for earlier, later in pairwise(calls):
            ended = min(earlier.answered_at or earlier.at + DELIVERY_S, earlier.at + DELIVERY_S)
            if earlier.sender == later.sender or later.at >= ended:
                continue
            if not _was_disturbed(world, earlier) and not _was_on_its_way(world, later):
                yield (
                    f"{merchant.brand} was called by {earlier.sender} and {later.sender} at the "
                    f"same time"
                )


def only_the_owner_calls_back(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """K3: no process sends a callback once another one has the merchant's channel, also one that
    was stopped, or that the store did not reach, and goes on."""
    for merchant in world.merchants:
        claims = [each for each in world.commits.claims if each.brand == merchant.brand]
        for call in merchant.received:
            machine = _machine(world, call)
            owners = [each.machine for each in claims if each.at_s <= call.at - SENT_WITHIN_S][-1:]
            owners += [
                each.machine for each in claims if call.at - SENT_WITHIN_S < each.at_s <= call.at
            ]
            if owners and machine not in owners and not _was_on_its_way(world, call):
                yield (
                    f"{call.sender} called {merchant.brand} at {call.at:.3f}, whose channel "
                    f"{owners[0]} had"
                )


def _was_disturbed(world: SimulatedWorld, call: ReceivedCallback) -> bool:
    """Return whether the process that sent this may have been kept from recording it in time."""
    machine, begin_s, end_s = (
        _machine(world, call),
        call.at - RECORDED_WITHIN_S,
        call.at + RECORDED_WITHIN_S,
    )
    return any(
        each.kind in KEEPS_FROM_RECORDING and each.meets(machine, begin_s, end_s)
        for each in world.periods
    )


def _was_on_its_way(world: SimulatedWorld, call: ReceivedCallback) -> bool:
    """Return whether this may have been sent long before it arrived."""
    machine, begin_s = _machine(world, call), call.at - ON_ITS_WAY_MAX_S
    return any(
        each.kind in OF_ONE_WAY and each.meets(machine, begin_s, call.at) for each in world.periods
    )


def _machine(world: SimulatedWorld, call: ReceivedCallback) -> str:
    return next(
        each.machine.name for each in world.gateways if call.sender in each.machine.addresses
    )
