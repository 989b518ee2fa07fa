"""Reads the options of a `[provider.NAME]`: each key once, with a sentence for each unusable value.

A value is what a TOML file holds, or the text of an environment variable; no message contains a
secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from attrs import Factory, define, field

# Credentials go to this address. No user, query or fragment: paths are appended to it.
_HTTPS = re.compile(r"https://[^\s/?#@]+(/[^\s?#]*)?", re.ASCII)
# A simulator on this machine has no certificate; nothing leaves the machine to it.
_LOCAL_HTTP = re.compile(r"http://(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?(/[^\s?#]*)?", re.ASCII)


class OptionError(Exception):
    """Raised for an option that is unknown, missing or unusable."""

    def __init__(self, key: str, problem: str, remedy: str) -> None:
        super().__init__(f"{key} {problem} {remedy}")
        self.key = key

        # What is wrong, without the value.
        self.problem = problem
        self.remedy = remedy


class SettingError(OptionError):
    """Raised for a setting of the gateway itself with which an account can't work; `key` is its
    name, such as `gateway.hpp_url`."""


def check_option_names(options: Iterable[str], known: Iterable[str]) -> None:
    """Raise OptionError for an option that is not among the known ones."""
    names = sorted(set(known))
    for key in options:
        if key not in names:
            remedy = f"Known are: {', '.join(names) or 'none'}."
            raise OptionError(key, "is no option of this kind of provider.", remedy)


@define
class Options:
    """Reads the options of one account one by one; `check_unknown` rejects the unread ones."""

    # No repr: among them are secrets.
    values: Mapping[str, Any] = field(repr=False)
    # What was asked for so far, set or not: together all that this kind of account knows.
    _known_keys: list[str] = Factory(list)

    def text(self, key: str, default: str | None = None) -> str:
        """Return text that is not empty. Raises OptionError."""
        value = self._value(key, default)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)  # A shortcode, say, that was written without quotes.
        if not isinstance(value, str) or not value.strip():
            raise OptionError(key, "must be text.", f'Write {key} = "…".')
        return value.strip()

    def optional_text(self, key: str) -> str | None:
        """Return text, or None where it is left out. Raises OptionError."""
        self._known_keys.append(key)
        if key not in self.values:
            return None
        return self.text(key)

    def optional_date(self, key: str) -> date | None:
        """Return a day, or None where it is left out. Raises OptionError."""
        # A key that is left out is known all the same: its date may be set later.
        self._known_keys.append(key)
        if key not in self.values:
            return None

        try:
            # TOML has dates of its own; an environment variable has the text of one.
            return date.fromisoformat(str(self.values[key]))
        except ValueError:
            raise OptionError(key, "is no date.", f'Write {key} = "2026-11-30", say.') from None

    def url(self, key: str, default: str | None = None) -> str:
        """Return an https address (http on this machine only), without a slash at its end. Raises
        OptionError."""
        # Without the slash, as callers append paths that begin with one.
        value = self.text(key, default).rstrip("/")
        if not (_HTTPS.fullmatch(value) or _LOCAL_HTTP.fullmatch(value)):
            raise OptionError(key, "must be an https address.", f'Write {key} = "https://…".')
        return value

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return one of these words. Raises OptionError."""
        value = self.text(key, default)
        if value not in choices:
            raise OptionError(key, f"is none of {', '.join(choices)}.", "Choose one of them.")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number, at least 0. Raises OptionError."""
        default_text = None
        if default is not None:
            default_text = str(default)

        text = self.text(key, default_text)
        # `isdigit` alone takes digits of other scripts, and superscripts, which int() refuses.
        if not (text.isascii() and text.isdigit()):
            raise OptionError(key, "must be a whole number.", f"Write {key} = 1, say.")
        return int(text)

    def boolean(self, key: str, default: bool) -> bool:
        """Return true or false. Raises OptionError."""
        # TOML's true is Python's True; an environment variable holds the word.
        value = self._value(key, default)
        word = str(value).strip().lower()
        if word not in ("true", "false"):
            raise OptionError(key, "must be true or false.", f"Write {key} = true.")
        return word == "true"

    def check_unknown(self) -> None:
        """Raise OptionError for an option that was not read."""
        check_option_names(self.values, self._known_keys)

    def _value(self, key: str, default: Any) -> Any:
        self._known_keys.append(key)
        value = self.values.get(key, default)
        if value is None:
            raise OptionError(key, "is missing.", f"Set {key}.")
        return value
