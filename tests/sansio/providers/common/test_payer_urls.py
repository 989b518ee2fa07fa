"""Where payers are sent: to https, on hosts that the account names."""

from __future__ import annotations

import pytest

from mmo_sansio.providers.common.payer_urls import payer_url_error, refused_payer_url
from mmo_sansio.testing import accepted, succeeded
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl

HOSTS = ("pay.wave.com", "*.orange.example", "127.0.0.1")


@pytest.mark.parametrize(
    "url",
    [
        "https://pay.wave.com/c/cos-18qq25rgr100a?a=100&c=XOF",
        "https://pay.wave.com/#/pay/1",
        "https://otp.bf.orange.example/x",
        "http://127.0.0.1:8090/authorise/1",
    ],
)
def test_a_page_on_a_host_of_the_account_may_be_opened(url: str) -> None:
    assert payer_url_error(url, HOSTS) is None


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://pay.wave.com/c/1", "https"),
        ("javascript:alert(1)", "https"),
        ("data:text/html,x", "https"),
        ("//pay.wave.com/c/1", ""),
        ("https://pay.wave.com.evil.example/c/1", "does not name the host"),
        ("https://pay.wave.com@evil.example/", ""),
        ("https://evil.example/?pay.wave.com", "does not name the host"),
        ("https://orange.example/", "does not name the host"),
        ("http://127.0.0.2/", "https"),
        ("https://pay.wave.com/\n", ""),
        ("https://pay.wave.com/#\n", ""),
        ("https://pay.wave.com/#\u202e", ""),
        ("https://pay.wave.com/#" + "a" * 2048, "2048 is the most"),
        ("", "empty"),
    ],
)
def test_no_payer_is_sent_elsewhere(url: str, error: str) -> None:
    told = payer_url_error(url, HOSTS)
    assert told is not None
    assert error in told


def test_an_account_that_names_no_hosts_sends_nobody_anywhere() -> None:
    page = accepted(payer_action=OpenUrl("https://pay.wave.com/c/1"))
    assert refused_payer_url(page, object()) is not None
    assert payer_url_error("https://pay.wave.com/c/1", ()) is not None
    for harmless in (accepted(), accepted(payer_action=EnterCode()), succeeded()):
        assert refused_payer_url(harmless, object()) is None
