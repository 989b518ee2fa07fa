"""Defines the replies that the caller of a decision gets once its changes are durable."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from mmo_sansio.values.model import DepositClaim, Order, Transaction
from mmo_sansio.values.problems import Problem
from mmo_sansio.values.reversals import Reversal


@frozen
class Accepted:
    """The payment is accepted (C6)."""

    order: Order
    submitted: Transaction | None = None
    """The payment whose submission is on record already: its request may be sent, once, by the
    caller who has reserved a conversation for it (`CreatePayment.reserved_provider`). None: nothing
    may be sent yet."""


@frozen
class Applied:
    """The report or request has taken effect."""

    transaction: Transaction
    """The transaction after the decision."""


@frozen
class Ignored:
    """Nothing changed; the reply says why."""

    reason: str
    transaction: Transaction | None = None
    """The transaction as it is, if it exists."""


@frozen
class ClaimDue:
    """The provider is to be asked about this claim of a deposit."""

    claim: DepositClaim


@frozen
class ReversalApplied:
    """The report or request about a reversal has taken effect."""

    reversal: Reversal
    """The reversal after the decision."""
    transaction: Transaction
    """Its payment."""


@frozen
class Rejected:
    """The request is rejected."""

    problem: Problem


Reply: TypeAlias = Accepted | Applied | Ignored | ClaimDue | ReversalApplied | Rejected
