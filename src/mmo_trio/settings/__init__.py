"""Reads and checks the settings: `mmo.toml`, the environment and the command line."""

from mmo_trio.settings.describe import (
    EffectiveRow,
    SettingRow,
    describe_settings,
    effective_settings,
    settings_page,
)
from mmo_trio.settings.errors import SettingsError, near_match
from mmo_trio.settings.load import load_settings
from mmo_trio.settings.providers import ProviderSection
from mmo_trio.settings.sections import (
    BreakerSection,
    ConsoleSection,
    DatabaseSection,
    EgressSection,
    GatewaySection,
    KeysSection,
    LimitsSection,
    ListenSection,
    Settings,
)
from mmo_trio.settings.values import ListenAddress, format_span, parse_span, to_seconds

__all__ = [
    "BreakerSection",
    "ConsoleSection",
    "DatabaseSection",
    "EffectiveRow",
    "EgressSection",
    "GatewaySection",
    "KeysSection",
    "LimitsSection",
    "ListenAddress",
    "ListenSection",
    "ProviderSection",
    "SettingRow",
    "Settings",
    "SettingsError",
    "describe_settings",
    "effective_settings",
    "format_span",
    "load_settings",
    "near_match",
    "parse_span",
    "settings_page",
    "to_seconds",
]
