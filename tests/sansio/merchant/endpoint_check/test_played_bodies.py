"""The bodies that are played at a merchant's endpoint are those that the gateway sends."""

from __future__ import annotations

from mmo_merchant import Callback, Flow, QrDelivery, TransactionObject, read_callback
from mmo_merchant.endpoint_check.situations import SITUATIONS
from mmo_merchant.endpoint_check.situations.malformed_situations import MALFORMED_SITUATIONS
from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_sansio.testing import START, UNUSED_REFERENCE, numbered_reference

KEY = "a-key"


def played(run: str) -> dict[str, list[Callback]]:
    """What a merchant reads in each situation in which it is the gateway that calls."""
    bodies = {}
    for number, situation in enumerate(SITUATIONS):
        if situation not in MALFORMED_SITUATIONS:
            script = situation.write(PlayedPayments(run[:18], number, START))
            requests = [request for requests in script.rounds for request in requests]
            bodies[situation.name] = [
                read_callback({"X-API-KEY": KEY}, each.body, [KEY]) for each in requests
            ]
    return bodies


def results(run: str) -> list[TransactionObject]:
    return [
        each
        for bodies in played(run).values()
        for each in bodies
        if isinstance(each, TransactionObject)
    ]


def test_a_merchant_can_read_them_all() -> None:
    found = played(UNUSED_REFERENCE)
    assert all(isinstance(each, QrDelivery) for each in found["qr-code"] + found["qr-picture"])
    for each in results(UNUSED_REFERENCE):
        assert each.created_at <= (each.completed_at or each.created_at)
        assert (each.final_amount is None) == (each.error_code is not None)


def test_a_payment_without_a_provider_has_no_reference_of_one() -> None:
    """`providerData` is null until something was sent to a provider (T3)."""
    for each in results(UNUSED_REFERENCE):
        assert (each.provider_reference is None) == (each.provider_data is None)


def test_a_deposit_has_ended_when_it_began() -> None:
    """It is a success at once (S4)."""
    (deposit,) = [each for each in results(UNUSED_REFERENCE) if each.flow == Flow.PUSH]
    assert deposit.completed_at == deposit.created_at


def test_no_two_payments_share_a_reference_of_the_provider() -> None:
    """A merchant may have a unique key on it, and plays the situations again and again."""
    both = [*results(UNUSED_REFERENCE), *results(numbered_reference(7))]
    named = {
        (each.gateway_reference, each.provider_reference)
        for each in both
        if each.provider_reference is not None
    }
    assert len({receipt for _, receipt in named}) == len(named)
