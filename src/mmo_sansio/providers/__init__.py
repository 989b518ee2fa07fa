"""Adapters of the mobile money operators, and what an adapter of your own is built from.

An adapter turns payments into the operator's requests and its responses into reports; the shell
sends and waits. It never sees the ledger. `docs/internals/adding.md` builds one step by step."""

from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderCannotTell,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    UnmatchedNotified,
)
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalCannotTell,
    ReversalFailed,
    ReversalHinted,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.account_check import AccountQuestion, ask_all, no_answer_finding
from mmo_sansio.providers.common.balances import (
    AccountBalance,
    BalanceInquiry,
    BalanceReport,
    ReportsBalances,
    parse_balance,
)
from mmo_sansio.providers.common.emv_qr import QrMerchant, QrOptions, make_qr_code, qr_merchant
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountCheck,
    AccountFinding,
    AccountState,
    AuthenticatesNotifications,
    ChecksAccount,
    CipherError,
    Ciphers,
    CommitsPayments,
    Conversation,
    DepositAnswer,
    DepositConversation,
    DepositReport,
    DepositValidation,
    ExchangeFailed,
    JudgesAnswers,
    NotifiesOnce,
    PaymentReports,
    Provider,
    ProviderNotification,
    ReportsAvailability,
    ReversalConversation,
    ReversalReports,
    ReversesPayments,
    RsaPadding,
    SignIn,
    SignInFailed,
    SignsIn,
    VerifiesDeposits,
    drive,
)
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    DIRECT_TAXPAYOUT,
    PUSH,
    QR_PAYIN,
    WEB_PAYIN,
    OperationKey,
    ProviderOperation,
    ReversalOperation,
    operation_key,
)
from mmo_sansio.providers.common.payees import NamesPayees, PayeeInquiry, payee_named
from mmo_sansio.providers.common.payer_urls import (
    PAYER_HOSTS,
    GatewaySettingError,
    SendsPayersAway,
    check_pages_url,
)
from mmo_sansio.providers.common.rehearsal import (
    AskAccount,
    AskAgain,
    AskUnknown,
    AwaitCallback,
    GiveBack,
    MakePayment,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
    account_step,
    steps_after,
)
from mmo_sansio.providers.common.wire import (
    object_member,
    parse_json,
    plain_amount,
    stored_text,
    text_member,
    to_json,
)
from mmo_sansio.providers.registry import AdapterContext, AdapterFactory, ProviderKind
from mmo_sansio.values.clock import (
    MICROSECOND,
    MILLISECOND,
    MonotonicInstant,
    Span,
    earlier,
    elapsed,
    format_with_microseconds,
    from_datetime,
    to_datetime,
)
from mmo_sansio.values.fields import (
    DATE,
    HEADER_SECRET,
    HTTPS_URL,
    NUMBER,
    REQUIRED,
    SECRET,
    SWITCH,
    TEXT,
    Field,
    InvalidValue,
    Kind,
    SettingsError,
    fields_of,
    matching,
    of_list,
    of_text,
    one_of,
    read_fields,
    read_table,
    setting,
    whole_number,
)
from mmo_sansio.values.model import Operation, Order, ProviderData, QrCode, Stage, Type
from mmo_sansio.values.money import AmountError, check_amount, parse_number, to_money
from mmo_sansio.values.payees import (
    PayeeCompared,
    PayeeNamed,
    PayeePredicted,
    PayeeReport,
    PayeeUnanswered,
    PayeeUnknown,
    plain_name,
)
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from mmo_sansio.values.return_links import return_url
from mmo_sansio.values.reversals import Reversal

__all__ = [
    "DATE", "DIRECT_PAYIN", "DIRECT_PAYOUT", "DIRECT_TAXPAYOUT", "HEADER_SECRET", "HTTPS_URL",
    "MICROSECOND", "MILLISECOND", "NUMBER", "PAYER_HOSTS", "PUSH", "QR_PAYIN", "REQUIRED", "SECRET",
    "SWITCH", "TEXT", "WEB_PAYIN", "AccessToken", "AccountBalance", "AccountCheck",
    "AccountFinding", "AccountQuestion", "AccountState", "AdapterContext", "AdapterFactory",
    "AmountError", "AskAccount", "AskAgain", "AskUnknown", "AuthenticatesNotifications",
    "AwaitCallback", "BalanceInquiry", "BalanceReport", "ChecksAccount", "CipherError", "Ciphers",
    "CommitsPayments", "Conversation", "DepositAnswer", "DepositConversation", "DepositReport",
    "DepositValidation", "EnterCode", "ExchangeFailed", "Field", "GatewaySettingError", "GiveBack",
    "Headers", "HttpRequest", "HttpResponse", "InvalidValue", "JudgesAnswers", "Kind",
    "MakePayment", "MonotonicInstant", "NamesPayees", "NotifiesOnce", "OpenUrl", "Operation",
    "OperationKey", "Order", "PayeeCompared", "PayeeInquiry", "PayeeNamed", "PayeePredicted",
    "PayeeReport", "PayeeUnanswered", "PayeeUnknown", "PaymentReports", "Provider",
    "ProviderCannotTell", "ProviderData", "ProviderHinted", "ProviderKind", "ProviderNeverReceived",
    "ProviderNotification", "ProviderOperation", "ProviderReport", "QrCode", "QrMerchant",
    "QrOptions", "Rehearsal", "RehearsalImpossible", "RehearsalStep", "ReportsAvailability",
    "ReportsBalances", "Reversal", "ReversalAccepted", "ReversalCannotTell", "ReversalConversation",
    "ReversalFailed", "ReversalHinted", "ReversalNeverReceived", "ReversalOperation",
    "ReversalReport", "ReversalReports", "ReversalSucceeded", "ReversalUnreachable",
    "ReversesPayments", "RsaPadding", "SendsPayersAway", "SettingsError", "SignIn", "SignInFailed",
    "SignsIn", "Span", "Stage", "Type", "UnmatchedNotified", "VerifiesDeposits", "account_step",
    "ask_all", "check_amount", "check_pages_url", "drive", "earlier", "elapsed", "fields_of",
    "format_with_microseconds", "from_datetime", "make_qr_code", "matching", "no_answer_finding",
    "object_member", "of_list", "of_text", "one_of", "operation_key", "parse_balance", "parse_json",
    "parse_number", "payee_named", "plain_amount", "plain_name", "qr_merchant", "read_fields",
    "read_table", "return_url", "setting", "steps_after", "stored_text", "text_member",
    "to_datetime", "to_json", "to_money", "whole_number",
]  # fmt: skip
