"""The steps by which an account with pawaPay is rehearsed, with the test numbers of its sandbox
(docs.pawapay.io/v2/docs/test_numbers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from mmo_provider_pawapay.account import SANDBOX_URL
from mmo_provider_pawapay.adapter import PawapayProvider
from mmo_sansio import ErrorCode
from mmo_sansio.providers import (
    AskUnknown,
    MakePayment,
    Operation,
    Provider,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
    account_step,
    steps_after,
    to_money,
)

# How the numbers end that pay, and are paid.
_PAYS: Final = "789"

# The error of a deposit from a number that ends so (documented, as the numbers are).
_REFUSALS: Final[Mapping[str, ErrorCode]] = MappingProxyType(
    {
        "019": ErrorCode.USER_LIMIT_EXCEEDED,
        "029": ErrorCode.USER_NOT_FOUND,
        "039": ErrorCode.USER_TIMEOUT,
        "069": ErrorCode.TRANSACTION_DECLINED,
    }
)


@frozen
class TestMarket:
    """A market whose test numbers are known."""

    country: str
    """ISO 3166-1 alpha-2."""
    currency: str
    least: int
    """The least amount of a payment, or a little more."""
    numbers: str
    """Its test numbers without their last three digits."""
    refused: str
    """How one of those ends whose deposits fail."""


MARKETS: Final[Mapping[str, TestMarket]] = MappingProxyType(
    {
        "MTN_MOMO_BEN": TestMarket("BJ", "XOF", 100, "+22951345", "029"),
        "MTN_MOMO_CMR": TestMarket("CM", "XAF", 100, "+237653456", "019"),
        "ORANGE_CMR": TestMarket("CM", "XAF", 100, "+237693456", "019"),
        "VODACOM_MPESA_COD": TestMarket("CD", "CDF", 100, "+243813456", "019"),
        "AIRTEL_COD": TestMarket("CD", "CDF", 100, "+243973456", "069"),
        "MPESA_KEN": TestMarket("KE", "KES", 10, "+254703456", "019"),
        "MTN_MOMO_RWA": TestMarket("RW", "RWF", 100, "+250783456", "019"),
        "AIRTEL_RWA": TestMarket("RW", "RWF", 100, "+250733456", "039"),
        "MTN_MOMO_UGA": TestMarket("UG", "UGX", 500, "+256783456", "019"),
        "AIRTEL_OAPI_UGA": TestMarket("UG", "UGX", 500, "+256753456", "019"),
        "MTN_MOMO_ZMB": TestMarket("ZM", "ZMW", 1, "+260763456", "019"),
        "AIRTEL_OAPI_ZMB": TestMarket("ZM", "ZMW", 1, "+260973456", "019"),
    }
)

_PAGE: Final = "providers/pawapay.md"
_FLOWS: Final = f"{_PAGE}#flows"


def pawapay_steps(provider: Provider, number: str | None) -> Sequence[RehearsalStep]:
    """Return the steps of an account with pawaPay, in a market whose test numbers are known."""
    assert isinstance(provider, PawapayProvider)
    market = MARKETS.get(provider.account.market)
    if market is None:
        known = ", ".join(MARKETS)
        raise RehearsalImpossible(
            f"Rehearse another market, as test numbers are known of: {known}."
        )
    return tuple(_steps(provider, market, number or f"{market.numbers}{_PAYS}"))


def _steps(provider: PawapayProvider, market: TestMarket, number: str) -> Iterator[RehearsalStep]:
    amount = to_money(Decimal(market.least), market.currency)
    deposit = MakePayment(
        name="deposit",
        does="Ask a payer who approves for a deposit.",
        promises="It ends as success, told by a poll.",
        page=_FLOWS,
        operation=Operation.DIRECT_PAYIN,
        country=market.country,
        amount=amount,
        msisdn=number,
    )
    refused_as = _REFUSALS[market.refused]
    yield account_step(provider)
    yield deposit
    yield from steps_after(deposit, _FLOWS, money_back=_FLOWS)
    # A refusal that costs nobody anything.
    yield MakePayment(
        name="refusal",
        does="Ask a payer for a deposit whose number stands for a refusal.",
        promises=f"It fails with {refused_as}.",
        page=f"{_PAGE}#failure-codes",
        operation=Operation.DIRECT_PAYIN,
        country=market.country,
        amount=amount,
        msisdn=f"{market.numbers}{market.refused}",
        refused_as=(refused_as,),
    )
    yield MakePayment(
        name="payout",
        does="Pay somebody who has a wallet.",
        promises="It ends as success, told by a poll.",
        page=_FLOWS,
        operation=Operation.DIRECT_PAYOUT,
        country=market.country,
        amount=amount,
        msisdn=number,
    )
    yield AskUnknown(
        name="unknown_id",
        does="Ask about a deposit that was never sent.",
        promises="NOT_FOUND: pawaPay says that it does not have it.",
        page=_FLOWS,
        of=deposit.name,
    )


PAWAPAY_REHEARSAL: Final = Rehearsal(
    sandbox_hosts=(urlsplit(SANDBOX_URL).hostname or "",),
    steps=pawapay_steps,
    told_options=("market",),
)
