"""Drives :mod:`mmo_sansio.merchant` over HTTP and SQL: clients, inboxes and the gap closer for merchants' programs.

It needs `mmo-gateway[merchant]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmo_trio.merchant.async_client import AsyncMerchantClient
    from mmo_trio.merchant.blocking_client import MerchantClient
    from mmo_trio.merchant.gap_closer import GapCloser
    from mmo_trio.merchant.sql_inbox import PostgresInbox, SqliteInbox

__all__ = ["AsyncMerchantClient", "GapCloser", "MerchantClient", "PostgresInbox", "SqliteInbox"]

_MODULES = {
    "AsyncMerchantClient": "async_client",
    "GapCloser": "gap_closer",
    "MerchantClient": "blocking_client",
    "PostgresInbox": "sql_inbox",
    "SqliteInbox": "sql_inbox",
}


def __getattr__(name: str) -> object:
    """Import an export at its first use, so that each needs only its own packages."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
