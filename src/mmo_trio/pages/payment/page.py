"""The hosted payment page shows a payment, one button, its state and a way back (W1 to W3).

The browser never decides about money: it shows the state in the store, its button only sends the
payer's consent or a code, and its return from a page of the operator only causes a question.

A page has two addresses. That of its token is the payer's. That of a return is given to the
operator, and can't press the button (:mod:`mmo_sansio.values.return_links`)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import segno
import trio
from attrs import frozen
from quart import Blueprint, Response, render_template, request

from mmo_sansio.messages.inputs import ConfirmPage, PayerReturned
from mmo_sansio.values.clock import (
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    Span,
    elapsed,
    format_with_seconds,
    later,
)
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode, PayerStep
from mmo_sansio.values.model import Page, Stage, Status, Transaction
from mmo_sansio.values.number_format import format_amount, format_digits
from mmo_sansio.values.payer_actions import (
    CODE_CHARACTERS_MAX,
    EnterCode,
    OpenUrl,
    PayerAction,
    clean_code,
)
from mmo_sansio.values.return_links import SEPARATOR, is_return_key
from mmo_trio.admin.resolution import find_evidence_against
from mmo_trio.design.brand_colours import brand_stylesheet
from mmo_trio.http.asgi.web_app import OpenStreams, stream_response
from mmo_trio.pages.context import PagesContext
from mmo_trio.pages.payment.languages import LANGUAGES, choose_language
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.payment.languages.texts import (
    PageTexts,
    format_date,
    format_time_left,
    format_time_waited,
    spoken_suffix,
)
from mmo_trio.pages.payment.shops import Shop, ShopCache, logo_digest
from mmo_trio.settings.operator_signs import UNKNOWN_SIGN, OperatorSign
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.system.display_text import mask_own_number

TOKEN_CHARACTERS_MAX = 64

# Intervals at which a page without scripts reloads: while it waits, and while it has waited for
# long.
REFRESH_S, SLOW_REFRESH_S = 2, 10

# The time since the submission after which a page says that the payer need not stay.
SLOW_AFTER = Span(MINUTE)

# The time since the submission after which a page says what helps who has no message.
HELP_AFTER = Span(20 * SECOND)

# How long a page tells of a payment, after its session and the payment have both ended: the payer
# notes the receipt, or reads why nothing was paid.
TOLD_FOR = Span(HOUR)

# The longest amount that is written in the largest letters, for a phone of 240 px.
AMOUNT_CHARACTERS_MAX = 18

# The lifetime of a stream; the browser then opens the next one.
STREAM_LIFETIME_S = 30.0

# Limit on concurrent streams; pages without one reload by themselves.
STREAMS_MAX = 500

# Limit on concurrent streams of one page, so that nobody takes those of all others with a single
# link.
STREAMS_PER_PAGE_MAX = 5

LANGUAGE_PARAMETER = "lang"
LANGUAGE_COOKIE = "lang"

# For how long a chosen language is kept for a payer who confirms at another page: from there the
# browser comes back to an address without it.
LANGUAGE_KEPT_S = 3600

CODE_FIELD = "code"

# Marks in the query that the browser comes from the button; see `_render_payment`.
PRESSED_PARAMETER = "pressed"

# Marks in the query that the payer has typed what can be no code.
UNUSABLE_PARAMETER = "unusable"

# Asks for colours that hold within elements of the class `branded` only.
PART_PARAMETER = "part"

# For what has another address when it changes.
KEPT = {"Cache-Control": "public, max-age=86400"}

_COLOUR_PATTERN = re.compile(r"[0-9a-f]{6}", re.ASCII)


class PayerStatus(StrEnum):
    """Names the status of a payment as its payer sees it."""

    OPEN = "open"
    """The page waits for its button."""
    CODE = "code"
    """It waits for a code that the payer gets from the provider."""
    ELSEWHERE = "elsewhere"
    """The payer confirms at a page of the provider, and has not come back from it."""
    CLOSED = "closed"
    """The page has expired; nothing was sent."""
    SENDING = "sending"
    WAITING = "waiting"
    """The provider has it; the phone may show a prompt."""
    SLOW = "slow"
    """It was sent more than SLOW_AFTER ago and has no result."""
    PAID = "paid"
    FAILED = "failed"
    UNCLEAR = "unclear"
    """It has ended without proof that no money has moved."""


_STATUS_BY_STAGE = {
    Stage.CREATED: PayerStatus.SENDING,
    Stage.SUBMITTING: PayerStatus.SENDING,
    Stage.AWAITING_RESULT: PayerStatus.WAITING,
    Stage.SUCCEEDED: PayerStatus.PAID,
    Stage.FAILED: PayerStatus.FAILED,
}

_SELDOM_REFRESHED = (PayerStatus.SLOW, PayerStatus.ELSEWHERE)

# Intervals between look-ups. Most pages wait for their button, so theirs can be long.
REFRESH_INTERVALS_S = {
    PayerStatus.OPEN: 2.0,
    PayerStatus.CODE: 2.0,
    PayerStatus.ELSEWHERE: 1.0,
    PayerStatus.SENDING: 0.5,
    PayerStatus.WAITING: 0.5,
    PayerStatus.SLOW: 1.0,
}


def create_payment_page_blueprint(context: PagesContext) -> Blueprint:
    """Create the pages: GET shows a payment, POST is its button, `/events` sends its changes."""
    pages = Blueprint("payment", __name__)
    shops = ShopCache(context.store, context.own_time)
    streams = OpenStreams(STREAMS_MAX, STREAMS_PER_PAGE_MAX)

    @pages.app_context_processor
    async def language() -> dict[str, object]:
        """Give every page its texts in the language of the request, and the links to the others."""
        links = [
            (language, f"?{urlencode({LANGUAGE_PARAMETER: language.code})}")
            for language in LANGUAGES.values()
        ]
        return {"texts": _request_texts(), "languages": links}

    @pages.get("/pay/<token>")
    async def show(token: str) -> Response:
        transaction = await _find_transaction(context, token)
        if transaction is None:
            return await _unknown_token_response()
        shop = await shops.shop(transaction.order.brand)
        return await _render_payment(context, transaction, token, shop)

    @pages.post("/pay/<token>")
    async def confirm(token: str) -> Response:
        transaction = await _find_transaction(context, token)
        if transaction is None or SEPARATOR in token:
            return await _unknown_token_response()

        # A page without the field sends none; what is typed and can be no code is asked for again.
        typed = (await request.form).get(CODE_FIELD)
        code = None
        if typed is not None and (code := clean_code(typed)) is None:
            return Response("", 303, {"Location": _page_url(token, UNUSABLE_PARAMETER)})
        await context.submit(ConfirmPage(transaction.reference, code))
        response = Response("", 303, {"Location": _page_url(token, PRESSED_PARAMETER)})
        return _keeping_language(response, context, transaction)

    @pages.route("/pay/<token>/back", methods=("GET", "POST"))
    async def come_back(token: str) -> Response:
        """Take a payer back from the page of the operator. What the address says of the payment is
        not read: it proves nothing."""
        transaction = await _find_transaction(context, token)
        if transaction is None or SEPARATOR not in token:
            return await _unknown_token_response()
        await context.submit(PayerReturned(transaction.reference))
        return Response("", 303, {"Location": _page_url(token)})

    @pages.get("/pay/<token>/events")
    async def events(token: str) -> Response:
        if await _find_transaction(context, token) is None:
            return await _unknown_token_response()

        # The page then goes on without a stream, and tries again.
        if not streams.has_room_for(token) or context.closing.is_set():
            return Response("", 503, {"Retry-After": "5"})
        return stream_response(_events(context, streams, token, _request_texts()))

    @pages.get("/pay/<token>/qr.svg")
    async def qr_code(token: str) -> Response:
        """Show the address of the page as a code, so that a payer at a computer goes on with the
        phone."""
        if await _find_transaction(context, token) is None:
            return await _unknown_token_response()
        url = f"{context.public_url}{_page_url(token)}"
        picture = io.BytesIO()
        segno.make_qr(url, error="m").save(
            picture, kind="svg", xmldecl=False, border=2, light="#fff", omitsize=True
        )
        return Response(picture.getvalue(), content_type="image/svg+xml")

    @pages.get("/colour/<colour>.css")
    async def colours(colour: str) -> Response:
        """Give the page the colour of its shop; the policy of the page permits no style in the page
        itself."""
        if not _COLOUR_PATTERN.fullmatch(colour):
            return await _unknown_token_response()
        sheet = brand_stylesheet(f"#{colour}")
        if PART_PARAMETER in request.args:
            sheet = sheet.replace(":root", ".branded")
        return Response(sheet, content_type="text/css; charset=utf-8", headers=KEPT)

    # Those of operators come from the settings, which don't change while the gateway runs.
    signs = {logo_digest(sign.logo): sign.logo for sign in context.signs.values() if sign.logo}

    @pages.get("/logo/<digest>")
    async def logo(digest: str) -> Response:
        found = signs.get(digest) or await shops.logo(digest)
        if found is None:
            return await _unknown_token_response()
        return Response(found.content, content_type=found.media_type, headers=KEPT)

    return pages


async def show_store_failure(_: Exception) -> Response:
    """Answer 503 while the store is unavailable, with a page that tries again."""
    page = await render_template("busy.html", refresh_s=REFRESH_S + 1)
    return Response(page, 503, {"Retry-After": "2"})


async def _find_transaction(context: PagesContext, token: str) -> Transaction | None:
    # What no token can be costs no statement.
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii():
        return None

    # 1. The payer's address.
    if SEPARATOR not in token:
        return await context.store.transaction_by_page_token(token)

    # 2. That of a return, which names the payment and proves it by a key.
    reference = token.partition(SEPARATOR)[0]
    found = (await context.store.transactions((reference,))).get(reference)
    if found is not None and is_return_key(token, found.order):
        return found
    return None


async def _unknown_token_response() -> Response:
    """Return the same response for every unknown token: a guess reveals nothing (W3)."""
    return Response(await render_template("unknown.html"), 404)


async def _render_payment(
    context: PagesContext, transaction: Transaction, token: str, shop: Shop
) -> Response:
    page = transaction.order.page
    texts = _request_texts()
    assert page is not None
    # 1. Who has paid or failed belongs to the shop; its answer to the button shows the end first.
    back = _merchant_redirect_url(transaction, page)
    if back is not None and PRESSED_PARAMETER not in request.args:
        return Response("", 303, {"Location": _encode_location(back)})

    # 2. What the payer is told.
    now = context.own_time()
    variables = await find_payment_variables(context, transaction, shop, texts, now=now)

    # 3. Without scripts the page looks again by itself, at last less often.
    refresh_s = REFRESH_S
    if variables["standing"] in _SELDOM_REFRESHED:
        refresh_s = SLOW_REFRESH_S

    # Who comes back from the operator by its link can't press the button.
    action_url = None
    if SEPARATOR not in token:
        action_url = _page_url(token)

    response = Response(
        await render_template(
            "payment.html",
            **variables,
            gateway=context.title,
            is_over=_is_over(transaction, page, now),
            goes_back=back is not None,
            own_url=_page_url(token),
            action_url=action_url,
            is_code_unusable=UNUSABLE_PARAMETER in request.args,
            events_url=f"/pay/{token}/events{_query_string()}",
            qr_url=f"/pay/{token}/qr.svg{_query_string()}",
            refresh_s=refresh_s,
        )
    )
    return _keeping_language(response, context, transaction)


def _is_over(transaction: Transaction, page: Page, now: Instant) -> bool:
    """Return whether the page has ended so long ago that who finds its address learns little."""
    ended_at = transaction.progress.completed_at
    if ended_at is None:
        return False
    # A payment may end long after its session, or before it.
    last = max(transaction.order.to_utc(page.closes_at), ended_at)
    return transaction.order.to_utc(now) >= later(last, TOLD_FOR)


async def find_payment_variables(
    context: PagesContext, transaction: Transaction, shop: Shop, texts: PageTexts, *, now: Instant
) -> dict[str, Any]:
    """Return what `payment_card.html` shows of a payment that has a page, as `payment_variables`
    does, by all that the store has about it. Raises StoreUnavailable."""
    order = transaction.order
    # Only for what failed is more read: "no money was taken" has to be true.
    is_contradicted = (
        transaction.status is Status.FAILED
        and await find_evidence_against(context.store, transaction, succeeded=False) is not None
    )
    return payment_variables(
        transaction,
        shop,
        texts,
        sign=context.signs.get(order.provider, UNKNOWN_SIGN),
        is_elsewhere=order.provider in context.elsewhere,
        is_contradicted=is_contradicted,
        now=now,
    )


def payment_variables(
    transaction: Transaction,
    shop: Shop,
    texts: PageTexts,
    *,
    sign: OperatorSign = UNKNOWN_SIGN,
    is_elsewhere: bool = False,
    is_contradicted: bool = False,
    now: Instant,
) -> dict[str, Any]:
    """Return what `payment_card.html` shows of a payment that has a page, but for the URLs of the
    page around it. `is_elsewhere`: the provider's payers do not confirm on the phone.
    `is_contradicted`: the payment has failed, and something says that it was paid."""
    order = transaction.order
    progress = transaction.progress
    page = order.page
    assert page is not None
    status = payer_status(transaction, is_contradicted=is_contradicted, now=now)
    action = _open_action(transaction, now=now)
    is_elsewhere = is_elsewhere or action is not None
    closes_at = _closes_at(transaction, page)

    # The way to a code and to a page of the operator, where the payer has to go there.
    code_how: Sequence[str] = ()
    if isinstance(action, EnterCode):
        code_how = _how_to_get_code(action, order.provider_title, texts)

    go = None
    if isinstance(action, OpenUrl):
        go = action

    provider_logo_url = None
    if sign.logo is not None:
        provider_logo_url = f"/logo/{logo_digest(sign.logo)}"

    ended_on = ""
    ended_at = ""
    if progress.completed_at is not None:
        ended_on = format_date(progress.completed_at, texts)
        ended_at = format_with_seconds(progress.completed_at)

    # A receipt is the proof of who has paid; without proof either way the payment is asked about by
    # our reference.
    receipt = None
    quoted_reference = None
    if status is PayerStatus.PAID:
        receipt = progress.provider_reference
    elif status is PayerStatus.UNCLEAR:
        quoted_reference = transaction.reference

    # What was settled counts, where that is another amount than was asked for.
    amount = format_amount(progress.final or order.requested, texts.numbers)
    return {
        "texts": texts,
        "brand": shop.name,
        "colour_url": shop.colour_url,
        "logo_url": shop.logo_url,
        "order_text": shop.order_text(order.labels),
        "shop_url": _shop_url(page),
        "support_phone": shop.support_phone,
        "support_url": shop.support_url,
        "amount": amount,
        "is_long": len(amount) > AMOUNT_CHARACTERS_MAX,
        "provider": order.provider_title,
        "provider_logo_url": provider_logo_url,
        "provider_colour": sign.colour,
        "approvals_code": sign.approvals_code,
        "number": format_digits(mask_own_number(order.party.msisdn), texts.numbers),
        "number_spoken": texts.ending_in.format(digits=spoken_suffix(order.party.msisdn)),
        "standing": status,
        "sentence": status_sentence(status, texts, is_elsewhere=is_elsewhere).format(
            provider=order.provider_title
        ),
        "ending": find_ending(status, progress.error_code, texts),
        "is_elsewhere": is_elsewhere,
        "go": go,
        "code_how": code_how,
        "code_characters_max": CODE_CHARACTERS_MAX,
        "needs_help": _waited(transaction, now) >= HELP_AFTER,
        "waited": format_time_waited(_waited(transaction, now), texts),
        "left": format_time_left(Span(closes_at - now), texts),
        "closes_in_s": max(1, -(-(closes_at - now) // SECOND)),
        "left_share": round(100 * (closes_at - now) / max(1, closes_at - order.created_at)),
        "ended_on": ended_on,
        "ended_at": ended_at,
        "receipt": receipt,
        "quoted_reference": quoted_reference,
    }


def payer_status(
    transaction: Transaction, *, is_contradicted: bool = False, now: Instant
) -> PayerStatus:
    """Return how a payment stands for its payer. `is_contradicted`: it has failed, and something
    says that it was paid."""
    page = transaction.order.page
    code = transaction.progress.error_code

    # 1. An end that proves nothing, or against which something stands: never "not paid".
    if is_contradicted or (code is not None and not EXPLANATIONS[code].proves_nothing_moved):
        return PayerStatus.UNCLEAR

    # 2. What the payer has to do elsewhere.
    if (asked := _asked_now(transaction, now=now)) is not None:
        return asked

    # 3. What was sent long ago; what waits for its payer has all the time of the page.
    stage = transaction.progress.stage
    waits_for_payer = stage.is_unsent and transaction.progress.payer_action is not None
    is_slow = not stage.is_terminal and _waited(transaction, now) >= SLOW_AFTER
    if is_slow and not waits_for_payer:
        return PayerStatus.SLOW

    # 4. Any other payment by its stage, and the page before its button was pressed.
    if transaction.progress.stage is not Stage.AWAITING_CUSTOMER or page is None:
        return _STATUS_BY_STAGE[transaction.progress.stage]
    if now >= _closes_at(transaction, page):
        return PayerStatus.CLOSED

    return PayerStatus.OPEN


def _asked_now(transaction: Transaction, *, now: Instant) -> PayerStatus | None:
    """Return what the payer is asked to do elsewhere; None: nothing, or it is done."""
    match _open_action(transaction, now=now):
        case OpenUrl(returned_at=None):
            return PayerStatus.ELSEWHERE
        case EnterCode(code=None):
            return PayerStatus.CODE
        case _:
            return None


def _open_action(transaction: Transaction, *, now: Instant) -> PayerAction | None:
    """Return what the payer can do elsewhere now. A page can be opened until it ends, also by one
    who has come back from it; a code is given once."""
    action = transaction.progress.payer_action
    stage = transaction.progress.stage
    if action is None or (action.ends_at is not None and now >= action.ends_at):
        return None

    page = transaction.order.page
    if stage is Stage.AWAITING_CUSTOMER and (page is None or now >= page.closes_at):
        return None
    if isinstance(action, EnterCode) and action.code is not None:
        return None
    if stage in (Stage.AWAITING_CUSTOMER, Stage.AWAITING_RESULT):
        return action

    return None


def _closes_at(transaction: Transaction, page: Page) -> Instant:
    """Return until when the payer can act on the page."""
    action = transaction.progress.payer_action
    if action is None or action.ends_at is None:
        return page.closes_at
    return min(page.closes_at, action.ends_at)


def _how_to_get_code(asked: EnterCode, provider: str, texts: PageTexts) -> Sequence[str]:
    """Return the operator's words line by line, in the payer's language, else in English, else in
    another; where it has none, the page's own."""
    told = dict(asked.instructions)
    for language in (texts.code, ENGLISH.code, *told):
        if language in told:
            return told[language].splitlines()
    return (texts.ask_for_code.format(provider=provider),)


def _waited(transaction: Transaction, now: Instant) -> Span:
    """Return the time since the payment was sent to its provider; 0 before."""
    submitted_at = transaction.progress.submitted_at
    if submitted_at is None:
        return Span(0)
    return max(Span(0), elapsed(submitted_at, now))


def status_sentence(status: PayerStatus, texts: PageTexts, *, is_elsewhere: bool = False) -> str:
    """Return what a payer who is not done is told, with `{provider}` where it names the provider;
    empty while the page waits for its button, and for endings."""
    match status:
        case PayerStatus.SENDING | PayerStatus.WAITING if is_elsewhere:
            return texts.asking
        case PayerStatus.ELSEWHERE:
            return texts.elsewhere
        case PayerStatus.CODE:
            return texts.enter_code
        case PayerStatus.SENDING:
            return texts.sending
        case PayerStatus.WAITING:
            return texts.waiting
        case PayerStatus.SLOW:
            return texts.slow
        case _:
            return ""


@frozen
class Ending:
    """Holds what a payment that has ended tells its payer."""

    heading: str
    money: str = ""
    """That no money has moved; empty where that is not known."""
    reason: str = ""
    advice: str = ""
    kind: str = "bad"
    sign: str = "cross"


def find_ending(status: PayerStatus, code: ErrorCode | None, texts: PageTexts) -> Ending | None:
    """Return what is told at the end of a payment; None before. Only where the failure proves it,
    or nothing was ever sent, is the payer told that no money has moved."""
    if status is PayerStatus.PAID:
        return Ending(texts.paid, kind="good", sign="check")

    if status is PayerStatus.UNCLEAR:
        # The reason of a failure that was contradicted would say that nothing was paid.
        if code is not None and not EXPLANATIONS[code].proves_nothing_moved:
            reason = texts.reasons[code]
        else:
            reason = ""

        advice = texts.next_steps[PayerStep.WAIT]
        return Ending(texts.unclear, "", reason, advice, kind="neutral", sign="info")

    # The page has ended before the payment is told so: it says already what that will say.
    if status is PayerStatus.CLOSED:
        code = ErrorCode.USER_TIMEOUT
    elif status is not PayerStatus.FAILED:
        return None

    if code is None:
        return Ending(texts.not_paid)

    advice = texts.next_steps[EXPLANATIONS[code].payer_step]
    return Ending(texts.not_paid, texts.not_taken, texts.reasons[code], advice)


def _merchant_redirect_url(transaction: Transaction, page: Page) -> str | None:
    """Return the merchant's URL for the browser once the payment has ended (W2); None without one.

    The button can't lead there directly, as `form-action` forbids it: the button's page is shown
    first, and leads on by itself."""
    match transaction.status:
        case Status.SUCCESS:
            return page.success_redirect_url
        case Status.FAILED:
            return page.error_redirect_url
        case Status.PENDING:
            return None


def _shop_url(page: Page) -> str | None:
    """Return the front page of the site that the browser returns to, for a payer who leaves before
    the result is known: the merchant's own URLs say that there is one. None where no website was
    named."""
    for url in (page.error_redirect_url, page.success_redirect_url):
        parts = urlsplit(url or "")
        if parts.scheme in ("http", "https"):
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
    return None


def _encode_location(url: str) -> str:
    """Percent-encode only the characters that no header may hold, as a browser would (RFC 3987)."""
    return "".join(character if "!" <= character <= "~" else quote(character) for character in url)


def _page_url(token: str, mark: str | None = None) -> str:
    return f"/pay/{token}{_query_string(mark)}"


def _query_string(mark: str | None = None) -> str:
    """Return the query of the page's own URLs, which keeps the chosen language."""
    parameters = {}
    if (language := _chosen_language()) is not None:
        parameters[LANGUAGE_PARAMETER] = language
    if mark is not None:
        parameters[mark] = "1"
    if parameters:
        return f"?{urlencode(parameters)}"
    return ""


def _request_texts() -> PageTexts:
    return choose_language(_chosen_language(), request.accept_languages.values())


def _chosen_language() -> str | None:
    """Return the language of the page's address, else the one that was chosen before the payer went
    elsewhere; None: none was chosen."""
    for language in (request.args.get(LANGUAGE_PARAMETER), request.cookies.get(LANGUAGE_COOKIE)):
        if language in LANGUAGES:
            return language
    return None


def _keeping_language(
    response: Response, context: PagesContext, transaction: Transaction
) -> Response:
    """Return the response, with a cookie where the payer has chosen a language and confirms at
    another page. It names the language only."""
    language = request.args.get(LANGUAGE_PARAMETER, "")
    if language in LANGUAGES and transaction.order.provider in context.elsewhere:
        response.set_cookie(
            LANGUAGE_COOKIE,
            language,
            max_age=LANGUAGE_KEPT_S,
            path="/pay",
            secure=context.public_url.startswith("https:"),
            httponly=True,
            samesite="Lax",
        )

    return response


async def _events(
    context: PagesContext, streams: OpenStreams, token: str, texts: PageTexts
) -> AsyncGenerator[bytes, None]:
    """Yield an event for each change of the payment's status, the first at once (server-sent
    events); an event has only page texts. End when there is no payment or no store."""
    # Others may have begun since the response was made.
    if not streams.has_room_for(token):
        return

    with streams.hold(token), suppress(StoreUnavailable):
        last = ""
        ends_at = trio.current_time() + STREAM_LIFETIME_S
        yield b"retry: 1000\n\n"
        while trio.current_time() < ends_at and not context.closing.is_set():
            transaction = await _find_transaction(context, token)
            if transaction is None or transaction.order.page is None:
                return

            # Whether something contradicts an end is looked up by the page, which loads anew then.
            now = context.own_time()
            status = payer_status(transaction, now=now)
            members: dict[str, str] = {"standing": status}
            if status in (PayerStatus.OPEN, PayerStatus.CODE):
                closes_at = _closes_at(transaction, transaction.order.page)
                members["left"] = format_time_left(Span(closes_at - now), texts)
            elif _waited(transaction, now) >= HELP_AFTER and status is PayerStatus.WAITING:
                members["help"] = "1"
            elif status is PayerStatus.SLOW:
                members["left"] = format_time_waited(_waited(transaction, now), texts)

            # Nothing is sent while nothing changes; a time that is left changes each minute.
            event = json.dumps(members, ensure_ascii=False)
            if event != last:
                last = event
                yield f"data: {event}\n\n".encode()

            with trio.move_on_after(
                REFRESH_INTERVALS_S.get(status, REFRESH_INTERVALS_S[PayerStatus.OPEN])
            ):
                await context.closing.wait()
