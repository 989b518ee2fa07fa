"""The Trio shell around :mod:`mmo_sansio`, which waits, retries, times out and cleans up.

It never decides about money: that is for the core. `run_service` serves a gateway until it is
cancelled; `load_settings` reads its settings, and `ServiceConfig` holds what they come to."""

# The rooms, from the bottom up. A room imports only from rooms in lines above its own:
#
#   system       clocks, ids, ciphers, logs, latency, faults
#   storage      the store's interface, and the stores on SQLite and PostgreSQL
#   settings     every setting
#   engine       decides and commits in batches; http: server, client and ASGI over one contract
#   brands       brands and API keys; admin: explanation, resolution, audit events
#   workers      dispatcher, scheduler, delivery, conversations with providers
#   api          the merchant API and webhooks; metrics: Prometheus
#   sandbox      the simulated operator, its clock, a callback receiver
#   pages        the payer's page and the documentation; console: the pages of staff
#   service      composition, sockets, process, supervisor
#   cli          one module for each command

from importlib import import_module

TYPE_CHECKING = (
    False  # Type checkers take it for True; `typing` would take longer to load than all else here.
)
if TYPE_CHECKING:
    from mmo_trio.service.process import run_service
    from mmo_trio.settings import SettingsError
    from mmo_trio.settings.load import load_settings
    from mmo_trio.settings.sections import Settings
    from mmo_trio.settings.service import ServiceConfig
    from mmo_trio.storage.open_store import open_store
    from mmo_trio.storage.sql.store import Store

__all__ = [
    "ServiceConfig",
    "Settings",
    "SettingsError",
    "Store",
    "load_settings",
    "open_store",
    "run_service",
]

_MODULES = {
    "ServiceConfig": "settings.service",
    "Settings": "settings.sections",
    "SettingsError": "settings",
    "Store": "storage.sql.store",
    "load_settings": "settings.load",
    "open_store": "storage.open_store",
    "run_service": "service.process",
}


def __getattr__(name: str) -> object:
    """Import an export at its first use: a command loads only the modules that it needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
