"""The hosted payment page: amount, one button, the state, and the way back (clauses W1 to W3)."""

from __future__ import annotations

from quart import Blueprint, Response, render_template
from werkzeug.urls import iri_to_uri

from mmo_sansio.catalogue import EXPLANATIONS
from mmo_sansio.inputs import ConfirmPage
from mmo_sansio.model import Page, Stage, Status, Transaction
from mmo_trio.pages.desk import Desk
from mmo_trio.storage.base import OutcomeUnknown, StoreUnavailable

TOKEN_CHARACTERS_MAX = 64
REFRESH_S = 2


def payment_pages(desk: Desk) -> Blueprint:
    """GET shows the page of a token; POST is its button. The browser never decides about money."""
    pages = Blueprint("payment", __name__)

    @pages.get("/pay/<token>")
    async def show(token: str) -> Response:
        transaction = await _found(desk, token)
        if transaction is None:
            return await _unknown()
        return await _shown(desk, transaction)

    @pages.post("/pay/<token>")
    async def confirm(token: str) -> Response:
        transaction = await _found(desk, token)
        if transaction is None:
            return await _unknown()
        await desk.submit(ConfirmPage(transaction.reference))
        return Response("", 303, {"Location": f"/pay/{token}"})

    @pages.errorhandler(StoreUnavailable)
    @pages.errorhandler(OutcomeUnknown)
    async def busy(_: Exception) -> Response:
        answer = Response(await render_template("busy.html"), 503)
        answer.headers["Retry-After"] = "2"
        return answer

    return pages


async def _found(desk: Desk, token: str) -> Transaction | None:
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii():
        return None
    return await desk.store.transaction_by_page_token(token)


async def _unknown() -> Response:
    """The same for every token that leads nowhere: a guess learns nothing (W3)."""
    return Response(await render_template("unknown.html"), 404)


async def _shown(desk: Desk, transaction: Transaction) -> Response:
    page = transaction.order.page
    assert page is not None
    if (back := _way_back(transaction, page)) is not None:
        return Response("", 303, {"Location": iri_to_uri(back)})
    code = transaction.progress.error_code
    return Response(
        await render_template(
            "payment.html",
            amount=transaction.order.requested,
            method=transaction.order.provider_title,
            state=_state(desk, transaction, page),
            reason=EXPLANATIONS[code].for_payer if code else None,
            refresh_s=REFRESH_S,
        )
    )


def _way_back(transaction: Transaction, page: Page) -> str | None:
    """Where the browser goes once the payment has ended, when the merchant said so (W2)."""
    match transaction.status:
        case Status.SUCCESS:
            return page.success_redirect_url
        case Status.FAILED:
            return page.error_redirect_url
        case Status.PENDING:
            return None


def _state(desk: Desk, transaction: Transaction, page: Page) -> str:
    if transaction.progress.stage is Stage.AWAITING_CUSTOMER:
        return "closed" if desk.now() >= page.closes_at else "open"
    return transaction.status.value
