"""Who is at the browser: sessions, form tokens, and what an operator may do, asked anew for every request."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from hashlib import sha256

from attrs import frozen
from quart import Response, g, request
from werkzeug.exceptions import BadRequest, Forbidden

from mmo_sansio.values.clock import MINUTE, SECOND
from mmo_trio.admin.audit_event import deed
from mmo_trio.console.context import ConsoleDesk
from mmo_trio.console.masking import Eyes
from mmo_trio.console.permissions import Permission, may
from mmo_trio.storage.interface.admin_types import Operator, Session

TOKEN_BYTES = 32
TOKEN_CHARACTERS_MAX = 64
SESSION_COOKIE = "mmo_console"
FORM_COOKIE = "mmo_console_form"
"""Holds what the sign-in form's token is made of, as there is no session yet."""
FORM_FIELD = "form_token"


@frozen
class Visitor:
    """A signed-in operator, for the time of one request."""

    operator: Operator
    session: Session
    form_token: str

    @property
    def name(self) -> str:
        """The operator's."""
        return self.operator.name

    @property
    def actor(self) -> str:
        """As the audit log tells it."""
        return f"operator:{self.operator.name}"

    @property
    def eyes(self) -> Eyes:
        """What of other people's data may be shown."""
        return Eyes(self.may(Permission.SEE_PERSONAL))

    def may(self, permission: Permission) -> bool:
        """Whether the role allows it."""
        return may(self.operator.role, permission)


class NotSignedIn(Exception):
    """Nobody is signed in, or not any more."""


class Guard:
    """Lets nobody pass whom the store doesn't know, and nobody do what the role doesn't allow."""

    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    async def admit(self) -> None:
        """Called before every request of an operator: sets `g.visitor`. Raises NotSignedIn, Forbidden."""
        g.visitor = visitor = await self._visitor()
        if visitor is None:
            raise NotSignedIn
        if request.method == "POST":
            await check_form(visitor.form_token)

    async def insist(self, permission: Permission) -> Visitor:
        """The visitor, who may do this. Raises Forbidden; the try stands in the audit log."""
        visitor = current()
        if not visitor.may(permission):
            now, about = self._desk.now(), {"wanted": permission.value, "path": request.path}
            await self._desk.store.office.note(deed(now, visitor.actor, "refused", **about))
            raise Forbidden(f"Your role, {visitor.operator.role}, may not {permission}.")
        return visitor

    async def _visitor(self) -> Visitor | None:
        token = request.cookies.get(cookie_name(SESSION_COOKIE, secure=self.is_secure()), "")
        if not token or len(token) > TOKEN_CHARACTERS_MAX:
            return None
        office, now = self._desk.store.office, self._desk.now()
        found = await office.session(digest_of(token))
        if found is None:
            return None
        session, operator = found
        settings = self._desk.settings
        is_over = now - session.began_at >= settings.session_life
        if operator.disabled_at is not None or is_over:
            return None
        if now - session.seen_at >= settings.session_idle:
            return None
        if now - session.seen_at >= MINUTE:
            await office.see_session(session.digest, now)
        return Visitor(operator, session, form_token_of(token))

    async def begin(self, operator: Operator, answer: Response) -> None:
        """A new session for this operator; its token goes into a cookie, and nowhere else."""
        token, now = secrets.token_urlsafe(TOKEN_BYTES), self._desk.now()
        session = Session(digest_of(token), operator.name, now, now)
        life = self._desk.settings.session_life
        await self._desk.store.office.begin_session(session, forget_before=now - life)
        self.set_cookie(answer, SESSION_COOKIE, token, seconds=life // SECOND)

    def set_cookie(
        self, answer: Response, name: str, value: str, *, seconds: int | None = None
    ) -> None:
        """No script reads it, no other site sends it, no clear connection carries it where there is TLS."""
        secure = self.is_secure()
        answer.set_cookie(
            cookie_name(name, secure=secure),
            value,
            max_age=seconds,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=secure,
        )

    def forget_cookie(self, answer: Response) -> None:
        """After signing out."""
        self.set_cookie(answer, SESSION_COOKIE, "", seconds=0)

    def is_secure(self) -> bool:
        """Whether the browser came by TLS, as a trusted proxy says."""
        if request.scheme == "https":
            return True
        return self._is_trusted() and request.headers.get("X-Forwarded-Proto", "") == "https"

    def address(self) -> str:
        """Where the browser is, as far as it can be believed."""
        if self._is_trusted() and (named := request.headers.get("X-Forwarded-For")):
            return str(named).rpartition(",")[2].strip()[:64]
        return request.remote_addr or ""

    def _is_trusted(self) -> bool:
        try:
            address = ipaddress.ip_address(request.remote_addr or "")
        except ValueError:
            return False
        return any(address in network for network in self._desk.proxies)


def current() -> Visitor:
    """Who makes this request."""
    visitor: Visitor = g.visitor
    return visitor


async def check_form(expected: str) -> None:
    """Raise Forbidden unless the request comes from a form that we gave to this very browser."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("The form came from another site.")
    given = (await request.form).get(FORM_FIELD, "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise Forbidden("The form is out of date: go back, load the page again, and repeat.")


async def field(name: str, *, longest: int = 2_000, is_needed: bool = True) -> str:
    """What was typed into a field of the form. Raises BadRequest when it is missing or too long."""
    text = str((await request.form).get(name, "")).strip()
    if is_needed and not text:
        raise BadRequest(f"Please fill in: {name.replace('_', ' ')}.")
    if len(text) > longest:
        raise BadRequest(f"{name.replace('_', ' ')} is longer than {longest} characters.")
    return text


def cookie_name(name: str, *, secure: bool) -> str:
    """With TLS the browser itself sees to it that no other host sets it (RFC 6265bis, section 4.1.3.2)."""
    return f"__Host-{name}" if secure else name


def digest_of(token: str) -> bytes:
    """What of a token is kept."""
    return sha256(token.encode("utf-8", "replace")).digest()


def form_token_of(secret: str) -> str:
    """What the forms of this browser carry."""
    return hmac.new(secret.encode("utf-8", "replace"), b"console form", sha256).hexdigest()
