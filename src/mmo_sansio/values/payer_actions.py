"""Defines what a payer may have to do elsewhere before the money moves: approve at a page of the
operator, or get a code from it. Merchants see nothing of this: the payment is pending (S1)."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, TypeAlias

from attrs import field, frozen

from mmo_sansio.values.clock import Instant

# Characters in a code; operators that name a limit name this one or a smaller.
CODE_CHARACTERS_MAX: Final = 36

_AUTHORITY_END: Final = re.compile(r"[/?#]")
# Visible ASCII, without spaces: what goes into a request to the operator as it is.
_CODE: Final = re.compile(rf"[!-~]{{1,{CODE_CHARACTERS_MAX}}}", re.ASCII)


@frozen
class OpenUrl:
    """The payer approves at a page of the operator, which has the payment."""

    # Whoever has the address can act as the payer: it belongs in no log.
    url: str = field(repr=False)
    ends_at: Instant | None = None
    """Until when the page takes an approval, by the gateway's own time; None: the operator does not
    say."""
    needs_commit: bool = False
    """Whether the operator moves the money only once it is told that the payer has come back."""
    returned_at: Instant | None = None
    """When the payer, or anybody who was given the address for it, came back last and the operator
    was asked, by the gateway's own time; None: nobody has. It proves nothing."""

    @property
    def host(self) -> str:
        """Return the host of the page, with its port if it names one."""
        return _AUTHORITY_END.split(self.url.partition("://")[2], maxsplit=1)[0]


@frozen
class EnterCode:
    """The payer gets a code from the operator, and gives it to the gateway: before the operator has
    the payment, or once it has."""

    instructions: tuple[tuple[str, str], ...] = ()
    """Pairs of a language (ISO 639-1) and the operator's own words of how to get it; empty: it
    gives none."""
    ends_at: Instant | None = None
    """Until when it may be given, by the gateway's own time; None: as long as the page is open, or
    where the operator has the payment, until that ends."""
    code: str | None = field(default=None, repr=False)
    """What the payer has given."""
    given_version: int = 0
    """The version of the payment's progress that first has the code: what was asked before says
    nothing of it."""


PayerAction: TypeAlias = OpenUrl | EnterCode


def clean_code(text: str) -> str | None:
    """Return the code that a payer has typed, with the digits of his keyboard as ASCII ones and
    without white space; None where it can be no code."""
    # Phones write full-width or Arabic digits where the payer's keyboard has them.
    compatible = unicodedata.normalize("NFKC", text)
    typed = "".join(
        str(unicodedata.decimal(character)) if character.isdecimal() else character
        for character in compatible
        if not character.isspace()
    )
    if _CODE.fullmatch(typed):
        return typed

    return None
