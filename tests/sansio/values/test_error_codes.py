"""Which of the three endings of the payer's page each code leads to: a wrong one makes a payer pay
twice."""

from __future__ import annotations

import pytest

from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode, PayerStep

STEPS = {
    PayerStep.TRY_AGAIN: {
        ErrorCode.USER_TIMEOUT,
        ErrorCode.USER_CANCELLED,
        ErrorCode.USER_WRONG_PIN,
        ErrorCode.USER_BUSY,
        ErrorCode.PROVIDER_UNAVAILABLE,
    },
    PayerStep.TOP_UP: {ErrorCode.USER_INSUFFICIENT_FUNDS},
    PayerStep.CHANGE_NUMBER: {ErrorCode.USER_NOT_FOUND},
    PayerStep.ASK_PROVIDER: {
        ErrorCode.USER_ACCOUNT_BLOCKED,
        ErrorCode.USER_LIMIT_EXCEEDED,
        ErrorCode.TRANSACTION_DECLINED,
    },
    PayerStep.ASK_SHOP: {
        ErrorCode.AMOUNT_OUT_OF_RANGE,
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS,
        ErrorCode.MERCHANT_MISCONFIGURED,
        ErrorCode.PAYMENT_STOPPED,
    },
    PayerStep.WAIT: {
        ErrorCode.DUPLICATE_REQUEST,
        ErrorCode.TRANSACTION_EXPIRED,
        ErrorCode.PROVIDER_TIMEOUT,
    },
}


@pytest.mark.spec("E1", "W2")
@pytest.mark.parametrize("step", PayerStep)
def test_each_code_says_what_the_payer_does_next(step: PayerStep) -> None:
    assert {code for code, each in EXPLANATIONS.items() if each.payer_step is step} == STEPS[step]


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", sorted(STEPS[PayerStep.WAIT]))
def test_a_code_that_proves_nothing_claims_nothing(code: ErrorCode) -> None:
    words = f"{EXPLANATIONS[code].meaning} {EXPLANATIONS[code].for_payer}".lower()
    assert "no money" not in words
    assert "not paid" not in words
    assert "not completed" not in words
