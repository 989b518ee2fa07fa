"""Access tokens: when one will do for another request."""

from __future__ import annotations

import pytest

from mmo_sansio.providers.common.interface import AccessToken
from mmo_sansio.testing import START
from mmo_sansio.values.clock import HOUR, SECOND, Span, earlier, later


@pytest.mark.parametrize(
    ("life", "fresh_for"),
    [(HOUR, HOUR - 60 * SECOND), (100 * SECOND, 90 * SECOND), (0, 0)],
    ids=["a minute before its end", "a tenth of a short life before", "none at all"],
)
def test_a_token_is_renewed_before_it_expires(life: Span, fresh_for: Span) -> None:
    token = AccessToken("t", START, later(START, life))
    assert not token.is_fresh(later(START, fresh_for))
    assert token.is_fresh(earlier(later(START, fresh_for), Span(1))) is True


def test_a_token_is_not_shown() -> None:
    assert "SECRET" not in repr(AccessToken("SECRET", START, later(START, HOUR)))
