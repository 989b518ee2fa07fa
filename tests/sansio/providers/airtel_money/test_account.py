"""What an account with Airtel Money is configured with; what can't be used is said without its
value."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from mmo_sansio.providers.airtel_money.account import MARKETS, read_account
from mmo_sansio.providers.common.interface import RsaPadding
from mmo_sansio.values.fields import SettingsError
from tests.support.airtel_conversation import KEY, OPTIONS, an_adapter


def test_what_is_left_out_is_what_is_usual() -> None:
    account = read_account(OPTIONS)
    assert (account.currency, account.dialling_code) == ("UGX", "256")
    assert (account.collection_version, account.signs_collections) == (1, False)
    assert (account.disbursement_version, account.signs_disbursements) == (2, False)
    assert (account.pin_padding, account.key_padding) == (
        RsaPadding.OAEP_SHA256,
        RsaPadding.PKCS1V15,
    )


def test_signing_follows_the_version_unless_it_is_set() -> None:
    assert read_account({**OPTIONS, "collection_version": 2}).signs_collections
    assert read_account({**OPTIONS, "disbursement_version": 3}).signs_disbursements
    unsigned = {**OPTIONS, "disbursement_version": "3", "sign_disbursements": False}
    assert not read_account(unsigned).signs_disbursements
    assert read_account({**OPTIONS, "sign_collections": "true"}).signs_collections


@pytest.mark.parametrize("country", MARKETS)
def test_every_market_has_its_currency(country: str) -> None:
    assert read_account({**OPTIONS, "country": country}).currency == MARKETS[country]


def test_a_market_that_nobody_listed_can_be_described() -> None:
    described = {**OPTIONS, "country": "SC", "currency": "SCR", "dialling_code": "248"}
    assert read_account(described).dialling_code == "248"


@pytest.mark.parametrize(
    "text", [base64.b64encode(KEY).decode(), "  " + base64.b64encode(KEY).decode() + "\n"]
)
def test_the_operators_key_may_be_given(text: str) -> None:
    assert read_account({**OPTIONS, "public_key": text}).public_key == KEY
    armoured = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
    assert read_account({**OPTIONS, "public_key": armoured}).public_key == armoured.encode()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("base_url", "http://openapi.airtel.ug"),
        ("base_url", None),
        ("country", "Uganda"),
        ("country", "SC"),
        ("currency", "ABC"),
        ("dialling_code", "+256"),
        ("client_id", ""),
        ("client_secret", None),
        ("collection_version", 3),
        ("disbursement_version", 4),
        ("sign_collections", "perhaps"),
        ("public_key", "SECRET-?"),
        ("pin_padding", "none"),
        ("pin_member", "secret"),
        ("wallet_type", "GOLD"),
        ("first_question_after_s", "soon"),
        ("calback_key", "SECRET"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(key: str, value: Any) -> None:
    options = {name: each for name, each in {**OPTIONS, key: value}.items() if each is not None}
    with pytest.raises(SettingsError) as refusal:
        read_account(options)
    assert refusal.value.location == key or (key, refusal.value.location) == ("country", "currency")
    assert "SECRET" not in str(refusal.value)


def test_no_secret_is_in_a_repr() -> None:
    adapter = an_adapter(callback_key="SECRET-HASH")
    assert "SECRET" not in repr(adapter) + repr(adapter.account) + str(adapter)
