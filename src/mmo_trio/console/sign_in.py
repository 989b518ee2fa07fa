"""Signing in and out. Whoever fails learns nothing but that."""

from __future__ import annotations

import secrets

from quart import Blueprint, Response, render_template, request, url_for

from mmo_sansio.values.clock import SECOND
from mmo_trio.admin.audit_event import audit_event
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.passwords import PasswordVerifier
from mmo_trio.console.sessions import (
    FORM_COOKIE,
    TOKEN_BYTES,
    SessionGuard,
    check_form_token,
    cookie_name,
    current_user,
    derive_form_token,
)
from mmo_trio.console.sign_in_limit import SignInLimiter

NAME_CHARACTERS_MAX = 64
WRONG_CREDENTIALS_TEXT = "Name or password is wrong."
TOO_MANY_ATTEMPTS_TEXT = "Too many tries. Wait a few minutes."


def create_sign_in_blueprint(context: ConsoleContext, guard: SessionGuard) -> Blueprint:
    """GET and POST /sign-in, POST /sign-out."""
    pages = Blueprint("signing", __name__)
    attempts, is_right = SignInLimiter(), PasswordVerifier()

    def form_secret() -> str | None:
        return request.cookies.get(cookie_name(FORM_COOKIE, secure=guard.is_secure()))

    @pages.get("/sign-in")
    async def sign_in() -> Response:
        return await form(None, 200)

    async def form(fault: str | None, status: int) -> Response:
        secret = form_secret() or secrets.token_urlsafe(TOKEN_BYTES)
        shown = await render_template(
            "sign_in.html", fault=fault, form_token=derive_form_token(secret), visitor=None
        )
        answer = Response(shown, status)
        guard.set_cookie(answer, FORM_COOKIE, secret)
        return answer

    @pages.post("/sign-in")
    async def signed_in() -> Response:
        await check_form_token(
            derive_form_token(form_secret() or secrets.token_urlsafe(TOKEN_BYTES))
        )
        given = await request.form
        name, password = (
            given.get("name", "").strip()[:NAME_CHARACTERS_MAX],
            given.get("password", ""),
        )
        address, now = guard.client_address(), context.now()
        if wait := attempts.retry_after(name, address, now):
            answer = await form(TOO_MANY_ATTEMPTS_TEXT, 429)
            answer.headers["Retry-After"] = str(wait // SECOND + 1)
            return answer
        attempts.record_failure(
            name, address, now
        )  # Counted first, so that many at once gain nothing.
        office = context.store.admin
        operator = await office.user(name)
        known = operator is not None and operator.disabled_at is None
        right = await is_right(password, operator.password_hash if operator and known else None)
        if operator is None or not right:
            about = {"name": name, "address": address}
            await office.append_audit(audit_event(now, "nobody", "sign_in_failed", **about))
            return await form(WRONG_CREDENTIALS_TEXT, 403)
        attempts.record_success(name, address)
        who = f"operator:{operator.name}"
        await office.append_audit(audit_event(now, who, "signed_in", who, address=address))
        answer = Response("", 303, {"Location": url_for("overview.show")})
        await guard.begin_session(operator, answer)
        return answer

    @pages.post("/sign-out")
    async def sign_out() -> Response:
        visitor = current_user()
        now = context.now()
        await context.store.admin.append_audit(
            audit_event(now, visitor.actor, "signed_out", visitor.actor)
        )
        await context.store.admin.end_session(visitor.session.digest)
        answer = Response("", 303, {"Location": url_for("signing.sign_in")})
        guard.clear_session_cookie(answer)
        return answer

    return pages
