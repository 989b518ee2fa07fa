"""Adapters of the mobile money operators, and what an adapter of your own is built from.

An adapter turns payments into the operator's requests and its responses into reports; the shell sends and waits. It
never sees the ledger. `docs/internals/adding.md` builds one step by step.
"""

from mmo_sansio.providers.common.account_check import AccountQuestion, ask_all, no_answer_finding
from mmo_sansio.providers.common.balances import (
    AccountBalance,
    BalanceInquiry,
    BalanceReport,
    ReportsBalances,
    parse_balance,
)
from mmo_sansio.providers.common.emv_qr import QrMerchant, make_qr_code, read_qr_merchant
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountCheck,
    AccountFinding,
    AccountState,
    AuthenticatesNotifications,
    ChecksAccount,
    CipherError,
    Ciphers,
    Conversation,
    DepositAnswer,
    DepositConversation,
    DepositReport,
    DepositValidation,
    ExchangeFailed,
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
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.providers.common.wire import parse_json, plain_amount, stored_text, to_json
from mmo_sansio.providers.registry import AdapterContext, AdapterFactory, ProviderKind

__all__ = [
    "DIRECT_PAYIN", "DIRECT_PAYOUT", "DIRECT_TAXPAYOUT", "PUSH", "QR_PAYIN", "WEB_PAYIN",
    "AccessToken", "AccountBalance", "AccountCheck", "AccountFinding", "AccountQuestion",
    "AccountState", "AdapterContext", "AdapterFactory", "AuthenticatesNotifications",
    "BalanceInquiry", "BalanceReport", "ChecksAccount", "CipherError", "Ciphers", "Conversation",
    "DepositAnswer", "DepositConversation", "DepositReport", "DepositValidation", "ExchangeFailed",
    "OperationKey", "OptionError", "Options", "PaymentReports", "Provider", "ProviderKind",
    "ProviderNotification", "ProviderOperation", "QrMerchant", "ReportsAvailability",
    "ReportsBalances", "ReversalConversation", "ReversalOperation", "ReversalReports",
    "ReversesPayments", "RsaPadding", "SignIn", "SignInFailed", "VerifiesDeposits", "ask_all",
    "drive", "make_qr_code", "no_answer_finding", "operation_key", "parse_balance", "parse_json",
    "plain_amount", "read_qr_merchant", "stored_text", "to_json",
]  # fmt: skip
