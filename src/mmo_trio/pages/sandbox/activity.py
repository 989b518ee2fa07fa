"""Shows what has happened in a sandbox, as pages for people and as JSON for programs: callbacks,
the latest requests, the suspense book."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen
from quart import Blueprint, Response, render_template, request

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.values.clock import Instant, format_with_microseconds, format_with_seconds
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.problems import ProblemError
from mmo_trio.admin.explanation import suspense_entry_to_json
from mmo_trio.pages.context import find_shown_key, pages_context, sandbox_context
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.sandbox.controls import (
    json_response,
    report_problem,
    report_store_failure,
    validation_error,
)
from mmo_trio.sandbox.demo_brand import DEMO_BRAND_ID
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.system.display_text import indent_json, visible_text

# How many callbacks and requests a page shows, the newest first.
SHOWN_MAX: Final = 50

# How much is shown of what a shop answered.
ANSWER_CHARACTERS_MAX: Final = 2_000

# The outcomes of callbacks that the gateway tried to send; the others held it back.
_CONNECTED: Final = (
    DeliveryOutcome.DELIVERED,
    DeliveryOutcome.NON_2XX,
    DeliveryOutcome.TIMEOUT,
    DeliveryOutcome.TRANSPORT_ERROR,
)

_NUMBER_PATTERN = re.compile("[0-9]{1,15}", re.ASCII)

pages = Blueprint("activity", __name__, url_prefix="/sandbox")
pages.register_error_handler(StoreUnavailable, report_store_failure)
pages.register_error_handler(OutcomeUnknown, report_store_failure)
pages.register_error_handler(ProblemError, report_problem)


@frozen
class ShownCallback:
    """Describes a callback as a page shows it."""

    transaction: Transaction
    at: str
    outcome: DeliveryOutcome
    http_status: int | None
    duration_ms: int
    detail: str
    request_text: str
    answer_text: str
    """What the shop answered; without an answer empty."""

    @property
    def is_delivered(self) -> bool:
        return self.outcome is DeliveryOutcome.DELIVERED

    @property
    def was_tried(self) -> bool:
        """Tell whether the gateway tried to send it."""
        return self.outcome in _CONNECTED


def wants_page() -> bool:
    """Tell whether the request is a person's, whose browser asks for HTML before all else; programs
    get JSON, and so does whoever adds `as=json`."""
    # JSON stands first: whoever takes anything, as curl does, is a program.
    kinds = ["application/json", "text/html"]
    best = request.accept_mimetypes.best_match(kinds, default=kinds[0])
    return best == "text/html" and request.args.get("as") != "json"


@pages.get("/callbacks")
async def callbacks() -> Response:
    """List every attempt to send a callback."""
    brand = request.args.get("brand")
    recorded = await pages_context().store.admin.callbacks(brand=brand)
    if wants_page():
        newest = recorded[: -SHOWN_MAX - 1 : -1]
        return await _page("callbacks.html", callbacks=await describe_callbacks(newest))

    return json_response(
        [
            {
                "gatewayReference": callback.gateway_reference,
                "url": callback.attempt.url,
                "outcome": callback.attempt.outcome,
                "status": callback.attempt.status,
                "durationMs": callback.attempt.duration_ms,
                "at": format_with_microseconds(callback.at),
            }
            for callback in recorded
        ]
    )


@pages.get("/requests")
async def requests() -> Response:
    """List the latest requests of merchants, from after the one with the number `after`."""
    after = request.args.get("after", "0")
    if not _NUMBER_PATTERN.fullmatch(after):
        raise validation_error("after", "must be the number of a request, such as 12")
    found = sandbox_context().request_log.since(int(after))
    if wants_page():
        newest = found[: -SHOWN_MAX - 1 : -1]
        return await _page("requests.html", requests=newest, indented=_indented)
    return json_response(found)


@pages.get("/suspense")
async def suspense() -> Response:
    """List the open entries of the suspense book."""
    store = pages_context().store
    entries = await store.admin.suspense(brand=request.args.get("brand"))
    if not wants_page():
        return json_response([suspense_entry_to_json(entry) for entry in entries])

    references = [entry.gateway_reference for entry in entries if entry.gateway_reference]
    return await _page(
        "suspense.html",
        entries=entries,
        payments=await store.transactions(references),
        moment=_moment,
        indented=_indented,
    )


async def describe_callbacks(recorded: Sequence[CallbackRecorded]) -> list[ShownCallback]:
    """Return these callbacks with what was sent and what was answered, in their order."""
    store = pages_context().store
    key = await find_shown_key()
    payments = await store.transactions([callback.gateway_reference for callback in recorded])
    shown = []
    for callback in recorded:
        reference = callback.gateway_reference
        if reference not in payments:
            continue  # Retention has removed it meanwhile.

        # Only the callbacks of one payment come with the bodies of the answers.
        (whole,) = await store.admin.callbacks(gateway_reference=reference)
        attempt = whole.attempt
        body = attempt.body[:ANSWER_CHARACTERS_MAX].decode(errors="replace")
        if attempt.status:
            head = f"HTTP {attempt.status}"
        else:
            head = ""

        # The demo brand's key alone is shown: those of other brands are their merchants'.
        transaction = payments[reference]
        shown_key = key if callback.brand == DEMO_BRAND_ID else None
        shown.append(
            ShownCallback(
                transaction=transaction,
                at=_moment(callback.at),
                outcome=attempt.outcome,
                http_status=attempt.status,
                duration_ms=attempt.duration_ms,
                detail=attempt.detail,
                request_text=_request_text(transaction, attempt.url, shown_key or "your API key"),
                answer_text="\n\n".join(part for part in (head, visible_text(body)) if part),
            )
        )

    return shown


def _request_text(transaction: Transaction, url: str, key: str) -> str:
    """Return a callback as HTTP, its body with a member on each line."""
    parts = urlsplit(url)
    path = parts.path or "/"
    if parts.query:
        query = f"?{parts.query}"
    else:
        query = ""

    head = (
        f"POST {path}{query} HTTP/1.1\n"
        f"Host: {parts.netloc}\n"
        "Content-Type: application/json\n"
        f"X-API-KEY: {key}"
    )
    return f"{head}\n\n{indent_json(transaction_object(transaction).decode())}"


def _moment(at: Instant) -> str:
    return format_with_seconds(at)[:19].replace("T", " ")


def _indented(text: str) -> str:
    """Return JSON with a member on each line, and other text as it is."""
    try:
        return indent_json(text)
    except (ValueError, RecursionError):
        return visible_text(text)


async def _page(template: str, **variables: object) -> Response:
    answer = Response(await render_template(template, texts=ENGLISH, **variables))
    answer.headers["Vary"] = "Accept"  # The same address answers programs with JSON.
    return answer
