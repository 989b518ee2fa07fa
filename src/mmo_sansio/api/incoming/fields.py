"""Reads the members of a request and collects every error, in the order of reading (P1, C9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

from attrs import define, field

from mmo_sansio.api.incoming.strict_json import JsonValue
from mmo_sansio.values.near_match import closest_name
from mmo_sansio.values.problems import FieldError, ProblemError, validation_problem

CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that no text of a request may have (G7)."""

_PLAUSIBLE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_NAMES_COMPARED: Final = 20
_SIMILAR: Final = 0.75
"""Share of characters that a misspelt member has in common with the right one; no two members have as many, except
payer and payee, of which one is sent for the other."""


@define
class FieldErrors:
    """Collects what is wrong with a request."""

    errors: list[FieldError] = field(factory=list)

    def add(self, name: str, problem: str) -> None:
        """Add a problem of the field with this dotted name, such as "must be a string"."""
        self.errors.append(FieldError(name, f"'{name}' {problem}."))

    def raise_if_any(self) -> None:
        """Raise ProblemError with all errors (P1), if there are any."""
        if self.errors:
            raise ProblemError(validation_problem(self.errors))


@define
class Members:
    """Reads the members of one object by name; unknown ones are ignored, null is absent, and so is an optional text
    that is empty, as forms send it (G4).

    The value of an invalid member is a stand-in, good for reading on until `FieldErrors.raise_if_any`."""

    values: Mapping[str, JsonValue]
    errors: FieldErrors
    path: str = ""
    """The prefix of a member's dotted path: empty, or `payer.`."""

    def add_error(self, name: str, problem: str) -> None:
        """Add a problem of this member."""
        self.errors.add(self.path + name, problem)

    def add_required_error(self, name: str) -> None:
        """Add that this member is missing, with the member that was probably sent instead."""
        sent = (each for each in self.values if _PLAUSIBLE_NAME.fullmatch(each))
        near = closest_name(name, islice(sent, _NAMES_COMPARED), cutoff=_SIMILAR)
        self.add_error(name, "is required" if near is None else f"is required, not '{near}'")

    def text(self, name: str, *, max_length: int, min_length: int = 1) -> str:
        """Return a required string of limited code points, not blank (G8); empty if it is invalid."""
        given = self.values.get(name)
        if isinstance(given, str) and min_length <= len(given) <= max_length and given.isprintable():
            if not given.isspace():
                return given  # Nearly every text ends here: what is printable has no control characters.
        elif given is None:
            self.add_required_error(name)
            return ""
        value = self._valid_text(name, max_length=max_length)
        if value is None:
            return ""
        if not value or value.isspace():
            self.add_error(name, "may not be blank")
            return ""
        if len(value) < min_length:
            self.add_error(name, f"must have at least {min_length} characters")
            return ""
        return value

    def optional_text(self, name: str, *, max_length: int) -> str | None:
        """Return a string of at most `max_length` code points (G8); None if it is absent or empty."""
        given = self.values.get(name)
        if given is None:
            return None
        if isinstance(given, str) and len(given) <= max_length and given.isprintable():
            return given or None
        return self._valid_text(name, max_length=max_length) or None

    def _valid_text(self, name: str, *, max_length: int) -> str | None:
        value = self.values[name]
        error = text_error(value, max_length=max_length)
        if error is None and isinstance(value, str):
            return value
        self.add_error(name, error or "must be a string")
        return None

    def object(self, name: str) -> Members | None:
        """Return the members of a required object, or None if it is invalid."""
        value = self.values.get(name)
        if isinstance(value, dict):
            return Members(value, self.errors, f"{self.path}{name}.")
        if value is None:
            self.add_required_error(name)
        else:
            self.add_error(name, "must be an object")
        return None


def text_error(value: JsonValue, *, max_length: int) -> str | None:
    """Return what is wrong with a string of at most `max_length` code points, such as "must be a string"; None if
    nothing is."""
    if not isinstance(value, str):
        return "must be a string"
    if len(value) > max_length:
        return f"must have at most {max_length} characters"
    if CONTROL_CHARACTERS.search(value):
        return "may not contain control characters"
    return None
