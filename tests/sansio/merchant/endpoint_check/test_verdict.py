"""A verdict follows from the answers alone."""

from __future__ import annotations

import pytest

from mmo_merchant.endpoint_check.situations import SITUATIONS
from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_merchant.endpoint_check.situations.verdict import EndpointAnswer, VerdictKind, judge
from mmo_sansio.testing import START, UNUSED_REFERENCE


@pytest.mark.spec("Q1")
@pytest.mark.parametrize(
    ("of_code", "of_result", "kind"),
    [
        (400, 204, VerdictKind.PASSED),
        (204, 204, VerdictKind.PASSED),
        (400, 400, VerdictKind.FAILED),
    ],
)
def test_a_shop_whose_codes_have_an_endpoint_of_their_own_may_refuse_them_where_results_come(
    of_code: int, of_result: int, kind: VerdictKind
) -> None:
    (situation,) = (each for each in SITUATIONS if each.name == "result-after-qr-code")
    script = situation.write(PlayedPayments(UNUSED_REFERENCE[:18], 0, START))
    answers = [[EndpointAnswer(of_code, 0.1)], [EndpointAnswer(of_result, 0.1)]]
    assert judge(situation, script, answers, handled=None).kind is kind
