"""What the people who run the gateway ask: the office of a store."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.http.exchange import Attempt, DeliveryOutcome
from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded, UnmatchedNotified
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot, BreakerState
from mmo_sansio.values.clock import HOUR, SECOND
from mmo_sansio.values.model import Operation, Status
from mmo_trio.storage.conformance.driver import NOON, OpenStore, feed
from mmo_trio.storage.conformance.inputs import DELIVERED, creation, reference, succeeded
from mmo_trio.storage.interface.admin_types import (
    Count,
    Deed,
    Dimension,
    Found,
    Operator,
    Proposal,
    ProposalState,
    Role,
    Session,
    Tally,
    Wanted,
)
from mmo_trio.storage.interface.audit_chain import Chain
from mmo_trio.storage.sql.payment_search import place_of

ADA = Operator("ada", Role.ADMIN, "$hash", NOON)
FAILED = Attempt(DeliveryOutcome.NON_2XX, "https://merchant.example/results", 500, 12)


async def check_the_audit_log(open_store: OpenStore) -> None:
    """Rows are numbered without gaps, each follows the one before, and the head says where they end."""
    async with open_store() as store:
        assert (await store.office.audit_head()).number == 0
        for number in range(1, 6):
            about = f"payment:{number % 2}"
            row = await store.office.note(Deed(NOON + number, "operator:ada", "looked", about))
            assert row.number == number
    async with open_store() as store:
        rows = await store.office.audit_after(0, limit=10)
        chain = Chain()
        assert chain.follow(rows) is None
        assert chain.end(await store.office.audit_head()) is None
        newest = await store.office.audit(limit=2)
        assert [row.number for row in newest] == [5, 4]
        assert [row.number for row in await store.office.audit(before=4, limit=2)] == [3, 2]
        assert [row.number for row in await store.office.audit(about="payment:0")] == [4, 2]
        assert [row.number for row in await store.office.audit_after(3, limit=1)] == [4]


async def check_operators_and_sessions(open_store: OpenStore) -> None:
    """A name is given once; a session is its operator's as that one is now, and ends when the operator changes."""
    async with open_store() as store:
        office = store.office
        assert await office.add_operator(ADA)
        assert not await office.add_operator(evolve(ADA, role=Role.VIEWER))
        assert await office.add_operator(evolve(ADA, name="bob"))
        old, new = Session(b"1", "ada", NOON, NOON), Session(b"2", "ada", NOON + 9, NOON + 9)
        await office.begin_session(old, forget_before=NOON)
        assert await office.session(b"1") == (old, ADA)
        await office.begin_session(new, forget_before=NOON + 1)
        assert await office.session(b"1") is None
        await office.see_session(b"2", NOON + 20)
    async with open_store() as store:
        office = store.office
        assert [each.name for each in await office.operators()] == ["ada", "bob"]
        assert await office.session(b"2") == (evolve(new, seen_at=NOON + 20), ADA)
        disabled = evolve(ADA, disabled_at=NOON + 30)
        assert await office.change_operator(disabled)
        assert not await office.change_operator(evolve(ADA, name="eve"))
        assert await office.operator("ada") == disabled
        assert await office.operator("eve") is None
        assert await office.session(b"2") is None
        await office.end_session(b"2")


async def check_proposals(open_store: OpenStore) -> None:
    """Of two who decide on a proposal, one does."""
    async with open_store() as store:
        office = store.office
        made = Proposal(0, reference(1), "acme", None, "P1", "asked", "page 3", "ada", NOON)
        id = await office.propose(made)
        other = await office.propose(evolve(made, gateway_reference=reference(2), error_code="x"))
        kept = evolve(made, id=id)
        assert await office.proposal(id) == kept
        assert await office.proposal(id + other) is None
        decided = evolve(kept, state=ProposalState.APPROVED, decided_by="bob", decided_at=NOON + 1)
        assert await office.decide_proposal(ProposalState.OPEN, decided)
        assert not await office.decide_proposal(ProposalState.OPEN, decided)
        assert [each.id for each in await office.proposals()] == [other, id]
        assert list(await office.proposals(about=reference(1))) == [decided]
        assert [each.id for each in await office.proposals(state=ProposalState.OPEN)] == [other]


async def check_operators_find_payments(open_store: OpenStore) -> None:
    """By any reference or number, by brand, method and status, a page at a time, the newest first."""
    async with open_store() as store:
        await feed(store, *((creation(number), NOON + number) for number in range(5)))
        await feed(
            store, (creation(5, of="globex", operation=Operation.DIRECT_TAXPAYOUT), NOON + 5)
        )
        await feed(store, (BeginSubmission(reference(2)), NOON + 6), (succeeded(2), NOON + 7))
        office = store.office
        assert _numbers(await office.search(reference(3).lower(), msisdn=None)) == [3]
        assert _numbers(await office.search("order/1 ü", msisdn=None)) == [1]
        assert _numbers(await office.search("P2", msisdn=None)) == [2]
        assert _numbers(await office.search("nobody\x00", msisdn=None)) == []
        assert _numbers(await office.search("254700000000", msisdn=None)) == []
        every = await office.search("254700000000", msisdn="254700000000")
        assert _numbers(every) == [4, 3, 2, 1, 0]
        assert every.further is None
        page = await office.search("254700000000", msisdn="254700000000", limit=3)
        assert _numbers(page) == [4, 3, 2]
        rest = await office.search(
            "254700000000", msisdn="254700000000", before=page.further, limit=3
        )
        assert _numbers(rest) == [1, 0]
        assert _numbers(await office.list_payments(Wanted())) == [5, 4, 3, 2, 1, 0]
        first = await office.list_payments(Wanted(brand="acme", limit=2))
        assert _numbers(first) == [4, 3]
        then = await office.list_payments(Wanted(brand="acme", before=first.further, limit=9))
        assert _numbers(then) == [2, 1, 0]
        assert _numbers(await office.list_payments(Wanted(status=Status.SUCCESS))) == [2]
        assert _numbers(await office.list_payments(Wanted(method="Mobile_KE"))) == []
        pending = Wanted(brand="acme", status=Status.PENDING, limit=1)
        assert _numbers(await office.list_payments(pending)) == [4]


async def check_operators_see_what_is_stuck(open_store: OpenStore) -> None:
    """What is unknown, suspense and failed callbacks, a page at a time."""
    async with open_store() as store:
        office = store.office
        begun = [(BeginSubmission(reference(n)), NOON + 10 + n) for n in (0, 1, 3)]
        await feed(store, *((creation(n), NOON + n) for n in range(4)), *begun)
        stuck = await office.unknown_since(NOON + 12, limit=1)
        assert [each.reference for each in stuck] == [reference(0)]
        place = await office.list_payments(Wanted(limit=4))
        oldest = place.transactions[-1]
        assert oldest.reference == reference(0)
        then = await office.unknown_since(NOON + 99, after=place_of(oldest), limit=9)
        assert [each.reference for each in then] == [reference(1), reference(3)]
        await feed(store, (succeeded(0), NOON + 20), (succeeded(1), NOON + 21))
        open_breaker = BreakerSnapshot(state=BreakerState.OPEN, open_until=NOON + 99)
        first = CallbackConcluded(reference(0), FAILED, breaker=open_breaker)
        second = CallbackConcluded(reference(1), DELIVERED)
        await feed(store, (first, NOON + 22))
        await feed(store, (second, NOON + 23))
        [(id, failed)] = await office.failed_callbacks()
        assert failed.attempt == FAILED
        assert not await office.failed_callbacks(before=id)
        assert not await office.failed_callbacks(brand="globex")
        [change] = await office.breaker_changes(brand="acme")
        assert (change.at, change.state) == (NOON + 22, BreakerState.OPEN.value)
        await feed(store, (succeeded(1), NOON + 30))
        await feed(store, (UnmatchedNotified("sandbox", "?"), NOON + 31))
        unmatched, repeated = await office.suspense_entries()
        assert unmatched.gateway_reference is None
        assert list(await office.suspense_about(reference(1))) == [repeated]
        assert list(await office.suspense_entries(before=unmatched.id)) == [repeated]
        assert await store.close_suspense(repeated.id, by="ada", note="seen", now=NOON + 40)
        assert list(await office.suspense_entries()) == [unmatched]
        assert len(await office.suspense_entries(with_closed=True)) == 2


async def check_payments_are_counted(open_store: OpenStore) -> None:
    """Payments count where they were created and where they ended, with how long they took."""
    hour = NOON - NOON % HOUR
    async with open_store() as store:
        await feed(
            store,
            (creation(0), hour),
            (creation(1), hour + 1),
            (creation(2, of="globex"), hour + 2),
        )
        await feed(store, (BeginSubmission(reference(0)), hour + SECOND))
        await feed(store, (BeginSubmission(reference(1)), hour + SECOND))
        await feed(store, (succeeded(0), hour + 4 * SECOND))
        await feed(store, (creation(3), hour + HOUR), (succeeded(1), hour + HOUR + 1))
        office, both = store.office, Tally(HOUR, hour, hour + 2 * HOUR)
        assert set(await office.tally(both, by=Dimension.BRAND)) == {
            Count("acme", Status.PENDING, 0, 3),
            Count("acme", Status.SUCCESS, 5, 1),
            Count("acme", Status.SUCCESS, 3600, 1),
            Count("globex", Status.PENDING, 0, 1),
        }
        first = Tally(HOUR, hour, hour + HOUR, only=(Dimension.BRAND, "acme"))
        assert set(await office.tally(first, by=None)) == {
            Count(str(hour), Status.PENDING, 0, 2),
            Count(str(hour), Status.SUCCESS, 5, 1),
        }
        [methods, *_] = await office.tally(both, by=Dimension.METHOD)
        assert methods.key == "mobile_ke"


def _numbers(found: Found) -> list[int]:
    return [int(each.reference[4:]) for each in found.transactions]
