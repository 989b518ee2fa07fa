"""The virtual phone shows the simulated operator's prompts to a person (scenario 180, `phone`), and
its messages after payments."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import trio
from attrs import frozen
from quart import Blueprint, Response, render_template, request

from mmo_sansio.providers.sandbox.journal import SandboxSubmission
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.model import Status, Transaction, Type
from mmo_sansio.values.money import Money, decimals_of
from mmo_sansio.values.number_format import format_amount
from mmo_trio.http.asgi.web_app import stream_response
from mmo_trio.pages.context import (
    PagesContext,
    SandboxContext,
    pages_context,
    reject_cross_site_post,
    sandbox_context,
)
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.storage.interface.store import StoreUnavailable

# The suggested number: its last digits make the simulated operator prompt a person.
PHONE_NUMBER = "254700000180"

APPROVE = "approve"

# The ways to decline, with the error code of the payment.
DECLINE_CODES: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "refuse": ErrorCode.USER_CANCELLED,
        "no-money": ErrorCode.USER_INSUFFICIENT_FUNDS,
        "ignore": ErrorCode.USER_TIMEOUT,
    }
)

CHECK_INTERVAL_S = 0.25
STREAM_LIFETIME_S = 30.0
REFRESH_S = 2

# How many payments the balance counts, and how many messages are shown.
PAYMENTS_MAX, MESSAGES_MAX = 200, 4

# What every virtual phone has at first in each currency, in its main unit.
OPENING_BALANCE = 1_000_000

MSISDN_PATTERN = re.compile(r"\+?[0-9]{3,20}", re.ASCII)
_REFERENCE_PATTERN = re.compile(r"[0-9A-Z]{26}", re.ASCII)
_PIN_PATTERN = re.compile(r"[0-9]{4}", re.ASCII)

pages = Blueprint("phone", __name__, url_prefix="/phone")
pages.before_request(reject_cross_site_post)


@pages.get("")
async def pick_number() -> Response:
    """Show a form for the number of a phone, and the numbers with prompts."""
    number = request.args.get("number", "").replace(" ", "")
    if MSISDN_PATTERN.fullmatch(number):
        return Response("", 303, {"Location": f"/phone/{_without_plus(number)}"})
    waiting = sorted({_without_plus(prompt.msisdn) for prompt in _prompts()})
    page = await render_template(
        "phones.html", texts=ENGLISH, waiting=waiting, number=number, suggested=PHONE_NUMBER
    )
    return Response(page)


@pages.get("/<number>")
async def show_phone(number: str) -> Response:
    if not MSISDN_PATTERN.fullmatch(number):
        return Response(await render_template("unknown.html"), 404)

    number = _without_plus(number)
    page = await render_template(
        "phone.html",
        **await phone_variables(number, wrong_pin=request.args.get("wrong_pin", "")),
        texts=ENGLISH,
        phone_page=f"/phone/{number}",
        refresh_s=REFRESH_S,
    )
    return Response(page)


@pages.post("/<number>/<reference>")
async def answer_prompt(number: str, reference: str) -> Response:
    """Approve or decline a payment, and show the page again from which that was done."""
    form = await request.form
    operator = sandbox_context().operator
    action = form.get("action", APPROVE)
    pin = form.get("pin", "")
    guide = form.get("guide", "")

    # Back to where the phone was answered, and to no address that somebody else has written.
    if _REFERENCE_PATTERN.fullmatch(guide):
        origin = f"/try/{guide}"
    else:
        origin = f"/phone/{_without_plus(number)}"

    if not MSISDN_PATTERN.fullmatch(number) or action not in (APPROVE, *DECLINE_CODES):
        return Response(await render_template("unknown.html"), 404)

    # A prompt that is over changes nothing: the page shows what has become of it.
    is_waiting = any(prompt.reference == reference for prompt in _prompts(number))
    if operator is None or not is_waiting:
        return Response("", 303, {"Location": origin})

    if action in DECLINE_CODES:
        operator.decline(reference, error_code=DECLINE_CODES[action])
    elif _PIN_PATTERN.fullmatch(pin):
        operator.approve(reference)
    else:
        return Response("", 303, {"Location": f"{origin}?wrong_pin={reference}"})

    return Response("", 303, {"Location": f"{origin}?done={action}"})


@pages.get("/<number>/events")
async def stream_events(number: str) -> Response:
    """Send one event once the phone has other prompts or messages than those `shown`: `prompt`
    while it has any prompt, else `message`. With a `payment`, its callback is something to show,
    too."""
    # Read before the stream begins: it runs without the request.
    context = pages_context()
    sandbox = sandbox_context()
    shown = request.args.get("shown", "")
    payment = request.args.get("payment", "")

    async def events() -> AsyncGenerator[bytes, None]:
        yield b"retry: 1000\n\n"
        state = shown
        with suppress(StoreUnavailable), trio.move_on_after(STREAM_LIFETIME_S):
            while not context.closing.is_set():
                prompts, own = (
                    _find_prompts(context, sandbox, number),
                    await _find_payments(context, number),
                )
                state = phone_state(prompts, own) + await _callback_state(context, payment)
                if state != shown:
                    break
                with trio.move_on_after(CHECK_INTERVAL_S):
                    await context.closing.wait()

        if state == shown:
            return
        if prompts:
            yield b"data: prompt\n\n"
        else:
            yield b"data: message\n\n"

    return stream_response(events())


def _prompts(number: str | None = None) -> list[SandboxSubmission]:
    return _find_prompts(pages_context(), sandbox_context(), number)


def _find_prompts(
    context: PagesContext, sandbox: SandboxContext, number: str | None
) -> list[SandboxSubmission]:
    """Return the prompts that have not expired, of one phone or of all."""
    if sandbox.operator is None:
        return []

    # By the gateway's time: a payment that has expired can't be approved any more.
    now = context.own_time()
    return [
        prompt
        for prompt in sandbox.operator.prompts()
        if now < prompt.expires_at
        and (number is None or _without_plus(prompt.msisdn) == _without_plus(number))
    ]


async def _find_payments(context: PagesContext, number: str) -> list[Transaction]:
    """Return the newest payments of this phone. Raises StoreUnavailable."""
    numbers = (number, f"+{number}")
    found = await context.store.admin.search_payments(number, msisdns=numbers, limit=PAYMENTS_MAX)
    # The search also finds payments whose reference is this text.
    return [
        transaction
        for transaction in found.transactions
        if transaction.order.party.msisdn in numbers
    ]


def phone_state(prompts: Sequence[SandboxSubmission], payments: Iterable[Transaction]) -> str:
    """Return what is another text as soon as the phone has another prompt or message."""
    ended = sum(payment.status is not Status.PENDING for payment in payments)
    return f"{ended}-{len(prompts)}-{prompts[-1].reference if prompts else ''}"


async def _callback_state(context: PagesContext, payment: str) -> str:
    """Return what is another text once the callback of a payment is recorded; without one empty."""
    if not payment:
        return ""
    recorded = await context.store.admin.callbacks(gateway_reference=payment)
    return f"-{len(recorded)}"


async def phone_variables(number: str, *, wrong_pin: str = "", only: str = "") -> dict[str, Any]:
    """Return what `handset.html` shows of this phone, but for the URL of the page around it.
    `wrong_pin` is the reference of the payment for which no PIN was typed that could be one; `only`
    is that of the one to show the prompt of, and whose callback is awaited; without it all are
    shown."""
    context = pages_context()
    own, prompts = await _find_payments(context, number), _prompts(number)
    return {
        "phone_number": number,
        "prompts": [
            (
                prompt,
                format_amount(prompt.amount),
                prompt.type == "payin",
                await _order_name(prompt),
            )
            for prompt in prompts
            if only in ("", prompt.reference)
        ],
        "state": phone_state(prompts, own) + await _callback_state(context, only),
        "is_pending": any(payment.status is Status.PENDING for payment in own),
        "messages": phone_messages(own)[-MESSAGES_MAX:],
        "shops": {brand.brand.id: brand.brand.name for brand in await context.store.admin.brands()},
        "money": format_amount,
        "wrong_pin": wrong_pin,
        "done": request.args.get("done", ""),
    }


async def _order_name(prompt: SandboxSubmission) -> str:
    """Return the shop's name and its reference, by which a person tells prompts apart."""
    store = pages_context().store
    transaction = await store.transaction(prompt.reference)
    if transaction is None:
        return ""
    record = await store.brand_record(transaction.order.brand)
    if record is None:
        shop = transaction.order.brand
    else:
        shop = record.brand.name

    return ", ".join(name for name in (shop, transaction.order.merchant_reference) if name)


@frozen
class PhoneMessage:
    """Describes one message; `balance` is what the account has after it."""

    reference: str
    """The provider's reference, or the gateway's where there is none."""
    is_success: bool
    is_payin: bool
    amount: Money
    shop: str
    """The id of the brand."""
    balance: Money


def phone_messages(ended: Iterable[Transaction]) -> list[PhoneMessage]:
    """Return the messages about these payments of one phone, the oldest first, in the order in
    which they ended. There is none where nobody knows whether money has moved: an operator that
    says nothing to the gateway says nothing to the payer either."""
    balances: dict[str, int] = {}
    messages = []
    for prompt in sorted(
        (prompt for prompt in ended if prompt.status is not Status.PENDING),
        key=lambda prompt: prompt.progress.completed_at or 0,
    ):
        code = prompt.progress.error_code
        if code is not None and not EXPLANATIONS[code].proves_nothing_moved:
            continue

        amount = prompt.progress.final or prompt.order.requested
        is_payin = prompt.order.type is Type.PAYIN
        # An account for each currency, as one that changes money would need rates.
        opening = OPENING_BALANCE * 10 ** decimals_of(amount.currency)
        balance = balances.setdefault(amount.currency, opening)
        if prompt.status is Status.SUCCESS:
            if is_payin:
                balance -= amount.minor
            else:
                balance += amount.minor

            balances[amount.currency] = balance

        messages.append(
            PhoneMessage(
                reference=prompt.progress.provider_reference or prompt.reference,
                is_success=prompt.status is Status.SUCCESS,
                is_payin=is_payin,
                amount=amount,
                shop=prompt.order.brand,
                balance=Money(balance, amount.currency),
            )
        )

    return messages


def _without_plus(number: str) -> str:
    return number.removeprefix("+")
