"""Holds what a merchant's program needs: clients of the merchant API, inboxes for callbacks, and
the gap closer.

Requests and answers, `create_or_get`, callbacks and the rules of the gap closer need only attrs;
the clients httpx, the asynchronous one and the gap closer also anyio: `pip install
'mmo-gateway[merchant]'`. The guide is `docs/merchant_client.md`."""

# The rooms, from the bottom up. A room imports only from the core and from rooms in lines above its
# own:
#
#   api             what a program sends, receives and repeats, without I/O
#   reconciliation  a statement or ledger compared with the records, without I/O
#   clients         the merchant API over HTTP
#   inbox           each result taken once, in the merchant's database, and the gap closer
#   payroll         a file of pay-outs, each line paid once, and the command for it
#   endpoint_check  situations, which are played at a merchant's endpoint for callbacks

from importlib import import_module
from typing import TYPE_CHECKING

from mmo_merchant.api.api_errors import (
    ApiProblem,
    ApiRejection,
    GatewayUnavailable,
    KeyRejected,
    MerchantApiError,
    OutcomeUnclear,
    ReferenceMismatch,
    ReferenceUsed,
    TransactionNotFound,
)
from mmo_merchant.api.callback_bodies import (
    Callback,
    CallbackRejected,
    QrDelivery,
    UnreadableCallback,
    WrongKey,
    read_callback,
    verify_key,
)
from mmo_merchant.api.extension_objects import (
    BrandMethods,
    CurrencyLimits,
    MethodObject,
    PayeeObject,
    ReversalObject,
    ReversalsPage,
    ReversedPayment,
)
from mmo_merchant.api.gap_closing import (
    GapProgress,
    GapRules,
    GapStep,
    Learned,
    ListStep,
    LookUpStep,
    WatchedPayment,
    first_progress,
    learn,
    next_step,
)
from mmo_merchant.api.gateway_requests import (
    Answer,
    ApiAccess,
    NoAnswer,
    RecordsWindow,
    StartedPayment,
    TransactionPage,
    creation_request,
    look_up_request,
    methods_request,
    page_request,
    payee_request,
    read_found,
    read_methods,
    read_page,
    read_payee,
    read_reversals,
    read_started,
    records_request,
    reference_look_up_request,
    reversals_page_request,
    reversals_request,
)
from mmo_merchant.api.idempotent_creation import Ask, Exchange, create_or_get
from mmo_merchant.api.new_payments import (
    DirectPayIn,
    LabelValue,
    NewPayment,
    PayOut,
    QrPayIn,
    TaxPayOut,
    WebPayIn,
)
from mmo_merchant.api.result_inbox import Inbox, receive_callback, take_result
from mmo_merchant.api.tolerant_json import UnreadableBody
from mmo_merchant.api.transaction_objects import (
    ProviderDetails,
    TransactionObject,
    parse_transaction,
)
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Party, Source, Status, Type
from mmo_sansio.values.money import Money, to_money
from mmo_sansio.values.problems import FieldError

if TYPE_CHECKING:
    from mmo_merchant.clients.async_client import AsyncMerchantClient
    from mmo_merchant.clients.blocking_client import MerchantClient
    from mmo_merchant.inbox.gap_closer import GapCloser
    from mmo_merchant.inbox.sql_inbox import PostgresInbox, SqliteInbox

__all__ = [
    "Answer", "ApiAccess", "ApiProblem", "ApiRejection", "Ask", "AsyncMerchantClient",
    "BrandMethods", "Callback", "CallbackRejected", "CurrencyLimits", "DirectPayIn", "ErrorCode",
    "Exchange", "FieldError", "Flow", "GapCloser", "GapProgress", "GapRules", "GapStep",
    "GatewayUnavailable", "HttpRequest", "HttpResponse", "Inbox", "KeyRejected", "LabelValue",
    "Learned", "ListStep", "LookUpStep", "MerchantApiError", "MerchantClient", "MethodObject",
    "Money", "NewPayment", "NoAnswer", "OutcomeUnclear", "Party", "PayOut", "PayeeObject",
    "PostgresInbox", "ProviderDetails", "QrDelivery", "QrPayIn", "RecordsWindow",
    "ReferenceMismatch", "ReferenceUsed", "ReversalObject", "ReversalsPage", "ReversedPayment",
    "Source", "SqliteInbox", "StartedPayment", "Status", "TaxPayOut", "TransactionNotFound",
    "TransactionObject", "TransactionPage", "Type", "UnreadableBody", "UnreadableCallback",
    "WatchedPayment", "WebPayIn", "WrongKey", "create_or_get", "creation_request", "first_progress",
    "learn", "look_up_request", "methods_request", "next_step", "page_request", "parse_transaction",
    "payee_request", "read_callback", "read_found", "read_methods", "read_page", "read_payee",
    "read_reversals", "read_started", "receive_callback", "records_request",
    "reference_look_up_request", "reversals_page_request", "reversals_request", "take_result",
    "to_money", "verify_key",
]  # fmt: skip

_MODULES = {
    "AsyncMerchantClient": "clients.async_client",
    "GapCloser": "inbox.gap_closer",
    "MerchantClient": "clients.blocking_client",
    "PostgresInbox": "inbox.sql_inbox",
    "SqliteInbox": "inbox.sql_inbox",
}


def __getattr__(name: str) -> object:
    """Import an export at its first use, so that each needs only its own packages."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
