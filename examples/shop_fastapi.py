"""A shop on FastAPI: it takes payments by a prompt on the phone, and takes each result once.

    API_KEYS=... GATEWAY=https://gateway.example SHOP=https://shop.example DATABASE=shop.db \\
        uvicorn shop_fastapi:app --ssl-certfile cert.pem --ssl-keyfile key.pem
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from mmo_merchant import (
    AsyncMerchantClient,
    DirectPayIn,
    GapCloser,
    MerchantClient,
    Money,
    Party,
    SqliteInbox,
    TransactionObject,
    receive_callback,
)

GATEWAY, KEYS = os.environ["GATEWAY"], os.environ["API_KEYS"].split()
SHOP, DATABASE = os.environ["SHOP"], os.environ["DATABASE"]
inbox = SqliteInbox(DATABASE)


def settle(result: TransactionObject, connection: sqlite3.Connection) -> None:
    """Note how an order has ended, in the transaction that takes the result."""
    is_paid = result.final_amount == result.requested_amount
    status = "paid" if is_paid else result.error_code or "paid in part"
    connection.execute(
        "UPDATE orders SET status = ? WHERE id = ?", (status, result.merchant_reference)
    )


def execute(statement: str, *parameters: str) -> tuple[str] | None:
    """Execute a statement of our own, and return its first row."""
    with contextlib.closing(sqlite3.connect(DATABASE)) as database, database:
        row: tuple[str] | None = database.execute(statement, parameters).fetchone()
        return row


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Close gaps as long as the application runs."""
    execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, status TEXT NOT NULL)")
    async with AsyncMerchantClient(GATEWAY, KEYS[0]) as gateway:
        app.state.gateway = gateway
        closer = GapCloser(MerchantClient(GATEWAY, KEYS[0]), inbox, settle)
        gaps = asyncio.create_task(closer.run_async())
        yield
        gaps.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/pay")
async def pay(order: str, request: Request) -> str:
    """Ask the customer's phone for the money."""
    form = await request.json()
    await run_in_threadpool(
        execute, "INSERT INTO orders VALUES (?, 'open') ON CONFLICT DO NOTHING", order
    )
    payment = DirectPayIn(
        method="mpesa_ke",
        amount=Money(150_00, "KES"),
        country="KE",
        payer=Party(form["customer"], form["phone"]),
        merchant_reference=order,
        result_url=f"{SHOP}/results",
    )
    gateway: AsyncMerchantClient = request.app.state.gateway
    return (await gateway.create_or_get(payment)).gateway_reference


@app.get("/orders/{order}")
async def show(order: str) -> Response:
    """Show what is known about an order."""
    found = await run_in_threadpool(execute, "SELECT status FROM orders WHERE id = ?", order)
    return Response(found[0]) if found else Response(status_code=404)


@app.post("/results")
async def results(request: Request) -> Response:
    """Take a result."""
    receive = partial(
        receive_callback,
        request.headers,
        await request.body(),
        keys=KEYS,
        inbox=inbox,
        handle=settle,
    )
    return Response(status_code=await run_in_threadpool(receive))
