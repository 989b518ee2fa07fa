"""What an operator says of our secrets stays with the adapter (A5)."""

from __future__ import annotations

import base64
import json

import pytest
from attrs import evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderFailed, ProviderHinted, UnmatchedNotified
from mmo_sansio.providers.common.interface import AccessToken, SignInFailed, drive
from mmo_sansio.providers.common.redaction import REDACTED, RedactingProvider, find_secrets
from mmo_sansio.providers.mtn_momo.account import read_account
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.testing import START, a_transaction
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.model import Stage, Type
from mmo_sansio.values.payer_actions import EnterCode

KEY = "the-subscription-key-1"
USER_KEY = "the-key-of-the-api-user"
USER = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
TOKEN = "eyJhbGciOi-the-token"


def a_provider() -> RedactingProvider:
    options = {
        "market": "mtnuganda",
        "collection_subscription_key": KEY,
        "collection_api_user": USER,
        "collection_api_key": USER_KEY,
    }
    hooks = "https://gw.example/hooks/mtn/the-token-of-the-hook"
    return RedactingProvider(MtnMomoProvider("mtn", "MTN", read_account(options, hooks_url=hooks)))


def signed_in(provider: RedactingProvider, token: str = TOKEN) -> None:
    conversation = provider.sign_in("collection", now=Moment.at(START))
    next(conversation)
    body = json.dumps({"access_token": token, "expires_in": 3600}).encode()
    with pytest.raises(StopIteration) as end:
        conversation.send(HttpResponse(200, (), body))
    assert isinstance(end.value.value, AccessToken)
    assert end.value.value.value == token


@frozen
class Key:
    secret: str = field(repr=False)


@frozen
class Account:
    hosts: tuple[str, ...]
    webhook_secrets: tuple[str, ...] = field(repr=False)
    keys: tuple[Key, ...] = field(repr=False)


BASIC = base64.b64encode(f"{USER}:{USER_KEY}".encode()).decode()
SAID = [
    f"key%3D{KEY.replace('-', '%2D')} and 100% more %zz%FF",
    f"key {KEY.encode().hex()}",
    "key " + "".join(f"&#{ord(character)};" for character in KEY),
    "key " + "".join(f"\\u{ord(character):04x}" for character in KEY),
    f"The key {KEY} has no such product.",
    f"Authorization: Bearer {TOKEN}",
    f"Authorization: Basic {BASIC}",
    "x" * 490 + KEY,
    "callback https://gw.example/hooks/mtn/the-token-of-the-hook/1 is not allowed",
]


@pytest.mark.spec("A5")
def test_each_of_several_secrets_is_one() -> None:
    account = Account(("pay.example",), ("the-old-one", "the-new-one"), (Key("the-key"),))
    assert set(find_secrets(account)) == {"the-old-one", "the-new-one", "the-key"}


@pytest.mark.spec("A5")
@pytest.mark.parametrize("said", SAID)
def test_a_secret_in_an_error_message_is_hidden(said: str) -> None:
    provider = a_provider()
    signed_in(provider)
    body = json.dumps({"code": "NOT_ALLOWED", "message": said}).encode()
    transaction = a_transaction(type=Type.PAYIN)
    report = drive(
        provider.submit(transaction, now=Moment.at(START)), lambda _: HttpResponse(400, (), body)
    )
    assert isinstance(report, ProviderFailed)
    told = report.native_message or ""
    assert REDACTED[:4] in told
    for secret in (KEY, TOKEN, USER_KEY, BASIC, "the-token-of-the-hook"):
        assert secret[:10] not in told


@pytest.mark.spec("A5")
def test_a_secret_in_a_notification_is_hidden() -> None:
    for body in (f"no JSON {KEY}".encode(), json.dumps({"externalId": "?", "a": KEY}).encode()):
        told = a_provider().read_notification(HttpRequest("PUT", b"/hooks/mtn/token", (), body))
        assert isinstance(told, UnmatchedNotified | ProviderHinted)
        assert KEY not in told.content
        assert REDACTED in told.content


@pytest.mark.spec("A5")
def test_words_without_secrets_stay_as_they_are() -> None:
    words = "Payer 256772000000 of 01K5TESTTESTTESTTESTTEST00 has EUR 1234.00: eyJhbGciOiJub25lIn0="
    body = json.dumps({"code": "NOT_ENOUGH_FUNDS", "message": words}).encode()
    transaction = a_transaction(type=Type.PAYIN)
    report = drive(
        a_provider().submit(transaction, now=Moment.at(START)),
        lambda _: HttpResponse(400, (), body),
    )
    assert isinstance(report, ProviderFailed)
    assert (report.native_code, report.native_message) == ("NOT_ENOUGH_FUNDS", words)


@pytest.mark.spec("A5")
def test_a_short_access_token_is_hidden_as_a_word_and_spoils_no_response() -> None:
    provider = a_provider()
    signed_in(provider, "100")
    paid = {
        "status": "SUCCESSFUL",
        "amount": "1001",
        "currency": "EUR",
        "financialTransactionId": "3100",
    }
    transaction = a_transaction(type=Type.PAYIN)
    redacted = drive(
        provider.poll(transaction, now=Moment.at(START)),
        lambda _: HttpResponse(200, (), json.dumps(paid).encode()),
    )
    plain = drive(
        a_provider().poll(transaction, now=Moment.at(START)),
        lambda _: HttpResponse(200, (), json.dumps(paid).encode()),
    )
    assert redacted == plain
    body = json.dumps(
        {"code": "NOT_ALLOWED", "message": "The token 100 is not for 2100 EUR"}
    ).encode()
    refused = drive(
        provider.submit(transaction, now=Moment.at(START)), lambda _: HttpResponse(400, (), body)
    )
    assert isinstance(refused, ProviderFailed)
    assert refused.native_message == f"The token {REDACTED} is not for 2100 EUR"


@pytest.mark.spec("A5")
def test_the_code_of_a_payer_is_removed_as_a_word() -> None:
    provider, payment = a_provider(), a_transaction(Stage.SUBMITTING, submitted_at=START)
    given = EnterCode((), code="65432109")
    payment = evolve(payment, progress=evolve(payment.progress, payer_action=given))
    body = json.dumps(
        {"code": "NOT_ALLOWED", "message": "The code 65432109 is not of AB65432109"}
    ).encode()
    refused = drive(
        provider.submit(payment, now=Moment.at(START)), lambda _: HttpResponse(400, (), body)
    )
    assert isinstance(refused, ProviderFailed)
    assert refused.native_message == f"The code {REDACTED} is not of AB65432109"


def test_a_refused_sign_in_names_no_secret() -> None:
    conversation = a_provider().sign_in("collection", now=Moment.at(START))
    next(conversation)
    with pytest.raises(SignInFailed) as refused:
        conversation.send(HttpResponse(401, (), USER_KEY.encode()))
    assert USER_KEY not in refused.value.reason
