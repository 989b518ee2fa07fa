"""Reading the members of a request: every fault is noted in the order of reading, none ends it (P1, C9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import define, field

from mmo_sansio.api.incoming.strict_json import JsonValue
from mmo_sansio.values.problems import FieldFault, RefusedError, fields_refused

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that no text of a request may have (G7)."""


@define
class Faults:
    """What is wrong with a request so far."""

    found: list[FieldFault] = field(factory=list)

    def add(self, name: str, what: str) -> None:
        """Note that the field of this dotted name `what`, as in "must be a string"."""
        self.found.append(FieldFault(name, f"'{name}' {what}."))

    def refuse(self) -> None:
        """Raise RefusedError with all that was found (P1), if anything was."""
        if self.found:
            raise RefusedError(fields_refused(self.found))


@define
class Members:
    """The members of one object, taken by name; unknown ones are never looked at, null is absent (G4).

    What is taken from a faulty member is a stand-in, good for reading on until `Faults.refuse`.
    """

    values: Mapping[str, JsonValue]
    faults: Faults
    path: str = ""
    """What stands before a member's name in its dotted path: empty, or `payer.`."""

    def fault(self, name: str, what: str) -> None:
        """Note a fault of this member."""
        self.faults.add(self.path + name, what)

    def text(self, name: str, *, at_most: int, at_least: int = 1) -> str:
        """A required string of so many code points, not blank (G8); empty if that is not what it is."""
        if self.values.get(name) is None:
            self.fault(name, "is required")
            return ""
        value = self.optional_text(name, at_most=at_most)
        if value is None:
            return ""
        if not value or value.isspace():
            self.fault(name, "may not be blank")
            return ""
        if len(value) < at_least:
            self.fault(name, f"must have at least {at_least} characters")
            return ""
        return value

    def optional_text(self, name: str, *, at_most: int) -> str | None:
        """A string of at most so many code points (G8), or None."""
        value = self.values.get(name)
        if value is None:
            return None
        fault = text_fault(value, at_most=at_most)
        if fault is None and isinstance(value, str):
            return value
        self.fault(name, fault or "must be a string")
        return None

    def object(self, name: str) -> Members | None:
        """The members of a required object, or None if that is not what it is."""
        value = self.values.get(name)
        if isinstance(value, dict):
            return Members(value, self.faults, f"{self.path}{name}.")
        self.fault(name, "is required" if value is None else "must be an object")
        return None


def text_fault(value: JsonValue, *, at_most: int) -> str | None:
    """What is wrong with a string of at most so many code points, as in "must be a string"; None if nothing."""
    if not isinstance(value, str):
        return "must be a string"
    if len(value) > at_most:
        return f"must have at most {at_most} characters"
    if CONTROL.search(value):
        return "may not contain control characters"
    return None
