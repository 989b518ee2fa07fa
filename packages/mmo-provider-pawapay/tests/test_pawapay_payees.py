"""Of which operator a number probably is, as pawaPay predicts it: `answers.txt` has its answers."""

from __future__ import annotations

import json

from pawapay_samples import an_account

from mmo_sansio.testing import START
from mmo_sansio.values.clock import Moment


def test_the_number_is_sent_alone() -> None:
    request = next(an_account().ask_payee("+260763456789", "", now=Moment.at(START)))
    assert request.method == "POST"
    assert request.target.endswith(b"/v2/predict-provider")
    assert json.loads(request.body) == {"phoneNumber": "260763456789"}
    assert request.value(b"authorization")
