"""The hosted payment page: what is paid to whom, one button, the state, and the way back (clauses W1 to W3).

The browser never decides about money: it shows what the store says, and its button only says that the payer agrees.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from quart import Blueprint, Response, render_template, request

from mmo_sansio.messages.inputs import ConfirmPage
from mmo_sansio.values.clock import SECOND
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Page, Status, Transaction
from mmo_trio.pages.context import Desk
from mmo_trio.pages.payment.brand_names import BrandNames
from mmo_trio.pages.payment.events import Following, Standing, standing_of
from mmo_trio.pages.payment.formatting import amount_written, masked, shown_end, time_written
from mmo_trio.pages.payment.languages import LANGUAGES, choose
from mmo_trio.pages.payment.languages.texts import Texts
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

TOKEN_CHARACTERS_MAX = 64
REFRESH_S = 2
"""How often a page without scripts looks again."""

LANGUAGE = "lang"
PRESSED = "pressed"
"""Says in the query that the browser comes from the button: see `_go_back`."""


_ENDED = (Standing.CLOSED, Standing.PAID, Standing.FAILED)


def payment_pages(desk: Desk) -> Blueprint:
    """GET shows the page of a token; POST is its button; `/events` tells how it stands, as it changes."""
    pages = Blueprint("payment", __name__)
    names = BrandNames(desk.store, desk.now)
    following = Following(desk)

    @pages.get("/pay/<token>")
    async def show(token: str) -> Response:
        transaction = await _found(desk, token)
        if transaction is None:
            return await _unknown()
        name = await names.name_of(transaction.order.brand)
        return await _shown(desk, transaction, token, name)

    @pages.post("/pay/<token>")
    async def confirm(token: str) -> Response:
        transaction = await _found(desk, token)
        if transaction is None:
            return await _unknown()
        await desk.submit(ConfirmPage(transaction.reference))
        return Response("", 303, {"Location": _own_url(token, pressed=True)})

    @pages.get("/pay/<token>/events")
    async def events(token: str) -> Response:
        if await _found(desk, token) is None:
            return await _unknown()
        return following.response(token, _texts())

    @pages.errorhandler(StoreUnavailable)
    @pages.errorhandler(OutcomeUnknown)
    async def busy(_: Exception) -> Response:
        page = await render_template("busy.html", texts=_texts(), refresh_s=REFRESH_S + 1)
        return Response(page, 503, {"Retry-After": "2"})

    return pages


async def _found(desk: Desk, token: str) -> Transaction | None:
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii():
        return None
    return await desk.store.transaction_by_page_token(token)


async def _unknown() -> Response:
    """The same for every token that leads nowhere: a guess learns nothing (W3)."""
    return Response(await render_template("unknown.html", texts=_texts()), 404)


async def _shown(desk: Desk, transaction: Transaction, token: str, brand: str) -> Response:
    order, page, texts = transaction.order, transaction.order.page, _texts()
    assert page is not None
    back = _way_back(transaction, page)
    if back is not None and PRESSED not in request.args:
        return Response("", 303, {"Location": _as_header(back)})
    now = desk.now()
    standing = standing_of(transaction, now=now)
    amount = amount_written(transaction.progress.final or order.requested, texts.numbers)
    return Response(
        await render_template(
            "payment.html",
            texts=texts,
            brand=brand,
            amount=amount,
            provider=order.provider_title,
            number=masked(order.party.msisdn),
            number_heard=texts.ending_in.format(digits=shown_end(order.party.msisdn)),
            standing=standing,
            told=told(standing, transaction.progress.error_code, texts),
            left=time_written(page.closes_at - now, texts),
            closes_in_s=max(1, -(-(page.closes_at - now) // SECOND)),
            is_over=now >= page.closes_at and standing in _ENDED,
            goes_back=back is not None,
            own_url=_own_url(token),
            events_url=f"/pay/{token}/events{_query()}",
            switch=[(each, f"?{urlencode({LANGUAGE: each.code})}") for each in LANGUAGES.values()],
            refresh_s=REFRESH_S,
        )
    )


def told(standing: Standing, code: ErrorCode | None, texts: Texts) -> str:
    """How the payment stands, as a sentence; empty while the payer is asked."""
    match standing:
        case Standing.FAILED:
            return f"{texts.not_paid} {texts.reasons[code]}" if code else texts.not_paid
        case Standing.PAID:
            return texts.paid
        case Standing.CLOSED:
            return texts.closed
        case Standing.SENDING:
            return texts.sending
        case Standing.WAITING:
            return texts.waiting
        case Standing.OPEN:
            return ""


def _way_back(transaction: Transaction, page: Page) -> str | None:
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


def _as_header(url: str) -> str:
    """The URL exactly as given; only what no header may hold is percent-encoded, as a browser would (RFC 3987)."""
    return "".join(each if "!" <= each <= "~" else quote(each) for each in url)


def _own_url(token: str, *, pressed: bool = False) -> str:
    return f"/pay/{token}{_query(pressed=pressed)}"


def _query(*, pressed: bool = False) -> str:
    """What the page's own addresses carry along: the language that was switched to needs no cookie."""
    wanted = {}
    if request.args.get(LANGUAGE) in LANGUAGES:
        wanted[LANGUAGE] = request.args[LANGUAGE]
    if pressed:
        wanted[PRESSED] = "1"
    return f"?{urlencode(wanted)}" if wanted else ""


def _texts() -> Texts:
    return choose(request.args.get(LANGUAGE), request.accept_languages.values())
