"""Drives :mod:`mmo_sansio.merchant` over HTTP: clients for merchants' programs. It needs `mmo-gateway[merchant]`."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmo_trio.merchant.async_client import AsyncMerchantClient
    from mmo_trio.merchant.blocking_client import MerchantClient

__all__ = ["AsyncMerchantClient", "MerchantClient"]

_MODULES = {"AsyncMerchantClient": "async_client", "MerchantClient": "blocking_client"}


def __getattr__(name: str) -> object:
    """Import an export at its first use, so that each needs only its own packages."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
