"""Serves creates, look-ups and records with FastAPI, pydantic, uvicorn and asyncpg, one statement
per request."""

from __future__ import annotations

import datetime as dt
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated, Any

import asyncpg
from fastapi import FastAPI, Header, HTTPException, Query
from pydantic import BaseModel, Field, HttpUrl
from statement import CREATE, LOOK_UP, RECORDS

KEY = os.environ["RIVAL_KEY"]
STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


class Money(BaseModel):
    value: Decimal = Field(gt=0)
    currency: str = Field(min_length=3, max_length=3)


class Party(BaseModel):
    id: str = Field(min_length=1, max_length=255)
    msisdn: str = Field(min_length=3, max_length=20)
    firstName: str | None = Field(None, max_length=255)
    lastName: str | None = Field(None, max_length=255)
    email: str | None = Field(None, max_length=320)


class Payment(BaseModel):
    amount: Money
    payer: Party
    country: str = Field(max_length=10)
    resultUrl: HttpUrl
    merchantReference: str = Field(min_length=1, max_length=255)
    reconciliationReference: str | None = Field(None, max_length=255)
    labels: dict[str, str] | None = None


@asynccontextmanager
async def pool(app: FastAPI) -> AsyncIterator[None]:
    app.state.pool = await asyncpg.create_pool(os.environ["RIVAL_DSN"], min_size=10, max_size=10)
    yield
    await app.state.pool.close()


app = FastAPI(lifespan=pool)


@app.post("/gateway/mmo/v2/direct/payin/{method}")
async def create(
    method: str, payment: Payment, x_api_key: Annotated[str, Header()]
) -> dict[str, str]:
    if x_api_key != KEY:
        raise HTTPException(401)
    now, reference = dt.datetime.now(dt.UTC), uuid.uuid4()
    reconciliation = payment.reconciliationReference or payment.merchantReference
    done = await app.state.pool.execute(
        CREATE,
        reference,
        payment.merchantReference,
        reconciliation,
        method,
        payment.country,
        payment.amount.value,
        payment.amount.currency,
        payment.payer.model_dump_json(),
        json.dumps(payment.labels) if payment.labels else None,
        now,
        str(payment.resultUrl),
    )
    if done.endswith(" 0"):
        raise HTTPException(422)
    return {
        "status": "pending",
        "gatewayReference": str(reference),
        "merchantReference": payment.merchantReference,
        "reconciliationReference": reconciliation,
        "createdAt": now.isoformat(),
    }


@app.get("/gateway/mmo/v2/status/{reference}")
async def look_up(reference: uuid.UUID, x_api_key: Annotated[str, Header()]) -> Any:
    if x_api_key != KEY:
        raise HTTPException(401)
    row = await app.state.pool.fetchrow(LOOK_UP, reference)
    if row is None:
        raise HTTPException(404)
    return render(row)


@app.get("/gateway/mmo/v2/records")
async def records(
    begin: Annotated[dt.datetime, Query(alias="from")],
    end: Annotated[dt.datetime, Query(alias="to")],
    x_api_key: Annotated[str, Header()],
    page_size: Annotated[int, Query(alias="pageSize", ge=1, le=5000)] = 50,
) -> Any:
    if x_api_key != KEY:
        raise HTTPException(401)
    rows = await app.state.pool.fetch(RECORDS, begin, end, page_size)
    return {"data": [render(row) for row in rows], "pages": {"next": None, "previous": None}}


def render(row: asyncpg.Record) -> dict[str, Any]:
    amount = {"value": float(row["amount"]), "currency": row["currency"]}
    done = row["completed_at"]
    return {
        "status": row["status"],
        "type": row["type"],
        "flow": row["flow"],
        "gatewayReference": str(row["gateway_reference"]),
        "merchantReference": row["merchant_reference"],
        "reconciliationReference": row["reconciliation_reference"],
        "providerReference": None,
        "party": json.loads(row["party"]),
        "method": row["method"],
        "country": row["country"],
        "requestedAmount": amount,
        "finalAmount": amount if row["status"] == "success" else None,
        "labels": json.loads(row["labels"]) if row["labels"] else None,
        "createdAt": row["created_at"].strftime(STAMP),
        "completedAt": done.strftime(STAMP) if done else None,
        "completionSource": "webhook" if done else None,
        "errorCode": None,
        "errorMessage": None,
        "providerData": None,
    }
