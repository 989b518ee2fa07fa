"""Payments whose provider says otherwise than their merchants were told: the list, and the text to
send (S5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import pytest
from attrs import evolve

from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    TransactionWoke,
)
from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    RequestReversal,
    ResolveReversal,
    ReversalSucceeded,
    ReversalWoke,
)
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import DAY, SECOND, Span, later
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import DepositTrust, Evidence, Operation, Source, Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.admin.explanation import conclusions, load_payment_history
from mmo_trio.admin.reversals import money_left
from mmo_trio.admin.timeline import timeline
from mmo_trio.admin.told_wrong import (
    ToldWrong,
    find_told_wrong,
    list_told_wrong,
    merchant_message,
)
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from tests.conformance.driver import submit_batch

AboutPayment: TypeAlias = (
    TransactionWoke | ProviderAccepted | ProviderSucceeded | ProviderFailed | ProviderHinted
)

PAYIN, PAYOUT = Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT
EXPIRED = later(a.START, Span(3 * DAY + SECOND))
PAID = a.succeeded(source=Source.POLL, provider_reference="SG632NMUAB", final=Money(7_500, "KES"))
RECEIPT = Evidence("SG632NMUAB", "0", Money(7_500, "KES"), settles=True)
HINTED = a.hinted(native_code="0", evidence=RECEIPT)
FAILED = a.failed(source=Source.POLL, error_code=ErrorCode.USER_TIMEOUT)


async def play(
    store: Store,
    *inputs: AboutPayment,
    reference: str = a.REFERENCE,
    operation: Operation = PAYIN,
) -> None:
    """Creates a payment and applies the inputs about it; it wakes at its expiry."""
    created = a.a_create_payment(
        reference, merchant_reference=f"order-{reference[-1]}", operation=operation
    )
    now = later(a.START, Span(1))
    await submit_batch(store, (created, a.START), (a.a_begin_submission(reference), now))
    for given in inputs:
        now = max(EXPIRED, now) if isinstance(given, TransactionWoke) else later(now, Span(1))
        await submit_batch(store, (evolve(given, gateway_reference=reference), now))


async def listed(store: Store, **selection: object) -> Sequence[ToldWrong]:
    return await list_told_wrong(store, **{"limit": 10, **selection})  # type: ignore[arg-type]


async def the_text(store: Store) -> str:
    """The text to send about the one payment of the list."""
    (found,) = await listed(store)
    return merchant_message(found)


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("inputs", "told", "is_confirmed"),
    [
        pytest.param((a.a_wake(), PAID), Status.FAILED, True, id="late"),
        pytest.param((FAILED, PAID), Status.FAILED, True, id="conflicting"),
        pytest.param((a.a_wake(), HINTED), Status.FAILED, False, id="late hint"),
        pytest.param((FAILED, HINTED), Status.FAILED, False, id="conflicting hint"),
        pytest.param(
            (a.accepted(), HINTED, FAILED, a.a_wake()), Status.FAILED, False, id="receipt before"
        ),
        pytest.param((a.a_wake(), HINTED, PAID), Status.FAILED, True, id="hint and answer"),
        pytest.param((PAID, FAILED), Status.SUCCESS, True, id="was paid"),
    ],
)
async def test_what_was_told_and_proves_wrong_is_listed_once_and_comes_first(
    store: SqliteStore, inputs: Sequence[AboutPayment], told: Status, is_confirmed: bool
) -> None:
    await play(store, *inputs)
    (found,) = await listed(store)
    assert (found.transaction.status, found.is_confirmed) == (told, is_confirmed)
    assert found.reported is not told
    if told is Status.FAILED:
        assert (found.receipt, found.amount) == ("SG632NMUAB", "75.00 KES")
    history = await load_payment_history(store, found.transaction)
    assert re.match(r"It ended as .* test reported ", conclusions(history)[0])
    assert all(
        "so it is polled" not in each.text for each in timeline(history) if "suspense" in each.text
    )
    await store.admin.close_suspense(
        found.entry.id, by="ada", note="told them", now=later(EXPIRED, Span(9))
    )
    assert all(each.entry.id < found.entry.id for each in await listed(store))


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "inputs",
    [
        (a.a_wake(), FAILED),
        (PAID, evolve(PAID, provider_reference="SG632NMUAC")),
        (a.accepted(), HINTED),
        (a.accepted(), HINTED, a.a_wake()),
    ],
    ids=["failed late", "another receipt", "pending", "ended by its receipt"],
)
async def test_nothing_else_is_listed(store: SqliteStore, inputs: Sequence[AboutPayment]) -> None:
    await play(store, *inputs)
    assert await listed(store) == []


@pytest.mark.spec("S5")
async def test_the_list_is_read_page_by_page_the_newest_first(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.admin.told_wrong.ENTRIES_READ", 2)
    references = [a.numbered_reference(number) for number in range(7)]
    for number, each in enumerate(references):
        await play(
            store, *((a.a_wake(), PAID) if number % 3 else (a.a_wake(), FAILED)), reference=each
        )
    wrong = [each for number, each in enumerate(references) if number % 3]
    found = await listed(store)
    assert [each.transaction.reference for each in found] == wrong[::-1]
    assert await listed(store, limit=2) == found[:2]
    assert await listed(store, before=found[1].entry.id) == found[2:]
    assert await listed(store, brand="other") == []


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("operation", "inputs", "advice"),
    [
        (PAYIN, (a.a_wake(), PAID), "You have the money: deliver, or pay it back."),
        (PAYOUT, (a.a_wake(), PAID), "The payee has the money: do not pay again."),
        (PAYIN, (a.a_wake(), HINTED), "has not confirmed that yet. Do not ask the payer to pay"),
        (PAYOUT, (a.a_wake(), HINTED), "has not confirmed that yet. Do not pay again before"),
        (PAYIN, (PAID, FAILED), "You may not have the money. Do not deliver, if you have not yet,"),
        (PAYOUT, (PAID, FAILED), "Do not pay again before we write to you again."),
    ],
)
async def test_the_merchants_text_says_what_to_do(
    store: SqliteStore, operation: Operation, inputs: Sequence[AboutPayment], advice: str
) -> None:
    await play(store, *inputs, operation=operation)
    assert advice in await the_text(store)


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize(
    ("brand", "advice"),
    [
        ("acme", f"This money is already credited to you as {a.UNUSED_REFERENCE}: do not deliver"),
        ("zeta", "Its receipt is that of another payment or deposit. Do not deliver,"),
    ],
)
async def test_nobody_delivers_again_for_money_that_is_a_deposit(
    store: SqliteStore, brand: str, advice: str
) -> None:
    deposit = a.a_deposit(
        provider_reference=PAID.provider_reference,
        amount=PAID.final,
        gateway_reference=a.UNUSED_REFERENCE,
        trust=DepositTrust.CONFIRMED,
        payment=None,
        brand=a.a_brand(id=brand),
    )
    paid = evolve(PAID, settles_receipt=True)
    await play(store, FAILED)
    now = later(a.START, Span(9))
    await submit_batch(store, (deposit, now), (paid, later(now, Span(1))))
    text = await the_text(store)
    assert advice in text
    assert "You have the money: deliver" not in text
    assert (a.UNUSED_REFERENCE in text) is (brand == "acme")


@pytest.mark.spec("S5")
async def test_the_receipt_of_the_payment_itself_is_no_other_owner(store: SqliteStore) -> None:
    await play(store, FAILED, evolve(PAID, settles_receipt=True))
    (found,) = await listed(store)
    assert found.receipt_owner is None
    assert "You have the money: deliver" in merchant_message(found)


async def ask_back(store: Store, *, amount: int | None, number: int = 1) -> str:
    """Ask money back of a payment that was paid after its merchant was told of a failure."""
    (found,) = await listed(store)
    asked = RequestReversal(
        a.REFERENCE,
        "acme",
        None if amount is None else Money(amount, "KES"),
        reason="Cancelled.",
        user="amina",
        needs_approval=True,
        reported=found.reported_money,
        receipt=found.receipt,
        suspense_entry=found.entry.id,
        number=number,
    )
    (reply,) = await submit_batch(store, (asked, EXPIRED))
    assert isinstance(reply, ReversalApplied)
    return reply.reversal.id


async def give_back(store: Store, id: str) -> None:
    """Let the operator move the money of a reversal back."""
    for input_ in (
        DecideReversal(id, "brian", is_approved=True, four_eyes=True),
        ReversalWoke(id, "one"),
        ReversalSucceeded(id, "test", Source.POLL, "RV1"),
    ):
        (reply,) = await submit_batch(store, (input_, EXPIRED))
        assert isinstance(reply, ReversalApplied)


async def all_went_back(store: Store, paid: ProviderSucceeded) -> None:
    """Let a payment be paid after it has expired, and all of its money go back."""
    await play(store, a.a_wake(), paid)
    await give_back(store, await ask_back(store, amount=None))


@pytest.mark.spec("S5")
async def test_while_all_of_the_money_may_go_back_nobody_delivers(store: SqliteStore) -> None:
    await play(store, a.a_wake(), PAID)
    await ask_back(store, amount=None)
    text = await the_text(store)
    assert "KES 75.00 of it is asked back, and may go back to the payer." in text
    assert "Do not deliver, and do not pay it back yourself" in text
    assert "You have the money" not in text


@pytest.mark.spec("S5")
async def test_of_what_has_gone_back_in_part_the_rest_is_named(store: SqliteStore) -> None:
    await play(store, a.a_wake(), PAID)
    await give_back(store, await ask_back(store, amount=5_000))
    text = await the_text(store)
    assert "KES 50.00 of it has gone back to the payer." in text
    assert "You keep KES 25.00:" in text
    assert "You have the money" not in text


@pytest.mark.spec("S5")
async def test_an_entry_is_closed_when_all_of_the_money_is_back(store: SqliteStore) -> None:
    await play(store, a.a_wake(), PAID)
    await give_back(store, await ask_back(store, amount=5_000))
    (open_,) = await store.admin.suspense_of_payment(a.REFERENCE)
    assert open_.closed_at is None
    await give_back(store, await ask_back(store, amount=None, number=2))
    (closed,) = await store.admin.suspense_of_payment(a.REFERENCE)
    assert (closed.closed_by, closed.closed_at) == ("gateway", EXPIRED)
    assert closed.note == "All of 75.00 KES has gone back, by reversal 2 at last."
    assert await listed(store) == []
    history = await load_payment_history(store, found_payment := await _payment(store))
    assert find_told_wrong(found_payment, history.suspense, (), history.reversals) is None


@pytest.mark.spec("S5")
async def test_what_is_told_once_more_after_all_is_back_is_not_listed(store: SqliteStore) -> None:
    await all_went_back(store, PAID)
    by_notification = evolve(PAID, source=Source.WEBHOOK, final=Money(7_400, "KES"))
    await submit_batch(store, (by_notification, EXPIRED))
    entries = await store.admin.suspense_of_payment(a.REFERENCE)
    assert [entry.closed_at is None for entry in entries] == [False, True]
    assert await listed(store) == []


@pytest.mark.spec("S5")
async def test_money_by_another_receipt_is_listed_though_that_of_the_first_is_back(
    store: SqliteStore,
) -> None:
    await all_went_back(store, PAID)
    once_more = evolve(PAID, source=Source.WEBHOOK, provider_reference="SG632NMUZZ")
    await submit_batch(store, (once_more, EXPIRED))
    (found,) = await listed(store)
    assert found.receipt == "SG632NMUZZ"
    text = merchant_message(found)
    assert "has gone back to the payer" not in text
    assert "by another receipt. Do not deliver, and do not pay it back yourself," in text


@pytest.mark.spec("S5")
@pytest.mark.parametrize("returned", [None, 15_000], ids=["all", "what was requested"])
@pytest.mark.parametrize("final", [7_500, 15_000, 20_000], ids=["less", "the same", "more"])
async def test_nobody_is_advised_to_pay_again_before_all_that_was_paid_has_gone_back(
    store: SqliteStore, final: int, returned: int | None
) -> None:
    if returned is not None and returned > final:
        returned = None
    advice = EXPLANATIONS[ErrorCode.TRANSACTION_EXPIRED].advice
    await play(store, a.a_wake(), evolve(PAID, final=Money(final, "KES")))
    payment = await _payment(store)
    assert advice not in " ".join(conclusions(await load_payment_history(store, payment)))
    await give_back(store, await ask_back(store, amount=returned))
    text = " ".join(conclusions(await load_payment_history(store, payment)))
    assert (advice in text) is (returned in (None, final))
    assert ("nobody should pay again" in text) is (returned not in (None, final))


@pytest.mark.spec("S5")
async def test_nobody_is_advised_to_pay_again_while_money_by_another_receipt_is_out(
    store: SqliteStore,
) -> None:
    paid = evolve(PAID, final=Money(15_000, "KES"))
    await all_went_back(store, paid)
    once_more = evolve(paid, source=Source.WEBHOOK, provider_reference="SG632NMUZZ")
    await submit_batch(store, (once_more, EXPIRED))
    text = " ".join(conclusions(await load_payment_history(store, await _payment(store))))
    assert "nobody should pay again" in text
    assert EXPLANATIONS[ErrorCode.TRANSACTION_EXPIRED].advice not in text


@pytest.mark.spec("S5")
async def test_what_did_not_go_back_after_all_may_be_asked_back_again(store: SqliteStore) -> None:
    """It is told wrong as before, until it has gone back indeed."""
    await play(store, a.a_wake(), PAID)
    id = await ask_back(store, amount=None)
    later_on = later(EXPIRED, Span(3600 * SECOND))
    await submit_batch(
        store,
        (DecideReversal(id, "brian", is_approved=True, four_eyes=True), EXPIRED),
        (ReversalWoke(id, "one"), EXPIRED),
        (ResolveReversal(id, "brian", succeeded=True, evidence="line 7"), later_on),
    )
    assert await listed(store) == []
    await submit_batch(
        store,
        (ResolveReversal(id, "brian", succeeded=False, evidence="line 8"), later_on),
    )
    (wrong,) = await listed(store)
    assert wrong.left == Money(7_500, "KES")
    (failed,) = await store.reversals(a.REFERENCE)
    assert failed.state is ReversalState.FAILED
    assert money_left(await _payment(store), (), [failed]) == Money(7_500, "KES")
    again = RequestReversal(a.REFERENCE, "acme", None, "Cancelled.", "amina", True)
    (reply,) = await submit_batch(store, (again, later_on))
    assert isinstance(reply, ReversalApplied)
    assert reply.reversal.receipt == "SG632NMUAB"


async def _payment(store: Store) -> Transaction:
    return (await store.transactions([a.REFERENCE]))[a.REFERENCE]


@pytest.mark.spec("K3", "S5")
async def test_the_merchants_text_names_the_payment_and_both_reports(store: SqliteStore) -> None:
    await play(store, a.a_wake(), PAID, operation=PAYOUT)
    (found,) = await listed(store)
    missed = merchant_message(found)
    assert missed.splitlines()[1:3] == [
        "Since 2026-09-24 14:13:21 UTC our API has said that it failed (transaction_expired)."
        " You have not confirmed a callback.",
        "Test Money has reported otherwise on 2026-09-24 14:13:21 UTC: it was paid, KES 75.00, "
        "receipt SG632NMUAB.",
    ]
    assert missed.startswith(
        f"Payment {a.REFERENCE} (your reference order-0), payout of KES 150.00 by Test Money:"
    )
    assert missed.endswith(
        f"answer to this message and name the payment and our entry {found.entry.id}."
    )
    called_back = merchant_message(evolve(found, called_back_at=later(EXPIRED, Span(1))))
    told = (
        "We told you by callback on 2026-09-24 14:13:21 UTC that it failed (transaction_expired)."
    )
    assert told in called_back
