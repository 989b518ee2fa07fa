"""What is held in little memory comes back whole, and is found by each of its names."""

from __future__ import annotations

from collections import defaultdict
from string import ascii_uppercase

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from mmo_merchant.reconciliation.held_records import HeldRecords, RecordedPayment
from mmo_merchant.reconciliation.key_index import KeyIndex
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.money import Money

NAMES = st.none() | st.text(st.characters(), max_size=30)
MONEY = st.builds(Money, st.integers(-(10**18), 10**18), st.sampled_from(["KES", "XOF", "KWD"]))
RECORDS = st.builds(
    RecordedPayment,
    st.text(ascii_uppercase, min_size=1, max_size=26),
    NAMES,
    NAMES,
    st.sampled_from(Type),
    st.sampled_from(Status),
    MONEY,
    st.text(max_size=5),
    st.none() | MONEY,
    st.booleans(),
    st.lists(NAMES, max_size=2).map(tuple),
    st.text("0123456789", max_size=15),
    st.none() | st.integers(-(10**17), 10**17).map(Instant),
)


@given(st.lists(RECORDS, unique_by=lambda record: record.gateway_reference, max_size=20))
def test_each_record_comes_back_as_it_was_by_each_of_its_names(
    records: list[RecordedPayment],
) -> None:
    held = HeldRecords()
    assert [held.add(record) for record in records] == [None] * len(records)
    assert [held.latest(payment) for payment in held.payments()] == records
    for name in {name for record in records for name in record.names if name}:
        found = held.find(name)
        assert [record for _, record in found] == [each for each in records if name in each.names]
        assert all(records[number] == record for number, record in found)


def test_a_payment_that_is_added_again_is_one_payment_with_all_its_names() -> None:
    held = HeldRecords()
    before = RecordedPayment("01A", "order-1", None, Type.PAYIN, Status.PENDING, Money(1, "KES"))
    after = evolve(before, status=Status.SUCCESS, receipt="RCPT1")
    other = evolve(before, gateway_reference="01B")
    assert [held.add(each) for each in (before, other, after)] == [None, None, before]
    assert [held.latest(payment) for payment in held.payments()] == [after, other]
    assert held.find("RCPT1") == [(0, after)]
    assert held.find("order-1") == [(0, after), (1, other)]
    assert held.add(evolve(before, merchant_reference="order-2")) == after
    assert held.find("RCPT1") == held.find("order-2") == [(0, held.latest(0))]


@pytest.mark.parametrize("count", [0, 1, 767, 768, 769, 5_000])
def test_an_index_says_of_each_key_what_was_added_under_it_in_order(count: int) -> None:
    index, added = KeyIndex(), defaultdict[str, list[int]](list)
    for number in range(count):
        for key in (f"key {number}", f"shared {number % 7}"):
            index.add(key, number)
            added[key].append(number)
    for key, numbers in added.items():
        assert [number for number in index.find(key) if number in numbers] == numbers
    # Two keys of 36 bits are hardly ever alike, which is all that spares a comparison.
    assert sum(len(index.find(f"no {number}")) for number in range(1_000)) <= 1
