"""Defines the behaviour of each of Daraja's operations, as data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    DIRECT_TAXPAYOUT,
    PUSH,
    QR_PAYIN,
    WEB_PAYIN,
    OperationKey,
    ProviderOperation,
)
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Span

_PROMPT: Final = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=None,
    poll_intervals=tuple(Span(n * SECOND) for n in (15, 20, 30, 60, 120, 300, 900, 3600)),
)
"""A prompt is open for about a minute, and the query's rate is limited. A push whose response was lost has no id to
poll by until its callback has named it, so "not found" never proves that the push was not received."""

_CONFIRMATION_ONLY: Final = ProviderOperation(
    is_idempotent=False, can_be_polled=False, not_found_is_final_after=None, poll_intervals=(HOUR,)
)
"""The payer pays without a request of ours: only the confirmation reports it."""

REFUSAL_FINAL_AFTER: Final = Span(2 * MINUTE)
"""How long after the beginning of a submission its refusal ends it, when the question about it is refused or finds
nothing: earlier the question could miss the transaction."""

OPERATIONS: Mapping[OperationKey, ProviderOperation] = MappingProxyType(
    {
        DIRECT_PAYIN: _PROMPT,
        WEB_PAYIN: _PROMPT,
        DIRECT_PAYOUT: ProviderOperation(
            is_idempotent=True,
            can_be_polled=True,
            not_found_is_final_after=HOUR,
            poll_intervals=tuple(Span(n * SECOND) for n in (30, 60, 120, 300, 900, 3600)),
        ),
        DIRECT_TAXPAYOUT: ProviderOperation(
            is_idempotent=False,
            can_be_polled=True,
            not_found_is_final_after=None,
            poll_intervals=(MINUTE, Span(2 * MINUTE), Span(5 * MINUTE), Span(15 * MINUTE), HOUR),
        ),
        QR_PAYIN: _CONFIRMATION_ONLY,
        PUSH: _CONFIRMATION_ONLY,
    }
)
"""A pay-out carries our own id, and Daraja rejects a repeated id; a tax payout has only Daraja's id, so one whose
response was lost is polled only when its callback has named it."""
