"""The steps by which an account with MTN MoMo is rehearsed, with the test numbers of MTN's
sandbox (momodeveloper.mtn.com/api-documentation/testing)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.common.rehearsal import (
    AskUnknown,
    MakePayment,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
    account_step,
    steps_after,
)
from mmo_sansio.providers.mtn_momo.account import MARKETS, SANDBOX_MARKET
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import to_money

# Any number that the sandbox's list does not name pays, and is paid.
PAYS: Final = "+46733123999"

# Declines: documented, and observed in September 2026.
DECLINES: Final = "+46733123451"

# The country of each target environment. The sandbox has none: it takes Swedish numbers.
COUNTRIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        SANDBOX_MARKET: "UG",
        "mtnbenin": "BJ",
        "mtncameroon": "CM",
        "mtnci": "CI",
        "mtncongo": "CG",
        "mtnghana": "GH",
        "mtnguineaconakry": "GN",
        "mtnivorycoast": "CI",
        "mtnliberia": "LR",
        "mtnnigeria": "NG",
        "mtnrwanda": "RW",
        "mtnsouthafrica": "ZA",
        "mtnsouthsudan": "SS",
        "mtnswaziland": "SZ",
        "mtnuganda": "UG",
        "mtnzambia": "ZM",
    }
)

_PAGE: Final = "providers/mtn_momo.md"
_RESULTS: Final = f"{_PAGE}#what-to-expect"
_MONEY_BACK: Final = f"{_PAGE}#money-back"
_CODES: Final = "internals/mtn_momo.md#codes"


def mtn_steps(provider: Provider, number: str | None) -> Sequence[RehearsalStep]:
    """Return the steps of an account with MTN MoMo, for the products that it has."""
    assert isinstance(provider, MtnMomoProvider)
    market = provider.account.market
    if market not in COUNTRIES:
        raise RehearsalImpossible(f"{market} is no market whose currency is known.")
    if number is None and market != SANDBOX_MARKET:
        raise RehearsalImpossible("Give --number: only MTN's sandbox has test numbers.")
    return tuple(_steps(provider, number or PAYS, has_test_numbers=market == SANDBOX_MARKET))


def _steps(
    provider: MtnMomoProvider, number: str, *, has_test_numbers: bool
) -> Iterator[RehearsalStep]:
    market = provider.account.market
    # A small sum: one euro in the sandbox, some hundred units of a market's currency.
    units = 500
    if market == SANDBOX_MARKET:
        units = 1

    amount = to_money(Decimal(units), MARKETS[market])
    prompt = MakePayment(
        name="prompt",
        does="Ask a payer who approves for a payment.",
        promises="It ends as success, told by a poll.",
        page=_RESULTS,
        operation=Operation.DIRECT_PAYIN,
        country=COUNTRIES[market],
        amount=amount,
        msisdn=number,
    )
    yield account_step(provider)
    yield prompt
    yield from steps_after(prompt, _RESULTS, money_back=_MONEY_BACK)

    # Only the sandbox has a number that certainly declines.
    if has_test_numbers:
        yield MakePayment(
            name="refusal",
            does="Ask a payer who declines for a payment.",
            promises="It fails with user_cancelled.",
            page=_CODES,
            operation=Operation.DIRECT_PAYIN,
            country=COUNTRIES[market],
            amount=amount,
            msisdn=DECLINES,
            refused_as=(ErrorCode.USER_CANCELLED,),
        )

    yield MakePayment(
        name="payout",
        does="Pay somebody who has a wallet.",
        promises="It ends as success, told by a poll.",
        page=_RESULTS,
        operation=Operation.DIRECT_PAYOUT,
        country=COUNTRIES[market],
        amount=amount,
        msisdn=number,
    )
    yield AskUnknown(
        name="unknown_id",
        does="Ask about a payment that was never sent.",
        promises="RESOURCE_NOT_FOUND: MTN says that it does not have it.",
        page="internals/mtn_momo.md#flows",
        of=prompt.name,
    )


MTN_REHEARSAL: Final = Rehearsal(
    sandbox_hosts=("sandbox.momodeveloper.mtn.com",), steps=mtn_steps, told_options=("market",)
)
