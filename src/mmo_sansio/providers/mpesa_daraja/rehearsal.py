"""The steps by which an account with M-Pesa is rehearsed, with the test number of Daraja's
sandbox. A prompt there reaches a real telephone, and takes no money."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from mmo_sansio.providers.common.interface import (
    AccountCheck,
    AccountFinding,
    AccountState,
    Provider,
)
from mmo_sansio.providers.common.rehearsal import (
    AskAccount,
    AskUnknown,
    MakePayment,
    Rehearsal,
    RehearsalStep,
    account_step,
    steps_after,
)
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider, RegistrationFailed
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import Money

# Documented, in the portal's samples (Customer To Business).
TEST_NUMBER: Final = "+254708374149"
# Documented: prompts from 1 shilling, pay-outs from 10 (M-Pesa Express, Business To Customer).
LEAST_PAYIN: Final = Money(1_00, "KES")
LEAST_PAYOUT: Final = Money(10_00, "KES")

# Less than M-Pesa pays out.
TOO_LITTLE: Final = Money(1_00, "KES")

UNKNOWN_PROMPT: Final = "ws_CO_000000000000000000000000"

_PAGE: Final = "providers/mpesa_daraja.md"
_RESULTS: Final = f"{_PAGE}#what-to-expect"


def mpesa_steps(provider: Provider, number: str | None) -> Sequence[RehearsalStep]:
    """Return the steps of an account with M-Pesa, for what it has credentials for."""
    assert isinstance(provider, DarajaProvider)
    return tuple(_steps(provider, number or TEST_NUMBER))


def _steps(provider: DarajaProvider, number: str) -> Iterator[RehearsalStep]:
    prompt = MakePayment(
        name="prompt",
        does="Prompt a payer who enters the PIN.",
        promises="It ends as success, by M-Pesa's answer to a question.",
        page=_RESULTS,
        operation=Operation.DIRECT_PAYIN,
        country="KE",
        amount=LEAST_PAYIN,
        msisdn=number,
    )
    money_back = None
    if provider.reversal_operations:
        money_back = f"{_PAGE}#money-back"

    yield account_step(provider)
    yield AskAccount(
        name="registration",
        does="Register the address for notifications of deposits.",
        promises="M-Pesa accepts it, by one version of the product C2B.",
        page=f"{_PAGE}#the-api-operator",
        begin=partial(_register, provider),
    )
    yield prompt
    yield from steps_after(prompt, _RESULTS, money_back=money_back)
    yield MakePayment(
        name="payout",
        does="Pay a customer.",
        promises="It ends as success, by a result that is asked about.",
        page=_RESULTS,
        operation=Operation.DIRECT_PAYOUT,
        country="KE",
        amount=LEAST_PAYOUT,
        msisdn=number,
    )
    # A refusal that costs nobody anything: the amount is below the least.
    yield MakePayment(
        name="refusal",
        does="Pay a customer less than M-Pesa pays out.",
        promises="It fails with amount_out_of_range.",
        page="internals/mpesa_daraja.md#results",
        operation=Operation.DIRECT_PAYOUT,
        country="KE",
        amount=TOO_LITTLE,
        msisdn=number,
        refused_as=(ErrorCode.AMOUNT_OUT_OF_RANGE,),
    )
    yield AskUnknown(
        name="unknown_id",
        does="Ask about a prompt that was never sent.",
        promises="The answer decides nothing: it neither pays nor fails the prompt.",
        page="internals/mpesa_daraja.md#flows",
        of=prompt.name,
        known_as=UNKNOWN_PROMPT,
        is_final=False,
    )


def _register(provider: DarajaProvider, now: Moment) -> AccountCheck:
    try:
        # Of a rehearsal a refusal is a finding, and no reason to stop.
        return ((yield from provider.register_urls()),)
    except RegistrationFailed as refusal:
        words = str(refusal)
        return (AccountFinding(provider.name, "deposits", AccountState.REFUSED, "", words),)


MPESA_REHEARSAL: Final = Rehearsal(
    sandbox_hosts=("sandbox.safaricom.co.ke",), steps=mpesa_steps, told_options=("results",)
)
