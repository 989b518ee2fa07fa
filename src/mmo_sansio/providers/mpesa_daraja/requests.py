"""Builds Daraja's requests, field by field; misspellings in names are Daraja's own.

A payment's references at Daraja are short enough, always the same, and easy to find. A field that
people see has 12 letters and digits: the last 12 of the gatewayReference, 60 random bits, of which
payments that are made in the same second may share 20. So no two payments have the same ones, and
staff find the payment by its ending."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.common.wire import JSON_HEADERS
from mmo_sansio.providers.mpesa_daraja.account import ApiOperator, MpesaAccount
from mmo_sansio.providers.mpesa_daraja.callback_url import CallbackContext, MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.wire import password, spaced_timestamp, timestamp, to_json
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Order, Transaction
from mmo_sansio.values.reversals import Reversal

# The Kenya Revenue Authority.
TAX_AUTHORITY_SHORTCODE = 572572

# Ids that no transaction has: of the form that M-Pesa's own have, so that no field is refused.
IMPOSSIBLE_RECEIPT = "AAA0000000"
IMPOSSIBLE_CHECKOUT = "ws_CO_000000000000000000000000000000"

# The length limit of an AccountReference (documented, M-Pesa Express).
ACCOUNT_REFERENCE_CHARACTERS: Final = 12

# The versions of the product C2B, in the order in which they are tried: an app has one of them.
C2B_VERSIONS: Final = (2, 1)

# The identifier type of a shortcode (documented, Transaction Status).
_ORGANISATION = "4"

# Path and command of each kind of question.
_STATUS: Final = ("/mpesa/transactionstatus/v1/query", "TransactionStatusQuery")
_BALANCE: Final = ("/mpesa/accountbalance/v1/query", "AccountBalance")

# Letters and digits, as `PRN1234XN` in the sample (Tax Remittance); the length is assumed.
_PAYMENT_REGISTRATION: Final = re.compile(r"[A-Za-z0-9]{1,20}", re.ASCII)


def token(account: MpesaAccount) -> HttpRequest:
    """Fetch an access token for the app's key and secret."""
    pair = f"{account.consumer_key}:{account.consumer_secret}".encode()
    target = f"{account.base_url}/oauth/v1/generate?grant_type=client_credentials"
    return HttpRequest("GET", target.encode(), ((b"authorization", b"Basic " + b64encode(pair)),))


def push(
    account: MpesaAccount, about: Transaction, *, msisdn: str, shillings: int, now: Instant
) -> HttpRequest:
    """Show a prompt on the payer's phone (STK push)."""
    command = "CustomerPayBillOnline"
    if account.till:
        command = "CustomerBuyGoodsOnline"

    return _post(
        account,
        "/mpesa/stkpush/v1/processrequest",
        {
            **_push_credentials(account, now=now),
            "TransactionType": command,
            "Amount": shillings,
            "PartyA": int(msisdn),
            # A till's money goes to the till, though its store number prompts (documented).
            "PartyB": int(account.till or account.shortcode),
            "PhoneNumber": int(msisdn),
            "CallBackURL": _order_url(account, about, MpesaCallbackKind.PUSH),
            "AccountReference": account_reference(about.reference),
            "TransactionDesc": "Payment",
        },
    )


def push_query(account: MpesaAccount, checkout_request_id: str, *, now: Instant) -> HttpRequest:
    """Poll a push; the response contains the state."""
    return _post(
        account,
        "/mpesa/stkpushquery/v1/query",
        {**_push_credentials(account, now=now), "CheckoutRequestID": checkout_request_id},
    )


def payout(
    account: MpesaAccount, about: Transaction, *, msisdn: str, shillings: int
) -> HttpRequest:
    """Pay a customer (B2C, version 3)."""
    return _post(
        account,
        "/mpesa/b2c/v3/paymentrequest",
        {
            # Ours, so that a repetition is refused as a duplicate: the only idempotency of Daraja.
            "OriginatorConversationID": conversation_id(about.reference),
            "InitiatorName": account.initiator.name,
            "SecurityCredential": account.initiator.security_credential,
            "CommandID": account.payout_command,
            "Amount": shillings,
            "PartyA": int(account.initiator.shortcode),
            "PartyB": int(msisdn),
            "Remarks": account_reference(about.reference),
            "QueueTimeOutURL": _order_url(account, about, MpesaCallbackKind.QUEUE_TIMEOUT),
            "ResultURL": _order_url(account, about, MpesaCallbackKind.RESULT),
        },
    )


def remittance(
    account: MpesaAccount, about: Transaction, *, registration_number: str, shillings: int
) -> HttpRequest:
    """Pay the tax authority under this payment registration number (Tax Remittance). It takes no id
    of ours: what was sent once is never sent again."""
    return _post(
        account,
        "/mpesa/b2b/v1/remittax",
        {
            "Initiator": account.initiator.name,
            "SecurityCredential": account.initiator.security_credential,
            "CommandID": "PayTaxToKRA",
            "SenderIdentifierType": _ORGANISATION,
            "RecieverIdentifierType": _ORGANISATION,
            "Amount": shillings,
            "PartyA": int(account.initiator.shortcode),
            "PartyB": TAX_AUTHORITY_SHORTCODE,
            "AccountReference": registration_number,
            "Remarks": account_reference(about.reference),
            "QueueTimeOutURL": _order_url(account, about, MpesaCallbackKind.QUEUE_TIMEOUT),
            "ResultURL": _order_url(account, about, MpesaCallbackKind.TAX_RESULT),
        },
    )


def reversal(
    account: MpesaAccount, about: Reversal, *, receipt: str, shillings: int
) -> HttpRequest:
    """Give the payment with this receipt back. The page on reversals names 11 as the type of every
    organisation."""
    operator = account.reverser
    result = CallbackContext(
        MpesaCallbackKind.REVERSAL_RESULT,
        about.id,
        about.amount.minor,
        about.version,
        receipt=receipt,
        credential=operator.credential,
    )
    return _post(
        account,
        "/mpesa/reversal/v1/request",
        {
            "Initiator": operator.name,
            "SecurityCredential": operator.security_credential,
            "CommandID": "TransactionReversal",
            "TransactionID": receipt,
            "Amount": shillings,
            # That it is the till for a till is assumed: the page on reversals shows paybills only.
            "ReceiverParty": int(account.till or account.shortcode),
            "RecieverIdentifierType": "11",
            "Remarks": about.id,
            "QueueTimeOutURL": _reversal_timeout_url(account, about),
            "ResultURL": _callback_url(account, result),
        },
    )


def reversal_query(account: MpesaAccount, about: Reversal, conversation: str) -> HttpRequest:
    """Ask about a reversal by Daraja's id; the state arrives by a callback."""
    operator = account.reverser
    # `|` parts the members of an address; no id of Daraja's has one.
    named = conversation.replace("|", "")
    state = CallbackContext(
        MpesaCallbackKind.REVERSAL_STATE,
        about.id,
        about.amount.minor,
        about.version,
        conversation=named,
        credential=operator.credential,
    )
    ids = {"OriginalConversationID": conversation}
    url = _callback_url(account, state)
    timeout_url = _reversal_timeout_url(account, about)
    return _question(account, operator, ids, url, timeout_url=timeout_url, remarks=about.id)


def _reversal_timeout_url(account: MpesaAccount, about: Reversal) -> str:
    return _callback_url(
        account,
        CallbackContext(MpesaCallbackKind.REVERSAL_QUEUE_TIMEOUT, about.id, version=about.version),
    )


def status_query(
    account: MpesaAccount,
    about: Transaction,
    original_conversation_id: str,
    callback: CallbackContext,
) -> HttpRequest:
    """Poll a pay-out or a tax payout; the state arrives by a callback."""
    ids = {"OriginalConversationID": original_conversation_id}
    return _order_question(account, account.initiator, ids, about, callback)


def receipt_query(
    account: MpesaAccount, operator: ApiOperator, about: Transaction, callback: CallbackContext
) -> HttpRequest:
    """Poll a payment by its reported receipt; the state arrives by a callback."""
    return _order_question(account, operator, {"TransactionID": callback.receipt}, about, callback)


def deposit_query(account: MpesaAccount, receipt: str, minor: int, now: Instant) -> HttpRequest:
    """Ask about a deposit by its receipt; the state arrives by a callback."""
    operator = account.deposit_initiator
    callback = CallbackContext(
        MpesaCallbackKind.DEPOSIT_RESULT,
        receipt,
        minor,
        asked_at=now,
        credential=operator.credential,
    )
    url = _callback_url(account, callback)
    return _question(
        account, operator, {"TransactionID": receipt}, url, timeout_url=url, remarks="Deposit"
    )


def account_check(account: MpesaAccount, operator: ApiOperator) -> HttpRequest:
    """Ask about a receipt that no transaction has; the answer, which shows whether M-Pesa accepts
    the API operator, arrives by a callback."""
    url = _callback_url(
        account, CallbackContext(MpesaCallbackKind.CHECK_RESULT, credential=operator.credential)
    )
    return _question(
        account,
        operator,
        {"TransactionID": IMPOSSIBLE_RECEIPT},
        url,
        timeout_url=url,
        remarks="Check",
    )


def balance_query(account: MpesaAccount, *, now: Instant) -> HttpRequest:
    """Ask for the balances of the shortcode that pays out; they arrive by a callback."""
    operator = account.initiator
    callback = CallbackContext(
        MpesaCallbackKind.BALANCE_RESULT, asked_at=now, credential=operator.credential
    )
    url = _callback_url(account, callback)
    return _question(account, operator, {}, url, timeout_url=url, remarks="Balance", asked=_BALANCE)


def _order_question(
    account: MpesaAccount,
    operator: ApiOperator,
    ids: Mapping[str, str],
    about: Transaction,
    callback: CallbackContext,
) -> HttpRequest:
    timeout_url = _order_url(account, about, MpesaCallbackKind.QUEUE_TIMEOUT)
    remarks = account_reference(about.reference)
    return _question(
        account,
        operator,
        ids,
        _callback_url(account, callback),
        timeout_url=timeout_url,
        remarks=remarks,
    )


def _question(
    account: MpesaAccount,
    operator: ApiOperator,
    ids: Mapping[str, str],
    result_url: str,
    *,
    timeout_url: str,
    remarks: str,
    asked: tuple[str, str] = _STATUS,
) -> HttpRequest:
    # Every question has these members; what differs is which id it names.
    path, command = asked
    return _post(
        account,
        path,
        {
            "Initiator": operator.name,
            "SecurityCredential": operator.security_credential,
            "CommandID": command,
            **ids,
            "PartyA": int(operator.shortcode),
            "IdentifierType": _ORGANISATION,
            "ResultURL": result_url,
            "QueueTimeOutURL": timeout_url,
            "Remarks": remarks,
        },
    )


def qr_code(account: MpesaAccount, order: Order, *, shillings: int) -> HttpRequest:
    """Draw a code by which any M-Pesa app pays this order to the shortcode (Dynamic QR)."""
    # Buy goods, or pay a bill (documented).
    code = "PB"
    if account.till:
        code = "BG"

    return _post(
        account,
        "/mpesa/qrcode/v1/generate",
        {
            "MerchantName": account.merchant_name,
            # The payment arrives as a deposit with this as its BillRefNumber.
            "RefNo": account_reference(order.gateway_reference),
            "Amount": shillings,
            "TrxCode": code,
            "CPI": account.till or account.shortcode,
            "Size": "300",
        },
    )


def pull_registration(account: MpesaAccount) -> HttpRequest:
    """Register the shortcode for `pull_query`."""
    url = _callback_url(account, CallbackContext(MpesaCallbackKind.CONFIRMATION))
    names = {"ShortCode": account.shortcode, "NominatedNumber": account.pull_number}
    return _post(
        account,
        "/pulltransactions/v1/register",
        {**names, "RequestType": "Pull", "CallBackURL": url},
    )


def pull_query(account: MpesaAccount, begin: Instant, end: Instant, *, offset: int) -> HttpRequest:
    """List what was paid to the shortcode between these wall times, from this row on."""
    period = {"StartDate": spaced_timestamp(begin), "EndDate": spaced_timestamp(end)}
    document = {"ShortCode": account.shortcode, **period, "OffSetValue": str(offset)}
    return _post(account, "/pulltransactions/v1/query", document)


def registration(account: MpesaAccount, version: int) -> HttpRequest:
    """Register the addresses for notifications of deposits with this version of C2B."""
    # What M-Pesa does with a deposit whose validation gets no answer from us.
    response_type = "Cancelled"
    if account.completes_unvalidated:
        response_type = "Completed"

    return _post(
        account,
        f"/mpesa/c2b/v{version}/registerurl",
        {
            "ShortCode": account.shortcode,
            "ResponseType": response_type,
            "ConfirmationURL": _callback_url(
                account, CallbackContext(MpesaCallbackKind.CONFIRMATION)
            ),
            "ValidationURL": _callback_url(account, CallbackContext(MpesaCallbackKind.VALIDATION)),
        },
    )


def _post(account: MpesaAccount, path: str, document: Mapping[str, Any]) -> HttpRequest:
    return HttpRequest(
        "POST", f"{account.base_url}{path}".encode(), JSON_HEADERS, to_json(document)
    )


def _push_credentials(account: MpesaAccount, *, now: Instant) -> dict[str, Any]:
    # The same in Password and Timestamp, or the prompt is refused.
    stamp = timestamp(now)
    return {
        "BusinessShortCode": int(account.shortcode),
        "Password": password(account.shortcode, account.passkey or "", stamp),
        "Timestamp": stamp,
    }


def _order_url(account: MpesaAccount, about: Transaction, kind: MpesaCallbackKind) -> str:
    # Whose password the result speaks of: a timeout and a prompt name none.
    credential = ""
    if kind in (MpesaCallbackKind.RESULT, MpesaCallbackKind.TAX_RESULT):
        credential = account.initiator.credential

    context = CallbackContext(
        kind,
        about.reference,
        about.order.requested.minor,
        about.progress.version,
        credential=credential,
    )
    return _callback_url(account, context)


def _callback_url(account: MpesaAccount, callback: CallbackContext) -> str:
    return f"{account.hooks_url}/{callback.to_segment(account.signing_key)}"


def account_reference(gateway_reference: str) -> str:
    """Return the reference on the payer's phone and statement, and on the merchant's."""
    return gateway_reference[-ACCOUNT_REFERENCE_CHARACTERS:]


def conversation_id(gateway_reference: str) -> str:
    """Return the OriginatorConversationID of a pay-out: the gatewayReference itself, so that Daraja
    rejects a repetition."""
    return gateway_reference


def registration_number(reconciliation_reference: str | None) -> str | None:
    """Return the tax authority's payment registration number from the reconciliationReference of a
    tax payout; None when that is not valid. It is never cut: a shorter one is another tax payer's.
    """
    number = (reconciliation_reference or "").strip()
    if _PAYMENT_REGISTRATION.fullmatch(number):
        return number
    return None
