"""What stands before a person, and what speaks against ending it by hand."""

from __future__ import annotations

import pytest

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.payments.evidence import contradicts
from mmo_sansio.payments.stuck import is_stuck
from mmo_sansio.testing import START, a_transaction
from mmo_sansio.values.clock import HOUR, Span, earlier, later
from mmo_sansio.values.model import Stage

SUCCESS = '{"result": "success"}'
FAILED = '{"result": "failed"}'


@pytest.mark.spec("S6")
@pytest.mark.parametrize("stage", Stage, ids=str)
def test_a_payment_is_stuck_from_its_first_unknown_hour(stage: Stage) -> None:
    unknown = stage in (Stage.SUBMITTING, Stage.AWAITING_RESULT)
    before = a_transaction(stage, submitted_at=START + HOUR)
    assert is_stuck(before, now=later(START, Span(2 * HOUR))) is unknown
    assert not is_stuck(before, now=earlier(later(START, Span(2 * HOUR)), Span(1)))


@pytest.mark.spec("S6")
def test_a_payment_of_an_older_version_counts_from_its_creation() -> None:
    before = a_transaction(Stage.SUBMITTING, submitted_at=None)
    assert is_stuck(before, now=later(START, HOUR))


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("succeeded", "reason", "told", "is_against"),
    [
        (True, SuspenseReason.WRONG_CURRENCY, FAILED, True),
        (False, SuspenseReason.WRONG_CURRENCY, SUCCESS, True),
        (True, SuspenseReason.WRONG_CURRENCY, SUCCESS, False),
        (False, SuspenseReason.LATE_RESULT, FAILED, False),
        (False, SuspenseReason.WRONG_PROVIDER, SUCCESS, False),
        (False, SuspenseReason.UNREADABLE, '{"result": "unmatched"}', False),
        (
            False,
            SuspenseReason.CONFLICTING_DEPOSIT,
            '{"result": "deposit", "confirmed": true}',
            True,
        ),
        (
            False,
            SuspenseReason.UNCONFIRMED_DEPOSIT,
            '{"result": "deposit", "confirmed": false}',
            False,
        ),
        (
            True,
            SuspenseReason.CONFLICTING_DEPOSIT,
            '{"result": "deposit", "confirmed": true}',
            False,
        ),
    ],
)
def test_what_the_provider_has_told_cannot_be_contradicted(
    succeeded: bool, reason: SuspenseReason, told: str, is_against: bool
) -> None:
    assert contradicts(succeeded, reason, told) is is_against
