"""The hosted payment page: what is paid to whom, one button, the state, and the way back (clauses W1 to W3).

The browser never decides about money: it shows what the store says, and its button only says that the payer agrees.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from quart import Blueprint, Response, render_template, request

from mmo_sansio.messages.inputs import ConfirmPage
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Page, Status, Transaction
from mmo_trio.pages.context import PagesContext
from mmo_trio.pages.payment.brand_names import BrandNameCache
from mmo_trio.pages.payment.events import PayerStatus, PaymentEventStreams, payer_status
from mmo_trio.pages.payment.formatting import (
    format_amount,
    format_time_left,
    spoken_suffix,
)
from mmo_trio.pages.payment.languages import LANGUAGES, choose_language
from mmo_trio.pages.payment.languages.texts import PageTexts
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.masking import mask_own_number

TOKEN_CHARACTERS_MAX = 64
REFRESH_S = 2
"""How often a page without scripts looks again."""

LANGUAGE_PARAMETER = "lang"
PRESSED_PARAMETER = "pressed"
"""Says in the query that the browser comes from the button: see `_go_back`."""


_FINAL_STATUSES = (PayerStatus.CLOSED, PayerStatus.PAID, PayerStatus.FAILED)


def create_payment_page_blueprint(context: PagesContext) -> Blueprint:
    """GET shows the page of a token; POST is its button; `/events` tells how it stands, as it changes."""
    pages = Blueprint("payment", __name__)
    names = BrandNameCache(context.store, context.now)
    following = PaymentEventStreams(context)

    @pages.get("/pay/<token>")
    async def show(token: str) -> Response:
        transaction = await _find_transaction(context, token)
        if transaction is None:
            return await _unknown_token_response()
        name = await names.name_of(transaction.order.brand)
        return await _render_payment(context, transaction, token, name)

    @pages.post("/pay/<token>")
    async def confirm(token: str) -> Response:
        transaction = await _find_transaction(context, token)
        if transaction is None:
            return await _unknown_token_response()
        await context.submit(ConfirmPage(transaction.reference))
        return Response("", 303, {"Location": _page_url(token, pressed=True)})

    @pages.get("/pay/<token>/events")
    async def events(token: str) -> Response:
        if await _find_transaction(context, token) is None:
            return await _unknown_token_response()
        return following.open_stream(token, _request_texts())

    @pages.errorhandler(StoreUnavailable)
    @pages.errorhandler(OutcomeUnknown)
    async def busy(_: Exception) -> Response:
        page = await render_template("busy.html", texts=_request_texts(), refresh_s=REFRESH_S + 1)
        return Response(page, 503, {"Retry-After": "2"})

    return pages


async def _find_transaction(context: PagesContext, token: str) -> Transaction | None:
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii():
        return None
    return await context.store.transaction_by_page_token(token)


async def _unknown_token_response() -> Response:
    """The same for every token that leads nowhere: a guess learns nothing (W3)."""
    return Response(await render_template("unknown.html", texts=_request_texts()), 404)


async def _render_payment(
    context: PagesContext, transaction: Transaction, token: str, brand: str
) -> Response:
    order, page, texts = transaction.order, transaction.order.page, _request_texts()
    assert page is not None
    back = _merchant_redirect_url(transaction, page)
    if back is not None and PRESSED_PARAMETER not in request.args:
        return Response("", 303, {"Location": _encode_location(back)})
    now = context.now()
    standing = payer_status(transaction, now=now)
    amount = format_amount(transaction.progress.final or order.requested, texts.numbers)
    return Response(
        await render_template(
            "payment.html",
            texts=texts,
            brand=brand,
            amount=amount,
            provider=order.provider_title,
            number=mask_own_number(order.party.msisdn),
            number_heard=texts.ending_in.format(digits=spoken_suffix(order.party.msisdn)),
            standing=standing,
            told=status_sentence(standing, transaction.progress.error_code, texts),
            left=format_time_left(Span(page.closes_at - now), texts),
            closes_in_s=max(1, -(-(page.closes_at - now) // SECOND)),
            is_over=now >= page.closes_at and standing in _FINAL_STATUSES,
            goes_back=back is not None,
            own_url=_page_url(token),
            events_url=f"/pay/{token}/events{_query_string()}",
            switch=[
                (each, f"?{urlencode({LANGUAGE_PARAMETER: each.code})}")
                for each in LANGUAGES.values()
            ],
            refresh_s=REFRESH_S,
        )
    )


def status_sentence(status: PayerStatus, code: ErrorCode | None, texts: PageTexts) -> str:
    """How the payment stands, as a sentence; empty while the payer is asked."""
    match status:
        case PayerStatus.FAILED:
            return f"{texts.not_paid} {texts.reasons[code]}" if code else texts.not_paid
        case PayerStatus.PAID:
            return texts.paid
        case PayerStatus.CLOSED:
            return texts.closed
        case PayerStatus.SENDING:
            return texts.sending
        case PayerStatus.WAITING:
            return texts.waiting
        case PayerStatus.OPEN:
            return ""


def _merchant_redirect_url(transaction: Transaction, page: Page) -> str | None:
    """Where the browser goes once the payment has ended, when the merchant said so (W2).

    Not straight from the button: browsers forbid a form's answer to lead where `form-action` doesn't allow. So the
    page that the button leads to is shown, and leads on by itself.
    """
    match transaction.status:
        case Status.SUCCESS:
            return page.success_redirect_url
        case Status.FAILED:
            return page.error_redirect_url
        case Status.PENDING:
            return None


def _encode_location(url: str) -> str:
    """The URL exactly as given; only what no header may hold is percent-encoded, as a browser would (RFC 3987)."""
    return "".join(each if "!" <= each <= "~" else quote(each) for each in url)


def _page_url(token: str, *, pressed: bool = False) -> str:
    return f"/pay/{token}{_query_string(pressed=pressed)}"


def _query_string(*, pressed: bool = False) -> str:
    """What the page's own addresses carry along: the language that was switched to needs no cookie."""
    wanted = {}
    if request.args.get(LANGUAGE_PARAMETER) in LANGUAGES:
        wanted[LANGUAGE_PARAMETER] = request.args[LANGUAGE_PARAMETER]
    if pressed:
        wanted[PRESSED_PARAMETER] = "1"
    return f"?{urlencode(wanted)}" if wanted else ""


def _request_texts() -> PageTexts:
    return choose_language(request.args.get(LANGUAGE_PARAMETER), request.accept_languages.values())
