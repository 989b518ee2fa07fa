"""Checks of the proposed changes of brands, and of what a back-test reads."""

from __future__ import annotations

from functools import partial

from attrs import evolve

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import (
    OPERATIONS,
    RecordedRequest,
    RefusedRequest,
    refused_on_record,
)
from mmo_sansio.values.clock import DAY, Span, later
from mmo_sansio.values.model import BrandLimits, Operation, Stage, Transaction
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import (
    REFUSALS_KEPT,
    REFUSALS_RECORDED_MAX,
    REFUSALS_REMOVED_MAX,
    ApprovalKind,
    AuditEvent,
    AuditKey,
    BrandDay,
    BrandHold,
    ChangeDecision,
    ChangeState,
    ConfigurationChange,
    RefusalCount,
)
from tests.conformance.driver import NOON, OpenStore, after_noon, submit_batch
from tests.conformance.inputs import brand, creation, failed, reference, succeeded

RECORDED_AT_ONCE = 500
"""As many refusals as a busy second has: what is written at once has to be there within the
store's time."""

_KEY = AuditKey("k1", bytes(32))
_LIMITED = evolve(brand(), limits=BrandLimits(10, 20, 30))
_MADE = ConfigurationChange(0, brand(), _LIMITED, "a quieter day", "ada", NOON)


def _event(user: str, action: str) -> tuple[AuditEvent, AuditKey]:
    return AuditEvent(after_noon(1), f"user:{user}", action, "brand:acme", "{}"), _KEY


def _applied(change: ConfigurationChange, user: str) -> ConfigurationChange:
    return evolve(change, state=ChangeState.APPLIED, decided_by=user, decided_at=after_noon(1))


def _recorded_request(transaction: Transaction) -> RecordedRequest:
    """Return what a back-test needs of a payment."""
    order, progress = transaction.order, transaction.progress
    return RecordedRequest(
        order.gateway_reference,
        order.created_at,
        OPERATIONS.get((order.type, order.flow)),
        order.method,
        order.country,
        order.requested,
        progress.completed_at,
        progress.stage is Stage.FAILED,
    )


async def check_change_needs_two_users(open_store: OpenStore) -> None:
    """The user who proposed a change cannot apply it; of two others who decide, one succeeds and is
    recorded."""
    async with open_store() as store:
        admin = store.admin
        await admin.save_brands([brand()])
        id = await admin.add_configuration_change(_MADE, _event("ada", "configuration_proposed"))
        stored = evolve(_MADE, id=id)
        backlog = await admin.backlog(NOON, overdue_before=NOON)
        assert backlog.approvals[ApprovalKind.CONFIGURATION] == 1
        assert await admin.configuration_change(id) == stored
        assert await admin.configuration_change(id + 1) is None
        own = _applied(stored, "ada")
        event = _event("ada", "configuration_applied")
        assert (
            await admin.decide_configuration_change(ChangeState.OPEN, own, event)
            is ChangeDecision.OWN_PROPOSAL
        )
        forged = evolve(own, proposed_by="eve")
        assert (
            await admin.decide_configuration_change(ChangeState.OPEN, forged, event)
            is ChangeDecision.OWN_PROPOSAL
        )
        assert [each.brand for each in await admin.brands()] == [brand()]
        for user, expected in (("bob", ChangeDecision.DONE), ("eve", ChangeDecision.NOT_IN_STATE)):
            event = _event(user, "configuration_applied")
            decided = _applied(stored, user)
            assert (
                await admin.decide_configuration_change(ChangeState.OPEN, decided, event)
                is expected
            )
    async with open_store() as store:
        assert [each.brand for each in await store.admin.brands()] == [_LIMITED]
        assert [each.event.actor for each in await store.admin.audit()] == ["user:bob", "user:ada"]
        assert list(await store.admin.configuration_changes(brand="acme")) == [
            _applied(stored, "bob")
        ]
        assert list(await store.admin.configuration_changes(after=stored.id - 1)) == [
            _applied(stored, "bob")
        ]
        assert not await store.admin.configuration_changes(before=stored.id)
        assert not await store.admin.configuration_changes(brand="globex")
        assert not await store.admin.configuration_changes(state=ChangeState.OPEN)
        backlog = await store.admin.backlog(NOON, overdue_before=NOON)
        assert backlog.approvals[ApprovalKind.CONFIGURATION] == 0


async def check_change_is_reverted_exactly(open_store: OpenStore) -> None:
    """The way back restores the version before, and every process reads it."""
    async with open_store() as store:
        admin = store.admin
        await admin.save_brands([brand(), brand("globex")])
        stored = evolve(
            _MADE,
            id=await admin.add_configuration_change(_MADE, _event("ada", "configuration_proposed")),
        )
        applied = _applied(stored, "bob")
        generation = (await store.configuration()).generation
        event = _event("bob", "configuration_applied")
        assert (
            await admin.decide_configuration_change(ChangeState.OPEN, applied, event)
            is ChangeDecision.DONE
        )
        assert (await store.configuration()).generation > generation
        generation = (await store.configuration()).generation
        reverted = evolve(
            applied, state=ChangeState.REVERTED, reverted_by="ada", reverted_at=after_noon(2)
        )
        event = _event("ada", "configuration_reverted")
        assert (
            await admin.decide_configuration_change(ChangeState.APPLIED, reverted, event)
            is ChangeDecision.DONE
        )
        assert (await store.configuration()).generation > generation
        assert [each.brand for each in await admin.brands()] == [brand(), brand("globex")]
        assert await admin.configuration_change(stored.id) == reverted


async def check_overtaken_change_is_not_applied(open_store: OpenStore) -> None:
    """A change is neither applied nor reverted over another version of the brand than the one it
    replaces."""
    async with open_store() as store:
        admin = store.admin
        other = evolve(brand(), name="Another name")
        await admin.save_brands([other])
        stored = evolve(
            _MADE,
            id=await admin.add_configuration_change(_MADE, _event("ada", "configuration_proposed")),
        )
        applied, event = _applied(stored, "bob"), _event("bob", "configuration_applied")
        assert (
            await admin.decide_configuration_change(ChangeState.OPEN, applied, event)
            is ChangeDecision.OVERTAKEN
        )
        assert await admin.configuration_change(stored.id) == stored
        rejected = evolve(applied, state=ChangeState.REJECTED, remark="overtaken")
        event = _event("bob", "configuration_rejected")
        assert (
            await admin.decide_configuration_change(ChangeState.OPEN, rejected, event)
            is ChangeDecision.DONE
        )
        await admin.save_brands([], removed=["acme"])
        again = evolve(
            _MADE,
            id=await admin.add_configuration_change(_MADE, _event("ada", "configuration_proposed")),
        )
        event = _event("bob", "configuration_applied")
        result = await admin.decide_configuration_change(
            ChangeState.OPEN, _applied(again, "bob"), event
        )
        assert result is ChangeDecision.OVERTAKEN
        assert not await admin.brands()


async def check_what_was_planned_before_undoes_nothing(open_store: OpenStore) -> None:
    """A plan that is carried out after somebody has decided something else is refused whole, and
    the audit log has what was decided only."""
    hold = BrandHold("acme", NOON, "bob")
    async with open_store() as store:
        admin = store.admin

        async def disable() -> None:
            event = _event("bob", "brand_disabled")
            assert await admin.switch_brand("acme", enabled=False, event=event)

        async def put_on_hold() -> None:
            event = _event("bob", "brand_disabled")
            assert await admin.switch_brand("acme", enabled=False, hold=hold, event=event)

        async def limit() -> None:
            event = _event("ada", "configuration_proposed")
            stored = evolve(_MADE, id=await admin.add_configuration_change(_MADE, event))
            event = _event("bob", "configuration_applied")
            decided = _applied(stored, "bob")
            done = await admin.decide_configuration_change(ChangeState.OPEN, decided, event)
            assert done is ChangeDecision.DONE

        async def remove() -> None:
            event = _event("bob", "brands_applied")
            assert not await admin.save_brands((), removed=["acme"], event=event)

        for decide in (disable, put_on_hold, limit, remove):
            await admin.save_brands([brand()])
            planned = {"acme": brand(), "globex": None}
            await decide()
            in_force = await admin.brands()
            logged = await admin.audit()
            other = evolve(brand(), name="Another name")
            overtaken = await admin.save_brands(
                [other, brand("globex")],
                replaced=planned,
                event=_event("ada", "brands_applied"),
            )
            assert overtaken == ["acme"]
            assert await admin.brands() == in_force
            assert await admin.audit() == logged
            assert logged[0].event.actor == "user:bob"

        event = _event("ada", "brands_applied")
        assert not await admin.save_brands([brand()], replaced={"acme": None}, event=event)
        assert await admin.save_brands([brand()], replaced={"acme": None}) == ["acme"]


async def check_a_switch_leaves_the_rest_of_a_brand(open_store: OpenStore) -> None:
    """Who enables or disables a brand changes nothing else of it, and a hold begins and ends in the
    same commit."""
    hold = BrandHold("acme", NOON, "bob")
    async with open_store() as store:
        admin = store.admin
        await admin.save_brands([_LIMITED])
        generation = (await store.configuration()).generation
        event = _event("bob", "brand_disabled")
        assert await admin.switch_brand("acme", enabled=False, hold=hold, event=event)
        assert (await store.configuration()).generation > generation
        assert [each.brand for each in await admin.brands()] == [evolve(_LIMITED, enabled=False)]
        assert list(await admin.brand_holds()) == [hold]
        event = _event("ada", "brand_enabled")
        assert await admin.switch_brand("acme", enabled=True, event=event)
        assert [each.brand for each in await admin.brands()] == [_LIMITED]
        assert not await admin.brand_holds()
        assert not await admin.switch_brand("nobody", enabled=True, event=event)
        actors = [each.event.actor for each in await admin.audit()]
        assert actors == ["user:ada", "user:bob"]


async def check_recorded_requests(open_store: OpenStore) -> None:
    """A back-test reads the payments of one brand and one span in the order of creation, page by
    page."""
    async with open_store() as store:
        created = [
            (creation(1, operation=Operation.DIRECT_PAYOUT), NOON),
            (creation(3), after_noon(2)),
            (creation(2), after_noon(2)),
            (creation(4, brand_id="globex"), after_noon(3)),
            (creation(5), after_noon(4)),
        ]
        await submit_batch(store, *created)
        await submit_batch(
            store, *((BeginSubmission(reference(number)), after_noon(10)) for number in (1, 2))
        )
        await submit_batch(store, (succeeded(1), after_noon(20)), (failed(2), after_noon(21)))
        read = partial(store.admin.recorded_requests, "acme", begin=NOON, end=after_noon(4))
        found = await read(limit=10)
        payments = [await store.transaction(reference(number)) for number in (1, 2, 3)]
        assert list(found) == [_recorded_request(each) for each in payments if each is not None]
        assert [(each.ended_at, each.has_failed) for each in found] == [
            (after_noon(20), False),
            (after_noon(21), True),
            (None, False),
        ]
        first = await read(limit=2)
        position = Position(first[-1].created_at, first[-1].gateway_reference)
        rest = await read(after=position, limit=2)
        assert [*first, *rest] == list(found)


async def check_refused_requests(open_store: OpenStore) -> None:
    """Refused requests are counted by brand and day; a bounded number is recorded, read in the
    order of arrival page by page, and removed when it is old."""
    async with open_store() as store:
        admin = store.admin
        day = BrandDay("acme", NOON // DAY)
        other = BrandDay("globex", day.day)
        refused = [_refused("acme", number, at) for number, at in ((1, 0), (3, 2), (2, 2), (5, 4))]
        large = _refused("acme", 6, 5, minor=10**19)
        await admin.record_refusals(
            {day: 6, other: 1}, [*refused, _refused("globex", 4, 3)], now=NOON
        )
        await admin.record_refusals({day: 1}, [large], now=after_noon(5))
        assert await admin.refusal_count(day) == RefusalCount(7, 5)
        assert await admin.refusal_count(other) == RefusalCount(1, 1)
        assert await admin.refusal_count(BrandDay("acme", day.day + 1)) == RefusalCount(0, 0)
        read = partial(admin.refused_requests, "acme", begin=NOON)
        found = await read(end=after_noon(4), limit=10)
        assert list(found) == [refused[nth].request for nth in (0, 2, 1)]
        position = Position(found[1].created_at, found[1].gateway_reference)
        rest = await read(end=after_noon(6), after=position, limit=2)
        assert list(rest) == [refused[1].request, refused[3].request]
        many = [_refused("acme", 100 + number, 7) for number in range(REFUSALS_RECORDED_MAX)]
        for begin in range(0, len(many), RECORDED_AT_ONCE):
            some = many[begin : begin + RECORDED_AT_ONCE]
            await admin.record_refusals({day: len(some)}, some, now=after_noon(9))
        assert await admin.refusal_count(day) == RefusalCount(len(many) + 7, REFUSALS_RECORDED_MAX)
        kept = await read(end=after_noon(8), limit=2 * REFUSALS_RECORDED_MAX)
        assert len(kept) == REFUSALS_RECORDED_MAX
        much_later = later(NOON, Span(REFUSALS_KEPT + 2 * DAY))
        await admin.record_refusals({}, [], now=much_later)
        left = await read(end=after_noon(8), limit=2 * REFUSALS_RECORDED_MAX)
        of_globex = 1
        assert list(left) == list(kept[REFUSALS_REMOVED_MAX - of_globex :])
        assert await admin.refusal_count(day) == RefusalCount(0, 0)


def _refused(brand_id: str, number: int, microseconds: int, *, minor: int = 500) -> RefusedRequest:
    at, amount = after_noon(microseconds), Money(minor, "KES")
    request = refused_on_record(
        reference(number), at, Operation.DIRECT_PAYIN, "mobile_ke", "KE", amount
    )
    return RefusedRequest(brand_id, "config_method_transaction_min_limit", request)
