"""Carries payments to their callbacks with FastAPI, asyncpg and aiohttp; what follows a create are
asyncio tasks of the same process, which a crash loses."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import os
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Annotated, Any

import aiohttp
import asyncpg
from contract import (
    ASKS,
    AUTHORITY,
    CALLBACK_TIMEOUT_S,
    KEPT_CONNECTION_S,
    REFERENCE_WINDOW,
    Payment,
    question,
    refusal,
    rendered,
    result,
    submission,
)
from fastapi import FastAPI, Header, HTTPException, Request

POOL = 10
FAILURES_TO_OPEN, OPEN_S = 5, 30.0
ANSWER_BYTES = 65_536
"""As much of a merchant's answer is read."""

CREATE = """
with used as (
    insert into merchant_references values ($2, $3, $12)
    on conflict (merchant_id, merchant_reference) do update set used_at = excluded.used_at
        where merchant_references.used_at < excluded.used_at - $13::interval
    returning 1
)
insert into payments
select $1, $2, $3, $4, 'pending', 'created', $5, $6, $7, $8, $9, $10, $11, null, null, $12, null
from used
"""
SUBMITTED = """
update payments set stage = $2, error_code = $3 where id = $1 and stage = 'created'
"""
COMPLETE = """
update payments
set status = $2, stage = 'completed', completed_at = $3, provider_reference = $4, error_code = $5
where id = $1 and status = 'pending' returning *
"""
RECORD = "insert into callbacks values ($1, $2, $3, $4, $5, $6) on conflict do nothing"
LOOK_UP = "select * from payments where id = $1 and merchant_id = $2"


class Breaker:
    """Opens for half a minute after five failures in a row, then lets one attempt through."""

    def __init__(self) -> None:
        self.failures = 0
        self.open_until = 0.0

    def permits(self) -> bool:
        if self.failures < FAILURES_TO_OPEN:
            return True
        if time.monotonic() < self.open_until:
            return False
        self.open_until = time.monotonic() + OPEN_S
        return True

    def record(self, is_delivered: bool) -> None:
        self.failures = 0 if is_delivered else self.failures + 1
        if self.failures >= FAILURES_TO_OPEN:
            self.open_until = time.monotonic() + OPEN_S


merchants: dict[bytes, Any] = {}
callback_keys: dict[str, str] = {}
breakers: dict[str, Breaker] = {}
tasks: set[asyncio.Task[None]] = set()


def spawn(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


@asynccontextmanager
async def clients(app: FastAPI) -> AsyncIterator[None]:
    tls = ssl.create_default_context(cafile=AUTHORITY)
    timeout = aiohttp.ClientTimeout(total=CALLBACK_TIMEOUT_S)
    to_operator = aiohttp.TCPConnector(limit=100)
    to_merchants = aiohttp.TCPConnector(limit=200, ssl=tls, keepalive_timeout=KEPT_CONNECTION_S)
    async with (
        asyncpg.create_pool(os.environ["RIVAL_DSN"], min_size=POOL, max_size=POOL) as pool,
        aiohttp.ClientSession(connector=to_operator, timeout=timeout) as operator,
        aiohttp.ClientSession(connector=to_merchants, timeout=timeout) as receivers,
    ):
        for row in await pool.fetch("select * from merchants"):
            merchants[row["key_digest"]] = row["id"], json.loads(row["methods"])
            callback_keys[row["id"]] = row["callback_key"]
        app.state.pool = pool
        app.state.operator = operator
        app.state.receivers = receivers
        yield


app = FastAPI(lifespan=clients)


def merchant_of(key: str) -> Any:
    found = merchants.get(hashlib.sha256(key.encode()).digest())
    if found is None:
        raise HTTPException(401)
    return found


@app.post("/gateway/mmo/v2/direct/payin/{method}")
async def create(
    method: str, payment: Payment, x_api_key: Annotated[str, Header()]
) -> dict[str, Any]:
    merchant_id, methods = merchant_of(x_api_key)
    if reason := refusal(payment, methods, method):
        raise HTTPException(422, reason)

    row = SimpleNamespace(
        id=uuid.uuid4(),
        merchant_reference=payment.merchantReference,
        reconciliation_reference=payment.reconciliationReference or payment.merchantReference,
        status="pending",
        method=method,
        country=payment.country,
        amount=payment.amount.value,
        currency=payment.amount.currency,
        provider_reference=None,
        error_code=None,
        created_at=dt.datetime.now(dt.UTC),
        completed_at=None,
    )
    party = payment.payer.model_dump(exclude_none=True)
    done = await app.state.pool.execute(
        CREATE,
        row.id,
        merchant_id,
        row.merchant_reference,
        row.reconciliation_reference,
        row.method,
        row.country,
        row.amount,
        row.currency,
        json.dumps(party),
        json.dumps(payment.labels) if payment.labels else None,
        str(payment.resultUrl),
        row.created_at,
        REFERENCE_WINDOW,
    )
    if done.endswith(" 0"):
        raise HTTPException(409, "This merchantReference was used.")

    spawn(submit(row, party["msisdn"]))
    return rendered(row, party, payment.labels)


async def submit(row: Any, msisdn: str) -> None:
    url, headers, body = submission(row, msisdn)
    stage, error = "submitted", None
    try:
        async with app.state.operator.post(url, json=body, headers=headers) as answer:
            await answer.read()
            if answer.status not in (202, 409):
                stage, error = "refused", str(answer.status)
    except (aiohttp.ClientError, TimeoutError) as failure:
        stage, error = "unknown", type(failure).__name__
    await app.state.pool.execute(SUBMITTED, row.id, stage, error)


@app.put("/operator/{payment_id}")
async def notification(payment_id: uuid.UUID, request: Request) -> dict[str, Any]:
    told = await request.json()
    if ASKS:
        async with app.state.operator.get(question(payment_id)) as answer:
            told = await answer.json()
    ended = result(told)
    if ended is None:
        return {}

    status, provider_reference, error = ended
    now = dt.datetime.now(dt.UTC)
    row = await app.state.pool.fetchrow(
        COMPLETE, payment_id, status, now, provider_reference, error
    )
    if row is not None:
        spawn(call_back(SimpleNamespace(**row)))
    return {}


async def call_back(row: Any) -> None:
    breaker = breakers.setdefault(row.merchant_id, Breaker())
    began = time.monotonic()
    outcome, http_status, detail = "breaker_open", None, None
    if breaker.permits():
        body = rendered(row, json.loads(row.party), row.labels and json.loads(row.labels))
        headers = {"X-API-KEY": callback_keys[row.merchant_id]}
        try:
            async with app.state.receivers.post(
                row.result_url, json=body, headers=headers, allow_redirects=False
            ) as answer:
                await answer.content.read(ANSWER_BYTES)
                http_status = answer.status
            outcome = "delivered" if 200 <= http_status < 300 else "refused"
        except (aiohttp.ClientError, TimeoutError) as failure:
            outcome, detail = "failed", type(failure).__name__
        breaker.record(outcome == "delivered")

    took_ms = round((time.monotonic() - began) * 1000)
    now = dt.datetime.now(dt.UTC)
    await app.state.pool.execute(RECORD, row.id, now, outcome, http_status, took_ms, detail)


@app.get("/gateway/mmo/v2/status/{payment_id}")
async def look_up(payment_id: uuid.UUID, x_api_key: Annotated[str, Header()]) -> dict[str, Any]:
    merchant_id, _ = merchant_of(x_api_key)
    row = await app.state.pool.fetchrow(LOOK_UP, payment_id, merchant_id)
    if row is None:
        raise HTTPException(404)
    labels = row["labels"] and json.loads(row["labels"])
    return rendered(SimpleNamespace(**row), json.loads(row["party"]), labels)
