"""Holds what a merchant's program needs, without I/O: requests and their answers, `create_or_get`, and callbacks.

:mod:`mmo_trio.merchant` drives it over HTTP. The guide is `docs/merchant_client.md`.
"""

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.merchant.api_errors import (
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
from mmo_sansio.merchant.callback_bodies import (
    Callback,
    CallbackRejected,
    QrDelivery,
    UnreadableCallback,
    WrongKey,
    read_callback,
    verify_key,
)
from mmo_sansio.merchant.gap_closing import (
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
from mmo_sansio.merchant.gateway_requests import (
    Answer,
    ApiAccess,
    NoAnswer,
    RecordsWindow,
    StartedPayment,
    TransactionPage,
    creation_request,
    look_up_request,
    page_request,
    read_found,
    read_page,
    read_started,
    records_request,
    reference_look_up_request,
)
from mmo_sansio.merchant.idempotent_creation import Ask, Exchange, create_or_get
from mmo_sansio.merchant.new_payments import DirectPayIn, LabelValue, NewPayment, PayOut, QrPayIn, TaxPayOut, WebPayIn
from mmo_sansio.merchant.result_inbox import Inbox, receive_callback, take_result
from mmo_sansio.merchant.tolerant_json import UnreadableBody
from mmo_sansio.merchant.transaction_objects import ProviderDetails, TransactionObject, parse_transaction
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Party, Source, Status, Type
from mmo_sansio.values.money import Money, to_money
from mmo_sansio.values.problems import FieldError

__all__ = [
    "Answer", "ApiAccess", "ApiProblem", "ApiRejection", "Ask", "Callback", "CallbackRejected",
    "DirectPayIn", "ErrorCode", "Exchange", "FieldError", "Flow", "GapProgress", "GapRules", "GapStep",
    "GatewayUnavailable", "HttpRequest", "HttpResponse", "Inbox", "KeyRejected", "LabelValue", "Learned",
    "ListStep", "LookUpStep", "MerchantApiError", "Money", "NewPayment", "NoAnswer", "OutcomeUnclear",
    "Party", "PayOut", "ProviderDetails", "QrDelivery", "QrPayIn", "RecordsWindow", "ReferenceMismatch",
    "ReferenceUsed", "Source", "StartedPayment", "Status", "TaxPayOut", "TransactionNotFound",
    "TransactionObject", "TransactionPage", "Type", "UnreadableBody", "UnreadableCallback",
    "WatchedPayment", "WebPayIn", "WrongKey", "create_or_get", "creation_request", "first_progress",
    "learn", "look_up_request", "next_step", "page_request", "parse_transaction", "read_callback",
    "read_found", "read_page", "read_started", "receive_callback", "records_request",
    "reference_look_up_request", "take_result", "to_money", "verify_key",
]  # fmt: skip
