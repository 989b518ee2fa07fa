"""One-time codes follow the test vectors of RFC 6238; recovery codes are known however they are
typed."""

from __future__ import annotations

import pytest

from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_trio.console import second_factor

SECRET = b"12345678901234567890"


@pytest.mark.parametrize(
    ("at_s", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (20000000000, "353130"),
    ],
)
def test_the_vectors_of_rfc_6238(at_s: int, code: str) -> None:
    at = Instant(at_s * SECOND)
    assert second_factor.code_at(SECRET, at) == code
    assert second_factor.matching_step(SECRET, code, at) == at_s // second_factor.TIME_STEP_S


def test_a_code_counts_for_its_step_and_the_steps_next_to_it() -> None:
    at = Instant(1111111110 * SECOND)
    code = second_factor.code_at(SECRET, at)
    accepted = [
        second_factor.matching_step(SECRET, code, later(at, Span(s * SECOND)))
        for s in (-31, -30, 0, 29, 30, 59, 60)
    ]
    step = 1111111110 // second_factor.TIME_STEP_S
    assert accepted == [None, step, step, step, step, step, None]


@pytest.mark.parametrize(
    "text", ["", "28708", "2870820", "٢٨٧٠٨٢", "28708x", "-87082", "2" * 10_000]
)
def test_what_is_no_code_matches_nothing(text: str) -> None:
    assert second_factor.matching_step(SECRET, text, Instant(59 * SECOND)) is None
    assert second_factor.matching_step(SECRET, "287 082", Instant(59 * SECOND)) == 1


def test_an_app_gets_the_secret_as_a_uri_and_as_letters() -> None:
    uri = second_factor.provisioning_uri(SECRET, user="zoë ada", issuer="A gateway")
    assert uri.startswith("otpauth://totp/A%20gateway:zo%C3%AB%20ada?")
    assert "secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ" in uri
    assert second_factor.format_secret(SECRET) == "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ"
    assert len(second_factor.generate_secret()) == second_factor.SECRET_BYTES
    assert second_factor.generate_secret() != second_factor.generate_secret()


def test_recovery_codes_are_long_different_and_known_however_they_are_typed() -> None:
    codes = second_factor.generate_recovery_codes()
    assert len(set(codes)) == second_factor.RECOVERY_CODES
    assert all(len(code.replace("-", "")) == 16 for code in codes)
    digest = second_factor.recovery_code_digest("ada", codes[0])
    for typed in (codes[0].upper(), codes[0].replace("-", " "), f" {codes[0].replace('-', '')}\t"):
        assert second_factor.recovery_code_digest("ada", typed) == digest
    assert second_factor.recovery_code_digest("bob", codes[0]) != digest
    assert second_factor.recovery_code_digest("ada", "\ud800") != digest
