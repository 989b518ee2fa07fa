"""A shop on Flask: it takes payments on the hosted page, and takes each result once.

    API_KEYS=... GATEWAY=https://gateway.example SHOP=https://shop.example DATABASE=shop.db \\
        gunicorn --threads 16 --certfile cert.pem --keyfile key.pem shop_flask:app
"""

import os
import sqlite3
import threading

from flask import Flask, redirect, request
from flask.typing import ResponseReturnValue

from mmo_merchant import (
    GapCloser,
    MerchantClient,
    Money,
    Party,
    SqliteInbox,
    TransactionObject,
    WebPayIn,
    receive_callback,
)

KEYS, SHOP, DATABASE = os.environ["API_KEYS"].split(), os.environ["SHOP"], os.environ["DATABASE"]
app, gateway, inbox = (
    Flask(__name__),
    MerchantClient(os.environ["GATEWAY"], KEYS[0]),
    SqliteInbox(DATABASE),
)
with sqlite3.connect(DATABASE) as database:
    database.execute(
        "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, status TEXT NOT NULL)"
    )


def settle(result: TransactionObject, connection: sqlite3.Connection) -> None:
    is_paid = result.final_amount == result.requested_amount
    status = "paid" if is_paid else result.error_code or "paid in part"
    connection.execute(
        "UPDATE orders SET status = ? WHERE id = ?", (status, result.merchant_reference)
    )


@app.post("/orders/<order>/pay")
def pay(order: str) -> ResponseReturnValue:
    with sqlite3.connect(DATABASE) as database:
        database.execute("INSERT INTO orders VALUES (?, 'open') ON CONFLICT DO NOTHING", (order,))
    payment = WebPayIn(
        method="mpesa_ke",
        amount=Money(150_00, "KES"),
        country="KE",
        payer=Party(request.form["customer"], request.form["phone"]),
        merchant_reference=order,
        result_url=f"{SHOP}/results",
        success_redirect_url=f"{SHOP}/orders/{order}",
        error_redirect_url=f"{SHOP}/orders/{order}",
    )
    return redirect(gateway.create_or_get(payment).page_url or f"{SHOP}/orders/{order}", 303)


@app.get("/orders/<order>")
def show(order: str) -> ResponseReturnValue:
    with sqlite3.connect(DATABASE) as database:
        found = database.execute("SELECT status FROM orders WHERE id = ?", (order,)).fetchone()
    return found[0] if found else ("There is no such order.", 404)


@app.post("/results")
def results() -> ResponseReturnValue:
    status = receive_callback(
        request.headers, request.get_data(), keys=KEYS, inbox=inbox, handle=settle
    )
    return "", status


closer = GapCloser(gateway, inbox, settle)
threading.Thread(target=closer.run, args=(threading.Event(),), daemon=True).start()
