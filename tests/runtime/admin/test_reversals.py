"""Money back by staff: roles, four eyes and limits are judged on the server, and each step is in
the audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import ReversalWoke
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.personal_data import MASKED_TEXT
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    a_begin_submission,
    a_brand,
    a_create_payment,
    callback_concluded,
    failed,
    succeeded,
)
from mmo_sansio.values.clock import DAY, SECOND, Span, later
from mmo_sansio.values.reversals import ReversalState, with_reported_money
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.resolution import ResolutionUser
from mmo_trio.admin.restoration import begin_restoration, mark_unfinished
from mmo_trio.admin.reversals import ReversalRefused, Reversals
from mmo_trio.engine.engine import submit_batch_once, submit_once
from mmo_trio.settings.values import ReversalLimit
from mmo_trio.storage.interface.admin_types import AuditKey, Role
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.storage.sql.store import Store
from tests.support.sqlite_store import StoreFile, TrioClock


def a_user(name: str, role: Role = Role.APPROVER) -> ResolutionUser:
    can_approve = role in (Role.APPROVER, Role.ADMIN)
    return ResolutionUser(
        name, f"user:{name}", can_propose=role is not Role.VIEWER, can_approve=can_approve
    )


AMINA, BRIAN = a_user("amina"), a_user("brian")
FIRST = f"{REFERENCE}-1"


@asynccontextmanager
async def staff(**members: Any) -> AsyncIterator[Reversals]:
    clock, results = TrioClock(), members.pop("results", [succeeded()])
    async with StoreFile().open() as store:
        await store.admin.save_brands([a_brand()])
        submit = partial(submit_once, store, clock=clock)
        for each in (a_create_payment(), a_begin_submission(), *results):
            await submit(each)
        audit_log = AuditLog(store.admin, AuditKey("key", b"k" * 32), clock.wall_time)
        yield Reversals(store, submit, audit_log, **{"four_eyes": True, **members})


async def ask(
    at: Reversals, user: ResolutionUser, minor: int | None = None, role: Role = Role.APPROVER
) -> str:
    payment = await at.store.transaction(REFERENCE)
    assert payment is not None
    amount = None if minor is None else KES(minor)
    return (await at.request(user, role, payment, amount, "Paid twice.")).id


async def state(store: Store) -> list[ReversalState]:
    return [each.state for each in await store.reversals(REFERENCE)]


async def acts(store: Store) -> Sequence[tuple[str, str]]:
    return [
        (each.event.actor, each.event.action)
        for each in await store.admin.audit_after(0, limit=100)
    ]


@pytest.mark.parametrize("commands_approve", [False, True])
async def test_one_person_with_a_shell_and_an_account_is_one_pair_of_eyes(
    commands_approve: bool,
) -> None:
    shell = ResolutionUser(
        "cli:amina", "cli:amina", can_propose=True, can_approve=True, is_command=True
    )
    other_shell = evolve(shell, name="cli:brian", actor="cli:brian")
    for first, second in ((AMINA, shell), (shell, AMINA)):
        async with staff(commands_approve=commands_approve) as at:
            assert await ask(at, first) == FIRST
            with pytest.raises(ReversalRefused, match="another user"):
                await at.decide(second, FIRST, is_approved=True)
            assert await state(at.store) == [ReversalState.REQUESTED]
            if commands_approve:
                await at.decide(other_shell, FIRST, is_approved=True)
                continue
            with pytest.raises(ReversalRefused, match=r"console\.commands_approve"):
                await at.decide(other_shell, FIRST, is_approved=True)
            await at.decide(BRIAN, FIRST, is_approved=True)


async def test_another_user_approves_what_one_has_asked_for() -> None:
    async with staff() as at:
        assert await ask(at, AMINA) == FIRST
        with pytest.raises(ReversalRefused, match="another user"):
            await at.decide(AMINA, FIRST, is_approved=True)
        assert await state(at.store) == [ReversalState.REQUESTED]
        await at.decide(BRIAN, FIRST, is_approved=True)
        assert await state(at.store) == [ReversalState.APPROVED]
        assert await acts(at.store) == [
            ("user:amina", "reversal_requested"),
            ("user:amina", "refused"),
            ("user:brian", "reversal_approved"),
        ]
        for is_approved in (True, False):
            await at.submit(ReversalWoke(FIRST, "one"))
            with pytest.raises(
                ReversalRefused,
                match=r"^brian approved it already, at \d{4}-\d\d-\d\dT[0-9:]{8}Z\.$",
            ):
                await at.decide(BRIAN, FIRST, is_approved=is_approved)
        assert (await acts(at.store))[3:] == [("user:brian", "refused")] * 2
        about = (await at.store.admin.audit_after(0, limit=1))[0].event
        assert about.about == f"payment:{REFERENCE}"
        assert json.loads(about.detail) == {"reason": "Paid twice."}


async def test_a_viewer_asks_for_nothing_and_support_approves_nothing() -> None:
    async with staff() as at:
        with pytest.raises(ReversalRefused, match="Your role"):
            await ask(at, a_user("vera", Role.VIEWER))
        await ask(at, a_user("sam", Role.SUPPORT))
        for decision in (True, False):
            with pytest.raises(ReversalRefused, match="Your role"):
                await at.decide(a_user("sara", Role.SUPPORT), FIRST, is_approved=decision)
        await at.decide(a_user("sam", Role.SUPPORT), FIRST, is_approved=False, remark="A mistake.")
        assert await state(at.store) == [ReversalState.FAILED]
        with pytest.raises(ReversalRefused, match=r"^sam refused it already, at "):
            await at.decide(AMINA, FIRST, is_approved=True)
        assert ("user:vera", "refused") in await acts(at.store)


async def test_without_four_eyes_an_approvers_request_is_sent_and_supports_waits() -> None:
    async with staff(four_eyes=False) as at:
        await ask(at, AMINA, 50)
        await ask(at, a_user("sam", Role.SUPPORT), 50)
        assert await state(at.store) == [ReversalState.APPROVED, ReversalState.REQUESTED]


async def test_the_limits_of_a_role_count_for_each_user_and_day() -> None:
    limits = [ReversalLimit("support", KES(60)), ReversalLimit("approver", KES(1_000))]
    async with staff(limits=limits) as at:
        sam = a_user("sam", Role.SUPPORT)
        await ask(at, sam, 50, Role.SUPPORT)
        with pytest.raises(ReversalRefused, match="would exceed"):
            await ask(at, sam, 20, Role.SUPPORT)
        await ask(at, a_user("sara", Role.SUPPORT), 20, Role.SUPPORT)
        with pytest.raises(ReversalRefused, match="Your role"):
            await ask(at, AMINA, 20, Role.ADMIN)


@pytest.mark.spec("S6")
async def test_a_restored_store_asks_nothing_back_and_asks_after_what_had_not_ended(
    autojump_clock: MockClock,
) -> None:
    async with staff() as at:
        await ask(at, AMINA)
        batch = partial(submit_batch_once, at.store, clock=TrioClock())
        await begin_restoration(at.store, batch, user="root", now=at.audit_log.wall_time())
        (marked,) = await at.store.reversals(REFERENCE)
        assert (marked.state, marked.is_restored) == (ReversalState.UNKNOWN, True)
        with pytest.raises(ReversalRefused):
            await at.decide(BRIAN, FIRST, is_approved=True)
        with pytest.raises(ReversalRefused, match="restored"):
            await ask(at, AMINA, 1)
        await trio.sleep(SUBMISSION_TIMEOUT / SECOND)
        woken = await at.submit(ReversalWoke(FIRST, "one"))
        assert isinstance(woken, ReversalApplied)
        assert not woken.reversal.may_send("one")


@pytest.mark.spec("S6")
async def test_what_a_failover_without_the_last_commits_marks_are_reversals_as_well() -> None:
    """One that was sent, which the standby lacks, would else be sent again."""
    async with staff() as at:
        await ask(at, AMINA)
        await mark_unfinished(
            at.store, partial(submit_batch_once, at.store, clock=TrioClock()), user="gateway"
        )
        (marked,) = await at.store.reversals(REFERENCE)
        assert (marked.state, marked.is_restored) == (ReversalState.UNKNOWN, True)


async def test_another_user_ends_by_hand_what_nobody_tells() -> None:
    async with staff() as at:
        await ask(at, AMINA)
        batch = partial(submit_batch_once, at.store, clock=TrioClock())
        await begin_restoration(at.store, batch, user="root", now=at.audit_log.wall_time())
        await at.submit(ReversalWoke(FIRST, "one"))
        with pytest.raises(ReversalRefused, match="another user"):
            await at.resolve(AMINA, FIRST, succeeded=True, evidence="line 7")
        proof: dict[str, Any] = {"evidence": "line 7", "provider_reference": "R-7"}
        ended = await at.resolve(BRIAN, FIRST, succeeded=True, **proof)
        assert (ended.state, ended.ended_by) == (ReversalState.SUCCEEDED, "brian")
        assert (ended.remark, ended.provider_reference) == ("line 7", "R-7")
        with pytest.raises(ReversalRefused, match="no reversal"):
            await at.resolve(BRIAN, f"{REFERENCE}-9", succeeded=True, evidence="line 7")


@pytest.mark.spec("S5")
async def test_money_that_came_although_the_merchant_was_told_failed_goes_back() -> None:
    late = succeeded(provider_reference="LATE1", final=KES(140))
    async with staff(results=[failed(), late]) as at:
        assert await ask(at, AMINA) == FIRST
        (asked,) = await at.store.reversals(REFERENCE)
        assert (asked.amount, asked.reported, asked.receipt) == (KES(140), KES(140), "LATE1")
        payment = await at.store.transaction(REFERENCE)
        assert payment is not None
        shown = with_reported_money(asked, payment)
        assert (shown.progress.final, shown.progress.provider_reference) == (KES(140), "LATE1")
        with pytest.raises(ReversalRefused, match="All that was paid"):
            await ask(at, BRIAN)
    async with staff(results=[failed()]) as at:
        with pytest.raises(ReversalRefused, match="has succeeded"):
            await ask(at, AMINA)


async def test_what_staff_wrote_is_masked_with_the_payment_once_it_has_ended() -> None:
    async with staff() as at:
        await at.submit(callback_concluded())
        await ask(at, AMINA, 50)
        later_than_all = later(at.audit_log.wall_time(), Span(DAY))
        await at.store.retention.age(RetentionDuty.PERSONAL_DATA, later_than_all, "", limit=10)
        assert [each.reason for each in await at.store.reversals(REFERENCE)] == ["Paid twice."]
        payment = await at.store.transaction(REFERENCE)
        assert payment is not None
        assert payment.order.party.msisdn != "000", "the operator may ask for the number"
        await at.decide(BRIAN, FIRST, is_approved=False, remark="Ada called.")
        await at.store.retention.age(RetentionDuty.PERSONAL_DATA, later_than_all, "", limit=10)
        (masked,) = await at.store.reversals(REFERENCE)
        assert (masked.reason, masked.remark) == (MASKED_TEXT, MASKED_TEXT)
        assert await at.store.integrity_errors() == []
