"""Defines what may be known of the account behind a number before money is sent to it: its name,
whether a name is the account's, or only of which operator the number probably is.

It is shown to people and is no promise: a pay-out is sent to the number, whatever its name. Nothing
of it is stored."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from attrs import field, frozen

# The length to which the name of an account is cut.
NAME_CHARACTERS_MAX: Final = 100

# What operators write in place of the letters that they don't tell.
MASK: Final = "*"


@frozen
class PayeeNamed:
    """The operator tells whose account it is."""

    provider: str
    # A person's name belongs in no log.
    name: str = field(repr=False)
    """Printable, on one line, at most NAME_CHARACTERS_MAX; the operator may have masked letters."""
    is_barred: bool | None = None
    """Whether the account is barred, so that it may not receive money; None: not told."""

    @property
    def is_masked(self) -> bool:
        """Tell whether the operator has masked letters of the name."""
        return MASK in self.name


@frozen
class PayeeCompared:
    """The operator tells no name, but whether one is the account's."""

    provider: str
    matches: bool | None
    """None: it can't tell, as it was given no name or knows none."""


@frozen
class PayeePredicted:
    """Only the operator is told of which the number probably is, by its digits."""

    provider: str
    operator: str
    """The provider's name of the operator, as fit to be shown as a name."""
    is_served: bool
    """Whether that is the operator to which this account pays."""


@frozen
class PayeeUnknown:
    """The operator has no account behind the number."""

    provider: str


@frozen
class PayeeUnanswered:
    """Nothing is known: the operator can't be reached, or its answer tells nothing."""

    provider: str
    reason: str
    """What went wrong, in words without secrets, numbers and names."""


PayeeReport: TypeAlias = (
    PayeeNamed | PayeeCompared | PayeePredicted | PayeeUnknown | PayeeUnanswered
)


def outcome_of(report: PayeeReport) -> str:
    """Return the one word for a report, as merchants and metrics have it."""
    match report:
        case PayeeNamed():
            return "named"
        case PayeeCompared():
            return "compared"
        case PayeePredicted():
            return "predicted"
        case PayeeUnknown():
            return "unknown"
        case PayeeUnanswered():
            return "unanswered"
        case _:
            assert_never(report)


def plain_name(text: str) -> str:
    """Return a text of an operator as a name: without control characters and marks that turn the
    direction of writing, on one line, and cut."""
    # White space shrinks, so more is looked at than is kept; a text of megabytes costs no time.
    beginning = text[: 4 * NAME_CHARACTERS_MAX]
    printable = "".join(letter if letter.isprintable() else " " for letter in beginning)
    return " ".join(printable.split())[:NAME_CHARACTERS_MAX].rstrip()
