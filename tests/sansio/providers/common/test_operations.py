"""What a provider says of its operations: when it wants to be polled."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    ProviderOperation,
    with_poll_interval,
)
from mmo_sansio.testing import a_transaction, accepted, unreachable
from mmo_sansio.values.clock import MINUTE, SECOND, Span
from mmo_sansio.values.model import Stage

OPERATIONS = {DIRECT_PAYIN: ProviderOperation(True, True, None, (Span(3 * SECOND), MINUTE))}


@pytest.mark.spec("S6")
@pytest.mark.parametrize("poll_after", [None, Span(7 * SECOND)])
def test_only_a_pending_payment_is_polled_in_intervals(poll_after: Span | None) -> None:
    for report in (accepted(poll_after=poll_after), unreachable(poll_after=poll_after)):
        pending = with_poll_interval(report, OPERATIONS, a_transaction(Stage.SUBMITTING))
        assert pending == evolve(report, poll_after=poll_after or Span(3 * SECOND))
        ended = with_poll_interval(report, OPERATIONS, a_transaction(Stage.FAILED))
        assert ended == evolve(report, poll_after=None)
