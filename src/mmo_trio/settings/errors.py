"""Errors in settings, which stop the start with a message that helps."""

from __future__ import annotations


class SettingsError(Exception):
    """Reports an unusable key or value; the message names the place, the fault and the remedy."""

    def __init__(self, location: str, fault: str, remedy: str) -> None:
        super().__init__(f"{location}: {fault} {remedy}".rstrip())
        self.location = location
        """The key or variable, and its file."""
        self.fault = fault
        self.remedy = remedy


class InvalidSettingValue(ValueError):
    """Reports an unacceptable value; the message says what is acceptable."""
