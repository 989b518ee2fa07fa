"""The steps by which an account with Airtel Money is rehearsed. Airtel publishes no test numbers: a
person takes part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from mmo_sansio.providers.airtel_money.adapter import AirtelMoneyProvider
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.common.operations import DIRECT_PAYIN
from mmo_sansio.providers.common.rehearsal import (
    AskUnknown,
    MakePayment,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
    account_step,
    steps_after,
)
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import to_money

_PAGE: Final = "providers/airtel_money.md"
_RESULTS: Final = f"{_PAGE}#what-to-expect"

# A national number that looks like one, and that nobody has.
_NO_WALLET: Final = "700000000"


def airtel_steps(provider: Provider, number: str | None) -> Sequence[RehearsalStep]:
    """Return the steps of an account with Airtel Money."""
    assert isinstance(provider, AirtelMoneyProvider)
    if number is None:
        raise RehearsalImpossible("Give --number: Airtel publishes no test numbers.")
    return tuple(_steps(provider, number))


def _steps(provider: AirtelMoneyProvider, number: str) -> Iterator[RehearsalStep]:
    account = provider.account
    amount = to_money(Decimal(1000), account.currency)
    prompt = MakePayment(
        name="prompt",
        does="Prompt the payer, who enters the PIN.",
        promises="It ends as success, told by a poll.",
        page=_RESULTS,
        operation=Operation.DIRECT_PAYIN,
        country=account.country,
        amount=amount,
        msisdn=number,
    )
    money_back = None
    if DIRECT_PAYIN in provider.reversal_operations:
        money_back = f"{_PAGE}#money-back"

    yield account_step(provider)
    yield prompt
    yield from steps_after(prompt, _RESULTS, money_back=money_back)
    yield MakePayment(
        name="payout",
        does="Pay the same person.",
        promises="It ends as success, by Airtel's answer or a poll.",
        page=_RESULTS,
        operation=Operation.DIRECT_PAYOUT,
        country=account.country,
        amount=amount,
        msisdn=number,
    )
    # A refusal that costs nobody anything.
    yield MakePayment(
        name="refusal",
        does="Pay a number without a wallet.",
        promises="It fails with user_not_found.",
        page="internals/airtel_money.md#pay-outs",
        operation=Operation.DIRECT_PAYOUT,
        country=account.country,
        amount=amount,
        msisdn=f"+{account.dialling_code}{_NO_WALLET}",
        refused_as=(ErrorCode.USER_NOT_FOUND,),
    )
    yield AskUnknown(
        name="unknown_id",
        does="Ask about a payment that was never sent.",
        promises="ESB000045: Airtel says that it does not have it.",
        page=_RESULTS,
        of=prompt.name,
    )


AIRTEL_REHEARSAL: Final = Rehearsal(
    sandbox_hosts=("openapiuat.airtel.",),
    steps=airtel_steps,
    told_options=(
        "collection_version",
        "country",
        "currency",
        "disbursement_version",
        "refusal_is_of_payer",
    ),
)
