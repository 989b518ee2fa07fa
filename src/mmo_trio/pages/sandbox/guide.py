"""The sandbox's front page: a whole web payment by hand, with payment page and phone side by side."""

from __future__ import annotations

import re
from decimal import Decimal

from quart import Blueprint, Response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from mmo_sansio.messages.inputs import CreatePayment, Draft
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.values.model import Brand, Method, Operation, Party
from mmo_sansio.values.money import Money
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.payment.events import payer_status
from mmo_trio.pages.payment.formatting import format_amount
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.sandbox.phone import PHONE_NUMBER
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.ids import generate_page_token

RESULT_URL = "https://127.0.0.1:8443/"
"""Where `mmo listen` listens unless it is told otherwise."""

_MSISDN_PATTERN = re.compile(r"\+?[0-9]{3,20}", re.ASCII)


def create_guide_blueprint(context: PagesContext, sandbox: SandboxContext) -> Blueprint:
    """GET / is the guide; POST /try makes a payment; GET /try/REFERENCE leads through it. In a sandbox only."""
    pages = Blueprint("guide", __name__)

    @pages.get("/")
    async def guide() -> Response:
        return await _render_guide(context, sandbox)

    @pages.post("/try")
    async def make() -> AnyResponse | Response:
        form = await request.form
        number = form.get("number", "").replace(" ", "")
        offer = await _find_web_payin_method(context)
        if offer is None or not _MSISDN_PATTERN.fullmatch(number):
            fault = "A phone number has 3 to 20 digits, with the country's code in front."
            return await _render_guide(context, sandbox, fault=fault if offer else "")
        reply = await context.submit(_create_payment_input(sandbox, *offer, number))
        assert isinstance(reply, Accepted), reply
        return redirect(f"/try/{reply.order.gateway_reference}", 303)

    @pages.get("/try/<reference>")
    async def step(reference: str) -> Response:
        transaction = await context.store.transaction(reference)
        if transaction is None or transaction.order.page is None:
            return Response(await render_template("unknown.html", texts=ENGLISH), 404)
        order = transaction.order
        page = await render_template(
            "try.html",
            texts=ENGLISH,
            reference=reference,
            merchant_reference=order.merchant_reference,
            amount=format_amount(order.requested, ENGLISH.numbers),
            standing=payer_status(transaction, now=context.now()),
            pay_url=f"/pay/{transaction.order.page.token}",
            phone_url=f"/phone/{order.party.msisdn.removeprefix('+')}",
        )
        return Response(page)

    @pages.errorhandler(StoreUnavailable)
    @pages.errorhandler(OutcomeUnknown)
    async def busy(_: Exception) -> Response:
        return Response(await render_template("busy.html", texts=ENGLISH, refresh_s=3), 503)

    return pages


async def _render_guide(
    context: PagesContext, sandbox: SandboxContext, *, fault: str = ""
) -> Response:
    offer = await _find_web_payin_method(context)
    page = await render_template(
        "guide.html",
        texts=ENGLISH,
        brand=offer[0].name if offer else None,
        amount=format_amount(_minimum_amount(offer[1]), ENGLISH.numbers) if offer else "",
        number=PHONE_NUMBER,
        fault=fault,
        addresses=sandbox.addresses,
    )
    return Response(page, 422 if fault else 200)


async def _find_web_payin_method(context: PagesContext) -> tuple[Brand, Method] | None:
    """The first brand, and a method of it, that takes web pay-ins."""
    for record in await context.store.admin.brands():
        for method in record.brand.methods:
            if Operation.WEB_PAYIN in method.operations and record.brand.enabled:
                return record.brand, method
    return None


def _minimum_amount(method: Method) -> Money:
    return next(iter(method.limits.values())).minimum


def _create_payment_input(
    sandbox: SandboxContext, brand: Brand, method: Method, number: str
) -> CreatePayment:
    """What a merchant would ask for; the operator waits for the person at the phone, whatever the number."""
    amount, reference = _minimum_amount(method), sandbox.new_reference()
    draft = Draft(
        operation=Operation.WEB_PAYIN,
        method=method.key,
        amount=Decimal(amount.text),
        currency=amount.currency,
        country=method.country,
        result_url=RESULT_URL,
        merchant_reference=f"try-{reference[-8:].lower()}",
        party=Party("somebody", number),
        scenario="phone",
    )
    return CreatePayment(brand, reference, draft, generate_page_token(), sandbox.terms)
