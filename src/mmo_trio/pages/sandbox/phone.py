"""The virtual phone: the sandbox operator asks, and a person answers (scenario 180, `phone`)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType

import trio
from quart import Blueprint, Response, render_template, request

from mmo_sansio.providers.sandbox.simulated_operator import Prompt
from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.pages.context import Desk, SandboxDesk
from mmo_trio.pages.payment.formatting import amount_written
from mmo_trio.pages.payment.languages.english import ENGLISH

PHONE_NUMBER = "254700000180"
"""The number that is suggested: its last digits make the sandbox wait for a person."""

APPROVE = "approve"
REFUSALS: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "refuse": ErrorCode.USER_CANCELLED,
        "no-money": ErrorCode.USER_INSUFFICIENT_FUNDS,
        "ignore": ErrorCode.USER_TIMEOUT,
    }
)
"""What a person may do instead, and how the payment then fails."""

LOOK_EVERY_S = 0.25
STREAM_S = 30.0
REFRESH_S = 2

_NUMBER = re.compile(r"\+?[0-9]{3,20}", re.ASCII)
_PIN = re.compile(r"[0-9]{4}", re.ASCII)


def phone_pages(desk: Desk, sandbox: SandboxDesk) -> Blueprint:
    """GET /phone picks a number; /phone/NUMBER is that phone. In a sandbox only."""
    pages = Blueprint("phone", __name__, url_prefix="/phone")

    def prompts(number: str | None = None) -> list[Prompt]:
        now = desk.now()
        return [
            each
            for each in sandbox.operator.prompts()
            if now < each.expires_at and (number is None or _same(each.msisdn, number))
        ]

    @pages.get("")
    async def pick() -> Response:
        number = request.args.get("number", "").replace(" ", "")
        if _NUMBER.fullmatch(number):
            return Response("", 303, {"Location": f"/phone/{number.removeprefix('+')}"})
        waiting = sorted({each.msisdn.removeprefix("+") for each in prompts()})
        page = await render_template(
            "phones.html", texts=ENGLISH, waiting=waiting, number=number, suggested=PHONE_NUMBER
        )
        return Response(page)

    @pages.get("/<number>")
    async def phone(number: str) -> Response:
        return await _shown(number, prompts(number))

    @pages.post("/<number>/<reference>")
    async def answer(number: str, reference: str) -> Response:
        form = await request.form
        deed, pin = form.get("deed", APPROVE), form.get("pin", "")
        if not _NUMBER.fullmatch(number) or deed not in (APPROVE, *REFUSALS):
            return Response(await render_template("unknown.html", texts=ENGLISH), 404)
        if not any(each.reference == reference for each in prompts(number)):
            return Response("", 303, {"Location": f"/phone/{_written(number)}"})
        if deed in REFUSALS:
            sandbox.operator.refuse(reference, why=REFUSALS[deed])
        elif _PIN.fullmatch(pin):
            sandbox.operator.approve(reference)
        else:
            fault = "A PIN has four digits; on this phone any four will do."
            return await _shown(number, prompts(number), fault=fault, status=422)
        return Response("", 303, {"Location": f"/phone/{_written(number)}?done={deed}"})

    @pages.get("/<number>/events")
    async def events(number: str) -> Response:
        async def stream() -> AsyncGenerator[bytes, None]:
            """One event once there is a prompt."""
            yield b"retry: 1000\n\n"
            with trio.move_on_after(STREAM_S):
                while not prompts(number) and not desk.closing.is_set():
                    with trio.move_on_after(LOOK_EVERY_S):
                        await desk.closing.wait()
            if prompts(number):
                yield b"data: prompt\n\n"

        response = Response(stream(), content_type="text/event-stream")
        response.timeout = None
        return response

    return pages


async def _shown(
    number: str, prompts: list[Prompt], *, fault: str = "", status: int = 200
) -> Response:
    if not _NUMBER.fullmatch(number):
        return Response(await render_template("unknown.html", texts=ENGLISH), 404)
    page = await render_template(
        "phone.html",
        texts=ENGLISH,
        number=_written(number),
        prompts=[
            (each, amount_written(each.amount, ENGLISH.numbers), each.type == "payin")
            for each in prompts
        ],
        fault=fault,
        done=request.args.get("done", ""),
        refresh_s=REFRESH_S,
    )
    return Response(page, status)


def _same(one: str, other: str) -> bool:
    return _written(one) == _written(other)


def _written(number: str) -> str:
    return number.removeprefix("+")
