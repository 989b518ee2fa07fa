"""Serves a sandbox's controls: its clock, deposits, the page's button."""

from __future__ import annotations

import json
from typing import Any

from quart import Blueprint, Response, request

from mmo_sansio.api.outgoing import problem_response
from mmo_sansio.messages.inputs import ConfirmPage, DepositNotified
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.values import problems
from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import Brand, Method, Party
from mmo_sansio.values.money import AmountError, check_amount, parse_number, to_money
from mmo_sansio.values.problems import FieldError, ProblemError
from mmo_sansio.values.strict_json import JsonNumber, parse_object
from mmo_trio.pages.context import pages_context, reject_cross_site_post, sandbox_context
from mmo_trio.settings.values import SPAN
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

JsonBody = dict[str, Any]

pages = Blueprint("sandbox", __name__, url_prefix="/sandbox")
pages.before_request(reject_cross_site_post)


@pages.post("/clock")
async def clock() -> Response:
    body = await _read_json_body()
    try:
        span = SPAN.read(_required_text(body, "advance"))
    except SettingsError as error:
        raise validation_error("advance", str(error).removesuffix(".")) from None
    now = await sandbox_context().advance_clock(span)
    return json_response({"now": format_with_microseconds(now)})


@pages.post("/push")
async def push() -> Response:
    """Report an offline deposit, as a provider would."""
    body = await _read_json_body()
    brand, method = await _find_brand_and_method(body)
    reply = await pages_context().submit(_parse_deposit(body, brand, method))
    # A deposit that fits nothing is in the suspense book, and so has no payment.
    reference = None
    if isinstance(reply, Applied | Ignored) and reply.transaction is not None:
        reference = reply.transaction.reference

    return json_response({"gatewayReference": reference})


@pages.post("/pay")
async def pay() -> Response:
    """Confirm a payment, as the button of its page does."""
    reference = _required_text(await _read_json_body(), "gatewayReference")
    reply = await pages_context().submit(ConfirmPage(reference.upper()))
    if isinstance(reply, Applied):
        return json_response({"gatewayReference": reply.transaction.reference})

    if isinstance(reply, Ignored):
        reason = reply.reason
    else:
        reason = "It was refused."

    # Pressed before, or too late: no fault of the request, as of a second press of the button.
    if isinstance(reply, Ignored) and reply.transaction is not None:
        return json_response({"gatewayReference": reply.transaction.reference, "ignored": reason})

    raise ProblemError(problems.NOT_FOUND.problem(reason))


@pages.errorhandler(StoreUnavailable)
@pages.errorhandler(OutcomeUnknown)
async def report_store_failure(_: Exception) -> Response:
    """Answer 503 while the store is unavailable."""
    problem = problems.UNAVAILABLE.problem("The store can't serve right now; try again.")
    return await report_problem(ProblemError(problem))


@pages.errorhandler(ProblemError)
async def report_problem(error: ProblemError) -> Response:
    answer = problem_response(error.problem, pages_context().error_docs_url)
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, headers)


async def _read_json_body() -> JsonBody:
    return parse_object(await request.body)


def _parse_deposit(body: JsonBody, brand: Brand, method: Method) -> DepositNotified:
    amount, party = body.get("amount"), body.get("party")
    if not isinstance(amount, dict):
        raise validation_error("amount", "must be an object with value and currency")

    if not isinstance(party, dict):
        raise validation_error(
            "party", "must be an object with msisdn, and id if the payer typed one"
        )

    currency, msisdn = _required_text(amount, "currency"), _required_text(party, "msisdn")
    value = amount.get("value")
    if not isinstance(value, JsonNumber):
        raise validation_error("amount.value", "must be a number")

    # As for a merchant's amount: exact digits, no more decimals than the currency has.
    try:
        paid = to_money(check_amount(parse_number(value.text)), currency)
    except AmountError as error:
        raise validation_error("amount.value", str(error)) from None
    except KeyError:
        raise validation_error("amount.currency", "must be a currency of ISO 4217") from None

    return DepositNotified(
        provider=method.provider,
        provider_reference=_required_text(body, "providerReference"),
        provider_title=method.provider_title,
        gateway_reference=sandbox_context().new_reference(),
        brand=brand,
        method=method.key,
        amount=paid,
        party=Party(
            # What a payer has typed at the operator; the number where nothing was asked.
            id=_optional_text(party, "id") or msisdn,
            msisdn=msisdn,
            first_name=_optional_text(party, "firstName"),
            last_name=_optional_text(party, "lastName"),
            email=_optional_text(party, "email"),
        ),
        succeeded=body.get("status", "success") != "failed",
        is_simulated=True,
    )


async def _find_brand_and_method(body: JsonBody) -> tuple[Brand, Method]:
    brand_id, key = _required_text(body, "brand"), _required_text(body, "method")
    for record in await pages_context().store.admin.brands():
        if record.brand.id == brand_id:
            for method in record.brand.methods:
                if method.key == key:
                    return record.brand, method
            raise ProblemError(
                problems.NOT_FOUND.problem(f"The brand '{brand_id}' has no method '{key}'.")
            )
    raise ProblemError(problems.NOT_FOUND.problem(f"There is no brand '{brand_id}'."))


def _required_text(body: JsonBody, field: str) -> str:
    value = body.get(field)
    if not isinstance(value, str) or not value.strip():
        raise validation_error(field, "is required and must be a string")
    return value


def _optional_text(body: JsonBody, field: str) -> str | None:
    if body.get(field) is None:
        return None
    return _required_text(body, field)


def validation_error(field: str, detail: str) -> ProblemError:
    """Return the refusal of a field."""
    return ProblemError(
        problems.VALIDATION_FAILED.problem(f"{field} {detail}.", FieldError(field, detail))
    )


def json_response(value: object) -> Response:
    return Response(json.dumps(value), content_type="application/json")
