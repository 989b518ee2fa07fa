"""Serves creates and look-ups without a framework, as a lower bound for asyncio; it checks almost
nothing."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from decimal import Decimal
from typing import Any

import asyncpg
import msgspec
from statement import CREATE, LOOK_UP

STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"
HEADERS = [(b"content-type", b"application/json")]


class Money(msgspec.Struct):
    value: Decimal
    currency: str


class Party(msgspec.Struct):
    id: str
    msisdn: str


class Payment(msgspec.Struct):
    amount: Money
    payer: Party
    country: str
    resultUrl: str
    merchantReference: str


decoder = msgspec.json.Decoder(Payment)
pool: Any = None


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await live(receive, send)
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["method"] == "GET":
        results = await look_up(scope["path"].rpartition("/")[2])
    else:
        results = await create(decoder.decode(body))
    answer = msgspec.json.encode(results)
    headers = [*HEADERS, (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def create(payment: Payment) -> dict[str, str]:
    now, reference = dt.datetime.now(dt.UTC), uuid.uuid4()
    await pool.execute(
        CREATE,
        reference,
        payment.merchantReference,
        payment.merchantReference,
        "mpesa_ke",
        payment.country,
        payment.amount.value,
        payment.amount.currency,
        msgspec.json.encode(payment.payer).decode(),
        None,
        now,
        payment.resultUrl,
    )
    return {
        "status": "pending",
        "gatewayReference": str(reference),
        "merchantReference": payment.merchantReference,
        "createdAt": now.isoformat(),
    }


async def look_up(reference: str) -> dict[str, Any]:
    row = await pool.fetchrow(
        LOOK_UP, uuid.UUID(reference or "00000000-0000-0000-0000-000000000000")
    )
    if row is None:
        return {}
    amount = {"value": float(row["amount"]), "currency": row["currency"]}
    done = row["completed_at"]
    return {
        "status": row["status"],
        "type": row["type"],
        "flow": row["flow"],
        "gatewayReference": reference,
        "merchantReference": row["merchant_reference"],
        "reconciliationReference": row["reconciliation_reference"],
        "providerReference": None,
        "party": msgspec.Raw(row["party"].encode()),
        "method": row["method"],
        "country": row["country"],
        "requestedAmount": amount,
        "finalAmount": amount if row["status"] == "success" else None,
        "labels": msgspec.Raw(row["labels"].encode()) if row["labels"] else None,
        "createdAt": row["created_at"].strftime(STAMP),
        "completedAt": done.strftime(STAMP) if done else None,
        "completionSource": "webhook" if done else None,
        "errorCode": None,
        "errorMessage": None,
        "providerData": None,
    }


async def live(receive: Any, send: Any) -> None:
    global pool
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            pool = await asyncpg.create_pool(os.environ["RIVAL_DSN"], min_size=10, max_size=10)
            await send({"type": "lifespan.startup.complete"})
        else:
            await pool.close()
            await send({"type": "lifespan.shutdown.complete"})
            return
