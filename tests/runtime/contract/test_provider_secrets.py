"""Secrets of providers' accounts in a gateway that serves, while operators misbehave and say back
whatever they get: none of them is in a log, an answer, a callback, a metric or the store."""

from __future__ import annotations

import json
import logging
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.settings.providers import provider_variable
from mmo_trio.system.ids import request_id_generator
from tests.support.merchant import Merchant, ask
from tests.support.provider_secrets import CANARY, SECRETS, canary, good_options
from tests.support.sandbox_gateway import Running, Serve

KEY = "a-key-for-secrets"
TOKEN = f"{CANARY}-access-token"
STATUSES = (200, 202, 400, 401, 403, 404, 429, 500, 503)
PLACES = {
    "airtel_money": ("UG", "UGX", "256752000000"),
    "mpesa_daraja": ("KE", "KES", "254708374149"),
    "mtn_momo": ("UG", "UGX", "256772000000"),
}


@define(eq=False)
class Parrot:
    """An operator that gives a token to everybody, and else says back what it hears, under every
    status in turn."""

    heard: list[str] = Factory(list)
    _turns: count[int] = Factory(count)

    async def admit(self, head: RequestHead, context: RequestContext) -> Admitted:
        return Admitted(1_000_000, partial(self._respond, head))

    async def _respond(self, head: RequestHead, body: bytes) -> HttpResponse:
        self.heard.append(f"{head!r} {body!r}")
        if b"token" in head.target or b"oauth" in head.target:
            token = {"access_token": TOKEN, "token_type": "bearer", "expires_in": "3599"}
            return HttpResponse(200, (), json.dumps(token).encode())
        turn = next(self._turns)
        if turn % 7 == 0:
            return HttpResponse(302, ((b"location", b"/" + TOKEN.encode()),))
        said = as_an_error(self.heard[-1]) if turn % 2 else self.heard[-1].encode()
        return HttpResponse(STATUSES[turn % len(STATUSES)], (), said)


def as_an_error(words: str) -> bytes:
    """These words as the message of an error of every operator at once, each in its own shape."""
    document = {
        "code": "NOT_ALLOWED",
        "message": words,
        "errorCode": "400.002.02",
        "errorMessage": words,
        "status": {"success": False, "response_code": "ROUTER003", "message": words},
    }
    return json.dumps(document).encode()


async def notify_with_secrets(running: Running, kind: str, hook_name: str) -> None:
    """The operator says a secret in a notification, too."""
    ring = KeyRing(*load_master_keys(running.directory / "master.key"))
    address = f"{running.ready.api}/hooks/{hook_name}/{ring.webhook_tokens(kind)[0]}"
    for body in (f"{SECRETS[kind]} {canary(SECRETS[kind][0])}".encode(), as_an_error(TOKEN)):
        answer = await ask(address, method="POST", headers={}, body=body)
        assert answer.status == 200


def a_method(kind: str) -> str:
    country, currency, _ = PLACES[kind]
    return f"""
[[brand.method]]
key = "{kind}"
provider = "{kind}"
country = "{country}"
flows = ["direct/payin", "direct/payout"]
limits.{currency} = {{ min = "1", max = "1000000" }}
"""


BRAND = f'[[brand]]\nid = "acme"\nname = "Acme"\napi_keys = ["{KEY}"]\n'


@pytest.mark.spec("A5", "G9")
async def test_no_secret_of_an_account_gets_out_whatever_an_operator_says(
    serve: Serve,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    parrot = Parrot()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    origin = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    environment = {
        provider_variable(kind, name): str(value)
        for kind in SECRETS
        for name, value in {"kind": kind, **good_options(kind, origin)}.items()
    }
    environment[provider_variable("mpesa_daraja", "hooks_name")] = "kenya"
    async with trio.open_nursery() as nursery:
        listener_context = ListenerContext(
            parrot,
            ListenerLimits(),
            error_docs_url="about:blank",
            mint_request_id=request_id_generator(),
            drain=trio.Event(),
        )
        await nursery.start(serve_http, listener_context, listeners)
        brands = BRAND + "".join(a_method(kind) for kind in SECRETS)
        async with serve(brands=brands, environment=environment, api_key=KEY) as running:
            told = []
            references = []
            for kind, (country, currency, msisdn) in PLACES.items():
                result_url = running.merchant.result_url
                merchant = Merchant(running.ready.api, KEY, result_url=result_url, method=kind)
                for operation in ("direct/payin", "direct/payout") * 3:
                    made = await merchant.create(
                        operation,
                        country=country,
                        msisdn=msisdn,
                        amount={"value": 100, "currency": currency},
                    )
                    told.append(made.body)
                    references.append(made.json["gatewayReference"])
            for _ in range(4):
                await running.advance("20m")
            for kind in SECRETS:
                await notify_with_secrets(
                    running, kind, "kenya" if kind == "mpesa_daraja" else kind
                )
            told += [(await merchant.get(f"status/{each}")).body for each in references]
            for place in ("suspense", "callbacks"):
                told.append((await ask(f"{running.ready.pages}/sandbox/{place}")).body)
            told.append((await ask(f"{running.ready.console}/metrics")).body)
            told += [each.body for each in running.received]
            assert running.received
        nursery.cancel_scope.cancel()

    heard = "".join(parrot.heard)
    assert TOKEN in heard
    assert f"{CANARY}-client-secret" in heard
    assert f"{CANARY}-collection-subscription-key" in heard
    printed = capfd.readouterr()
    logged = printed.out + printed.err + caplog.text
    assert "provider_unreachable" in logged
    assert CANARY not in logged
    shown = b"".join(told)
    assert b"[secret]" in shown  # Operators did say them where a merchant would read them.
    assert CANARY.encode() not in shown
    assert files_with(CANARY.encode(), tmp_path) == []


def files_with(text: bytes, directory: Path) -> list[str]:
    """The files that hold it."""
    files = [each for each in directory.rglob("*") if each.is_file()]
    assert files
    return [each.name for each in files if text in each.read_bytes()]
