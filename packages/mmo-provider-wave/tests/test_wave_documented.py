"""The examples of Wave's documentation, member by member, and its signature, byte by byte, through
the adapter and the simulator."""

from __future__ import annotations

from typing import Final

from mmo_provider_wave.signatures import HEADER, LIFETIME, verify
from wave_samples import HOOKS_URL, an_account, example

from mmo_sansio import (
    SECOND,
    Instant,
    Moment,
    Money,
    ProviderSucceeded,
    later,
)
from mmo_sansio.providers import (
    HttpRequest,
    Span,
    UnmatchedNotified,
)
from mmo_sansio.testing import REFERENCE, START
from mmo_simulators.operators.wave.signatures import sign as sign_as_simulated

# https://docs.wave.com/webhook: the body of an event, its secret and its signature.
EVENT: Final = example("documented_event")
SECRET: Final = "wave_sn_WHS_xz4m6g8rjs9bshxy05xj4khcvjv7j3hcp4fbpvv6met0zdrjvezg"
SIGNED_AT: Final = Instant(1_667_920_421_000_000)
SIGNATURE: Final = (
    b"t=1667920421,v1=53c971695230e9c51b1030d673eee76e70bbcdf8a7c5b8c1d44e0b8b1329647b"
)


def test_the_documented_signature_is_right() -> None:
    webhook = HttpRequest("POST", HOOKS_URL.encode(), ((HEADER, SIGNATURE),), EVENT)
    assert verify(webhook, [SECRET]) == SIGNED_AT
    account = an_account(webhook_secret=SECRET)
    on_time, late = later(SIGNED_AT, LIFETIME), later(SIGNED_AT, Span(LIFETIME + SECOND))
    assert account.refuse_notification(webhook, now=Moment(START, on_time)) is None
    assert account.refuse_notification(webhook, now=Moment(START, late)) is not None
    assert isinstance(account.read_notification(webhook), UnmatchedNotified), "no payment of ours"


def test_the_simulator_signs_as_documented() -> None:
    assert sign_as_simulated(EVENT, [SECRET], now=SIGNED_AT) == SIGNATURE


def test_the_documented_event_pays_what_it_names() -> None:
    body = EVENT.replace(
        b'"client_reference": null', b'"client_reference": "%b"' % REFERENCE.encode()
    )
    webhook = HttpRequest(
        "POST",
        HOOKS_URL.encode(),
        ((HEADER, sign_as_simulated(body, [SECRET], now=SIGNED_AT)),),
        body,
    )
    report = an_account(webhook_secret=SECRET).read_notification(webhook)
    assert isinstance(report, ProviderSucceeded)
    assert (report.provider_reference, report.final) == ("TCN4Y4ZC3FM", Money(100, "XOF"))
