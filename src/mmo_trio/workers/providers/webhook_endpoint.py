"""Where one provider account's notifications come in."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from mmo_sansio.providers.common.interface import Provider
from mmo_trio.settings.values import Network


@frozen
class WebhookEndpoint:
    """Where one account's notifications come in."""

    provider: Provider
    token: str = field(repr=False)
    allowed_networks: Sequence[Network] = ()
    """From where they may come; empty: from anywhere."""
