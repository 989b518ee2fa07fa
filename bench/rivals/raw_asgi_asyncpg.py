"""A floor for asyncio: the same create with no framework at all; it checks next to nothing."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from decimal import Decimal
from typing import Any

import asyncpg
import msgspec
from statement import CREATE

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
    answer = msgspec.json.encode(await create(decoder.decode(body)))
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
