"""What a wrong clock has written is found, named and corrected, however much it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mmo_sansio.messages.inputs import BeginSubmission, CorrectTimes
from mmo_sansio.messages.replies import Reply
from mmo_sansio.messages.reversals import RequestReversal, ReversalWoke
from mmo_sansio.resilience.clock_guard import ClockRecord
from mmo_sansio.testing import a_deposit
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Moment,
    MonotonicInstant,
    Span,
    format_with_microseconds,
)
from mmo_sansio.values.model import DepositTrust
from mmo_sansio.values.reversals import reversal_id
from mmo_trio.admin import clock_repair
from mmo_trio.admin.clock_repair import (
    NAMED_MAX,
    ClockErrors,
    correct_clock_errors,
    find_clock_errors,
)
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from tests.conformance.driver import NOON, after_noon, create_payments, submit_batch
from tests.conformance.inputs import creation, reference, succeeded

NOW = Moment(NOON, NOON)
WRONG = tuple(range(10, 10 + NAMED_MAX + 3))


async def take_payments(store: Store) -> None:
    """Take payments that are right, one that is nearly so, and some under a clock that is four days
    ahead."""
    await create_payments(store, (1, 2))
    await submit_batch(store, (creation(3), after_noon(MINUTE)))
    await submit_batch(
        store, *((creation(number), after_noon(4 * DAY + number)) for number in WRONG)
    )


async def test_everything_in_the_future_is_found_and_corrected_in_its_order(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_repair, "PAGE_SIZE", 7)
    monkeypatch.setattr(clock_repair, "ROUND_SIZE", 5)
    reported: list[int] = []
    await take_payments(store)
    errors = await find_clock_errors(store, now=NOW)
    assert [each.reference for each in errors.payments] == [
        reference(number) for number in reversed(WRONG)
    ]

    async def submit(inputs: Sequence[CorrectTimes]) -> Sequence[Reply]:
        return await submit_batch(
            store, *((each, after_noon(nth)) for nth, each in enumerate(inputs))
        )

    await correct_clock_errors(store, submit, errors, now=NOON, user="ada", report=reported.append)
    assert reported == [5, 5, 5, 5, 3]
    assert not await find_clock_errors(store, now=NOW)
    corrected = await store.transaction(reference(WRONG[0]))
    assert corrected is not None
    assert corrected.order.created_at == NOON


@pytest.mark.spec("S3")
async def test_reversals_and_claims_in_the_future_are_found_and_corrected(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of payments that are right."""
    monkeypatch.setattr(clock_repair, "PAGE_SIZE", 1)
    ahead = after_noon(4 * DAY)
    await create_payments(store, (1, 2, 3))
    for number in (1, 2, 3):
        begin = BeginSubmission(reference(number))
        await submit_batch(store, (begin, NOON), (succeeded(number), NOON))
        asked = RequestReversal(
            reference(number), "acme", None, "Twice.", "amina", needs_approval=False
        )
        at = after_noon(number) if number < 3 else ahead
        await submit_batch(store, (asked, at))
    await submit_batch(store, (ReversalWoke(reversal_id(reference(1), 1), "one"), ahead))
    claimed = a_deposit(provider_reference="RCPT1", trust=DepositTrust.UNCONFIRMED, payment=None)
    await submit_batch(store, (claimed, ahead))

    errors = await find_clock_errors(store, now=NOW)
    assert {each.payment for each in errors.reversals} == {reference(1), reference(3)}
    assert [each.receipt for each in errors.claims] == ["RCPT1"]
    assert errors.payments == []
    said = " ".join(errors.sentences())
    assert "reversals with times in the future, as a wrong clock wrote them: 2" in said
    assert "claims of deposits with times in the future, as a wrong clock wrote them: 1" in said

    async def submit(inputs: Sequence[CorrectTimes]) -> Sequence[Reply]:
        return await submit_batch(store, *((each, NOON) for each in inputs))

    await correct_clock_errors(store, submit, errors, now=NOON, user="ada")
    assert not await find_clock_errors(store, now=NOW)
    soon = after_noon(HOUR)
    assert len(await store.due_reversals(soon, limit=9)) == 3
    assert len(await store.due_claims(soon, limit=9)) == 1


async def test_what_cannot_be_named_is_counted(store: SqliteStore) -> None:
    await take_payments(store)
    *sentences, stamps = (await find_clock_errors(store, now=NOW)).sentences()
    assert len(sentences) == NAMED_MAX + 1
    assert sentences[0].startswith(f"transaction {reference(WRONG[-1])}: its createdAt ")
    assert sentences[-1] == "transactions with a createdAt in the future, not named here: 3"
    assert stamps.startswith("stamps reach to ")


@pytest.mark.spec("R7")
async def test_a_window_that_was_served_in_the_future_is_named_and_released(
    store: SqliteStore,
) -> None:
    served = after_noon(DAY)
    record = ClockRecord("boot", MonotonicInstant(1), NOON, NOON, served)
    await store.save_clock_record(record)
    errors = await find_clock_errors(store, now=NOW)
    assert errors == ClockErrors([], served)
    [sentence] = errors.sentences()
    assert format_with_microseconds(served) in sentence

    async def submit(inputs: Sequence[CorrectTimes]) -> Sequence[Reply]:
        raise AssertionError("there is no payment to correct")

    await correct_clock_errors(store, submit, errors, now=after_noon(SECOND), user="ada")
    assert await store.held_until() == after_noon(Span(SECOND))
    assert not await find_clock_errors(store, now=NOW)
