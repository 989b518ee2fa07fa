"""The sandbox's controls over HTTP: move the clock, tell of a deposit, press the button, see what was sent."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from quart import Blueprint, Response, request

from mmo_sansio.api.incoming.strict_json import Number, parse_object
from mmo_sansio.api.outgoing.problem_json import problem_response
from mmo_sansio.messages.inputs import ConfirmPage, DepositNotified
from mmo_sansio.messages.replies import Ignored, Noted
from mmo_sansio.values import problems
from mmo_sansio.values.clock import with_microseconds
from mmo_sansio.values.model import Brand, Method, Party
from mmo_sansio.values.money import AmountError, check_amount, money, parse_number
from mmo_sansio.values.problems import FieldFault, Problem, RefusedError
from mmo_trio.pages.context import Desk, SandboxDesk
from mmo_trio.settings.errors import ValueFault
from mmo_trio.settings.values import read_span
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable

Body = dict[str, Any]


def sandbox_controls(desk: Desk, sandbox: SandboxDesk) -> Blueprint:
    """POST /sandbox/clock, /push, /pay; GET /sandbox/callbacks, /suspense. In a sandbox only."""
    controls = Blueprint("sandbox", __name__, url_prefix="/sandbox")

    @controls.post("/clock")
    async def clock() -> Response:
        body = await _body()
        try:
            span = read_span(_text(body, "advance"))
        except ValueFault as error:
            raise _fault("advance", str(error)) from None
        now = await sandbox.advance_clock(span)
        return _json({"now": with_microseconds(now)})

    @controls.post("/push")
    async def push() -> Response:
        body = await _body()
        brand, method = await _brand_and_method(desk, body)
        told = _deposit(body, brand, method, sandbox)
        reply = await desk.submit(told)
        known = reply.transaction if isinstance(reply, Noted | Ignored) else None
        return _json({"gatewayReference": known.reference if known else None})

    @controls.post("/pay")
    async def pay() -> Response:
        reference = _text(await _body(), "gatewayReference")
        reply = await desk.submit(ConfirmPage(reference.upper()))
        if isinstance(reply, Noted):
            return _json({"gatewayReference": reply.transaction.reference})
        reason = reply.reason if isinstance(reply, Ignored) else "It was refused."
        if isinstance(reply, Ignored) and reply.transaction is not None:
            return _json({"gatewayReference": reply.transaction.reference, "ignored": reason})
        raise RefusedError(problems.NOT_FOUND.problem(reason))

    @controls.get("/callbacks")
    async def callbacks() -> Response:
        recorded = await desk.store.callbacks(brand=request.args.get("brand"))
        return _json(
            [
                {
                    "gatewayReference": each.gateway_reference,
                    "url": each.attempt.url,
                    "outcome": each.attempt.outcome,
                    "status": each.attempt.status,
                    "durationMs": each.attempt.duration_ms,
                    "at": with_microseconds(each.at),
                }
                for each in recorded
            ]
        )

    @controls.get("/suspense")
    async def suspense() -> Response:
        entries = await desk.store.suspense(brand=request.args.get("brand"))
        return _json(
            [
                {
                    "id": each.id,
                    "reason": each.reason,
                    "provider": each.provider,
                    "gatewayReference": each.gateway_reference,
                    "told": json.loads(each.told),
                    "times": each.times,
                    "firstAt": with_microseconds(each.first_at),
                    "lastAt": with_microseconds(each.last_at),
                }
                for each in entries
            ]
        )

    @controls.errorhandler(StoreUnavailable)
    @controls.errorhandler(OutcomeUnknown)
    async def busy(_: Exception) -> Response:
        problem = problems.UNAVAILABLE.problem("The store can't serve right now; try again.")
        return _problem(problem, desk.error_docs_url)

    @controls.errorhandler(RefusedError)
    async def refused(error: RefusedError) -> Response:
        return _problem(error.problem, desk.error_docs_url)

    return controls


async def _body() -> Body:
    raw: bytes = await request.body
    return parse_object(raw)


def _deposit(body: Body, brand: Brand, method: Method, sandbox: SandboxDesk) -> DepositNotified:
    amount, party = body.get("amount"), body.get("party")
    if not isinstance(amount, dict):
        raise _fault("amount", "must be an object with value and currency")
    if not isinstance(party, dict):
        raise _fault("party", "must be an object with msisdn, and id if the payer typed one")
    currency, msisdn = _text(amount, "currency"), _text(party, "msisdn")
    try:
        paid = money(check_amount(_number(amount)), currency)
    except AmountError as error:
        raise _fault("amount.value", str(error)) from None
    except KeyError:
        raise _fault("amount.currency", "must be a currency of ISO 4217") from None
    return DepositNotified(
        provider=method.provider,
        provider_reference=_text(body, "providerReference"),
        provider_title=method.provider_title,
        gateway_reference=sandbox.new_reference(),
        brand=brand,
        method=method.key,
        amount=paid,
        party=Party(
            id=_optional_text(party, "id") or msisdn,
            msisdn=msisdn,
            first_name=_optional_text(party, "firstName"),
            last_name=_optional_text(party, "lastName"),
            email=_optional_text(party, "email"),
        ),
        succeeded=body.get("status", "success") != "failed",
    )


async def _brand_and_method(desk: Desk, body: Body) -> tuple[Brand, Method]:
    brand_id, key = _text(body, "brand"), _text(body, "method")
    for record in await desk.store.brands():
        if record.brand.id == brand_id:
            for method in record.brand.methods:
                if method.key == key:
                    return record.brand, method
            raise RefusedError(
                problems.NOT_FOUND.problem(f"The brand '{brand_id}' has no method '{key}'.")
            )
    raise RefusedError(problems.NOT_FOUND.problem(f"There is no brand '{brand_id}'."))


def _number(amount: Body) -> Decimal:
    value = amount.get("value")
    if not isinstance(value, Number):
        raise AmountError("must be a number")
    return parse_number(value.text)


def _text(body: Body, field: str) -> str:
    value = body.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _fault(field, "is required and must be a string")
    return value


def _optional_text(body: Body, field: str) -> str | None:
    return None if body.get(field) is None else _text(body, field)


def _fault(field: str, detail: str) -> RefusedError:
    return RefusedError(
        problems.VALIDATION_FAILED.problem(f"{field} {detail}.", FieldFault(field, detail))
    )


def _json(value: object) -> Response:
    return Response(json.dumps(value), content_type="application/json")


def _problem(problem: Problem, error_docs_url: str) -> Response:
    answer = problem_response(problem, error_docs_url)
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, headers)
