"""The legality table: which input may meet a transaction in which stage, and where it may lead.

Theory of operation. A payment is two machines. The *stage* is the one below. The *callback* is the other: it is
scheduled exactly when the stage becomes terminal (a push is born terminal) and is concluded once, whatever the
outcome; it never moves the stage. Beside them each merchant has one breaker, which only decides whether a callback
is sent or recorded as failed.

A stage has five ways to move. A merchant's order is `CREATED` and wants to be submitted; a web order waits for its
payer first (`AWAITING_CUSTOMER`). The dangerous moment lies between sending and knowing, so it has a stage of its
own: `SUBMITTING` is on record before the request leaves. From there no road leads to a second submission but one,
the provider's own word that it never received the first. A provider that says "accepted" moves it to
`AWAITING_RESULT`; a result may come in any stage from `SUBMITTING` on, because an answer can be lost and its result
arrive. (In `CREATED` a provider's acceptance or result is believed only if a submission is on record: the provider
contradicts its "never received", and we must not submit again.) The clock may end any pending stage. Nothing leaves
a terminal stage: those rows are empty, and what is told then goes to the suspense book.

Where nobody can be asked (`ProviderCannotTell`), a payment stays as it is until a notification, a person or its expiry
ends it: it is never sent again on a guess. A notification that nobody has signed (`ProviderHinted`) only makes us ask;
while the first submission may still be under way it does nothing, as an answer could then miss it.

A stage that names itself as a target stays, with a new `wake_at`. To keep in step: `rules/` holds one function for each
input; the diagram in the documentation is drawn from `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    ConfirmPage,
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderSucceeded,
    ProviderUnreachable,
    ResolveManually,
    TransactionWoke,
)
from mmo_sansio.values.model import Stage

TRANSITIONS: Mapping[Stage, Mapping[type[Any], tuple[Stage, ...]]] = MappingProxyType(
    {
        Stage.CREATED: {
            BeginSubmission: (Stage.SUBMITTING,),
            ProviderAccepted: (Stage.AWAITING_RESULT,),
            ProviderSucceeded: (Stage.SUCCEEDED,),
            ProviderFailed: (Stage.FAILED,),
            TransactionWoke: (Stage.FAILED,),
            ResolveManually: (Stage.FAILED,),
        },
        Stage.AWAITING_CUSTOMER: {
            ConfirmPage: (Stage.CREATED,),
            TransactionWoke: (Stage.FAILED,),
            ResolveManually: (Stage.FAILED,),
        },
        Stage.SUBMITTING: {
            ProviderAccepted: (Stage.AWAITING_RESULT,),
            ProviderSucceeded: (Stage.SUCCEEDED,),
            ProviderFailed: (Stage.FAILED,),
            ProviderUnreachable: (Stage.SUBMITTING,),
            ProviderNeverReceived: (Stage.CREATED,),
            ProviderCannotTell: (Stage.SUBMITTING,),
            ProviderHinted: (Stage.SUBMITTING,),
            TransactionWoke: (Stage.SUBMITTING, Stage.FAILED),
            ResolveManually: (Stage.SUCCEEDED, Stage.FAILED),
        },
        Stage.AWAITING_RESULT: {
            ProviderAccepted: (Stage.AWAITING_RESULT,),
            ProviderSucceeded: (Stage.SUCCEEDED,),
            ProviderFailed: (Stage.FAILED,),
            ProviderUnreachable: (Stage.AWAITING_RESULT,),
            ProviderCannotTell: (Stage.AWAITING_RESULT,),
            ProviderHinted: (Stage.AWAITING_RESULT,),
            TransactionWoke: (Stage.AWAITING_RESULT, Stage.FAILED),
            ResolveManually: (Stage.SUCCEEDED, Stage.FAILED),
        },
        Stage.SUCCEEDED: {},
        Stage.FAILED: {},
    }
)
"""Stage, then type of input, then the stages it may lead to. What isn't there changes nothing."""

TRANSITION_INPUTS: tuple[type[Any], ...] = (
    BeginSubmission,
    ConfirmPage,
    ProviderAccepted,
    ProviderSucceeded,
    ProviderFailed,
    ProviderUnreachable,
    ProviderNeverReceived,
    ProviderCannotTell,
    ProviderHinted,
    TransactionWoke,
    ResolveManually,
)
"""The types of input that can move a stage: the columns of the table."""


def is_legal(stage: Stage, input_: object) -> bool:
    """Whether this input may move a transaction in this stage."""
    return type(input_) in TRANSITIONS[stage]


def target_stages(stage: Stage, input_: object) -> tuple[Stage, ...]:
    """Where this input may lead from this stage; empty when it may not move it."""
    return TRANSITIONS[stage].get(type(input_), ())
