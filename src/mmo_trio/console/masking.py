"""Personal data for eyes that may not see it: pure."""

from __future__ import annotations

import re

from attrs import frozen

_DIGITS = re.compile(r"\+?[0-9]{6,}")
_EMAIL = re.compile(r"[^\s@\"<>]+@[^\s@\"<>]+")

HIDDEN_TEXT = "hidden from your role"


def mask_number(msisdn: str) -> str:
    """A number of which only the last three digits are shown: `•••••••••007`."""
    return "•" * max(0, len(msisdn) - 3) + msisdn[-3:] if len(msisdn) > 3 else "•" * len(msisdn)


def mask_name(text: str) -> str:
    """The first letter: `Z•••`."""
    return f"{text[:1]}•••" if text else ""


def mask_text(text: str) -> str:
    """Free text in which whatever may be a number or an address of a person is masked."""
    return _DIGITS.sub(lambda found: mask_number(found[0]), _EMAIL.sub("•••@•••", text))


def mask_query(url: str) -> str:
    """A URL without what a merchant may have put behind its path."""
    head, mark, _ = url.partition("?")
    return f"{head}?…" if mark else head


@frozen
class PersonalDataMask:
    """What an operator gets to see of other people's data."""

    can_see_personal_data: bool

    def number(self, msisdn: str) -> str:
        """A phone number, or the merchant's name for a customer."""
        return msisdn if self.can_see_personal_data else mask_number(msisdn)

    def name(self, text: str | None) -> str | None:
        """A name or an e-mail address."""
        return text if self.can_see_personal_data or text is None else mask_name(text)

    def text(self, text: str) -> str:
        """Free text."""
        return text if self.can_see_personal_data else mask_text(text)

    def url(self, url: str) -> str:
        """A merchant's URL."""
        return url if self.can_see_personal_data else mask_query(url)

    def third_party_text(self, text: str | None) -> str | None:
        """Others' own words, in which anything may stand."""
        return text if self.can_see_personal_data or not text else HIDDEN_TEXT
