"""Decides the payments of a mobile money gateway by plain functions without I/O, clock or
randomness.

A test needs `Gateway`, which does all of it in memory. The project's `docs/tutorial.md` goes
through it step by step, and `examples/test_payment.py` is a whole test:

    Gateway()                            nothing has happened yet
    receive(input, now=, utc=)           decide an input, and return its reply
    take_intents()                       take what a shell has to do now: submit, poll, deliver
    transaction(gateway_reference)       look at a payment
    next_wake()                          the instant of the next thing that happens by itself
    wake(now=, utc=)                     let time pass until now
    callbacks, suspense, journal         what was recorded

and these names:

    describe  Brand, Method, Limits, Money, Operation, Party, Draft
    input     CreatePayment, ConfirmPage, BeginSubmission, ProviderAccepted, ProviderSucceeded,
              ProviderFailed, ProviderUnreachable, Source, CallbackConcluded, DeliveryAttempt,
              DeliveryOutcome
    look      Accepted, Applied, Ignored, Rejected, Transaction, Status, ErrorCode,
              transaction_object, and the intents SubmitToProvider, PollProvider, PollEnded,
              DeliverCallback, DeliverQr
    time      Instant, Moment, Span, SECOND, MINUTE, HOUR, DAY, later, format_with_seconds
    service   decide, Decision, Ledger, NotPrefetched, Reads, merge_reads, reads

A service of your own feeds inputs to `decide`, makes the changes of the decision durable, answers
with its reply, and then carries out its intents. All that it meets on the way is in
:mod:`mmo_sansio.messages`.

What `__all__` of a face lists is public: this package and that, :mod:`mmo_sansio.providers` for
adapters, :mod:`mmo_sansio.testing` for tests, :mod:`mmo_merchant` for merchants' programs,
:mod:`mmo_trio` for the service, and :mod:`mmo_simulators` for operators to test against. All else
is internal and may change in any version."""

# The rooms, from the bottom up. A room imports only from rooms above it in this list, and the three
# in the middle (providers, api, payments) not from each other:
#
#   values      time, money, the payment model and error codes
#   resilience  circuit breaker, rate limit, fair queue, channel ownership, clock guard
#   http        HTTP as values, strict wire checks, rules for outbound connections
#   messages    inputs, queries, changes, intents and replies
#   providers   adapters of the mobile money operators
#   api         the merchant API: requests to inputs and queries, replies to responses
#   payments    the state machine, its rules, the ledger and the in-memory gateway
#   testing     builders, and a small world in virtual time

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    ConfirmPage,
    CreatePayment,
    Draft,
    ProviderAccepted,
    ProviderFailed,
    ProviderSucceeded,
    ProviderUnreachable,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    Intent,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.messages.replies import Accepted, Applied, Ignored, Rejected
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger, NotPrefetched, Reads, merge_reads
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    Moment,
    Span,
    format_with_seconds,
    later,
)
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Brand,
    Limits,
    Method,
    Operation,
    Party,
    Source,
    Status,
    Transaction,
)
from mmo_sansio.values.money import Money

__version__ = "0.1.0"

__all__ = [
    "DAY", "HOUR", "MINUTE", "SECOND", "Accepted", "Applied", "BeginSubmission", "Brand",
    "CallbackConcluded", "ConfirmPage", "CreatePayment", "Decision", "DeliverCallback", "DeliverQr",
    "DeliveryAttempt", "DeliveryOutcome", "Draft", "ErrorCode", "Gateway", "Ignored", "Instant",
    "Intent", "Ledger", "Limits", "Method", "Moment", "Money", "NotPrefetched", "Operation",
    "Party", "PollEnded", "PollProvider", "ProviderAccepted", "ProviderFailed", "ProviderSucceeded",
    "ProviderUnreachable", "Reads", "Rejected", "Source", "Span", "Status", "SubmitToProvider",
    "Transaction", "decide", "format_with_seconds", "later", "merge_reads", "reads",
    "transaction_object",
]  # fmt: skip
