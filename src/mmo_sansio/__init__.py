"""Decides the payments of a mobile money gateway by plain functions without I/O, clock or randomness.

A test needs `Gateway`, which does all of it in memory (`docs/tutorial.md` goes through it step by step):

    Gateway()                            nothing has happened yet
    receive(input, now=, utc=)           decide an input, and return its reply
    take_intents()                       take what a shell has to do now: submit, poll, deliver a callback
    transaction(gateway_reference)       look at a payment
    next_wake()                          the instant of the next thing that happens by itself
    wake(now=, utc=)                     let time pass until now

and these names:

    describe  Brand, Method, Limits, Money, Operation, Party, Draft
    input     CreatePayment, BeginSubmission, ProviderAccepted, ProviderSucceeded, ProviderFailed, Source,
              CallbackConcluded, DeliveryAttempt, DeliveryOutcome
    look      Accepted, Rejected, Transaction, Status, ErrorCode, transaction_object
    time      Instant, SECOND, MINUTE, HOUR, DAY, later, format_with_seconds

A service of your own feeds inputs to `decide`, makes the changes of the decision durable, answers with its reply, and
then carries out its intents; the names that are not above are for that.

What `__all__` of a face lists is public: this package, :mod:`mmo_sansio.providers` for adapters,
:mod:`mmo_sansio.testing` for tests, :mod:`mmo_merchant` for merchants' programs, :mod:`mmo_trio` for the service, and
:mod:`mmo_simulators` for operators to test against. All else is internal and may change in any version.
"""

# The rooms, from the bottom up. A room imports only from rooms above it in this list, and the three in the middle
# (providers, api, payments) not from each other:
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
from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.messages.changes import (
    BreakerSaved,
    CallbackRecorded,
    Change,
    DepositRecorded,
    IntentConcluded,
    JournalEntry,
    QrRecorded,
    ReferenceConsumed,
    ReversalChanged,
    SuspenseReason,
    SuspenseRecorded,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CallbackConcluded,
    ConfirmPage,
    CreatePayment,
    DepositNotified,
    Draft,
    EndedPollConcluded,
    Input,
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    QrConcluded,
    ResolveManually,
    TransactionWoke,
    UnmatchedNotified,
    WithheldReason,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    DeliverQr,
    DurableIntent,
    Intent,
    IntentKey,
    IntentKind,
    PollEnded,
    PollProvider,
    SubmitToProvider,
    durable_intent,
)
from mmo_sansio.messages.queries import (
    AnyLookUp,
    ListRecords,
    LookUp,
    LookUpByMerchantReference,
    Position,
    Query,
    Records,
)
from mmo_sansio.messages.replies import Accepted, Applied, Ignored, Rejected, Reply, ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    RequestReversal,
    ResolveReversal,
    ReversalAccepted,
    ReversalCannotTell,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.ledger import Ledger, NotPrefetched, Reads, merge_reads
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Instant,
    MonotonicInstant,
    Span,
    earlier,
    elapsed,
    format_with_microseconds,
    format_with_seconds,
    from_datetime,
    later,
    to_datetime,
)
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Brand,
    Evidence,
    Flow,
    Limits,
    Method,
    Operation,
    Order,
    Page,
    Party,
    Progress,
    ProviderData,
    QrCode,
    ReferenceReuse,
    ReusePolicy,
    Source,
    Stage,
    Status,
    Terms,
    Transaction,
    Type,
)
from mmo_sansio.values.money import AmountError, Money, check_amount, parse_number, to_money
from mmo_sansio.values.problems import FieldError, Problem
from mmo_sansio.values.reversals import Reversal, ReversalState, reversal_id

__version__ = "0.1.0"

__all__ = [
    "DAY", "HOUR", "MICROSECOND", "MILLISECOND", "MINUTE", "SECOND", "Accepted", "AmountError",
    "AnyLookUp", "Applied", "BeginSubmission", "Brand", "BreakerSaved", "BreakerSnapshot",
    "CallbackConcluded", "CallbackRecorded", "Change", "ConfirmPage", "CreatePayment", "DecideReversal", "Decision",
    "DeliverCallback", "DeliverQr", "DeliveryAttempt", "DeliveryOutcome", "DepositNotified",
    "DepositRecorded", "Draft", "DurableIntent", "EndedPollConcluded", "ErrorCode", "Evidence",
    "FieldError", "Flow", "Gateway", "Headers", "HttpRequest", "HttpResponse", "Ignored", "Input", "Instant", "Intent",
    "IntentConcluded", "IntentKey", "IntentKind", "JournalEntry", "Ledger", "Limits",
    "ListRecords", "LookUp", "LookUpByMerchantReference", "Method", "Money", "MonotonicInstant",
    "NotPrefetched", "Operation", "Order", "Page", "Party", "PollEnded", "PollProvider",
    "Position", "Problem",
    "Progress", "ProviderAccepted", "ProviderCannotTell", "ProviderData", "ProviderFailed",
    "ProviderHinted", "ProviderNeverReceived", "ProviderReport", "ProviderSucceeded",
    "ProviderUnreachable", "QrCode", "QrConcluded", "QrRecorded", "Query", "Reads", "Records",
    "ReferenceConsumed", "ReferenceReuse", "Rejected", "Reply", "RequestReversal", "ResolveManually", "ResolveReversal",
    "ReusePolicy", "Reversal", "ReversalAccepted", "ReversalApplied", "ReversalCannotTell", "ReversalChanged",
    "ReversalFailed", "ReversalNeverReceived", "ReversalReport", "ReversalState", "ReversalSucceeded",
    "ReversalUnreachable", "ReversalWoke", "Source",
    "Span", "Stage", "Status", "SubmitToProvider", "SuspenseReason", "SuspenseRecorded", "Terms",
    "Transaction", "TransactionAdvanced", "TransactionCreated", "TransactionWoke", "Type",
    "UnmatchedNotified", "WithheldReason", "check_amount", "decide", "durable_intent", "earlier", "elapsed",
    "format_with_microseconds", "format_with_seconds", "from_datetime", "later", "merge_reads",
    "parse_number", "reads", "reversal_id", "to_datetime", "to_money", "transaction_object",
]  # fmt: skip
