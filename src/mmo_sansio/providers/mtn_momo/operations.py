"""Defines MTN MoMo's operations: pay-ins and pay-outs, idempotent by their X-Reference-Id, which can be polled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    OperationKey,
    ProviderOperation,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Span

POLL_INTERVALS: Final[Sequence[Span]] = (
    Span(10 * SECOND),
    Span(10 * SECOND),
    Span(20 * SECOND),
    *(Span(30 * SECOND) for _ in range(11)),
    Span(5 * MINUTE),
    Span(15 * MINUTE),
    HOUR,
)
"""The polls are frequent while the payer may approve, five minutes and a little longer; then rare."""

NOT_FOUND_IS_FINAL_AFTER: Final[Span] = MINUTE
"""A submission may be accepted before it can be found. This is longer than any request may take."""

NOT_FOUND_FAILS_AFTER: Final[Span] = DAY
"""For how long the operator must have known nothing of a payment that it had accepted, until the payment fails. Its
page on common errors says of this answer that the debit or transfer is unsuccessful."""

_OPERATION = ProviderOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=NOT_FOUND_IS_FINAL_AFTER,
    poll_intervals=POLL_INTERVALS,
)

PAYINS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType(
    dict.fromkeys((DIRECT_PAYIN, WEB_PAYIN), _OPERATION)
)
"""The operations of Collection; a web pay-in is a direct one that began on the gateway's own page."""

PAYOUTS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType({DIRECT_PAYOUT: _OPERATION})
"""The operations of Disbursement."""
