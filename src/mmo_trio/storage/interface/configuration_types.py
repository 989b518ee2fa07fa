"""Defines the values of the proposed changes of brands' configuration, and of the refused requests on record."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from mmo_sansio.values.clock import DAY, Instant, Span
from mmo_sansio.values.model import Brand

REFUSALS_RECORDED_MAX = 10_000
"""Refused requests on record for each brand and day; further ones are only counted."""

REFUSALS_KEPT = Span(8 * DAY)
"""How long refused requests stay on record."""

REFUSALS_REMOVED_MAX = 1_000
"""Refused requests that one write removes, so that none takes long."""


class ChangeState(StrEnum):
    """Defines the states of a proposed change of a brand."""

    OPEN = "open"
    APPLIED = "applied"
    REJECTED = "rejected"
    """Another user rejected it, or the proposer withdrew it."""
    REVERTED = "reverted"
    """It was applied, and the version before it is in force again."""


@frozen
class ConfigurationChange:
    """A user's proposal to change a brand; another user decides, always."""

    id: int
    """0 until it is stored."""
    before: Brand
    """The version on which the proposal was made."""
    after: Brand
    """The version that it brings into force; it has the same id."""
    reason: str
    proposed_by: str
    proposed_at: Instant
    state: ChangeState = ChangeState.OPEN
    decided_by: str | None = None
    decided_at: Instant | None = None
    remark: str | None = None
    """Why it was rejected."""
    reverted_by: str | None = None
    reverted_at: Instant | None = None


class ChangeDecision(StrEnum):
    """Says whether a decision on a proposed change took effect."""

    DONE = "done"
    NOT_IN_STATE = "not in state"
    """The change was decided meanwhile, or there is none."""
    OWN_PROPOSAL = "own proposal"
    """The user who would apply it has proposed it."""
    OVERTAKEN = "overtaken"
    """The brand in force is not the version that the decision replaces."""


def replaced_version(decided: ConfigurationChange) -> tuple[Brand, Brand] | None:
    """Return the version that a decision replaces and the one that it brings into force; None if it changes nothing."""
    match decided.state:
        case ChangeState.APPLIED:
            return decided.before, decided.after
        case ChangeState.REVERTED:
            return decided.after, decided.before
        case ChangeState.OPEN | ChangeState.REJECTED:
            return None


@frozen
class BrandDay:
    """Names a day of a brand, by UTC."""

    brand: str
    day: int
    """Days since 1970-01-01."""


@frozen
class RefusalCount:
    """Says how many requests of a brand limits and flows refused on a day."""

    times: int
    recorded: int
    """How many of them are on record."""
