"""A kind of provider that is added to the table is served like a built-in one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from mmo_sansio.messages.inputs import ProviderSucceeded
from mmo_sansio.providers.common.interface import Conversation, Provider
from mmo_sansio.providers.registry import AdapterContext, ProviderKind
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.fields import REQUIRED, TEXT, Field
from mmo_sansio.values.model import Source, Transaction
from tests.support.merchants import a_brand
from tests.support.operator_gateway import API_KEY, METHOD
from tests.support.sandbox_gateway import serving


@frozen
class InstantProvider(SandboxProvider):
    """A provider that moves the money at once."""

    receipt: str = ""

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Succeed without a request."""
        final = transaction.order.requested
        return ProviderSucceeded(transaction.reference, self.name, Source.POLL, self.receipt, final)
        yield


def open_instant(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    """Open an account whose payments get this receipt."""
    return InstantProvider(name, title, receipt=options["receipt"])


INSTANT = ProviderKind("Instant Money", open_instant, [Field("receipt", TEXT, REQUIRED, "")])


async def test_one_line_in_the_table_makes_a_kind_of_provider(tmp_path: Path) -> None:
    brands = a_brand("acme", API_KEY, method=METHOD, provider="fast")
    environment = {"MMO_PROVIDER__FAST__KIND": "instant", "MMO_PROVIDER__FAST__RECEIPT": "R-1"}
    async with serving(
        tmp_path,
        environment=environment,
        brands=brands,
        api_key=API_KEY,
        provider_kinds={"instant": INSTANT},
    ) as running:
        running.merchant.method = METHOD
        made = await running.merchant.accepted("direct/payin")
        found = await running.merchant.ended(made["gatewayReference"])
        assert (found["status"], found["providerReference"]) == ("success", "R-1")
        assert found["providerData"]["title"] == "Instant Money"
