"""Carries payments to their callbacks with FastAPI, SQLAlchemy, and Celery on Redis: what is under
way survives a crash of server or worker. The server is `in_queue:app`, the worker's queue
`in_queue:queue`."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import ssl
import time
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import httpx
import pybreaker
from celery import Celery
from celery.signals import worker_process_init, worker_ready
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
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from sqlalchemy import ForeignKey, Numeric, create_engine, select, update
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP, insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

ASYNC_DSN = os.environ["RIVAL_DSN"].replace("postgresql:", "postgresql+asyncpg:", 1)
DSN = os.environ["RIVAL_DSN"].replace("postgresql:", "postgresql+psycopg:", 1)


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dict: JSONB(none_as_null=True),
        dt.datetime: TIMESTAMP(timezone=True),
        Decimal: Numeric(20, 4),
    }


class Merchant(Base):
    __tablename__ = "merchants"
    id: Mapped[str] = mapped_column(primary_key=True)
    key_digest: Mapped[bytes] = mapped_column(unique=True)
    callback_key: Mapped[str]
    methods: Mapped[dict]


class UsedReference(Base):
    __tablename__ = "merchant_references"
    merchant_id: Mapped[str] = mapped_column(ForeignKey("merchants.id"), primary_key=True)
    merchant_reference: Mapped[str] = mapped_column(primary_key=True)
    used_at: Mapped[dt.datetime]


class Transaction(Base):
    __tablename__ = "payments"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    merchant_id: Mapped[str] = mapped_column(ForeignKey("merchants.id"))
    merchant_reference: Mapped[str]
    reconciliation_reference: Mapped[str]
    status: Mapped[str] = mapped_column(default="pending")
    stage: Mapped[str] = mapped_column(default="created")
    method: Mapped[str]
    country: Mapped[str]
    amount: Mapped[Decimal]
    currency: Mapped[str]
    party: Mapped[dict]
    labels: Mapped[dict | None]
    result_url: Mapped[str]
    provider_reference: Mapped[str | None]
    error_code: Mapped[str | None]
    created_at: Mapped[dt.datetime]
    completed_at: Mapped[dt.datetime | None]


class Callback(Base):
    __tablename__ = "callbacks"
    payment_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("payments.id"), primary_key=True)
    at: Mapped[dt.datetime]
    outcome: Mapped[str]
    http_status: Mapped[int | None]
    took_ms: Mapped[int]
    detail: Mapped[str | None]


# The server.

engine = create_async_engine(ASYNC_DSN, pool_size=10, max_overflow=10)
sessions = async_sessionmaker(engine, expire_on_commit=False)
operator_client = httpx.AsyncClient(timeout=CALLBACK_TIMEOUT_S)
known_merchants: dict[bytes, Merchant] = {}
app = FastAPI()


async def session() -> AsyncIterator[AsyncSession]:
    async with sessions() as opened:
        yield opened


Database = Annotated[AsyncSession, Depends(session)]


async def caller(x_api_key: Annotated[str, Header()], database: Database) -> Merchant:
    digest = hashlib.sha256(x_api_key.encode()).digest()
    if digest not in known_merchants:
        found = await database.scalar(select(Merchant).where(Merchant.key_digest == digest))
        if found is None:
            raise HTTPException(401)
        known_merchants[digest] = found
    return known_merchants[digest]


Caller = Annotated[Merchant, Depends(caller)]


@app.post("/gateway/mmo/v2/direct/payin/{method}")
async def create(
    method: str, payment: Payment, merchant: Caller, database: Database
) -> dict[str, Any]:
    if reason := refusal(payment, merchant.methods, method):
        raise HTTPException(422, reason)

    now = dt.datetime.now(dt.UTC)
    first_use = insert(UsedReference).values(
        merchant_id=merchant.id, merchant_reference=payment.merchantReference, used_at=now
    )
    use = first_use.on_conflict_do_update(
        index_elements=["merchant_id", "merchant_reference"],
        set_={"used_at": now},
        where=UsedReference.used_at < now - REFERENCE_WINDOW,
    )
    if await database.scalar(use.returning(UsedReference.used_at)) is None:
        raise HTTPException(409, "This merchantReference was used.")

    row = Transaction(
        merchant_id=merchant.id,
        merchant_reference=payment.merchantReference,
        reconciliation_reference=payment.reconciliationReference or payment.merchantReference,
        method=method,
        country=payment.country,
        amount=payment.amount.value,
        currency=payment.amount.currency,
        party=payment.payer.model_dump(exclude_none=True),
        labels=payment.labels,
        result_url=str(payment.resultUrl),
        created_at=now,
    )
    database.add(row)
    await database.commit()
    submit.delay(str(row.id))
    return rendered(row, row.party, row.labels)


@app.put("/operator/{payment_id}")
async def notification(
    payment_id: uuid.UUID, request: Request, database: Database
) -> dict[str, Any]:
    told = await request.json()
    if ASKS:
        told = (await operator_client.get(question(payment_id))).json()
    ended = result(told)
    if ended is None:
        return {}

    status, provider_reference, error = ended
    is_pending = Transaction.id == payment_id, Transaction.status == "pending"
    changed = await database.execute(
        update(Transaction)
        .where(*is_pending)
        .values(
            status=status,
            stage="completed",
            completed_at=dt.datetime.now(dt.UTC),
            provider_reference=provider_reference,
            error_code=error,
        )
    )
    await database.commit()
    if changed.rowcount:
        call_back.delay(str(payment_id))
    return {}


@app.get("/gateway/mmo/v2/status/{payment_id}")
async def look_up(payment_id: uuid.UUID, merchant: Caller, database: Database) -> dict[str, Any]:
    row = await database.get(Transaction, payment_id)
    if row is None or row.merchant_id != merchant.id:
        raise HTTPException(404)
    return rendered(row, row.party, row.labels)


# The worker.

queue = Celery("in_queue", broker=os.environ["RIVAL_REDIS"])
queue.conf.update(task_ignore_result=True, task_acks_late=True, task_reject_on_worker_lost=True)
breakers: dict[str, pybreaker.CircuitBreaker] = {}


class Refused(Exception):
    """A merchant's answer that is no success; the argument is its status."""


@worker_process_init.connect
def open_clients(**_: Any) -> None:
    global work, operator, receivers
    work = sessionmaker(create_engine(DSN, pool_size=2), expire_on_commit=False)
    operator = httpx.Client(timeout=CALLBACK_TIMEOUT_S)
    receivers = httpx.Client(
        timeout=CALLBACK_TIMEOUT_S,
        verify=ssl.create_default_context(cafile=AUTHORITY),
        limits=httpx.Limits(keepalive_expiry=KEPT_CONNECTION_S),
    )


@worker_ready.connect
def resume(**_: Any) -> None:
    """Queue again what a crash between a commit and its message has left without one."""
    with Session(create_engine(DSN)) as database:
        unsubmitted = select(Transaction.id).where(Transaction.stage == "created")
        for payment_id in database.scalars(unsubmitted):
            submit.delay(str(payment_id))

        completed = select(Transaction.id).where(Transaction.stage == "completed")
        untold = completed.outerjoin(Callback).where(Callback.at.is_(None))
        for payment_id in database.scalars(untold):
            call_back.delay(str(payment_id))


@queue.task
def submit(payment_id: str) -> None:
    with work() as database:
        row = database.get(Transaction, uuid.UUID(payment_id))
        if row.stage != "created":
            return

        url, headers, body = submission(row, row.party["msisdn"])
        stage, error = "submitted", None
        try:
            answer = operator.post(url, json=body, headers=headers)
            if answer.status_code not in (202, 409):
                stage, error = "refused", str(answer.status_code)
        except httpx.HTTPError as failure:
            stage, error = "unknown", type(failure).__name__

        is_created = Transaction.id == row.id, Transaction.stage == "created"
        database.execute(
            update(Transaction).where(*is_created).values(stage=stage, error_code=error)
        )
        database.commit()


@queue.task
def call_back(payment_id: str) -> None:
    with work() as database:
        row = database.get(Transaction, uuid.UUID(payment_id))
        if database.get(Callback, row.id) is not None:
            return
        key = database.get(Merchant, row.merchant_id).callback_key
        database.commit()  # No transaction stays open while the merchant takes its time.

        fresh = pybreaker.CircuitBreaker(fail_max=5, reset_timeout=30)
        breaker = breakers.setdefault(row.merchant_id, fresh)
        began = time.monotonic()
        outcome, http_status, detail = "delivered", None, None
        try:
            body = rendered(row, row.party, row.labels)
            http_status = breaker.call(post, row.result_url, body, key)
        except pybreaker.CircuitBreakerError:
            outcome = "breaker_open"
        except Refused as refused:
            outcome, http_status = "refused", refused.args[0]
        except httpx.HTTPError as failure:
            outcome, detail = "failed", type(failure).__name__

        database.add(
            Callback(
                payment_id=row.id,
                at=dt.datetime.now(dt.UTC),
                outcome=outcome,
                http_status=http_status,
                took_ms=round((time.monotonic() - began) * 1000),
                detail=detail,
            )
        )
        database.commit()


def post(url: str, body: dict[str, Any], key: str) -> int:
    answer = receivers.post(url, json=body, headers={"X-API-KEY": key})
    if not answer.is_success:
        raise Refused(answer.status_code)
    return answer.status_code
