"""Describes a rehearsal: the steps by which an account in an operator's sandbox shows whether the
operator does what its page promises.

A kind of provider declares its own (`ProviderKind.rehearsal`). A step says what is done and what is
promised; the shell plays it with the adapter, and compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import frozen

from mmo_sansio.providers.common.interface import AccountCheck, ChecksAccount, Provider
from mmo_sansio.providers.common.operations import OperationKey
from mmo_sansio.values.clock import Moment
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation
from mmo_sansio.values.money import Money


@frozen(kw_only=True)
class StepBase:
    """What every step has."""

    name: str
    """Names its files, and the step in other steps: small letters, digits and `_`."""
    does: str
    """What is done, in a sentence."""
    promises: str
    """What the operator's page promises, in a sentence."""
    page: str
    """Where: a file of `docs/`, and a heading."""


@frozen(kw_only=True)
class AskAccount(StepBase):
    """Hold a conversation about the account itself, which moves no money."""

    # A function of the time, as a step is declared before it is played.
    begin: Callable[[Moment], AccountCheck]


@frozen(kw_only=True)
class MakePayment(StepBase):
    """Make one payment, and wait for its end."""

    operation: Operation
    country: str
    amount: Money
    msisdn: str
    """The other party, with `+`: a test number of the operator where it has published some."""
    refused_as: Sequence[ErrorCode] = ()
    """The errors of which one has to end it; empty: it has to succeed."""

    @property
    def key(self) -> OperationKey:
        return self.operation.type, self.operation.flow


@frozen(kw_only=True)
class AwaitCallback(StepBase):
    """Look whether a callback about an earlier payment has come."""

    # The name of that payment's step; so everywhere.
    of: str


@frozen(kw_only=True)
class AskAgain(StepBase):
    """Ask once more about an earlier payment that has ended."""

    of: str


@frozen(kw_only=True)
class AskUnknown(StepBase):
    """Ask about a payment that was never sent, and is otherwise as an earlier one."""

    of: str
    known_as: str | None = None
    """The operator's id that the question names; None: the operator knows payments by ours."""
    is_final: bool = True
    """Whether the answer shows that nothing was received; otherwise it has to decide nothing."""


@frozen(kw_only=True)
class GiveBack(StepBase):
    """Give the money of an earlier payment back."""

    of: str


RehearsalStep: TypeAlias = (
    AskAccount | MakePayment | AwaitCallback | AskAgain | AskUnknown | GiveBack
)


@frozen
class Rehearsal:
    """Says how accounts of one kind are rehearsed."""

    sandbox_hosts: Sequence[str]
    """The hosts behind which no real money is; of any other host an account is not rehearsed
    unless a person says so. A name that ends in a full stop stands for all that begin with it."""
    steps: Callable[[Provider, str | None], Sequence[RehearsalStep]]
    """Returns the steps of an account, in their order. The text is the number of a person who takes
    part, with `+`; None: the operator's own test numbers. Raises RehearsalImpossible."""
    told_options: Sequence[str] = ()
    """The options that a capture names, as its play depends on them: neither secrets nor what tells
    whose account it is."""

    def is_sandbox(self, host: str) -> bool:
        """Tell whether no real money is behind this host: the operator's sandbox, or this
        machine."""
        # Airtel's has a host in each country's domain: `openapiuat.` begins them all.
        return host in (*LOOPBACK_HOSTS, *self.sandbox_hosts) or any(
            sandbox_host.endswith(".") and host.startswith(sandbox_host)
            for sandbox_host in self.sandbox_hosts
        )


# Where simulators are.
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class RehearsalImpossible(Exception):
    """Raised where an account can't be rehearsed as it is; the message says what to change."""


def account_step(provider: ChecksAccount) -> AskAccount:
    """Return the step that begins a rehearsal: the account's check."""
    return AskAccount(
        name="account",
        does="Sign in, and ask the questions of the account's check.",
        promises="The operator accepts every part of the account.",
        page="providers/README.md#is-the-account-accepted",
        begin=lambda now: provider.check_account(now=now),
    )


def steps_after(
    payment: MakePayment, page: str, *, money_back: str | None
) -> Sequence[RehearsalStep]:
    """Return what follows a pay-in: its callback, a further question, and its refund.

    `page`: the heading that promises results; `money_back`: that of refunds, None where the account
    has none."""
    # The refund is last: after it, some operators tell the payment otherwise.
    of = payment.name
    callback = AwaitCallback(
        name=f"{of}_callback",
        does=f"Look for a callback about `{of}`.",
        promises="The result is told by a callback to the account's address.",
        page=page,
        of=of,
    )
    query = AskAgain(
        name=f"{of}_query",
        does=f"Ask once more about `{of}`, which has ended.",
        promises="The answer is the same as before.",
        page=page,
        of=of,
    )
    if money_back is None:
        return callback, query

    refund = GiveBack(
        name="refund",
        does=f"Give the money of `{of}` back.",
        promises="The money goes back, and the operator says so.",
        page=money_back,
        of=of,
    )
    return callback, query, refund
