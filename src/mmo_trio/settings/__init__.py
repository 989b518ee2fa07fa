"""The settings of the gateway: `mmo.toml`, the environment and the command line, checked before anything starts."""

from mmo_trio.settings.describe import (
    EffectiveRow,
    SettingRow,
    as_page,
    describe_settings,
    effective,
)
from mmo_trio.settings.errors import SettingsError, near_match
from mmo_trio.settings.load import load_settings
from mmo_trio.settings.sections import (
    BreakerSection,
    ConsoleSection,
    DatabaseSection,
    EgressSection,
    GatewaySection,
    KeysSection,
    LimitsSection,
    ListenSection,
    ProviderSection,
    Settings,
)
from mmo_trio.settings.values import Endpoint, read_span, seconds, write_span

__all__ = [
    "BreakerSection",
    "ConsoleSection",
    "DatabaseSection",
    "EffectiveRow",
    "EgressSection",
    "Endpoint",
    "GatewaySection",
    "KeysSection",
    "LimitsSection",
    "ListenSection",
    "ProviderSection",
    "SettingRow",
    "Settings",
    "SettingsError",
    "as_page",
    "describe_settings",
    "effective",
    "load_settings",
    "near_match",
    "read_span",
    "seconds",
    "write_span",
]
