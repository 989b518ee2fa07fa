"""The second factor of users: the pages that enrol and remove it, and its codes by time (TOTP, RFC
6238) and recovery codes."""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256

import segno
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from markupsafe import Markup
from quart import Blueprint, Response, render_template, request
from werkzeug.exceptions import Conflict, Forbidden, NotFound, TooManyRequests

from mmo_sansio.values.clock import DAY, SECOND, Instant, Span, earlier
from mmo_trio.admin.sealed_secrets import second_factor_owner
from mmo_trio.console.context import console
from mmo_trio.console.known_browsers import known_browser
from mmo_trio.console.notices import with_notice
from mmo_trio.console.parameters import form_field, redirect_to
from mmo_trio.console.sessions import client_address, current_user, record_action
from mmo_trio.console.sign_in_limit import admit_attempt, forgive_failures
from mmo_trio.storage.interface.admin_types import SecondFactor

# The name under which an authenticator app lists the account.
ISSUER = "Mobile money gateway"

CODE_CHARACTERS_MAX = 64
WRONG_CODE_TEXT = "The code is wrong, or was used already."
WRONG_PASSWORD_TEXT = "The password is wrong."
TOO_MANY_ATTEMPTS_TEXT = "Too many tries. Wait a few minutes."

# The length that RFC 4226, section 4, recommends.
SECRET_BYTES = 20

TIME_STEP_S = 30
CODE_DIGITS = 6

# Steps by which a device's clock may be early or late (RFC 6238, section 5.2).
TIME_STEPS_TOLERATED = 1

# How many wrong codes in a day lock a second factor. Each was given with the right password, and
# the limit on attempts alone would leave a guess in a hundred days a chance of one in three.
WRONG_CODES_MAX = 30

LOCKED_TEXT = (
    "Too many wrong codes were given for this name: use a recovery code, or ask an administrator."
)

RECOVERY_CODES = 10
_RECOVERY_CODE_BYTES = 10

pages = Blueprint("second_factor", __name__)


class CodeKind(StrEnum):
    """Says which kind of code was accepted."""

    TOTP = "totp"
    RECOVERY_CODE = "recovery_code"


async def is_enrolment_due() -> bool:
    """Return whether the current user asks for another page and has to enrol a second factor
    before."""
    is_allowed = request.blueprint == pages.name or request.endpoint == "sign_in.sign_out"
    if console().settings.second_factor != "required" or is_allowed:
        return False
    return await active_factor(current_user().name) is None


async def active_factor(user: str) -> SecondFactor | None:
    """Return the second factor with which this user signs in; None when there is none."""
    if console().settings.second_factor == "off":
        return None
    factor = await console().store.admin.second_factor(user)
    if factor is not None and factor.is_active:
        return factor
    return None


async def accept_code(factor: SecondFactor, code: str) -> CodeKind | None:
    """Return the kind of a right code, which is then used up; None when it is wrong, or one of a
    device while the second factor is locked.

    The caller limits and records the attempts; that a recovery code is used, or that a wrong code
    locks the second factor, is recorded here. Raises SealError when the secret can't be opened."""
    assert factor.sealed is not None
    admin, user, now = console().store.admin, factor.user, console().wall_time()
    secret = console().keys.unseal_secret(second_factor_owner(user), factor.sealed)
    step = matching_step(secret, code, now)
    if step is not None:
        is_taken = factor.locked_at is None and await admin.use_time_step(user, step)
        if is_taken:
            return CodeKind.TOTP
        return None

    actor = f"user:{user}"
    digest = recovery_code_digest(user, code[:CODE_CHARACTERS_MAX])
    if await admin.use_recovery_code(user, digest):
        # It is too long to be guessed, so it is the user, who need not wait for anybody.
        await admin.unlock_second_factor(user)
        await console().audit_log.record(
            actor, "recovery_code_used", actor, left=factor.recovery_codes - 1
        )
        return CodeKind.RECOVERY_CODE

    # Who has given none has guessed none.
    if code.strip() and await admin.count_wrong_code(
        user, at=now, since=earlier(now, Span(DAY)), most=WRONG_CODES_MAX
    ):
        await console().audit_log.record(
            actor, "second_factor_locked", actor, address=client_address()
        )

    return None


@pages.before_request
async def check_is_enabled() -> None:
    """Raise NotFound where second factors are off."""
    if console().settings.second_factor == "off":
        raise NotFound("Second factors are off: console.second_factor.")


@pages.get("/second-factor")
async def show(fault: str | None = None) -> str:
    """Show whether the user has a second factor, and the forms to change that."""
    factor = await active_factor(current_user().name)
    is_required = console().settings.second_factor == "required"
    return await render_template(
        "second_factor.html", factor=factor, is_required=is_required, fault=fault
    )


@pages.post("/second-factor/enrol")
async def enrol() -> Response:
    """Make a new secret and show it once; it counts when the user confirms it by a code."""
    if fault := await _attempt_to_prove():
        return Response(await show(fault), 403)

    user, context = current_user(), console()
    secret = generate_secret()
    await context.store.admin.begin_enrolment(
        user.name, context.keys.seal_secret(second_factor_owner(user.name), secret)
    )
    uri = provisioning_uri(secret, user=user.name, issuer=ISSUER)
    picture = segno.make_qr(uri, error="m").svg_inline(
        border=4, light="#fff", dark="#000", omitsize=True
    )
    page = await render_template(
        "enrol.html", qr_code=Markup(picture), secret=format_secret(secret), fault=None
    )
    return Response(page)


@pages.post("/second-factor/confirm")
async def confirm() -> Response:
    """Put the new secret into use if the code is right, and show the recovery codes once."""
    user, context = current_user(), console()
    code, now = await form_field("code", length_max=CODE_CHARACTERS_MAX), context.wall_time()
    factor = await context.store.admin.second_factor(user.name)
    if factor is None or factor.pending is None:
        raise Conflict("There is no second factor to confirm: begin again.")

    await _check_limit(user.name, now)
    secret = context.keys.unseal_secret(second_factor_owner(user.name), factor.pending)
    step = matching_step(secret, code, now)
    if step is None:
        await record_action("second_factor_failed", user.actor, address=client_address())
        page = await render_template("enrol.html", qr_code=None, secret=None, fault=WRONG_CODE_TEXT)
        return Response(page, 403)

    await _forgive(user.name)
    await record_action("second_factor_enrolled", user.actor)
    codes = generate_recovery_codes()
    confirmed = await context.store.admin.confirm_second_factor(
        user.name,
        factor.pending,
        step=step,
        at=now,
        codes=[recovery_code_digest(user.name, code) for code in codes],
        session=user.session.digest,
    )
    if not confirmed:
        raise Conflict("Another second factor was begun meanwhile: begin again.")

    return Response(await render_template("recovery_codes.html", codes=codes))


@pages.post("/second-factor/recovery-codes")
async def replace_recovery_codes() -> Response:
    """Replace the recovery codes, and show the new ones once."""
    user = current_user()
    await _check_has_factor()
    if fault := await _attempt_to_prove():
        return Response(await show(fault), 403)
    await record_action("recovery_codes_replaced", user.actor)
    codes = generate_recovery_codes()
    digests = [recovery_code_digest(user.name, code) for code in codes]
    await console().store.admin.replace_recovery_codes(user.name, digests)
    return Response(await render_template("recovery_codes.html", codes=codes))


@pages.post("/second-factor/remove")
async def remove() -> Response:
    """Remove the second factor, where the settings leave that to the user."""
    user = current_user()
    if console().settings.second_factor == "required":
        raise Forbidden("Every user needs a second factor: console.second_factor.")
    await _check_has_factor()
    if fault := await _attempt_to_prove():
        return Response(await show(fault), 403)
    await record_action("second_factor_removed", user.actor)
    await console().store.admin.remove_second_factor(user.name, session=user.session.digest)
    return with_notice(redirect_to("second_factor.show"), "Your second factor is removed.")


async def _check_has_factor() -> None:
    if await active_factor(current_user().name) is None:
        raise Conflict("You have no second factor.")


async def _attempt_to_prove() -> str | None:
    """Check the code that the user sent, or the password of a user without a second factor, so that
    a session that was left open changes nothing. Return what is wrong; None when nothing is. Raises
    BadRequest, TooManyRequests."""
    user, context = current_user(), console()
    await _check_limit(user.name, context.wall_time())
    factor = await active_factor(user.name)
    if factor is None:
        password = await form_field("password", length_max=256)
        is_right = await context.verify_password(password, user.account.password_hash)
    else:
        is_right = (
            await accept_code(factor, await form_field("code", length_max=CODE_CHARACTERS_MAX))
            is not None
        )

    if is_right:
        await _forgive(user.name)
        return None

    await record_action("second_factor_failed", user.actor, address=client_address())
    if factor is None:
        return WRONG_PASSWORD_TEXT
    if factor.locked_at is None:
        return WRONG_CODE_TEXT

    return LOCKED_TEXT


async def _check_limit(name: str, now: Instant) -> None:
    """Count an attempt as a failure until it succeeds. Raises TooManyRequests."""
    store, address = console().store.admin, client_address()
    if wait := await admit_attempt(store, name, address, now, browser=known_browser(name)):
        raise TooManyRequests(TOO_MANY_ATTEMPTS_TEXT, retry_after=wait // SECOND + 1)


async def _forgive(name: str) -> None:
    store, browser = console().store.admin, known_browser(name)
    await forgive_failures(store, name, client_address(), browser=browser)


def generate_secret() -> bytes:
    return os.urandom(SECRET_BYTES)


def matching_step(secret: bytes, code: str, now: Instant) -> int | None:
    """Return the step of time whose code this is; None when it is of no step that is close enough
    to now."""
    digits = code.replace(" ", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) == CODE_DIGITS):
        return None

    current = now // SECOND // TIME_STEP_S
    found = None
    for step in range(current - TIME_STEPS_TOLERATED, current + TIME_STEPS_TOLERATED + 1):
        if hmac.compare_digest(code_at(secret, Instant(step * TIME_STEP_S * SECOND)), digits):
            found = step

    return found


def code_at(secret: bytes, at: Instant) -> str:
    """Return the code that a device with this secret shows."""
    return _device(secret).generate(at // SECOND).decode()


def provisioning_uri(secret: bytes, *, user: str, issuer: str) -> str:
    """Return the `otpauth:` URI that an authenticator app reads from a QR code."""
    return _device(secret).get_provisioning_uri(user, issuer)


def format_secret(secret: bytes) -> str:
    """Return the secret in groups of four letters, to be typed into an app."""
    text = base64.b32encode(secret).decode()
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def _device(secret: bytes) -> TOTP:
    return TOTP(secret, CODE_DIGITS, SHA1(), TIME_STEP_S)


def generate_recovery_codes() -> Sequence[str]:
    """Return new recovery codes of 80 bits each, for the user to keep on paper."""
    codes = [
        base64.b32encode(secrets.token_bytes(_RECOVERY_CODE_BYTES)).decode().lower()
        for _ in range(RECOVERY_CODES)
    ]
    return ["-".join(code[at : at + 4] for at in range(0, len(code), 4)) for code in codes]


def recovery_code_digest(user: str, code: str) -> bytes:
    """Return the digest by which the store knows a recovery code, in whatever case and grouping it
    was typed.

    The codes are random and long, so that a slow hash would add nothing.
    """
    text = "".join(character for character in code.lower() if character.isalnum())
    return sha256(f"recovery code of {user}: {text}".encode("utf-8", "replace")).digest()
