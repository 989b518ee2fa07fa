"""Checks of what happens to old rows: they are masked and removed, and nothing is paid twice for
that."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    DepositAnswered,
    DepositNotified,
)
from mmo_sansio.messages.queries import ListRecords, LookUp, LookUpByMerchantReference
from mmo_sansio.messages.replies import Accepted, Applied, Rejected
from mmo_sansio.payments.personal_data import (
    MASKED_PARTY,
    MASKED_TEXT,
    mask_claim,
    mask_transaction,
)
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, later
from mmo_sansio.values.model import DepositAnswerOutcome
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import Proposal, ProposalState
from mmo_trio.storage.interface.retention import RetentionDuty, RetentionStep
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, OpenStore, after_noon, submit_batch
from tests.conformance.inputs import (
    DELIVERED,
    PAYER,
    brand,
    claimed,
    creation,
    failed,
    reference,
    succeeded,
)

YEAR_LATER = after_noon(400 * DAY)
_TEN_SHILLINGS = Money(1_000, "KES")


async def _age_all(store: Store, duty: RetentionDuty, before: Instant, *, limit: int = 2) -> int:
    """Take all steps of a duty, as a run does; return how many rows have changed."""
    position, changed = await store.retention.position(duty), 0
    step = RetentionStep(0, position, is_last=False)
    while not step.is_last:
        step = await store.retention.age(duty, before, step.position, limit=limit)
        changed += step.changed
    await store.retention.save_position(duty, step.position)
    return changed


async def check_callback_bodies_are_removed(open_store: OpenStore) -> None:
    """Bodies of answers to callbacks are removed once they are too old, and the rest of the
    callback stays (K4)."""
    async with open_store() as store:
        for number in range(1, 6):
            await _pay(store, number)
        counted = await store.retention.count_aged(
            RetentionDuty.CALLBACK_BODIES, after_noon(3 * SECOND + 9)
        )
        assert (counted.rows, counted.first_at) == (3, after_noon(SECOND + 5))
        assert await _age_all(store, RetentionDuty.CALLBACK_BODIES, after_noon(3 * SECOND + 9)) == 3
    async with open_store() as store:
        assert await _age_all(store, RetentionDuty.CALLBACK_BODIES, after_noon(3 * SECOND + 9)) == 0
        for number in range(1, 6):
            [callback] = await store.admin.callbacks(gateway_reference=reference(number))
            assert callback.attempt == evolve(DELIVERED, body=b"" if number < 4 else DELIVERED.body)
        assert await _age_all(store, RetentionDuty.CALLBACK_BODIES, YEAR_LATER) == 2


async def check_personal_data_is_masked(open_store: OpenStore) -> None:
    """An old payment that has ended shows nobody's data, is found by its references, and no more by
    the number."""
    async with open_store() as store:
        await _pay(store, 1)
        await submit_batch(
            store, (creation(2), after_noon(2 * SECOND)), (creation(3), after_noon(3 * SECOND))
        )
        refused = evolve(failed(3), native_code="17", native_message=f"{PAYER.msisdn} is barred")
        await submit_batch(
            store,
            (BeginSubmission(reference(3)), after_noon(3 * SECOND + 1)),
            (refused, after_noon(3 * SECOND + 2)),
        )
        proposal = Proposal(
            0, reference(3), "acme", None, None, "called Zoë", "a letter", "ada", NOON
        )
        proposed = await store.admin.add_proposal(proposal)
        assert proposed is not None
        rejected = evolve(proposal, id=proposed, state=ProposalState.REJECTED, remark="not Zoë")
        assert await store.admin.update_proposal(ProposalState.OPEN, rejected)
        paid, found = (
            await store.transaction(reference(1)),
            await store.admin.search_payments("", msisdns=[PAYER.msisdn]),
        )
        assert paid is not None
        assert len(found.transactions) == 3
        step = await store.retention.age(RetentionDuty.PERSONAL_DATA, after_noon(DAY), "", limit=9)
        assert step.changed == 1, "the callback of the other one is still to be sent"
        await submit_batch(
            store, (CallbackConcluded(reference(3), DELIVERED), after_noon(3 * SECOND + 3))
        )
        assert await _age_all(store, RetentionDuty.PERSONAL_DATA, after_noon(DAY)) == 1
    async with open_store() as store:
        assert await store.transaction(reference(1)) == mask_transaction(paid)
        looked_up = await store.look_up(
            LookUpByMerchantReference("acme", paid.order.merchant_reference or "")
        )
        assert looked_up == await store.look_up(LookUp("acme", reference(1)))
        assert PAYER.msisdn.encode() not in (looked_up or b"")
        assert b'"finalAmount":{"value":1500.00' in (looked_up or b"")
        pending = await store.transaction(reference(2))
        assert pending is not None
        assert pending.order.party == PAYER
        found = await store.admin.search_payments("", msisdns=[PAYER.msisdn])
        assert [each.reference for each in found.transactions] == [reference(2)]
        timeline = "".join(line.detail for line in await store.admin.timeline(reference(3)))
        assert PAYER.msisdn not in timeline
        assert '"17"' in timeline
        [callback] = await store.admin.callbacks(gateway_reference=reference(1))
        assert callback.attempt == evolve(DELIVERED, body=b"")
        [masked] = await store.admin.proposals(about=reference(3))
        assert (masked.reason, masked.evidence, masked.remark) == (
            MASKED_TEXT,
            MASKED_TEXT,
            MASKED_TEXT,
        )
        records = await store.list_records(ListRecords("acme", NOON, after_noon(DAY)))
        assert len(records.objects) == 3
        assert await _age_all(store, RetentionDuty.PERSONAL_DATA, after_noon(DAY)) == 0
        late = await submit_batch(store, (succeeded(1), after_noon(2 * DAY)))
        assert len(late) == 1, "a late report meets a masked payment"


async def check_masked_payment_is_not_remembered(open_store: OpenStore) -> None:
    """A decision after the masking meets the payment as it is stored, in its new version."""
    async with open_store() as store:
        await _pay(store, 1)
        assert await _age_all(store, RetentionDuty.PERSONAL_DATA, after_noon(DAY)) == 1
        [reply] = await submit_batch(store, (succeeded(1), after_noon(DAY)))
        stored = await store.transaction(reference(1))
        assert stored is not None
        assert stored.order.party == MASKED_PARTY
        assert getattr(reply, "transaction", None) == stored


async def check_suspense_data_is_masked(open_store: OpenStore) -> None:
    """Closed entries of the suspense book lose their texts once they are too old; open ones are
    still needed."""
    async with open_store() as store:
        for number in (1, 2):
            deposit = _deposit(number, amount=Money(5, "EUR"))
            await submit_batch(store, (deposit, after_noon(number)))
        first, second = await store.admin.suspense()
        assert await store.admin.close_suspense(
            first.id, by="ada", note="Zoë called", now=after_noon(9)
        )
        assert await _age_all(store, RetentionDuty.SUSPENSE_DATA, after_noon(DAY), limit=1) == 1
    async with open_store() as store:
        masked, kept = await store.admin.suspense(with_closed=True)
        assert kept == second
        assert PAYER.msisdn not in masked.content
        assert '"D1"' in masked.content
        assert masked.note == MASKED_TEXT
        assert await _age_all(store, RetentionDuty.SUSPENSE_DATA, after_noon(DAY)) == 0


async def check_counts_and_changes_age(open_store: OpenStore) -> None:
    """Hourly counts are removed; those by the day stay."""
    async with open_store() as store:
        await _pay(store, 1)
        await _age_all(store, RetentionDuty.HOURLY_COUNTS, YEAR_LATER)
        assert (await store.retention.count_aged(RetentionDuty.HOURLY_COUNTS, YEAR_LATER)).rows == 0
        assert await _age_all(store, RetentionDuty.BREAKER_CHANGES, YEAR_LATER) == 0


async def check_balances_age(open_store: OpenStore) -> None:
    """Old balances are removed, and later ones stay."""
    async with open_store() as store:
        balances = [
            AccountBalance("mtn", account, Money(5, "UGX"), after_noon(number), is_float=True)
            for number in range(5)
            for account in ("collection", "disbursement")
        ]
        await store.admin.record_balances(balances)
        counted = await store.retention.count_aged(RetentionDuty.BALANCES, after_noon(3))
        assert (counted.rows, counted.first_at, counted.last_at) == (
            6,
            after_noon(0),
            after_noon(2),
        )
        assert await _age_all(store, RetentionDuty.BALANCES, after_noon(3)) == 6
        assert list(await store.admin.provider_balances(Instant(0))) == balances[6:]


async def check_reference_of_a_masked_payment_is_judged_as_before(open_store: OpenStore) -> None:
    """A merchantReference is never forgotten, and neither is how its payment ended (C12)."""
    async with open_store() as store:
        for number, brand_id in ((1, "globex"), (2, "globex"), (3, "globex")):
            given = creation(number, brand_id=brand_id)
            at = after_noon(number * SECOND)
            result = failed(number) if number == 2 else succeeded(number)
            await submit_batch(
                store,
                (given, at),
                (BeginSubmission(reference(number)), later(at, Span(1))),
                (result, later(at, Span(2))),
                (CallbackConcluded(reference(number), DELIVERED), later(at, Span(3))),
            )
        assert await _age_all(store, RetentionDuty.PERSONAL_DATA, YEAR_LATER) == 3
    async with open_store() as store:
        replies = await submit_batch(
            store,
            *(
                (
                    creation(
                        number + 10, brand_id="globex", merchant_reference=f"order/{number} ü"
                    ),
                    later(YEAR_LATER, Span(number)),
                )
                for number in (1, 2)
            ),
        )
        assert isinstance(replies[0], Rejected), "a reference of a paid payment is used up"
        assert isinstance(replies[1], Accepted), (
            "a reference of a failed payment may be tried again"
        )


async def check_masked_deposit_is_not_booked_again(open_store: OpenStore) -> None:
    """No money is booked again by the receipt of a masked deposit (S4)."""
    async with open_store() as store:
        [reply] = await submit_batch(store, (_deposit(1), NOON))
        assert isinstance(reply, Applied)
        await submit_batch(store, (CallbackConcluded(reference(1), DELIVERED), after_noon(1)))
        assert await _age_all(store, RetentionDuty.PERSONAL_DATA, YEAR_LATER) == 1
    async with open_store() as store:
        await submit_batch(store, (evolve(_deposit(1), gateway_reference=reference(2)), YEAR_LATER))
        assert await store.transaction(reference(2)) is None
        assert not await store.admin.suspense()


async def check_claim_of_a_masked_payment_is_masked(open_store: OpenStore) -> None:
    """The claim of a masked deposit stays, so that its receipt is known (S4), without the payer's
    data."""
    async with open_store() as store:
        paid = DepositAnswered(
            "sandbox",
            "RKL51ZDR4F",
            DepositAnswerOutcome.COMPLETED,
            is_ours=True,
            amount=Money(150_000, "KES"),
            brand=brand(),
            method="mobile_ke",
        )
        await submit_batch(store, (claimed("RKL51ZDR4F", 1), NOON), (paid, after_noon(1)))
        await submit_batch(store, (CallbackConcluded(reference(1), DELIVERED), after_noon(2)))
        claim = await store.deposit_claim("sandbox", "RKL51ZDR4F")
        assert claim is not None
        assert claim.party != MASKED_PARTY
        assert await _age_all(store, RetentionDuty.PERSONAL_DATA, YEAR_LATER) == 1
    async with open_store() as store:
        assert await store.deposit_claim("sandbox", "RKL51ZDR4F") == mask_claim(claim)


async def check_retention_state(open_store: OpenStore) -> None:
    """One holder at a time works at it; what it has come to survives a restart."""
    async with open_store() as store:
        retention = store.retention
        assert await retention.last_run() == 0
        assert await retention.take_lease("a", Span(DAY))
        assert await retention.take_lease("a", Span(DAY))
        assert not await retention.take_lease("b", Span(DAY))
        await retention.end_lease("b")
        assert not await retention.take_lease("b", Span(DAY))
        await retention.end_lease("a")
        assert await retention.take_lease("b", Span(DAY))
        await retention.save_run(NOON)
    async with open_store() as store:
        assert await store.retention.last_run() == NOON


async def _pay(store: Store, number: int) -> None:
    """Let a payment be created, paid and called back, as many seconds after noon as its number
    says."""
    at = after_noon(number * SECOND)
    await submit_batch(store, (creation(number), at))
    await submit_batch(store, (BeginSubmission(reference(number)), later(at, Span(1))))
    await submit_batch(store, (succeeded(number), later(at, Span(2))))
    await submit_batch(store, (CallbackConcluded(reference(number), DELIVERED), later(at, Span(5))))


def _deposit(number: int, *, amount: Money = _TEN_SHILLINGS) -> DepositNotified:
    return DepositNotified(
        provider="sandbox",
        provider_reference=f"D{number}",
        provider_title="Sandbox",
        gateway_reference=reference(number),
        brand=brand(),
        method="mobile_ke",
        amount=amount,
        party=PAYER,
    )
