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


def test_where_nothing_is_known_nothing_is_told() -> None:
    assert near_match("a", []) == ""


def test_names_that_are_less_similar_than_asked_are_none() -> None:
    assert closest_name("reconciliationReference", ["merchantReference"], cutoff=0.75) is None
    assert closest_name("merchant_reference", ["merchantReference"], cutoff=0.75) == "merchantReference"
