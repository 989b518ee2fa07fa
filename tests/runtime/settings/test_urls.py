"""The gateway knows its own hosts however they are spelled, so that no callback loops back (K7)."""

from __future__ import annotations

import pytest

from mmo_sansio.http.egress_rules import delivery_url_error
from mmo_trio.settings import SettingsError, load_settings
from mmo_trio.settings.service import PublicUrls, ServiceAddresses

ADDRESSES = ServiceAddresses(
    "http://127.0.0.1:8080", "http://127.0.0.1:8081", "http://127.0.0.1:8082"
)


@pytest.mark.spec("K7")
@pytest.mark.parametrize("key", ["BASE_URL", "HPP_URL", "HOOKS_URL"])
@pytest.mark.parametrize(
    ("configured", "url"),
    [
        ("https://pay.example.com", "https://PAY.example.com/cb"),
        ("https://Pay.Example.com", "https://pay.example.com/cb"),
        ("https://pay.example.com.", "https://pay.example.com/cb"),
        ("https://pay.example.com", "https://pay.example.com.:443/cb"),
        ("https://pay.example.com:443", "https://pay.example.com:8443/cb"),
        ("https://zahlung-müller.example", "https://xn--zahlung-mller-4ob.example/cb"),
        ("https://xn--zahlung-mller-4ob.example", "https://ZAHLUNG-MÜLLER.example/cb"),
        ("https://pay.example.com:8443", "https://pay.example.com:08443/cb"),
    ],
)
def test_an_own_host_is_known_in_every_spelling(key: str, configured: str, url: str) -> None:
    settings = load_settings(environment={f"MMO_GATEWAY_{key}": configured})
    rules = PublicUrls.from_settings(settings, ADDRESSES).egress_rules(settings)
    assert delivery_url_error(url, rules=rules) is not None
    assert delivery_url_error("https://merchant.example/cb", rules=rules) is None


def test_an_address_that_no_url_of_a_merchant_could_have_is_an_error_at_the_start() -> None:
    with pytest.raises(
        SettingsError, match=r"MMO_GATEWAY_BASE_URL: can't be used\. The host is not a DNS name"
    ):
        load_settings(environment={"MMO_GATEWAY_BASE_URL": "https://pay..example"})
