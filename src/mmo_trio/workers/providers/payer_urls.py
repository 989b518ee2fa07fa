"""Keeps payers from addresses that an operator's report names and its account does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import structlog
from attrs import evolve

from mmo_sansio.messages.inputs import ProviderAccepted
from mmo_sansio.providers.common.interface import Provider, is_simulated
from mmo_sansio.providers.common.payer_urls import refused_payer_url

logger = structlog.get_logger(__name__)

T = TypeVar("T")


def without_refused_url(report: T, provider: Provider) -> T:
    """Return the report of a provider, without an address to which no payer is sent: the payment
    waits then, and staff read why in the log."""
    refused = refused_payer_url(report, provider)
    if refused is None or not isinstance(report, ProviderAccepted):
        return report

    mark: Mapping[str, bool] = {}
    if is_simulated(provider):
        mark = {"simulated": True}

    logger.error(
        "payer_url_refused",
        provider=provider.name,
        reference=report.gateway_reference,
        reason=refused,
        **mark,
    )
    return evolve(report, payer_action=None)
