"""Reads and checks the settings: `mmo.toml`, the environment and the command line."""

from mmo_sansio.values.fields import SettingsError
from mmo_trio.settings.describe import effective_settings
from mmo_trio.settings.load import load_settings
from mmo_trio.settings.sections import ConsoleSection, LimitsSection, Settings
from mmo_trio.settings.values import ListenAddress, format_span, to_seconds

__all__ = [
    "ConsoleSection",
    "LimitsSection",
    "ListenAddress",
    "Settings",
    "SettingsError",
    "effective_settings",
    "format_span",
    "load_settings",
    "to_seconds",
]
