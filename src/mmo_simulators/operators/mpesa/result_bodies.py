"""Builds the results of the simulated M-Pesa with the parameters of Daraja's own samples: each API
has its own, and writes numbers as numbers or as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mmo_sansio.providers.mpesa_daraja.wire import timestamp, to_nairobi_time
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.money import Money
from mmo_simulators.operators.mpesa.accounts import SimulatedMpesaAccounts, SimulatedMpesaPayment

Parameters: TypeAlias = list[dict[str, Any]]

# By result code.
RESULT_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "0": "The service request is processed successfully.",
    "1": "The balance is insufficient for the transaction.",
    "2": "Declined due to limit rule: less than the minimum transaction amount.",
    "3": "Declined due to limit rule: greater than the maximum transaction amount.",
    "8": "Declined due to limit rule: would exceed the maximum balance.",
    "1032": "Request cancelled by user.",
    "1037": "DS timeout user cannot be reached.",
    "21": "The initiator is not allowed to initiate this request.",
    "2001": "The initiator information is invalid.",
    "2032": "The transaction receipt number does not exist.",
    "8006": "The security credential is locked.",
    "2028": "The request is not permitted according to product assignment.",
    "2040": "Credit Party customer type can't be supported by the service.",
    "R000001": "The transaction has already been reversed.",
    "R000002": "The OriginalTransactionID is invalid.",
    "SFC_IC0003": "The operator does not exist.",
    "queue_timeout": "The request timed out in the queue.",
}

DUMMY_RECEIPT: Final = "SIM0000000"

# The address within Daraja that its results name.
INTERNAL_URL: Final = "https://internal.simulator.example/results/v1/submit"

# The TransactionStatus by result code; any other is `Failed`.
_STATUSES: Final[Mapping[str | None, str]] = {
    None: "Authorized",
    "0": "Completed",
    "queue_timeout": "Expired",
}

# The ReasonType by kind; any other is a payment of a customer.
_REASON_TYPES: Final[Mapping[str, str]] = {
    "b2b": "Business Payment to Business via API",
    "b2c": "Business Payment to Customer via API",
    "reversal": "Transaction Reversal via API",
    "tax": "Pay Tax to KRA via API",
}

_BETWEEN_ORGANISATIONS: Final = ("b2b", "tax")


def describe_result(code: str) -> str:
    """Return the description of a result code."""
    return RESULT_DESCRIPTIONS.get(code, "The request was declined.")


def result_callback(
    payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts
) -> dict[str, Any]:
    """Return the callback with the result of a payment."""
    if payment.kind == "stk_push":
        return _stk_result_callback(payment)

    # A timeout of the queue is as one client models it (mpesakit): no page shows its body.
    code = to_json_code(payment.result)
    result_type: int | str = 0
    if payment.result == "queue_timeout":
        code = 1
        result_type = 1

    # Each product has its own samples: payments between organisations write text once paid.
    is_paid = payment.result == "0"
    is_paid_between = is_paid and payment.kind in _BETWEEN_ORGANISATIONS
    if is_paid_between:
        result_type = "0"
    if is_paid_between or payment.kind == "reversal":
        code = str(code)

    items: dict[str, str] | list[dict[str, str]] = _internal_url_item()
    if is_paid_between:
        items = _reference_items(payment)

    document: dict[str, Any] = {
        "ResultType": result_type,
        "ResultCode": code,
        "ResultDesc": payment.message,
        "OriginatorConversationID": payment.originator_id,
        "ConversationID": payment.conversation_id,
        "TransactionID": payment.receipt or DUMMY_RECEIPT,
        "ReferenceData": {"ReferenceItem": items},
    }
    if is_paid:
        parameters = _PARAMETERS_BY_KIND[payment.kind](payment, accounts)
        document["ResultParameters"] = {"ResultParameter": parameters}
    elif payment.kind in _BETWEEN_ORGANISATIONS:
        moment = int(timestamp(payment.ended_at or payment.accepted_at))
        document["ResultParameters"] = {
            "ResultParameter": {"Key": "BOCompletedTime", "Value": moment}
        }

    return {"Result": document}


def status_callback(
    payment: SimulatedMpesaPayment | None,
    accounts: SimulatedMpesaAccounts,
    code: str | None,
    ids: tuple[str, str],
    occasion: str = "",
) -> dict[str, Any]:
    """Return the callback with the state of a queried payment; `code` replaces the result."""
    if payment is None and code is None:
        code = "SFC_IC0003"

    # A member without a value, where the question has none (documented, Transaction Status).
    item = {"Key": "Occasion"}
    if occasion:
        item["Value"] = occasion

    document = _query_result(ids, code, item)
    if payment is not None and code is None:
        document["ResultParameters"] = {"ResultParameter": _status_parameters(payment, accounts)}

    return {"Result": document}


def balance_callback(
    balance_minor: int, code: str | None, ids: tuple[str, str], *, now: Instant
) -> dict[str, Any]:
    """Return the callback with the balance of an organisation, all of which is in its utility
    account; `code` replaces the result."""
    document = _query_result(ids, code, _internal_url_item())
    if code is None:
        # Everything is in the utility account: only that pays out.
        balances = dict.fromkeys(_ORGANISATION_ACCOUNTS, 0)
        balances["Utility Account"] = balance_minor
        text = "&".join(_account_text(name, minor) for name, minor in balances.items())
        document["ResultType"] = "0"
        document["ResultCode"] = "0"
        document["ResultParameters"] = {
            "ResultParameter": [
                {"Key": "AccountBalance", "Value": text},
                {"Key": "BOCompletedTime", "Value": timestamp(now)},
            ]
        }

    return {"Result": document}


def to_json_code(code: str | None) -> int | str:
    """Return the code as callbacks have it: a number, where it is one."""
    if code is not None and code.isdigit():
        return int(code)
    return code or ""


def _query_result(ids: tuple[str, str], code: str | None, item: dict[str, str]) -> dict[str, Any]:
    return {
        "ResultType": 0,
        "ResultCode": to_json_code(code or "0"),
        "ResultDesc": describe_result(code or "0"),
        "OriginatorConversationID": ids[1],
        "ConversationID": ids[0],
        "TransactionID": DUMMY_RECEIPT,
        "ReferenceData": {"ReferenceItem": item},
    }


def _payout_parameters(
    payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts
) -> Parameters:
    ended = to_nairobi_time(payment.ended_at or payment.accepted_at)
    return [
        {"Key": "TransactionAmount", "Value": payment.shillings},
        {"Key": "TransactionReceipt", "Value": payment.receipt},
        {"Key": "ReceiverPartyPublicName", "Value": _party_name(payment.payee, accounts)},
        {"Key": "TransactionCompletedDateTime", "Value": ended.strftime("%d.%m.%Y %H:%M:%S")},
        {
            "Key": "B2CUtilityAccountAvailableFunds",
            "Value": accounts.accounts[payment.payer].balance_minor / 100,
        },
        {"Key": "B2CWorkingAccountAvailableFunds", "Value": 0.0},
        {"Key": "B2CRecipientIsRegisteredCustomer", "Value": "Y"},
        {"Key": "B2CChargesPaidAccountAvailableFunds", "Value": 0.0},
    ]


def _organisation_payment_parameters(
    payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts
) -> Parameters:
    # A structure that is written out as text, as M-Pesa's samples have it.
    left = accounts.accounts[payment.payer].balance_minor
    current = (
        f"{{Amount={{CurrencyCode=KES, MinimumAmount={left}, BasicAmount={_money_text(left)}}}}}"
    )
    return [
        {"Key": "DebitAccountBalance", "Value": current},
        {"Key": "Amount", "Value": _money_text(payment.amount_minor)},
        {
            "Key": "DebitPartyAffectedAccountBalance",
            "Value": _account_text("Utility Account", left),
        },
        {"Key": "TransCompletedTime", "Value": timestamp(payment.ended_at or payment.accepted_at)},
        {"Key": "DebitPartyCharges", "Value": _charges_text(payment, accounts)},
        {"Key": "ReceiverPartyPublicName", "Value": _party_name(payment.payee, accounts)},
        {"Key": "Currency", "Value": "KES"},
        {"Key": "InitiatorAccountCurrentBalance", "Value": current},
    ]


def _reversal_parameters(
    payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts
) -> Parameters:
    left = accounts.accounts[payment.payer].balance_minor
    return [
        {"Key": "DebitAccountBalance", "Value": _account_text("Utility Account", left)},
        {"Key": "Amount", "Value": _money_text(payment.amount_minor)},
        {"Key": "TransCompletedTime", "Value": timestamp(payment.ended_at or payment.accepted_at)},
        {"Key": "OriginalTransactionID", "Value": payment.reversed_receipt},
        {"Key": "Charge", "Value": "0.00"},
        {"Key": "CreditPartyPublicName", "Value": _party_name(payment.payee, accounts)},
        {"Key": "DebitPartyPublicName", "Value": _party_name(payment.payer, accounts)},
    ]


def _status_parameters(
    payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts
) -> Parameters:
    ended = ""
    if payment.ended_at is not None:
        ended = timestamp(payment.ended_at)

    debited = "Utility Account"
    if payment.kind in ("stk_push", "c2b"):
        debited = "MMF Account For Customer"

    return [
        {"Key": "DebitPartyName", "Value": _party_name(payment.payer, accounts)},
        {"Key": "CreditPartyName", "Value": _party_name(payment.payee, accounts)},
        {"Key": "OriginatorConversationID", "Value": payment.originator_id},
        {"Key": "InitiatedTime", "Value": timestamp(payment.accepted_at)},
        {"Key": "DebitAccountType", "Value": debited},
        {"Key": "DebitPartyCharges", "Value": _charges_text(payment, accounts)},
        {"Key": "TransactionReason"},
        {"Key": "ReasonType", "Value": _REASON_TYPES.get(payment.kind, "Pay Bill Online")},
        {"Key": "TransactionStatus", "Value": _STATUSES.get(payment.result, "Failed")},
        {"Key": "FinalisedTime", "Value": ended},
        {"Key": "Amount", "Value": str(payment.shillings)},
        {"Key": "ConversationID", "Value": payment.conversation_id},
        {"Key": "ReceiptNo", "Value": payment.receipt or ""},
    ]


_PARAMETERS_BY_KIND: Final[
    Mapping[str, Callable[[SimulatedMpesaPayment, SimulatedMpesaAccounts], Parameters]]
] = {
    "b2b": _organisation_payment_parameters,
    "b2c": _payout_parameters,
    "reversal": _reversal_parameters,
    "tax": _organisation_payment_parameters,
}

_ORGANISATION_ACCOUNTS: Final = (
    *("Working Account", "Float Account", "Utility Account", "Charges Paid Account"),
    "Organization Settlement Account",
)


def _account_text(name: str, balance_minor: int) -> str:
    """Return an account as balances show it: available, current, reserved and uncleared funds."""
    balance = _money_text(balance_minor)
    return f"{name}|KES|{balance}|{balance}|0.00|0.00"


def _charges_text(payment: SimulatedMpesaPayment, accounts: SimulatedMpesaAccounts) -> str:
    payer = accounts.accounts.get(payment.payer)
    # Named of what was paid; two charges are joined by `&`, as was seen.
    if payer is None or not payer.fee_minor or payment.result != "0":
        return ""
    fee = f"Fee For {payment.kind.upper()} Payment|KES|{_money_text(payer.fee_minor)}"
    if not payer.excise_minor:
        return fee
    return f"{fee}&Excise Duty|KES|{_money_text(payer.excise_minor)}"


def _money_text(minor: int) -> str:
    return Money(minor, "KES").text


def _party_name(id: str, accounts: SimulatedMpesaAccounts) -> str:
    account = accounts.accounts.get(id)
    if account:
        return f"{id} - {account.name}"
    return id


def _internal_url_item() -> dict[str, str]:
    return {"Key": "QueueTimeoutURL", "Value": INTERNAL_URL}


def _reference_items(payment: SimulatedMpesaPayment) -> list[dict[str, str]]:
    return [
        {"Key": "BillReferenceNumber", "Value": payment.bill_reference},
        {"Key": "QueueTimeoutURL", "Value": payment.queue_timeout_url},
    ]


def _stk_result_callback(payment: SimulatedMpesaPayment) -> dict[str, Any]:
    document: dict[str, Any] = {
        "MerchantRequestID": payment.originator_id,
        "CheckoutRequestID": payment.conversation_id,
        "ResultCode": to_json_code(payment.result),
        "ResultDesc": payment.message,
    }
    if payment.result == "0":
        document["CallbackMetadata"] = {
            "Item": [
                # As the page's sample: with decimals, without a value, with numbers as numbers.
                {"Name": "Amount", "Value": payment.amount_minor / 100},
                {"Name": "MpesaReceiptNumber", "Value": payment.receipt},
                {"Name": "Balance"},
                {"Name": "TransactionDate", "Value": int(timestamp(payment.accepted_at))},
                {"Name": "PhoneNumber", "Value": int(payment.prompted)},
            ]
        }

    return {"Body": {"stkCallback": document}}
