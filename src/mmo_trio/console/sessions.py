"""Who is at the browser: sessions, form tokens, and what an operator may do, asked anew for every request."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from attrs import frozen
from quart import Response, g, request
from werkzeug.exceptions import BadRequest, Forbidden

from mmo_sansio.values.clock import MINUTE, SECOND, earlier
from mmo_trio.admin.audit_event import audit_event
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.permissions import Permission, PersonalDataMask, is_permitted
from mmo_trio.storage.interface.admin_types import ConsoleSession, ConsoleUser

TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 64
SESSION_COOKIE = "mmo_console"
FORM_COOKIE = "mmo_console_form"
"""Holds what the sign-in form's token is made of, as there is no session yet."""
FORM_FIELD = "form_token"


@frozen
class CurrentUser:
    """A signed-in operator, for the time of one request."""

    user: ConsoleUser
    session: ConsoleSession
    form_token: str

    @property
    def name(self) -> str:
        """The operator's."""
        return self.user.name

    @property
    def actor(self) -> str:
        """As the audit log tells it."""
        return f"operator:{self.user.name}"

    @property
    def mask(self) -> PersonalDataMask:
        """What of other people's data may be shown."""
        return PersonalDataMask(self.has_permission(Permission.SEE_PERSONAL_DATA))

    def has_permission(self, permission: Permission) -> bool:
        """Whether the role allows it."""
        return is_permitted(self.user.role, permission)


class NotSignedIn(Exception):
    """Nobody is signed in, or not any more."""


class SessionGuard:
    """Lets nobody pass whom the store doesn't know, and nobody do what the role doesn't allow."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context

    async def authenticate(self) -> None:
        """Called before every request of an operator: sets `g.visitor`. Raises NotSignedIn, Forbidden."""
        g.visitor = visitor = await self._load_user()
        if visitor is None:
            raise NotSignedIn
        if request.method == "POST":
            await check_form_token(visitor.form_token)

    async def require(self, permission: Permission) -> CurrentUser:
        """The visitor, who may do this. Raises Forbidden; the try stands in the audit log."""
        visitor = current_user()
        if not visitor.has_permission(permission):
            now, about = self._context.now(), {"wanted": permission.value, "path": request.path}
            await self._context.store.admin.append_audit(
                audit_event(now, visitor.actor, "refused", **about)
            )
            raise Forbidden(f"Your role, {visitor.user.role}, may not {permission}.")
        return visitor

    async def _load_user(self) -> CurrentUser | None:
        token = request.cookies.get(cookie_name(SESSION_COOKIE, secure=self.is_secure()), "")
        if not token or len(token) > TOKEN_CHARACTERS_MAX:
            return None
        office, now = self._context.store.admin, self._context.now()
        found = await office.session(token_digest(token))
        if found is None:
            return None
        session, operator = found
        settings = self._context.settings
        is_over = now - session.began_at >= settings.session_life
        if operator.disabled_at is not None or is_over:
            return None
        if now - session.seen_at >= settings.session_idle:
            return None
        if now - session.seen_at >= MINUTE:
            await office.touch_session(session.digest, now)
        return CurrentUser(operator, session, derive_form_token(token))

    async def begin_session(self, user: ConsoleUser, response: Response) -> None:
        """A new session for this operator; its token goes into a cookie, and nowhere else."""
        token, now = secrets.token_urlsafe(TOKEN_BYTES), self._context.now()
        session = ConsoleSession(token_digest(token), user.name, now, now)
        life = self._context.settings.session_life
        await self._context.store.admin.begin_session(session, expire_before=earlier(now, life))
        self.set_cookie(response, SESSION_COOKIE, token, max_age_s=life // SECOND)

    def set_cookie(
        self, response: Response, name: str, value: str, *, max_age_s: int | None = None
    ) -> None:
        """No script reads it, no other site sends it, no clear connection carries it where there is TLS."""
        secure = self.is_secure()
        response.set_cookie(
            cookie_name(name, secure=secure),
            value,
            max_age=max_age_s,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=secure,
        )

    def clear_session_cookie(self, response: Response) -> None:
        """After signing out."""
        self.set_cookie(response, SESSION_COOKIE, "", max_age_s=0)

    def is_secure(self) -> bool:
        """Whether the browser came by TLS, as a trusted proxy says."""
        if request.scheme == "https":
            return True
        return self._context.trusted_proxies.is_secure(
            request.remote_addr or "", request.headers.getlist("X-Forwarded-Proto")
        )

    def client_address(self) -> str:
        """Return the browser's address; the connection's where a trusted proxy names none."""
        peer = request.remote_addr or ""
        address = self._context.trusted_proxies.client_address(
            peer, request.headers.getlist("X-Forwarded-For")
        )
        return peer if address is None else str(address)


def current_user() -> CurrentUser:
    """Who makes this request."""
    visitor: CurrentUser = g.visitor
    return visitor


async def check_form_token(expected: str) -> None:
    """Raise Forbidden unless the request comes from a form that we gave to this very browser."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("The form came from another site.")
    given = (await request.form).get(FORM_FIELD, "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise Forbidden("The form is out of date: go back, load the page again, and repeat.")


async def form_field(name: str, *, length_max: int = 2_000, is_required: bool = True) -> str:
    """What was typed into a field of the form. Raises BadRequest when it is missing or too long."""
    text = str((await request.form).get(name, "")).strip()
    if is_required and not text:
        raise BadRequest(f"Please fill in: {name.replace('_', ' ')}.")
    if len(text) > length_max:
        raise BadRequest(f"{name.replace('_', ' ')} is longer than {length_max} characters.")
    return text


def cookie_name(name: str, *, secure: bool) -> str:
    """With TLS the browser itself sees to it that no other host sets it (RFC 6265bis, section 4.1.3.2)."""
    return f"__Host-{name}" if secure else name


def token_digest(token: str) -> bytes:
    """What of a token is kept."""
    return sha256(token.encode("utf-8", "replace")).digest()


def derive_form_token(secret: str) -> str:
    """What the forms of this browser carry."""
    return hmac.new(secret.encode("utf-8", "replace"), b"console form", sha256).hexdigest()
