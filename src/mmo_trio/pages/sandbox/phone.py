"""The virtual phone: the sandbox operator asks, and a person answers (scenario 180, `phone`)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType

import trio
from quart import Blueprint, Response, render_template, request

from mmo_sansio.providers.sandbox.simulated_operator import PhonePrompt
from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.pages.context import PagesContext, SandboxContext
from mmo_trio.pages.payment.formatting import format_amount
from mmo_trio.pages.payment.languages.english import ENGLISH

PHONE_NUMBER = "254700000180"
"""The number that is suggested: its last digits make the sandbox wait for a person."""

APPROVE = "approve"
DECLINE_CODES: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "refuse": ErrorCode.USER_CANCELLED,
        "no-money": ErrorCode.USER_INSUFFICIENT_FUNDS,
        "ignore": ErrorCode.USER_TIMEOUT,
    }
)
"""What a person may do instead, and how the payment then fails."""

PROMPT_CHECK_INTERVAL_S = 0.25
STREAM_LIFETIME_S = 30.0
REFRESH_S = 2

_MSISDN_PATTERN = re.compile(r"\+?[0-9]{3,20}", re.ASCII)
_PIN_PATTERN = re.compile(r"[0-9]{4}", re.ASCII)


def create_phone_blueprint(context: PagesContext, sandbox: SandboxContext) -> Blueprint:
    """GET /phone picks a number; /phone/NUMBER is that phone. In a sandbox only."""
    pages = Blueprint("phone", __name__, url_prefix="/phone")
    operator = sandbox.operator

    def prompts(number: str | None = None) -> list[PhonePrompt]:
        now = context.now()
        return [
            each
            for each in (() if operator is None else operator.prompts())
            if now < each.expires_at and (number is None or _is_same_number(each.msisdn, number))
        ]

    @pages.get("")
    async def pick() -> Response:
        number = request.args.get("number", "").replace(" ", "")
        if _MSISDN_PATTERN.fullmatch(number):
            return Response("", 303, {"Location": f"/phone/{number.removeprefix('+')}"})
        waiting = sorted({each.msisdn.removeprefix("+") for each in prompts()})
        page = await render_template(
            "phones.html", texts=ENGLISH, waiting=waiting, number=number, suggested=PHONE_NUMBER
        )
        return Response(page)

    @pages.get("/<number>")
    async def phone(number: str) -> Response:
        return await _render_phone(number, prompts(number))

    @pages.post("/<number>/<reference>")
    async def answer(number: str, reference: str) -> Response:
        form = await request.form
        deed, pin = form.get("deed", APPROVE), form.get("pin", "")
        if not _MSISDN_PATTERN.fullmatch(number) or deed not in (APPROVE, *DECLINE_CODES):
            return Response(await render_template("unknown.html", texts=ENGLISH), 404)
        is_waiting = any(each.reference == reference for each in prompts(number))
        if operator is None or not is_waiting:
            return Response("", 303, {"Location": f"/phone/{_without_plus(number)}"})
        if deed in DECLINE_CODES:
            operator.decline(reference, error_code=DECLINE_CODES[deed])
        elif _PIN_PATTERN.fullmatch(pin):
            operator.approve(reference)
        else:
            fault = "A PIN has four digits; on this phone any four will do."
            return await _render_phone(number, prompts(number), fault=fault, status=422)
        return Response("", 303, {"Location": f"/phone/{_without_plus(number)}?done={deed}"})

    @pages.get("/<number>/events")
    async def events(number: str) -> Response:
        async def stream() -> AsyncGenerator[bytes, None]:
            """One event once there is a prompt."""
            yield b"retry: 1000\n\n"
            with trio.move_on_after(STREAM_LIFETIME_S):
                while not prompts(number) and not context.closing.is_set():
                    with trio.move_on_after(PROMPT_CHECK_INTERVAL_S):
                        await context.closing.wait()
            if prompts(number):
                yield b"data: prompt\n\n"

        response = Response(stream(), content_type="text/event-stream")
        response.timeout = None
        return response

    return pages


async def _render_phone(
    number: str, prompts: list[PhonePrompt], *, fault: str = "", status: int = 200
) -> Response:
    if not _MSISDN_PATTERN.fullmatch(number):
        return Response(await render_template("unknown.html", texts=ENGLISH), 404)
    page = await render_template(
        "phone.html",
        texts=ENGLISH,
        number=_without_plus(number),
        prompts=[
            (each, format_amount(each.amount, ENGLISH.numbers), each.type == "payin")
            for each in prompts
        ],
        fault=fault,
        done=request.args.get("done", ""),
        refresh_s=REFRESH_S,
    )
    return Response(page, status)


def _is_same_number(one: str, other: str) -> bool:
    return _without_plus(one) == _without_plus(other)


def _without_plus(number: str) -> str:
    return number.removeprefix("+")
