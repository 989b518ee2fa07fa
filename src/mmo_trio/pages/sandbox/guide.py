"""The sandbox's front page shows how to make a web payment, with payment page and phone; another
page shows every part of the design system in every state."""

from __future__ import annotations

import functools
from decimal import Decimal
from urllib.parse import quote

from quart import Blueprint, Response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from mmo_sansio.messages.inputs import ConfirmPage, CreatePayment, Draft
from mmo_sansio.messages.replies import Accepted
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS, SCENARIOS_BY_DIGITS
from mmo_sansio.values.model import Brand, Method, Operation, Party
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount
from mmo_trio.design.chart_drawing import DrawnChart, Series, draw_bars, draw_lines
from mmo_trio.pages.context import (
    LISTENER_URL,
    find_shown_key,
    pages_context,
    reject_cross_site_post,
    sandbox_context,
)
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.payment.page import PART_PARAMETER, find_payment_variables
from mmo_trio.pages.payment.shops import Shop, shop_of
from mmo_trio.pages.sandbox.activity import describe_callbacks
from mmo_trio.pages.sandbox.phone import MSISDN_PATTERN, PHONE_NUMBER, REFRESH_S, phone_variables
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID

# Pairs of foreground and background with what they are for; tests measure each of them.
COLOURS = (
    ("--text", "--bg", "Text"),
    ("--dim", "--bg", "Secondary text"),
    ("--accent", "--bg", "Links"),
    ("--on", "--accent", "Buttons"),
    ("--good", "--good-bg", "Succeeded"),
    ("--bad", "--bad-bg", "Failed"),
    ("--warn", "--warn-bg", "Waiting"),
    ("--accent", "--info", "Information"),
)

pages = Blueprint("guide", __name__)
pages.before_request(reject_cross_site_post)


@pages.get("/")
async def guide(*, fault: str = "", number: str = "") -> Response:
    """Show the front page, with the number that a link of the test numbers has chosen."""
    # What was typed stands before what a link has chosen, and that before the suggestion.
    chosen = request.args.get("number", "")
    if not number and MSISDN_PATTERN.fullmatch(chosen):
        number = chosen

    # Without a method there is nothing to pay, and the page says so.
    offer = await _find_web_payin_method()
    offered: dict[str, object] = {"brand": None}
    if offer is not None:
        brand, method = offer
        least = _minimum_amount(method)
        offered = {
            "brand": brand.name,
            "method": method,
            "least": least,
            "amount": format_amount(least),
        }

    page = await render_template(
        "guide.html",
        **offered,
        texts=ENGLISH,
        number=number or PHONE_NUMBER,
        sample_number=PHONE_NUMBER,
        fault=fault,
        addresses=sandbox_context().addresses,
        api_key=await find_shown_key(),
        scenarios=SCENARIOS,
        result_url=LISTENER_URL,
    )
    if fault:
        return Response(page, 422)
    return Response(page)


@pages.post("/try")
async def make_payment() -> AnyResponse | Response:
    """Make a payment, as a merchant would."""
    form = await request.form
    number = form.get("number", "").replace(" ", "")
    offer = await _find_web_payin_method()
    if offer is None:
        return await guide(number=form.get("number", ""))

    if not MSISDN_PATTERN.fullmatch(number):
        fault = "A phone number has 3 to 20 digits, with the country's code in front."
        return await guide(fault=fault, number=form.get("number", ""))

    reply = await pages_context().submit(_create_payment_input(*offer, number))
    assert isinstance(reply, Accepted), reply
    return redirect(f"/try/{reply.order.gateway_reference}", 303)


@pages.get("/try/<reference>")
async def show_payment(reference: str) -> Response:
    """Show the payment as its payer sees it, and the payer's phone."""
    context = pages_context()
    transaction = await context.store.transaction(reference)
    if transaction is None or transaction.order.page is None:
        return Response(await render_template("unknown.html"), 404)

    order = transaction.order
    token = transaction.order.page.token
    # What the shop was told; a payment has one callback at most (K3).
    recorded = await context.store.admin.callbacks(gateway_reference=reference)
    callbacks = await describe_callbacks(recorded)
    # A brand may be removed while its payments still run.
    record = await context.store.brand_record(order.brand)
    if record is None:
        shop = Shop(order.brand)
    else:
        shop = shop_of(record.brand)

    number = order.party.msisdn.removeprefix("+")
    own_url = f"/try/{reference}"
    variables = await find_payment_variables(
        context, transaction, shop, ENGLISH, now=context.own_time()
    )
    page = await render_template(
        "try.html",
        **variables
        | {
            # The shop's colour is that of the payment's card alone: the page around it is ours.
            "colour_url": None,
            "shop_colour_url": shop.colour_url and f"{shop.colour_url}?{PART_PARAMETER}",
        },
        **await phone_variables(
            number, wrong_pin=request.args.get("wrong_pin", ""), only=reference
        ),
        reference=reference,
        merchant_reference=order.merchant_reference,
        payment_status=transaction.status.value,
        error_code=transaction.progress.error_code,
        callback=callbacks[0] if callbacks else None,
        own_url=own_url,
        action_url=f"{own_url}/confirm",
        events_url=f"/pay/{token}/events",
        pay_url=f"/pay/{token}",
        phone_url=f"/phone/{number}",
        phone_page=own_url,
        guide_reference=reference,
        refresh_s=REFRESH_S,
    )
    return Response(page)


@pages.post("/try/<reference>/confirm")
async def confirm_payment(reference: str) -> AnyResponse:
    """Press the button of the payment page."""
    await pages_context().submit(ConfirmPage(reference))
    return redirect(f"/try/{quote(reference)}", 303)


async def _find_web_payin_method() -> tuple[Brand, Method] | None:
    """Return the first enabled brand with a method for web pay-ins, the demo brand before others,
    and the method."""
    records = await pages_context().store.admin.brands()
    for record in sorted(records, key=lambda record: record.brand.id != DEMO_BRAND_ID):
        for method in record.brand.methods:
            if Operation.WEB_PAYIN in method.operations and record.brand.enabled:
                return record.brand, method
    return None


def _minimum_amount(method: Method) -> Money:
    return next(iter(method.limits.values())).minimum


def _create_payment_input(brand: Brand, method: Method, number: str) -> CreatePayment:
    """Return the input of a merchant's request. A test number decides by itself what happens; any
    other one prompts the virtual phone."""
    amount = _minimum_amount(method)
    reference = sandbox_context().new_reference()
    scenario = None
    if number[-3:] not in SCENARIOS_BY_DIGITS:
        scenario = "phone"

    draft = Draft(
        operation=Operation.WEB_PAYIN,
        method=method.key,
        amount=Decimal(amount.text),
        currency=amount.currency,
        country=method.country,
        result_url=LISTENER_URL,
        merchant_reference=f"try-{reference[-8:].lower()}",
        party=Party("somebody", number),
        scenario=scenario,
        labels='{"order":"2 tickets, Nairobi to Mombasa"}',
    )
    return CreatePayment(
        brand,
        reference,
        draft,
        sandbox_context().new_page_token(),
        sandbox_context().terms,
        simulated_providers=sandbox_context().simulated_providers,
    )


@pages.get("/sandbox/design")
async def show_design() -> Response:
    return Response(
        await render_template("design_page.html", colours=COLOURS, charts=example_charts())
    )


@functools.cache
def example_charts() -> tuple[DrawnChart, DrawnChart]:
    """Return a chart of bars and one of lines, with values that show zero, much and unknown."""
    labels = [f"{hour:02}:00" for hour in range(24)]
    # Whole numbers that look like a day's: more by day, and the same in each picture.
    succeeded = [(hour * 37) % 90 + 40 * (8 <= hour <= 20) for hour in range(24)]
    failed = [(hour * 11) % 14 for hour in range(24)]
    share = [100 * good / (good + bad or 1) for good, bad in zip(succeeded, failed, strict=True)]
    rate = [None if hour in (3, 4) else value for hour, value in enumerate(share)]
    volume = (Series("succeeded", succeeded, "c2"), Series("failed", failed, "c3"))
    return (
        draw_bars("volume", "Payments", labels, volume, "{:,.0f}".format),
        draw_lines(
            "rate",
            "Success rate",
            labels,
            [Series("success rate", rate)],
            "{:.0f} %".format,
            top=100,
        ),
    )
