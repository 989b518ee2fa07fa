"""Each operator's books are the gateway's successes and its suspense book, to the unit, in worlds
where all that can be done with it is played, whatever is lost, late, told twice, forged, refused,
contradicted or killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from attrs import frozen

from mmo_sansio.providers.common.interface import PaymentReports
from mmo_sansio.providers.mpesa_daraja import notifications as daraja_notifications
from mmo_sansio.values.error_codes import ErrorCode
from tests.simulation.play import Variant, play, play_all
from tests.simulation.world.operator_kinds import (
    AIRTEL,
    MPESA,
    MTN,
    PAWAPAY,
    PAWAPAY_CODE,
    PAWAPAY_PAGE,
    WAVE,
)
from tests.simulation.world.plan import FaultKind
from tests.support.effort import by_effort

pytestmark = pytest.mark.long

ALL = (MTN, AIRTEL, MPESA, PAWAPAY, PAWAPAY_PAGE, PAWAPAY_CODE, WAVE)
PLAYED = by_effort((MPESA, PAWAPAY_PAGE), ALL)
WORLDS = by_effort(2, 12)
PAYMENTS = by_effort(8, 40)
REVERSALS = by_effort(8, 40)
HAPPENS = ("forged result", "repeated notification", "payment_ends at once")
"""What has to have happened in some world, so that the worlds prove something."""
HAPPENS_THERE = {
    MPESA: ("code_shown", "paid_unasked"),
    PAWAPAY_PAGE: ("payer_comes_back", "payer_says approve"),
    PAWAPAY_CODE: ("code_given",),
    WAVE: ("payer_comes_back", "payer_says approve", "payer_says decline"),
}


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.spec("S2", "S3", "S4", "S5", "S6")
def test_an_operators_books_are_the_gateways_to_the_unit(name: str) -> None:
    happened, failed = Counter[str](), list[str]()
    variants = (Variant(seed, PAYMENTS, operators=(name,)) for seed in range(2, 2 + WORLDS))
    for played in play_all(variants, processes=1):
        happened += played.counts
        failed += [played.report()] if played.violations else []
    assert failed == []
    expected = (*HAPPENS, *HAPPENS_THERE.get(name, ()))
    assert [each for each in expected if not happened[each]] == []


@pytest.mark.parametrize("name", by_effort((PAWAPAY_PAGE,), ALL))
@pytest.mark.spec("S5", "S6")
def test_what_went_back_is_what_the_reversals_say_to_the_unit(name: str) -> None:
    played = play(Variant(2, PAYMENTS, operators=(name,), reversals=REVERSALS))
    assert played.violations == ()
    assert played.counts["asked_back"]


# Judges that can't see what is wrong prove nothing.


def fails_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PaymentReports, "unreachable", lambda self, _: self.failed(ErrorCode.PROVIDER_TIMEOUT)
    )


def trusts_confirmations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daraja_notifications, "_judged_deposit", lambda account, deposit: deposit)


@frozen
class Finding:
    """Is a world in which a judge is known to find a bug."""

    name: str
    seed: int
    judge: str
    payments: int = 8
    only: tuple[FaultKind, ...] = ()
    """The kinds of faults that meet each payment; empty: those that the seed decides."""


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("plant", "finding"),
    [
        (
            fails_what_it_does_not_know,
            Finding(
                MTN, 2, "what_is_told_as_failed_was_not_paid", 12, (FaultKind.OPERATOR_GARBLES,)
            ),
        ),
        (trusts_confirmations, Finding(MPESA, 4, "what_is_paid_unasked_is_in_the_books", 12)),
    ],
)
def test_a_judge_sees_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    finding: Finding,
) -> None:
    plant(monkeypatch)
    variant = Variant(finding.seed, finding.payments, operators=(finding.name,), only=finding.only)
    judges = {each.partition(":")[0] for each in play(variant).violations}
    assert finding.judge in judges
