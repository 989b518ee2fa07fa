"""Keeps sessions and form tokens, and checks permissions at every request."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode

from attrs import frozen
from quart import Response, current_app, g, request, url_for
from werkzeug.exceptions import Forbidden, HTTPException

from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Span, earlier, elapsed
from mmo_trio.api.forwarded import parse_address
from mmo_trio.console.context import console
from mmo_trio.console.permissions import Permission, PersonalDataMask, is_permitted
from mmo_trio.storage.interface.admin_types import ConsoleSession, ConsoleUser

TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 64
SESSION_COOKIE = "mmo_console"

# Holds the secret of the sign-in form's token, as there is no session yet.
FORM_COOKIE = "mmo_console_form"

FORM_FIELD = "form_token"

# The path of the page on which a form stands.
PAGE_FIELD = "from_page"

# The fields of a form that belong to its page, and not to what was typed.
FRESH_FIELDS = frozenset({FORM_FIELD, PAGE_FIELD})

# How long a session is remembered after its end, so that a form of its user is known as such.
ENDED_SESSION_KEPT = DAY

# The action of a user who sees a payer's number, name or other personal data unmasked.
PERSONAL_DATA_VIEWED = "personal_data_viewed"

LIVE_PATH = "/events"

# The header of a request by which the script of an open page loads the page again.
LIVE_HEADER = "X-Live"

# Audit rows that are searched for an earlier view of the same session.
VIEWS_READ_MAX = 50


@frozen
class CurrentUser:
    """Holds the signed-in user of one request."""

    account: ConsoleUser
    session: ConsoleSession
    form_token: str

    @property
    def name(self) -> str:
        return self.account.name

    @property
    def actor(self) -> str:
        """Return the user's name in the audit log."""
        return f"user:{self.account.name}"

    @property
    def session_name(self) -> str:
        """Return the session's name in the audit log, of which its token can't be learnt."""
        return self.session.digest[:4].hex()

    @property
    def mask(self) -> PersonalDataMask:
        """Return the mask for other people's data."""
        return PersonalDataMask(self.has_permission(Permission.SEE_PERSONAL_DATA))

    def has_permission(self, permission: Permission) -> bool:
        return is_permitted(self.account.role, permission)


async def authenticate() -> bool:
    """Set `g.user` before a request is handled; return False where it has no session, or one that
    has ended, whose user is `g.former_user`. Raises Forbidden."""
    g.former_user = None
    g.user = user = await _load_user()
    if user is not None and request.method == "POST":
        await check_form_token(user.form_token)
    return user is not None


def current_user() -> CurrentUser:
    user: CurrentUser = g.user
    return user


async def require(permission: Permission) -> CurrentUser:
    """Return the current user, who has this permission. Raises Forbidden, and records the try."""
    user = current_user()
    if not user.has_permission(permission):
        await record_action("refused", wanted=permission.value, path=request.path)
        raise Forbidden(f"Your role, {user.account.role}, may not {permission}.")
    return user


async def record_action(action: str, about: str = "", **detail: object) -> None:
    """Append an audit event: what the current user is about to do."""
    await console().audit_log.record(current_user().actor, action, about, **detail)


async def record_view(about: str, entries: Sequence[int | str] = ()) -> None:
    """Record that the current user is about to see this personal data, once in a session; a user
    who sees it masked is not recorded. `entries` are the ids of what a list shows: each is recorded
    once."""
    user = current_user()
    if not user.has_permission(Permission.SEE_PERSONAL_DATA):
        return

    seen = set[int | str]()
    for row in await console().store.admin.audit(about=about, limit=VIEWS_READ_MAX):
        detail = json.loads(row.event.detail)
        if row.event.action == PERSONAL_DATA_VIEWED and detail.get("session") == user.session_name:
            if not entries:
                return
            seen.update(detail["entries"])

    if not entries:
        await record_action(PERSONAL_DATA_VIEWED, about, session=user.session_name)
    elif unseen := [entry for entry in entries if entry not in seen]:
        await record_action(PERSONAL_DATA_VIEWED, about, session=user.session_name, entries=unseen)


async def _load_user() -> CurrentUser | None:
    token = cookie(SESSION_COOKIE)
    if not token or len(token) > TOKEN_CHARACTERS_MAX:
        return None

    admin, now, settings = console().store.admin, console().wall_time(), console().settings
    found = await admin.session(token_digest(token))
    if found is None:
        return None

    session, account = found
    idle = elapsed(session.seen_at, now)
    is_over = (
        elapsed(session.began_at, now) >= settings.session_life or idle >= settings.session_idle
    )
    user = CurrentUser(account, session, derive_form_token(token))
    if account.disabled_at is not None:
        return None

    if is_over:
        g.former_user = user
        return None

    if idle >= MINUTE and not is_automatic():
        await admin.touch_session(session.digest, now)

    return user


def is_automatic() -> bool:
    """Return whether an open page makes this request by itself: it does not keep the session of a
    user who has left."""
    return (
        request.path == LIVE_PATH
        or LIVE_HEADER in request.headers
        or request.args.get("refresh") == "1"
    )


async def begin_session(account: ConsoleUser, response: Response) -> None:
    """Begin a session of this user; only the cookie of the response holds its token."""
    token, now = secrets.token_urlsafe(TOKEN_BYTES), console().wall_time()
    session = ConsoleSession(token_digest(token), account.name, now, now)
    life = Span(console().settings.session_life + ENDED_SESSION_KEPT)
    await console().store.admin.begin_session(session, expire_before=earlier(now, life))
    set_cookie(response, SESSION_COOKIE, token, max_age_s=life // SECOND)


def set_cookie(response: Response, name: str, value: str, *, max_age_s: int | None = None) -> None:
    """Set a cookie that no script can read and no other site can send, and TLS only if in use."""
    response.set_cookie(
        cookie_name(name),
        value,
        max_age=max_age_s,
        path="/",
        httponly=True,
        samesite="Strict",
        secure=is_secure(),
    )


def cookie(name: str) -> str:
    """Return the value of a cookie that :func:`set_cookie` set; empty when there is none."""
    return request.cookies.get(cookie_name(name), "")


def is_secure() -> bool:
    """Return whether the browser uses TLS, according to the connection or a trusted proxy."""
    if request.scheme == "https":
        return True
    return console().trusted_proxies.is_secure(
        request.remote_addr or "", request.headers.getlist("X-Forwarded-Proto")
    )


def is_own_host() -> bool:
    """Return whether the request names this console, by an address or by a known name.

    A page of another site that lets its own name lead here (DNS rebinding) sends that name."""
    forwarded = request.headers.getlist("X-Forwarded-Host")
    peer, named = request.remote_addr or "", request.headers.get("Host", "")
    host = console().trusted_proxies.host_of(peer, named, forwarded).rstrip(".")
    return (
        host == "localhost"
        or host in console().hosts
        or parse_address(host.strip("[]")) is not None
    )


def client_address() -> str:
    """Return the browser's address; the connection's when a trusted proxy reports none."""
    peer = request.remote_addr or ""
    reported = request.headers.getlist("X-Forwarded-For")
    address = console().trusted_proxies.client_address(peer, reported)
    if address is None:
        return peer
    return str(address)


async def page_path() -> str | None:
    """Return the path of the page that this request is for, or on which its form stands."""
    if request.method == "GET":
        text = request.full_path
    else:
        text = str((await request.form).get(PAGE_FIELD, ""))
    return own_path(text)


def own_path(text: str) -> str | None:
    """Return the path of a page of the console; None for any other text.

    The routes take it apart and put it together again, so that it leads nowhere else."""
    path, _, query = text.partition("?")
    try:
        endpoint, values = current_app.url_map.bind("").match(path, "GET")
    except HTTPException:
        return None

    return url_for(endpoint, **values) + (
        f"?{urlencode(fields)}" if (fields := parse_qsl(query)) else ""
    )


async def check_form_token(expected: str) -> None:
    """Raise Forbidden unless the form was issued to this browser."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("The form came from another site.")
    token = (await request.form).get(FORM_FIELD, "")
    if not hmac.compare_digest(token.encode("utf-8", "replace"), expected.encode()):
        raise Forbidden("The form is out of date: go back, load the page again, and repeat.")


def cookie_name(name: str) -> str:
    """Return the cookie's full name; with TLS it is bound to this host (RFC 6265bis, 4.1.3.2)."""
    if is_secure():
        return f"__Host-{name}"
    return name


def token_digest(token: str) -> bytes:
    """Return the digest by which the store knows a session's token."""
    return sha256(token.encode("utf-8", "replace")).digest()


def derive_form_token(secret: str) -> str:
    """Return the token that the forms of this browser contain."""
    return hmac.new(secret.encode("utf-8", "replace"), b"console form", sha256).hexdigest()
