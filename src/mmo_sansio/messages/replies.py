"""What the caller of a decision is told, once its changes are durable."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from mmo_sansio.values.model import Order, Transaction
from mmo_sansio.values.problems import Problem


@frozen
class Accepted:
    """The payment is taken (C6)."""

    order: Order


@frozen
class Applied:
    """What was reported or asked for is now true."""

    transaction: Transaction
    """As it is after the decision."""


@frozen
class Ignored:
    """Nothing changed, and why."""

    reason: str
    transaction: Transaction | None = None
    """As it is, when there is one."""


@frozen
class Rejected:
    """The request can't be had."""

    problem: Problem


Reply: TypeAlias = Accepted | Applied | Ignored | Rejected
