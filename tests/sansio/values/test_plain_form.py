"""A value in its plain form is JSON, and reads back by its type as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot, BreakerState, Permit, SubWindow
from mmo_sansio.testing import KES, a_brand
from mmo_sansio.values.clock import MonotonicInstant
from mmo_sansio.values.model import Brand, Logo, PageAppearance
from mmo_sansio.values.money import Money
from mmo_sansio.values.plain_form import from_plain, to_plain

NOW = MonotonicInstant(7)
BREAKER = BreakerSnapshot(
    BreakerState.OPEN, NOW, Permit(1, 2, NOW), 3, (SubWindow(NOW, 4, 5), SubWindow(NOW))
)
BRAND = a_brand(appearance=PageAppearance(colour="#0a6b48", logo=Logo("image/png", b"\x89PNG")))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BreakerSnapshot, BREAKER),
        (BreakerSnapshot, BreakerSnapshot()),
        (Brand, BRAND),
        (tuple[Money, ...], (KES(1),)),
    ],
)
def test_a_value_reads_back_as_it_was(kind: type[Any], value: object) -> None:
    assert from_plain(kind, json.loads(json.dumps(to_plain(value)))) == value


@pytest.mark.parametrize(
    "plain",
    [{}, None, {**to_plain(BREAKER), "state": "ajar"}, {**to_plain(BREAKER), "sub_windows": [{}]}],
)
def test_what_is_no_such_value_is_refused(plain: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_plain(BreakerSnapshot, plain)
