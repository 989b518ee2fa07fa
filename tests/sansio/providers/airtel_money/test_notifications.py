"""Airtel Money's callbacks: authenticated where a key is set, a reason to ask and never a
result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.messages import Headers, HttpRequest
from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.messages.inputs import ProviderHinted, UnmatchedNotified
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.providers.airtel_money.results import callback_hash
from mmo_sansio.providers.airtel_money.wire import raw_member
from mmo_sansio.testing import REFERENCE, START, a_transaction, failed, hinted, ledger_with
from mmo_sansio.values.clock import HOUR, later
from mmo_sansio.values.model import Evidence, Stage, Status
from tests.support.airtel_conversation import an_adapter

PUBLISHED_KEY = "callback-key"
PUBLISHED_TEXT = (
    '{"id":"GW0001","message":"Paid","status_code":"TS","airtel_money_id":"MP240101.1200.A00001"}'
)
PUBLISHED_HASH = "lW+ypj527tpMUt6S5EYN51wJDb0l+QVhw1J9uFhRzlI="


def read(
    body: str | bytes, *, headers: Headers = (), **options: Any
) -> ProviderHinted | UnmatchedNotified:
    octets = body.encode() if isinstance(body, str) else body
    adapter = an_adapter(**options)
    return adapter.read_notification(HttpRequest("POST", b"/hooks/a/b", headers, octets))


def signed(body: str, **options: Any) -> ProviderHinted | UnmatchedNotified:
    return read(body, callback_key=PUBLISHED_KEY, **options)


def test_the_hash_is_the_published_one() -> None:
    assert callback_hash(PUBLISHED_KEY, PUBLISHED_TEXT.encode()) == PUBLISHED_HASH


def test_an_authentic_callback_is_taken_wherever_its_hash_stands() -> None:
    body = f'{{"transaction":{PUBLISHED_TEXT}}}'
    in_header = ((b"hash", PUBLISHED_HASH.encode()),)
    elsewhere = ((b"x-hash", PUBLISHED_HASH.encode()),)
    assert isinstance(signed(body, headers=in_header), ProviderHinted)
    assert isinstance(
        signed(body, headers=elsewhere, callback_hash_header="X-Hash"), ProviderHinted
    )


@pytest.mark.parametrize("of", ["as it came", "compact", "the whole body"])
def test_a_hash_may_be_of_each_text_that_the_documents_leave_open(of: str) -> None:
    spaced = PUBLISHED_TEXT.replace(",", " , ")
    body = f'{{ "transaction" : {spaced} }}'
    text = {"as it came": spaced, "compact": PUBLISHED_TEXT, "the whole body": body}[of]
    headers = ((b"hash", callback_hash(PUBLISHED_KEY, text.encode()).encode()),)
    assert isinstance(signed(body, headers=headers), ProviderHinted)


def test_a_byte_order_mark_before_an_authentic_callback_does_no_harm() -> None:
    body = f'\ufeff{{"transaction":{PUBLISHED_TEXT},"hash":"{PUBLISHED_HASH}"}}'
    hint = signed(body)
    assert isinstance(hint, ProviderHinted)
    assert (hint.gateway_reference, hint.provider, hint.content) == ("GW0001", "airtel_ug", body)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5),
        max_size=5,
    ),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
)
def test_a_member_is_found_exactly_as_it_is_written(
    document: dict[str, Any], indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=is_ascii)
    assert raw_member(text, "no such member") is None
    for name, value in document.items():
        raw = raw_member(text, name)
        assert raw is not None
        assert raw in text
        assert json.loads(raw) == value


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a"', '{"a":1', '{"a":1 "b":2}'])
def test_what_is_no_object_has_no_members(text: str) -> None:
    with pytest.raises(ValueError):
        raw_member(text, "b")


@pytest.mark.parametrize(("accepted", "status"), [(True, 200), (False, 503)])
def test_a_callback_is_answered_briefly(accepted: bool, status: int) -> None:
    answer = an_adapter().answer_notification(HttpRequest("POST", b"/"), accepted)
    assert (answer.status, answer.body) == (status, b"{}")


@pytest.mark.spec("S5")
def test_a_callback_paid_and_an_enquiry_failed_are_a_contradiction() -> None:
    hint = hinted(evidence=Evidence("MP240101.1200.A00001", "TS"))
    gateway = Gateway()
    gateway.ledger = ledger_with(a_transaction(Stage.AWAITING_RESULT, wake_at=later(START, HOUR)))
    gateway.receive(hint, now=START)
    gateway.receive(failed(), now=START)
    assert gateway.transaction(REFERENCE).status is Status.PENDING
    gateway.receive(failed(), now=later(START, HOUR))
    (entry,) = gateway.suspense
    assert (entry.reason, gateway.transaction(REFERENCE).status) == (
        SuspenseReason.UNCONFIRMED_RECEIPT,
        Status.PENDING,
    )
    assert "MP240101.1200.A00001" in entry.content
