"""Builds the requests that deliver a payment's result (K1) or its QR code (Q1) to the merchant."""

from __future__ import annotations

import json

from mmo_sansio.api.outgoing.transaction_json import money_object, transaction_object
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.model import Transaction

_to_json = json.JSONEncoder(ensure_ascii=False).encode


def callback_request(transaction: Transaction, key: bytes) -> HttpRequest:
    """Return the request that tells the merchant how this transaction ended (K1), authenticated with one of the
    merchant's own API keys (A4).

    The transaction is terminal and has a result URL: no other one is ever called back."""
    url = transaction.order.result_url
    assert transaction.progress.stage.is_terminal, "a pending transaction is never called back"
    assert url is not None, "a transaction without a result URL is never called back"
    return _post(url, key, transaction_object(transaction))


def qr_code_request(transaction: Transaction, key: bytes, *, image: str) -> HttpRequest:
    """Return the request that brings the code to `displayQrUrl`, with one of the merchant's own API keys (A4).

    `image` is the picture in base64. The transaction has a `displayQrUrl` and a code."""
    order, code = transaction.order, transaction.progress.qr
    assert order.display_qr_url is not None, "only a QR pay-in is shown"
    assert code is not None, "there is nothing to show"
    body = (
        f'{{"gatewayReference":"{order.gateway_reference}"'
        f',"merchantReference":{_to_json(order.merchant_reference)}'
        f',"reconciliationReference":{_to_json(order.reconciliation_reference)}'
        f',"amount":{money_object(order.requested)}'
        f',"qrPayload":{_to_json(code.payload)}'
        f',"qrImage":{_to_json(image)}'
        f',"expiresAt":"{format_with_microseconds(order.to_utc(order.expires_at))}"}}'
    )
    return _post(order.display_qr_url, key, body.encode())


def _post(url: str, key: bytes, body: bytes) -> HttpRequest:
    headers = ((b"content-type", b"application/json"), (b"x-api-key", key))
    return HttpRequest("POST", url.encode(), headers, body)


def not_sent_attempt(
    transaction: Transaction, detail: str, outcome: DeliveryOutcome = DeliveryOutcome.TRANSPORT_ERROR
) -> DeliveryAttempt:
    """Return the record of a code that was not sent, and why."""
    url = transaction.order.display_qr_url or ""
    return DeliveryAttempt(outcome, url, detail=detail)
