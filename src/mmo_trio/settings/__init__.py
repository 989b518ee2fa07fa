"""Reads and checks the settings: `mmo.toml`, the environment and the command line."""

from mmo_trio.settings.describe import effective_settings
from mmo_trio.settings.load import load_settings
from mmo_trio.settings.sections import ConsoleSection, LimitsSection, Settings
from mmo_trio.settings.values import (
    ListenAddress,
    SettingsError,
    format_span,
    parse_span,
    to_seconds,
)

__all__ = [
    "ConsoleSection",
    "LimitsSection",
    "ListenAddress",
    "Settings",
    "SettingsError",
    "effective_settings",
    "format_span",
    "load_settings",
    "parse_span",
    "to_seconds",
]
