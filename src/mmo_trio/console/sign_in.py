"""Signing in and out. Whoever fails learns nothing but that."""

from __future__ import annotations

import secrets

from quart import Blueprint, Response, render_template, request, url_for

from mmo_sansio.values.clock import SECOND
from mmo_trio.admin.audit_event import deed
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.passwords import PasswordCheck
from mmo_trio.console.sessions import (
    FORM_COOKIE,
    TOKEN_BYTES,
    Guard,
    check_form,
    cookie_name,
    current,
    form_token_of,
)
from mmo_trio.console.sign_in_limit import Attempts

NAME_MAX = 64
WRONG = "Name or password is wrong."
TOO_OFTEN = "Too many tries. Wait a few minutes."


def signing_pages(desk: ConsoleDesk, guard: Guard) -> Blueprint:
    """GET and POST /sign-in, POST /sign-out."""
    pages = Blueprint("signing", __name__)
    attempts, is_right = Attempts(), PasswordCheck()

    def form_secret() -> str | None:
        return request.cookies.get(cookie_name(FORM_COOKIE, secure=guard.is_secure()))

    @pages.get("/sign-in")
    async def sign_in() -> Response:
        return await form(None, 200)

    async def form(fault: str | None, status: int) -> Response:
        secret = form_secret() or secrets.token_urlsafe(TOKEN_BYTES)
        shown = await render_template(
            "sign_in.html", fault=fault, form_token=form_token_of(secret), visitor=None
        )
        answer = Response(shown, status)
        guard.set_cookie(answer, FORM_COOKIE, secret)
        return answer

    @pages.post("/sign-in")
    async def signed_in() -> Response:
        await check_form(form_token_of(form_secret() or secrets.token_urlsafe(TOKEN_BYTES)))
        given = await request.form
        name, password = given.get("name", "").strip()[:NAME_MAX], given.get("password", "")
        address, now = guard.address(), desk.now()
        if wait := attempts.wait(name, address, now):
            answer = await form(TOO_OFTEN, 429)
            answer.headers["Retry-After"] = str(wait // SECOND + 1)
            return answer
        attempts.failed(name, address, now)  # Counted first, so that many at once gain nothing.
        office = desk.store.office
        operator = await office.operator(name)
        known = operator is not None and operator.disabled_at is None
        right = await is_right(password, operator.password_hash if operator and known else None)
        if operator is None or not right:
            about = {"name": name, "address": address}
            await office.note(deed(now, "nobody", "sign_in_failed", **about))
            return await form(WRONG, 403)
        attempts.succeeded(name, address)
        who = f"operator:{operator.name}"
        await office.note(deed(now, who, "signed_in", who, address=address))
        answer = Response("", 303, {"Location": url_for("overview.show")})
        await guard.begin(operator, answer)
        return answer

    @pages.post("/sign-out")
    async def sign_out() -> Response:
        visitor = current()
        now = desk.now()
        await desk.store.office.note(deed(now, visitor.actor, "signed_out", visitor.actor))
        await desk.store.office.end_session(visitor.session.digest)
        answer = Response("", 303, {"Location": url_for("signing.sign_in")})
        guard.forget_cookie(answer)
        return answer

    return pages
