"""Defines the values that cross the core, and exports those of them that a test with the names of
`mmo_sansio` can do without."""

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
    DepositNotified,
    EndedPollConcluded,
    Input,
    QrConcluded,
    ResolveManually,
    TransactionWoke,
    WithheldReason,
)
from mmo_sansio.messages.intents import DurableIntent, IntentKey, IntentKind, durable_intent
from mmo_sansio.messages.queries import (
    AnyLookUp,
    ListRecords,
    LookUp,
    LookUpByMerchantReference,
    Position,
    Query,
    Records,
)
from mmo_sansio.messages.replies import Reply, ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    RequestReversal,
    ResolveReversal,
    ReversalWoke,
)
from mmo_sansio.resilience.circuit_breaker import BreakerSnapshot
from mmo_sansio.values.model import (
    Evidence,
    Flow,
    Page,
    Progress,
    ReferenceReuse,
    ReusePolicy,
    Terms,
)
from mmo_sansio.values.problems import FieldError, Problem
from mmo_sansio.values.reversals import ReversalState, reversal_id

__all__ = [
    "AnyLookUp", "BreakerSaved", "BreakerSnapshot", "CallbackRecorded", "Change", "DecideReversal",
    "DepositNotified", "DepositRecorded", "DurableIntent", "EndedPollConcluded", "Evidence",
    "FieldError", "Flow", "Input", "IntentConcluded", "IntentKey", "IntentKind", "JournalEntry",
    "ListRecords", "LookUp", "LookUpByMerchantReference", "Page", "Position", "Problem", "Progress",
    "QrConcluded", "QrRecorded", "Query", "Records", "ReferenceConsumed", "ReferenceReuse", "Reply",
    "RequestReversal", "ResolveManually", "ResolveReversal", "ReusePolicy", "ReversalApplied",
    "ReversalChanged", "ReversalState", "ReversalWoke", "SuspenseReason", "SuspenseRecorded",
    "Terms", "TransactionAdvanced", "TransactionCreated", "TransactionWoke", "WithheldReason",
    "durable_intent", "reversal_id",
]  # fmt: skip
