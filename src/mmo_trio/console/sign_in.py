"""These pages begin and end sessions; a failure reveals nothing about its cause."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from contextlib import suppress
from hashlib import sha256
from urllib.parse import urlencode

from quart import Blueprint, Response, g, render_template, request, url_for

from mmo_sansio.values.clock import SECOND
from mmo_trio.admin.auditing import replace_unprintable
from mmo_trio.brands.keyring import SealError
from mmo_trio.console import second_factor, sessions
from mmo_trio.console.context import console
from mmo_trio.console.kept_inputs import keep_input, seal_input
from mmo_trio.console.known_browsers import known_browser, remember_browser
from mmo_trio.console.parameters import redirect_to
from mmo_trio.console.sign_in_limit import admit_attempt, forgive_failures
from mmo_trio.storage.interface.admin_types import ConsoleUser

NAME_CHARACTERS_MAX = 64

# The query parameter of a page with a form to fill again: the id of what was typed.
TYPED_ARGUMENT = "typed"

WRONG_CREDENTIALS_TEXT = "Name, password or code is wrong."

pages = Blueprint("sign_in", __name__)


async def interrupt() -> Response:
    """Lead to the sign-in, and from there to where the browser was going. A form of a session that
    has ended is shown again with what was typed. Raises Forbidden where another site has sent
    it."""
    former, place = g.former_user, await sessions.page_path()
    if (
        request.method != "POST"
        or former is None
        or request.blueprint in (pages.name, second_factor.pages.name)
    ):
        return redirect_to(
            "sign_in.show_form", to=None if place == url_for("overview.show") else place
        )

    await sessions.check_form_token(former.form_token)
    form = await request.form
    fields = [
        (name, value) for name, value in form.items(multi=True) if name not in sessions.FRESH_FIELDS
    ]
    typed = b64encode(seal_input(former.name, {"action": request.path, "fields": fields})).decode()
    return await show_form(status=403, to=place, name=former.name, typed=typed)


@pages.get("/sign-in")
async def show_form(
    fault: str | None = None,
    status: int = 200,
    *,
    to: str | None = None,
    name: str = "",
    typed: str = "",
) -> Response:
    secret, to = _form_secret(), to or sessions.own_path(request.args.get("to", ""))
    # A link on another site comes without the cookie of a session; from this page the browser sends
    # it.
    moves_on = bool(to) and request.headers.get("Sec-Fetch-Site") == "cross-site"
    page = await render_template(
        "sign_in.html",
        fault=fault,
        form_token=sessions.derive_form_token(secret),
        user=None,
        to=to,
        moves_on=moves_on,
        has_ended=sessions.cookie(sessions.SESSION_COOKIE) != "",
        name=name,
        typed=typed,
    )
    response = Response(page, status)
    if moves_on:
        response.headers["Refresh"] = f"0; url={to}"

    sessions.set_cookie(response, sessions.FORM_COOKIE, secret)
    return response


@pages.post("/sign-in")
async def sign_in() -> Response:
    """Begin a session for the right name, password and code of the second factor."""
    await sessions.check_form_token(sessions.derive_form_token(_form_secret()))
    form, store = await request.form, console().store.admin
    # No user's name has unprintable characters, and no store returns all of them as they were.
    name = replace_unprintable(form.get("name", "").strip()[:NAME_CHARACTERS_MAX])
    typed, address, now = form.get("typed", ""), sessions.client_address(), console().wall_time()
    # Counted before the check, so that concurrent attempts are limited as well.
    browser = known_browser(name)
    if wait := await admit_attempt(store, name, address, now, browser=browser):
        response = await show_form(
            second_factor.TOO_MANY_ATTEMPTS_TEXT, 429, name=name, typed=typed
        )
        response.headers["Retry-After"] = str(wait // SECOND + 1)
        return response

    user = await _find_user(name, form.get("password", ""))
    factor = await second_factor.active_factor(name)
    audit_log = console().audit_log
    if user is None:
        await audit_log.record(
            "nobody", "sign_in_failed", name=await _recorded_name(name), address=address
        )
        return await show_form(WRONG_CREDENTIALS_TEXT, 403, name=name, typed=typed)

    actor, kind = f"user:{user.name}", None
    if factor is not None:
        kind = await second_factor.accept_code(factor, form.get("code", ""))
        if kind is None:
            await audit_log.record(actor, "second_factor_failed", actor, address=address)
            # Only a browser of the user's own learns that the password was right.
            is_told = factor.locked_at is not None and browser is not None
            fault = second_factor.LOCKED_TEXT if is_told else WRONG_CREDENTIALS_TEXT
            return await show_form(fault, 403, name=name, typed=typed)

    await forgive_failures(store, name, address, browser=browser)
    await audit_log.record(actor, "signed_in", actor, address=address, secondFactor=kind)
    to = sessions.own_path(request.args.get("to", "")) or url_for("overview.show")
    with suppress(ValueError, SealError):  # Nothing was typed, or by another user.
        id = await keep_input(user.name, b64decode(typed, validate=True))
        to += ("&" if "?" in to else "?") + urlencode({TYPED_ARGUMENT: id})

    response = Response("", 303, {"Location": to})
    await sessions.begin_session(user, response)
    remember_browser(response, user.name)
    return response


@pages.post("/sign-out")
async def sign_out() -> Response:
    user = sessions.current_user()
    await sessions.record_action("signed_out", user.actor)
    await console().store.admin.end_session(user.session.digest)
    response = redirect_to("sign_in.show_form")
    sessions.set_cookie(response, sessions.SESSION_COOKIE, "", max_age_s=0)
    return response


async def _find_user(name: str, password: str) -> ConsoleUser | None:
    """Return the user if the password is right; an unknown name takes as long to reject."""
    user = await console().store.admin.user(name)
    is_known = user is not None and user.disabled_at is None
    password_hash = None
    if user and is_known:
        password_hash = user.password_hash
    if await console().verify_password(password, password_hash):
        return user
    return None


async def _recorded_name(typed: str) -> str:
    """Return a name for the audit log, which never forgets: of one that is no user's, such as a
    password in the wrong field, a digest that shows its repetitions only."""
    if await console().store.admin.user(typed) is not None:
        return typed
    digest = hmac.new(console().audit_log.key.secret, f"name {typed}".encode(), sha256).hexdigest()
    return f"unknown:{digest[:16]}"


def _form_secret() -> str:
    return sessions.cookie(sessions.FORM_COOKIE) or secrets.token_urlsafe(sessions.TOKEN_BYTES)
