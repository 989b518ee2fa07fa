"""Rows come back as what they were, and a damaged one is noticed."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pytest
from attrs import AttrsInstance, fields
from hypothesis import given, settings
from hypothesis import strategies as st

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Brand,
    BrandLimits,
    Evidence,
    Flow,
    Limits,
    Logo,
    Method,
    Operation,
    Order,
    Page,
    PageAppearance,
    Party,
    Progress,
    ProviderData,
    QrCode,
    ReferenceReuse,
    Refusal,
    ReusePolicy,
    Source,
    Stage,
    Transaction,
    Type,
    UsageShare,
)
from mmo_sansio.values.money import CURRENCIES, Money
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.sql import serialization
from mmo_trio.storage.sql.serialization import object_of_row, serialize_object

T = TypeVar("T", bound=AttrsInstance)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
maybe_texts = st.none() | texts
instants = st.integers(0, 4_102_444_800_000_000)
amounts = st.builds(Money, st.integers(1, 10**19), st.sampled_from(sorted(CURRENCIES)))
labels = st.none() | st.dictionaries(texts, texts | st.booleans()).map(json.dumps)


def built(kind: type[T], **members: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Draws a value of this class, with every field that it has: one that is left out would be
    stored untested."""
    missing = {each.name for each in fields(kind)} ^ set(members)
    assert not missing, f"{kind.__name__}: {missing}"
    return st.builds(kind, **members)


orders = built(
    Order,
    gateway_reference=st.from_regex(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", fullmatch=True),
    brand=texts,
    type=st.sampled_from(Type),
    flow=st.sampled_from(Flow),
    method=texts,
    country=texts,
    provider=texts,
    provider_title=texts,
    requested=amounts,
    party=st.builds(Party, texts, texts, maybe_texts, maybe_texts, maybe_texts),
    merchant_reference=maybe_texts,
    reconciliation_reference=maybe_texts,
    labels=labels,
    result_url=maybe_texts,
    created_at=instants,
    expires_at=instants,
    display_qr_url=maybe_texts,
    page=st.none() | st.builds(Page, texts, instants, maybe_texts, maybe_texts),
    scenario=maybe_texts,
    usage=st.lists(
        st.builds(UsageShare, texts, st.integers(0, 9), st.integers(1, 9)), max_size=2
    ).map(tuple),
    api_key_id=maybe_texts,
    utc_offset=st.integers(-(10**9), 10**9),
    is_simulated=st.booleans(),
)
progresses = built(
    Progress,
    stage=st.sampled_from(Stage),
    version=st.integers(1, 10**6),
    wake_at=st.none() | instants,
    polls=st.integers(0, 1000),
    provider_reference=maybe_texts,
    provider_data=st.none()
    | st.builds(ProviderData, texts, texts, st.none() | amounts, labels, maybe_texts, maybe_texts),
    final=st.none() | amounts,
    completed_at=st.none() | instants,
    completion_source=st.none() | st.sampled_from(Source),
    error_code=st.none() | st.sampled_from(ErrorCode),
    error_message=maybe_texts,
    submitted_at=st.none() | instants,
    hint=maybe_texts,
    qr=st.none() | st.builds(QrCode, maybe_texts, maybe_texts),
    submissions=st.integers(0, 9),
    evidence=st.none()
    | st.builds(
        Evidence,
        texts,
        texts,
        st.none() | amounts,
        st.booleans(),
        instants,
        st.booleans(),
        st.booleans(),
    ),
    denied_since=st.none() | instants,
    attempt=st.none() | texts,
    unsent=st.integers(0, 9),
    sent_version=st.integers(0, 10**6),
    answered=st.lists(instants, max_size=3).map(tuple),
    is_restored=st.booleans(),
    receipt_awaited_since=st.none() | instants,
    named_by_receipt=maybe_texts,
    payer_action=st.none()
    | st.builds(OpenUrl, texts, st.none() | instants, st.booleans(), st.none() | instants)
    | st.builds(
        EnterCode,
        st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
        st.none() | instants,
        maybe_texts,
        st.integers(0, 9),
    ),
    refusal=st.none()
    | st.builds(Refusal, st.sampled_from(ErrorCode), maybe_texts, maybe_texts, st.integers(1, 9)),
    is_said_paid=st.booleans(),
    is_told_when_asked=st.booleans(),
)
transactions = st.builds(Transaction, orders, progresses)


@st.composite
def some_limits(draw: st.DrawFn) -> dict[str, Limits]:
    every = {}
    for currency in draw(st.lists(st.sampled_from(sorted(CURRENCIES)), max_size=3)):
        low, high = draw(st.integers(1, 10**18)), draw(st.integers(1, 10**18))
        types = draw(st.lists(st.sampled_from(Type), max_size=2))
        daily = {type: Money(high, currency) for type in types}
        every[currency] = Limits(Money(low, currency), Money(high, currency), daily)
    return every


methods = built(
    Method,
    key=texts,
    provider=texts,
    provider_title=texts,
    country=texts,
    operations=st.frozensets(st.sampled_from(Operation)),
    limits=some_limits(),
    tax_authority_id=maybe_texts,
    tax_authority_account=texts,
    push_accounts=st.lists(texts, max_size=2).map(tuple),
)
brands = built(
    Brand,
    id=texts,
    name=texts,
    methods=st.lists(methods, max_size=3).map(tuple),
    enabled=st.booleans(),
    push_result_url=maybe_texts,
    host=maybe_texts,
    reference_reuse=st.builds(ReusePolicy, *[st.sampled_from(ReferenceReuse)] * 3),
    redirect_schemes=st.frozensets(texts, max_size=3),
    limits=st.builds(BrandLimits, *[st.none() | st.integers(1, 9)] * 3),
    result_hosts=st.lists(texts, max_size=3).map(tuple),
    appearance=st.builds(
        PageAppearance,
        maybe_texts,
        st.none() | st.builds(Logo, texts, st.binary(max_size=8)),
        maybe_texts,
    ),
)


@settings(max_examples=80)
@given(transactions)
def test_a_transaction_comes_back_as_it_was(transaction: Transaction) -> None:
    order, progress = (
        serialization.serialize_order(transaction.order),
        serialization.serialize_progress(transaction.progress),
    )
    back = serialization.parse_transaction(order, progress)
    assert back == transaction
    assert type(back.progress.stage) is Stage
    row = (serialize_object(transaction), order, progress)
    assert object_of_row(row) == transaction_object(transaction)
    for each in (order, progress):
        content = serialization.without_checksum(each)
        assert content == json.dumps(json.loads(content), separators=(",", ":")).encode(), (
            "other bytes than JSON's own"
        )


@settings(max_examples=60)
@given(brands)
def test_a_brand_comes_back_as_it_was(brand: Brand) -> None:
    assert serialization.parse_brand(serialization.serialize_brand(brand)) == brand


@settings(max_examples=100)
@given(st.binary(max_size=60), st.data())
def test_a_flipped_bit_or_a_cut_row_is_noticed(content: bytes, data: Any) -> None:
    row = bytearray(serialization.with_checksum(content))
    bit = data.draw(st.integers(0, len(row) * 8 - 1))
    row[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreCorrupt):
        serialization.without_checksum(bytes(row))


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"id":"acme"'])
def test_a_brand_that_cannot_be_read_is_said_to_be_damaged(text: str) -> None:
    with pytest.raises(StoreCorrupt, match="mmo brands apply"):
        serialization.parse_brand(text)
