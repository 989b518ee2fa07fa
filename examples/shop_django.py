"""A shop on Django in a single file: it takes payments by a prompt on the phone, and takes each
result once.

    API_KEYS=... GATEWAY=https://gateway.example SHOP=https://shop.example DATABASE=shop.db \\
        SECRET_KEY=... gunicorn --threads 16 --certfile cert.pem --keyfile key.pem \\
        shop_django:application

The inbox lies in Django's own database, so that an order and the result that pays it become durable
together. """

import os
import sqlite3
import threading

import django
from django.conf import settings

KEYS, SHOP, DATABASE = os.environ["API_KEYS"].split(), os.environ["SHOP"], os.environ["DATABASE"]
settings.configure(
    ALLOWED_HOSTS=[SHOP.split("//")[1].split(":")[0]],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ["SECRET_KEY"],
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection as orm  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

from mmo_merchant import (  # noqa: E402
    DirectPayIn,
    GapCloser,
    MerchantClient,
    Money,
    Party,
    SqliteInbox,
    TransactionObject,
    receive_callback,
)

gateway, inbox = MerchantClient(os.environ["GATEWAY"], KEYS[0]), SqliteInbox(DATABASE)
with orm.cursor() as cursor:
    cursor.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, status TEXT NOT NULL)")


def settle(result: TransactionObject, connection: sqlite3.Connection) -> None:
    """Note how an order has ended, in the transaction that takes the result."""
    is_paid = result.final_amount == result.requested_amount
    status = "paid" if is_paid else result.error_code or "paid in part"
    connection.execute(
        "UPDATE orders SET status = ? WHERE id = ?", (status, result.merchant_reference)
    )


def pay(request: HttpRequest, order: str) -> HttpResponse:
    """Ask the customer's phone for the money."""
    with orm.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s, 'open') ON CONFLICT DO NOTHING", [order])
    payment = DirectPayIn(
        method="mpesa_ke",
        amount=Money(150_00, "KES"),
        country="KE",
        payer=Party(request.POST["customer"], request.POST["phone"]),
        merchant_reference=order,
        result_url=f"{SHOP}/results",
    )
    return HttpResponse(gateway.create_or_get(payment).gateway_reference)


def show(request: HttpRequest, order: str) -> HttpResponse:
    """Show what is known about an order."""
    with orm.cursor() as cursor:
        cursor.execute("SELECT status FROM orders WHERE id = %s", [order])
        found = cursor.fetchone()
    return HttpResponse(found[0]) if found else HttpResponse(status=404)


def results(request: HttpRequest) -> HttpResponse:
    """Take a result. The key in `X-API-KEY` is the proof of who calls, so there is no CSRF
    token."""
    status = receive_callback(request.headers, request.body, keys=KEYS, inbox=inbox, handle=settle)
    return HttpResponse(status=status)


urlpatterns = [
    path("orders/<str:order>/pay", csrf_exempt(pay)),
    path("orders/<str:order>", show),
    path("results", csrf_exempt(results)),
]
application = get_wsgi_application()
closer = GapCloser(gateway, inbox, settle)
threading.Thread(target=closer.run, args=(threading.Event(),), daemon=True).start()
