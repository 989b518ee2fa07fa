"""What brings a QR code to its merchant (Q1)."""

from __future__ import annotations

import json

from mmo_sansio.api.outgoing.transaction_json import money_object
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.model import Transaction

_to_json = json.JSONEncoder(ensure_ascii=False).encode


def qr_code_request(transaction: Transaction, key: bytes, *, image: str) -> HttpRequest:
    """The request that brings the code to `displayQrUrl`, with one of the merchant's own API keys (A4).

    `image`: the picture in base64. The transaction has a `displayQrUrl` and a code.
    """
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
        f',"expiresAt":"{format_with_microseconds(order.expires_at)}"}}'
    )
    headers = ((b"content-type", b"application/json"), (b"x-api-key", key))
    return HttpRequest("POST", order.display_qr_url.encode(), headers, body.encode())


def not_sent_attempt(transaction: Transaction, detail: str) -> DeliveryAttempt:
    """The record of a code that was not sent, and why."""
    url = transaction.order.display_qr_url or ""
    return DeliveryAttempt(DeliveryOutcome.TRANSPORT_ERROR, url, detail=detail)
