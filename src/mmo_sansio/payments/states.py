"""Defines the table of transitions: which input may meet a transaction in which stage, and to which
stages it may lead.

A payment is two state machines. The *stage* is the one below. The *callback* is the other: it is
scheduled exactly when the stage becomes terminal (a push is terminal from the beginning; without a
result URL it has no callback) and is concluded once, whatever the outcome; it never moves the
stage. In addition each merchant has one circuit breaker, which only decides whether a callback is
sent or recorded as failed.

The stages. A merchant's order is `CREATED` and is to be submitted; a web order first waits for its
payer (`AWAITING_CUSTOMER`). The critical time lies between sending and knowing, so it has a stage
of its own: `SUBMITTING` is on record before the request is sent; where a conversation with the
provider is free, it is on record in the commit that creates the payment. From there only one way
leads to a second submission: the provider's own word that it never received the first. A provider's
acceptance moves it to `AWAITING_RESULT`; a result may come in any stage from `SUBMITTING` on,
because a response can be lost and its result arrive. (In `CREATED` and `AWAITING_CUSTOMER` a
provider's acceptance or result counts only if a submission is on record: the provider contradicts
its "never received", and the payment must not be submitted again.) The clock may end any pending
stage. While the brand is on hold, what was not submitted yet fails: at once (`StopPayment`), or
when its submission would begin. When the store was restored from a backup, what had not ended then
counts as submitted (`MarkRestored`), and is never sent again. Nothing leaves a terminal stage:
those rows are empty, and later reports go to the suspense book. One thing may be added to a success
without moving it: the receipt that its provider had not named.

Some operators need their payer elsewhere. One that needs a code first has never received the
payment: it waits for its payer again (`AWAITING_CUSTOMER`), and is sent with the code. One that has
it, and names a page or asks for a code, leaves the stage as it is. A browser that comes back
(`PayerReturned`) proves nothing: the operator is asked.

A prompt that is called paid without its receipt waits a little for the notification that brings it.
It is paid from then on: nothing submits, asks or fails it, and the clock ends it.

Where the provider cannot be polled (`ProviderCannotTell`), a payment stays as it is until a
notification, staff or its expiry end it: it is never sent again on a guess. An unsigned
notification (`ProviderHinted`) only causes a poll; while the first submission may still be in
flight it does nothing, as a response could then miss the submission. One that names a receipt at an
address that only the provider was given is evidence: the payment is then neither submitted again
nor failed by what the provider says next, and the clock ends it as a success where the provider
answers no question about it.

A stage that names itself as a target stays, with a new `wake_at`. Keep in step: each
input has a function in the module that :mod:`mmo_sansio.payments.decide` names, and the diagram in
the documentation is drawn from `TRANSITIONS`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mmo_sansio.messages import inputs
from mmo_sansio.values.model import Stage

# The possible next stages by stage and type of input. A pair without an entry changes nothing.
TRANSITIONS: Mapping[Stage, Mapping[type[Any], tuple[Stage, ...]]] = MappingProxyType(
    {
        Stage.CREATED: {
            inputs.BeginSubmission: (Stage.SUBMITTING, Stage.FAILED),
            inputs.StopPayment: (Stage.FAILED,),
            inputs.MarkRestored: (Stage.SUBMITTING,),
            # The provider contradicts its "never received": nothing may be submitted again.
            inputs.ProviderAccepted: (Stage.AWAITING_RESULT,),
            inputs.ProviderSucceeded: (Stage.SUCCEEDED,),
            inputs.ProviderFailed: (Stage.FAILED,),
            inputs.ProviderHinted: (Stage.AWAITING_RESULT,),
            inputs.TransactionWoke: (Stage.FAILED,),
            inputs.ResolveManually: (Stage.FAILED,),
        },
        # Nothing was submitted, or the provider needs a code before it takes the payment.
        Stage.AWAITING_CUSTOMER: {
            inputs.ConfirmPage: (Stage.CREATED,),
            inputs.StopPayment: (Stage.FAILED,),
            inputs.MarkRestored: (Stage.SUBMITTING,),
            inputs.ProviderAccepted: (Stage.AWAITING_RESULT,),
            inputs.ProviderSucceeded: (Stage.SUCCEEDED,),
            inputs.ProviderFailed: (Stage.FAILED,),
            inputs.ProviderHinted: (Stage.AWAITING_RESULT,),
            inputs.TransactionWoke: (Stage.FAILED,),
            inputs.ResolveManually: (Stage.FAILED,),
        },
        # The request may be under way, or have arrived without an answer.
        Stage.SUBMITTING: {
            inputs.MarkRestored: (Stage.SUBMITTING,),
            inputs.ProviderAccepted: (Stage.AWAITING_RESULT,),
            inputs.ProviderSucceeded: (Stage.SUCCEEDED, Stage.SUBMITTING),
            inputs.ProviderFailed: (Stage.FAILED, Stage.SUBMITTING),
            inputs.ProviderUnreachable: (Stage.SUBMITTING,),
            # The only way back to a submission (S6).
            inputs.ProviderNeverReceived: (
                Stage.CREATED,
                Stage.AWAITING_CUSTOMER,
                Stage.SUBMITTING,
                Stage.FAILED,
            ),
            inputs.ProviderCannotTell: (Stage.SUBMITTING,),
            inputs.ProviderHinted: (Stage.SUBMITTING,),
            inputs.TransactionWoke: (Stage.SUBMITTING, Stage.SUCCEEDED, Stage.FAILED),
            inputs.ResolveManually: (Stage.SUCCEEDED, Stage.FAILED),
        },
        # The provider has the payment, so it is never sent again.
        Stage.AWAITING_RESULT: {
            inputs.MarkRestored: (Stage.AWAITING_RESULT,),
            inputs.ProviderAccepted: (Stage.AWAITING_RESULT,),
            inputs.ProviderSucceeded: (Stage.SUCCEEDED, Stage.AWAITING_RESULT),
            inputs.ProviderFailed: (Stage.FAILED, Stage.AWAITING_RESULT),
            inputs.ProviderUnreachable: (Stage.AWAITING_RESULT,),
            inputs.ProviderCannotTell: (Stage.AWAITING_RESULT,),
            inputs.ProviderHinted: (Stage.AWAITING_RESULT,),
            # The payer gives a code that the provider has asked for.
            inputs.ConfirmPage: (Stage.AWAITING_RESULT,),
            inputs.PayerReturned: (Stage.AWAITING_RESULT,),
            inputs.TransactionWoke: (Stage.AWAITING_RESULT, Stage.SUCCEEDED, Stage.FAILED),
            inputs.ResolveManually: (Stage.SUCCEEDED, Stage.FAILED),
        },
        # Final: what comes later changes nothing but the suspense book (S1, S5).
        Stage.SUCCEEDED: {},
        Stage.FAILED: {},
    }
)

# The types of input that can move a stage: the columns of the table.
TRANSITION_INPUTS: tuple[type[Any], ...] = tuple(
    dict.fromkeys(stage for row in TRANSITIONS.values() for stage in row)
)


def is_legal(stage: Stage, input_: object) -> bool:
    """Tell whether this input may move a transaction in this stage."""
    return type(input_) in TRANSITIONS[stage]


def target_stages(stage: Stage, input_: object) -> tuple[Stage, ...]:
    """Return the stages to which this input may lead from this stage; empty when it may not move
    it."""
    return TRANSITIONS[stage].get(type(input_), ())
