"""Provides an account with Wave, and payments of it; `tests/captures/wave/bodies.toml` has the
bodies of the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from mmo_provider_wave import WAVE, WaveProvider
from mmo_provider_wave.adapter import open_wave
from tests.support.bodies import read_bodies

from mmo_sansio import DAY, Money, Transaction, later
from mmo_sansio.providers import (
    AdapterContext,
    HttpRequest,
    HttpResponse,
    Stage,
    Type,
    from_datetime,
)
from mmo_sansio.testing import REFERENCE, START, a_party, a_transaction
from mmo_sansio.testing.adapter_conformance import TransparentCiphers
from mmo_sansio.values.model import Flow, Page

API_KEY: Final = "wave_sn_prod_SECRET-key"
WEBHOOK_SECRET: Final = "wave_sn_WHS_SECRET-of-webhooks"
HOOKS_URL: Final = "https://gw.example/hooks/wave/0123abcd"
PAGES_URL: Final = "https://pay.example"
NAME: Final = "wave"
AMOUNT: Final = Money(1000, "XOF")
MSISDN: Final = "+221761110000"


SESSION_ID: Final = "cos-18qq25rgr100a"
LAUNCH_URL: Final = "https://pay.wave.com/c/cos-18qq25rgr100a"
CREATED_AT: Final = from_datetime(datetime(2026, 1, 15, 10, 13, 4, tzinfo=UTC))
EXPIRES_AT: Final = from_datetime(datetime(2026, 1, 15, 10, 43, 4, tzinfo=UTC))


def example(name: str) -> bytes:
    """A body of `tests/captures/wave/bodies.toml`."""
    return read_bodies(NAME)[name].replace("{reference}", REFERENCE).encode()


SESSION: Final = example("session")
PAYOUT: Final = example("payout")
REFUSED_KEY: Final = example("refused_key")


def a_session(checkout: str = "open", payment: str = "processing", **members: Any) -> bytes:
    """The session of the documentation in this state."""
    changed = {"checkout_status": checkout, "payment_status": payment, **members}
    return json.dumps({**json.loads(SESSION), **changed}).encode()


def a_payout(status: str = "processing", **members: Any) -> bytes:
    """The pay-out of the documentation in this state."""
    return json.dumps({**json.loads(PAYOUT), "status": status, **members}).encode()


def results(*found: bytes) -> bytes:
    """The answer to a search."""
    return b'{"result":[%b]}' % b",".join(found)


def an_account(**options: Any) -> WaveProvider:
    """An account in Senegal; an option that is None is left out."""
    given = {"api_key": API_KEY, "webhook_secret": WEBHOOK_SECRET, **options}
    chosen = {name: value for name, value in given.items() if value is not None}
    context = AdapterContext(HOOKS_URL, TransparentCiphers(), pages_url=PAGES_URL)
    return open_wave(NAME, WAVE.title, chosen, context)


def a_payment(type: Type = Type.PAYIN, amount: Money = AMOUNT, **members: Any) -> Transaction:
    """A payment that is being submitted."""
    is_payin = type is Type.PAYIN
    chosen = {
        "stage": Stage.SUBMITTING,
        "submitted_at": START,
        "expires_at": later(START, DAY),
        **members,
    }
    return a_transaction(
        chosen.pop("stage"),
        type=type,
        flow=Flow.WEB if is_payin else Flow.DIRECT,
        page=Page("token-of-the-page", later(START, DAY)) if is_payin else None,
        provider=NAME,
        country="SN",
        requested=amount,
        party=a_party(msisdn=chosen.pop("msisdn", MSISDN)),
        **chosen,
    )


Answer = HttpResponse | Exception


def answering(
    answers: Mapping[str, Answer | Sequence[Answer]], sent: list[HttpRequest] | None = None
) -> Callable[[HttpRequest], HttpResponse]:
    """An exchange that answers by method and end of the path, `GET /search`; of several answers
    each once, the last one for ever."""
    left = {
        name: list(given) if isinstance(given, Sequence) else [given]
        for name, given in answers.items()
    }

    def exchange(request: HttpRequest) -> HttpResponse:
        if sent is not None:
            sent.append(request)
        path = request.target.decode().partition("?")[0]
        for name, given in left.items():
            method, _, end = name.partition(" ")
            if request.method == method and path.endswith(end):
                answer = given.pop(0) if len(given) > 1 else given[0]
                if isinstance(answer, Exception):
                    raise answer
                return answer
        raise AssertionError(f"nothing was planned for {request.method} {path}")

    return exchange


def ok(body: bytes) -> HttpResponse:
    return HttpResponse(200, (), body)
