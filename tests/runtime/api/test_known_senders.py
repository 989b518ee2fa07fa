"""Who sent a request is known as long as its key is, and no longer (A3, A5, A6)."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.http.messages import Headers
from mmo_sansio.values.clock import MonotonicInstant
from mmo_trio.api.authentication import SENDERS_MAX, KnownSenders, VerifiedKey
from mmo_trio.brands.in_force import KnownConfiguration
from mmo_trio.storage.interface.admin_types import KeyOwner
from tests.conformance.inputs import brand

SECRET = b"canary-of-a-key"
CLIENT = "192.0.2.7"
OWNER = KeyOwner(brand("acme"), "1")
KEY = VerifiedKey(OWNER, MonotonicInstant(1_000), generation=3)


def fields(number: int = 0) -> Headers:
    """Return fields that are equal for equal numbers, yet not the same."""
    return (*[(b"x-api-key", SECRET), (b"content-length", b"%d" % number)],)


def moment(time: int) -> MonotonicInstant:
    return MonotonicInstant(time)


@pytest.fixture
def senders() -> KnownSenders:
    return KnownSenders(KnownConfiguration(generation=3))


@pytest.mark.spec("A3")
def test_a_sender_is_known_until_its_key_has_to_be_verified_again(senders: KnownSenders) -> None:
    headers = fields()
    assert senders.find(headers, CLIENT, moment(1)) is None
    senders.add(headers, CLIENT, KEY)
    assert senders.find(headers, CLIENT, moment(999)) is OWNER
    assert senders.find(headers, CLIENT, moment(1_000)) is None


@pytest.mark.spec("A2", "A3")
def test_a_change_of_brands_or_keys_makes_every_sender_unknown(senders: KnownSenders) -> None:
    headers = fields()
    senders.add(headers, CLIENT, KEY)
    senders.known.generation = 4
    assert senders.find(headers, CLIENT, moment(1)) is None
    senders.add(headers, CLIENT, evolve(KEY, generation=4))
    assert senders.find(headers, CLIENT, moment(1)) is OWNER


@pytest.mark.spec("A3")
def test_no_sender_is_known_while_nobody_can_tell_whether_brands_have_changed(
    senders: KnownSenders,
) -> None:
    headers = fields()
    senders.add(headers, CLIENT, KEY)
    senders.known.trusted_until = moment(10)
    assert senders.find(headers, CLIENT, moment(9)) is OWNER
    assert senders.find(headers, CLIENT, moment(10)) is None


@pytest.mark.spec("A1", "A6")
def test_another_address_or_other_fields_are_another_sender(senders: KnownSenders) -> None:
    headers = fields()
    senders.add(headers, CLIENT, KEY)
    assert senders.find(headers, "192.0.2.8", moment(1)) is None
    assert senders.find(fields(1), CLIENT, moment(1)) is None
    assert senders.find(fields(), CLIENT, moment(1)) is OWNER


def test_the_first_sender_is_forgotten_where_there_are_too_many(senders: KnownSenders) -> None:
    first, second, *others = (fields(number) for number in range(SENDERS_MAX + 1))
    for headers in (first, second, *others):
        senders.add(headers, CLIENT, KEY)
    assert senders.find(first, CLIENT, moment(1)) is None
    assert senders.find(second, CLIENT, moment(1)) is OWNER


@pytest.mark.spec("A5")
def test_no_key_stands_in_the_repr_of_known_senders(senders: KnownSenders) -> None:
    senders.add(fields(), CLIENT, KEY)
    assert SECRET.decode() not in repr(senders)
