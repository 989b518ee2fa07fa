"""An unknown name is answered with the known one that was probably meant, in little time."""

from __future__ import annotations

import pytest

from mmo_sansio.values.near_match import NAME_MAX, closest_name, near_match


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mpesa_kee", "Did you mean mpesa_ke?"),
        ("MPESA-KE", "Did you mean mpesa_ke?"),
        ("airtel ug", "Did you mean airtel_ug?"),
        ("zzz", "Known are: airtel_ug, mpesa_ke."),
        ("mpesa_ke" + "e" * NAME_MAX, "Known are: airtel_ug, mpesa_ke."),
    ],
)
def test_the_nearest_name_is_told_or_all_of_them(name: str, sentence: str) -> None:
    assert near_match(name, ["mpesa_ke", "airtel_ug"]) == sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("payin", "Did you mean direct/payin, qr/payin or web/payin?"),
        ("PayIn", "Did you mean direct/payin, qr/payin or web/payin?"),
        ("direct", "Did you mean direct/payin or direct/payout?"),
        ("payout", "Did you mean direct/payout?"),
    ],
)
def test_a_part_of_several_names_tells_them_all(name: str, sentence: str) -> None:
    assert near_match(name, ["qr/payin", "web/payin", "direct/payin", "direct/payout"]) == sentence


def test_of_many_names_with_the_same_part_the_most_similar_is_told() -> None:
    assert near_match("a", [f"a_{number}" for number in range(7)]).count("a_") == 1


def test_where_nothing_is_known_nothing_is_told() -> None:
    assert near_match("a", []) == ""


def test_names_that_are_less_similar_than_asked_are_none() -> None:
    assert closest_name("reconciliationReference", ["merchantReference"], cutoff=0.75) is None
    assert (
        closest_name("merchant_reference", ["merchantReference"], cutoff=0.75)
        == "merchantReference"
    )
