"""A create as a team would write it today: FastAPI, pydantic, uvicorn, asyncpg, one statement for each request."""

from __future__ import annotations

import datetime as dt
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated

import asyncpg
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel, Field, HttpUrl
from statement import CREATE

KEY = os.environ["RIVAL_KEY"]


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
