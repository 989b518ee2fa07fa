"""Wave's webhooks: only what Wave has just signed for this account is believed."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from mmo_provider_wave.signatures import HEADER, LIFETIME, sign
from wave_samples import (
    CREATED_AT,
    HOOKS_URL,
    NAME,
    WEBHOOK_SECRET,
    a_session,
    an_account,
    example,
)

from mmo_sansio import Instant, Moment, Money, ProviderSucceeded, Source, later
from mmo_sansio.providers import (
    AccountFinding,
    HttpRequest,
    ProviderHinted,
    ProviderNotification,
    Span,
    UnmatchedNotified,
    earlier,
)
from mmo_sansio.testing import REFERENCE, START

LIVE_EVENT = example("live_event")
NOW = Moment(time=START, utc=CREATED_AT)


def an_event(kind: str, data: bytes) -> bytes:
    return b'{"id":"EV_QvEZuDSQbLdI","type":"%b","data":%b}' % (kind.encode(), data)


PAID = an_event(
    "checkout.session.completed", a_session("complete", "succeeded", transaction_id="TCN4Y4ZC3FM")
)


def a_webhook(
    body: bytes = PAID, *secrets: str, at: Instant = CREATED_AT, header: bytes | None = None
) -> HttpRequest:
    """A webhook that is signed with these secrets, else with the account's."""
    if header is None:
        signed = [sign(each, body, now=at) for each in secrets or (WEBHOOK_SECRET,)]
        header = b",".join([signed[0], *(each.partition(b",")[2] for each in signed[1:])])
    headers = ((HEADER, header),) if header else ()
    return HttpRequest("POST", HOOKS_URL.encode(), headers, body)


def read(request: HttpRequest, **options: str) -> ProviderNotification:
    return an_account(**options).read_notification(request)


def test_the_signature_is_of_time_and_body_without_anything_between() -> None:
    expected = hmac.new(b"S", b"1639081943{}", hashlib.sha256).hexdigest().encode()
    signed = sign("S", b"{}", now=Instant(1_639_081_943 * 1_000_000))
    assert signed == b"t=1639081943,v1=" + expected


@pytest.mark.parametrize(
    "request_",
    [
        a_webhook(),
        a_webhook(PAID, "of-another-key", WEBHOOK_SECRET),
        a_webhook(PAID, WEBHOOK_SECRET, "of-another-key"),
        a_webhook(at=earlier(CREATED_AT, LIFETIME)),
    ],
    ids=["one", "the second while keys rotate", "the first while keys rotate", "four minutes old"],
)
def test_what_wave_has_just_signed_is_read(request_: HttpRequest) -> None:
    assert an_account().refuse_notification(request_, now=NOW) is None
    assert read(request_) == ProviderSucceeded(
        REFERENCE, NAME, Source.WEBHOOK, "TCN4Y4ZC3FM", Money(1000, "XOF")
    )


@pytest.mark.parametrize(
    "request_",
    [
        a_webhook(header=b""),
        a_webhook(header=b"t=1768471984"),
        a_webhook(header=b"v1=" + b"0" * 64),
        a_webhook(header=b"t=1768471984,v1=" + b"0" * 63),
        a_webhook(header=b"t=1768471984" + b",v1=" + b"0" * 64),
        a_webhook(header=b"t=1768471984" + b",v1=%b" % (b"0" * 64) * 9),
        a_webhook(PAID, "of-another-key"),
        HttpRequest(
            "POST", HOOKS_URL.encode(), a_webhook().headers, PAID.replace(b"1000", b"9000")
        ),
    ],
    ids=[
        *("missing", "without a signature", "without a time", "cut off", "wrong", "of too many"),
        *("of another key", "of another body"),
    ],
)
def test_what_wave_has_not_signed_is_refused_and_not_believed(request_: HttpRequest) -> None:
    assert an_account().refuse_notification(request_, now=NOW) is not None
    assert isinstance(read(request_), UnmatchedNotified)


@pytest.mark.parametrize(
    "at",
    [
        earlier(CREATED_AT, Span(LIFETIME + 1_000_000)),
        later(CREATED_AT, Span(LIFETIME + 1_000_000)),
    ],
    ids=["old, or replayed later", "of the future"],
)
def test_what_was_signed_at_another_time_is_refused(at: Instant) -> None:
    assert an_account().refuse_notification(a_webhook(at=at), now=NOW) is not None


def test_either_of_two_secrets_is_taken_while_one_takes_the_place_of_another() -> None:
    account = an_account(webhook_secret=f"new-secret {WEBHOOK_SECRET}")
    for secret in ("new-secret", WEBHOOK_SECRET):
        assert account.refuse_notification(a_webhook(PAID, secret), now=NOW) is None


def test_the_test_event_of_the_portal_shows_that_webhooks_arrive() -> None:
    found = read(a_webhook(an_event("test.test_event", b'{"client_reference":null}')))
    assert isinstance(found, AccountFinding)
    assert (found.part, found.state) == ("webhooks", "works")


@pytest.mark.parametrize(
    "body",
    [
        an_event("merchant.payment_received", b'{"id":"T_46HS5COOWE","amount":"990"}'),
        an_event("checkout.session.completed", b'{"client_reference":"CMD-2024-001"}'),
        b"{}",
        b"not json",
    ],
)
def test_what_names_no_payment_of_ours_is_left_to_a_person(body: bytes) -> None:
    assert isinstance(read(a_webhook(body)), UnmatchedNotified)


def test_the_published_body_of_a_payment_is_read_with_our_reference() -> None:
    body = LIVE_EVENT.replace(
        b'"client_reference":null', b'"client_reference":"%b"' % REFERENCE.encode()
    )
    found = read(a_webhook(body))
    assert isinstance(found, ProviderSucceeded)
    assert (found.provider_reference, found.final) == ("TRG70000000", Money(125, "XOF"))


def test_without_a_secret_nothing_is_refused_and_nothing_is_believed() -> None:
    account = an_account(webhook_secret=None)
    unsigned = a_webhook(header=b"")
    assert account.refuse_notification(unsigned, now=NOW) is None
    assert isinstance(account.read_notification(unsigned), ProviderHinted)


def test_a_webhook_that_is_not_stored_is_repeated() -> None:
    account, request = an_account(), a_webhook()
    assert account.answer_notification(request, True).status == 200
    assert account.answer_notification(request, False).status == 503
