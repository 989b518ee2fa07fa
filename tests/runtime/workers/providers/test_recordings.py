"""What is recorded of an operator: nothing that is secret or about a person, and enough to play it
again."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.recording import RecordedExchange, Redactor
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext
from mmo_sansio.values.clock import MINUTE, Instant, Moment, MonotonicInstant, later
from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.account_notes import (
    RECORDED_BYTES_MAX,
    AccountRecorder,
    seal_recording_key,
)
from tests.support.private_texts import ENCODINGS, decoded_forms
from tests.support.simulated_accounts import mpesa_options
from tests.support.sqlite_store import StoreFile

HOOKS_URL = "https://gw.example/hooks/kenya/a-token-of-32-characters-or-more"
SECRETS = ("consumer-secret", "consumer-key", "Safaricom999!*!", SANDBOX_PASSKEY)
KEY = bytes(16)
NOW = Instant(1_790_000_000_000_000)


def kenya(certificate: str) -> DarajaProvider:
    context = AdapterContext(HOOKS_URL, SystemCiphers())
    opened = PROVIDER_KINDS["mpesa_daraja"].open_adapter(
        "kenya", "M-Pesa", mpesa_options(certificate), context
    )
    assert isinstance(opened, DarajaProvider)
    return opened


@pytest.mark.spec("A5")
@pytest.mark.parametrize(
    ("member", "value", "forbidden"),
    [
        ("msisdn", "+256 77 2123456", "2123456"),
        ("partyId", "46733123453", "733123453"),
        ("msisdn", 733123453, "733123453"),
        ("MSISDN", "2547 ***** 149", "149"),
        ("MSISDN", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "9f86d081"),
        ("message", "Paid UGX 1,000 to JOHN DOE 0772123456", "JOHN"),
        ("message", "Paid UGX 1,000 to JOHN DOE", "JOHN"),
        ("full_name", "JOHN DOE", "JOHN"),
        ("DebitPartyName", "254708374149 - JOHN DOE", "JOHN"),
        ("pin", "ZW5jcnlwdGVk", "ZW5jcnlwdGVk"),
        ("access_token", "abcdef", "abcdef"),
        ("note", "1234", "1234"),
        ("anything", "a long secret in words", "long secret"),
    ],
)
def test_each_form_of_a_person_or_secret_is_replaced(
    member: str, value: object, forbidden: str
) -> None:
    redactor = Redactor(KEY, redacting(("1234", "long secret")).redact)
    request = HttpRequest(
        "POST", b"https://x.example/0772123456", (), json.dumps({"a": [{member: value}]}).encode()
    )
    line = redactor.to_line(
        RecordedExchange(False, 0, request, ExchangeFailed("lost", may_have_arrived=True))
    )
    assert forbidden not in line
    assert "0772123456" not in line
    assert json.loads(line)["mayHaveArrived"] is True


def test_one_number_has_one_stand_in_in_every_form_and_text_stays_text() -> None:
    def shown(body: bytes) -> Any:
        request = HttpRequest(
            "POST", b"/", ((b"authorization", b"Basic x"), (b"x-country", b"UG")), body
        )
        return json.loads(
            Redactor(KEY, redacting().redact).to_line(
                RecordedExchange(True, 5, request, HttpResponse(200))
            )
        )

    body = shown(
        b'{"partyA":"0772123456","id":256772123456,"msisdn":"+256 772-123456",'
        b'"amount":10.5,"externalId":"GW0000000001"}'
    )["body"]
    local, plain, international = body["partyA"], str(body["id"]), body["msisdn"]
    assert local[1:] == plain[3:] == international[4:]
    assert (local[0], plain[:3], international[:4]) == ("0", "256", "+256")
    assert (body["amount"], body["externalId"]) == (10.5, "GW0000000001")
    assert shown(b"<html>Incapsula</html>")["body"] == "[22 bytes of unknown type]"
    assert shown(b"")["headers"] == {"authorization": "[secret]", "x-country": "UG"}


PRIVATE = (
    *SECRETS,
    "a-token-in-use-of-an-account",
    "4821",
    "254708374149",
    "Wanjiku Kamau",
    "wanjiku@example.com",
)
BODIES: dict[str, Callable[[str], bytes]] = {
    "a code": lambda text: json.dumps({"status": {"code": text}}).encode(),
    "an id": lambda text: json.dumps({"transactionId": text}).encode(),
    "a member's name": lambda text: json.dumps({text: 1}).encode(),
    "the name of a pair": lambda text: json.dumps([{"Name": text, "Value": 1}]).encode(),
    "a person": lambda text: json.dumps({"customer": text, "note": text}).encode(),
    "a message": lambda text: json.dumps({"message": f"Refused: {text}."}).encode(),
    "XML": lambda text: f"<error>{text}</error>".encode(),
    "text": lambda text: f"{text} is not allowed".encode(),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + json.dumps({"reason": text}).encode(),
    "UTF-16": lambda text: json.dumps({"reason": text}).encode("utf-16"),
    "lines of JSON": lambda text: b'{"code":1}\n' + json.dumps({"a": text}).encode(),
    "JSON in JSON": lambda text: json.dumps({"id": json.dumps({"a": text})}).encode(),
    "a form": lambda text: f"id={text}".encode(),
    "a number": lambda text: b'{"id":%s.0}' % text.encode() if text.isdigit() else b"{}",
}


def redacting(secrets: Sequence[str] = PRIVATE[:6]) -> RedactingProvider:
    return RedactingProvider(kenya(open_mpesa().certificate), secrets)


@pytest.mark.spec("A5")
@pytest.mark.parametrize("form", BODIES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_body_or_address_carries_anything_private_in_any_encoding(
    form: str, encoding: str
) -> None:
    redactor = Redactor(KEY, redacting().redact)
    for private in PRIVATE:
        encoded = ENCODINGS[encoding](private)
        body = BODIES[form](encoded)
        target = f"https://x.example/users/{urllib.parse.quote(private)}?id={encoded}&to={encoded}"
        headers = ((b"x-callback-url", encoded.encode()), (b"retry-after", encoded.encode()))
        request = HttpRequest("GET", target.encode(), headers, body)
        line = redactor.to_line(RecordedExchange(False, 0, request, HttpResponse(500, (), body)))
        for shown in decoded_forms(line):
            assert private not in shown, line
            assert private.replace(" ", "") not in shown.replace(" ", ""), line


def now() -> Instant:
    return Instant(round((trio.current_time() + 10**9) * 1_000_000))


def moment() -> Moment:
    return Moment.at(now())


async def test_a_recording_is_off_by_default_and_bounded_in_time_and_size(
    autojump_clock: MockClock,
) -> None:
    async def send(request: HttpRequest) -> HttpResponse:
        if b"oauth" in request.target:
            return HttpResponse(200, (), b'{"access_token":"t"}')
        return HttpResponse(200, (), b'{"items":[%s]}' % b",".join([b'"y"'] * 20_000))

    keyring = KeyRing(bytes(32))
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        provider = RedactingProvider(kenya(open_mpesa().certificate))
        account = ProviderAccount(provider, send, moment, lambda: MonotonicInstant(now()))
        recorder = AccountRecorder(
            store.admin,
            {"kenya": account},
            {"kenya": partial(Redactor, redact=provider.redact)},
            keyring,
            now,
        )
        await nursery.start(recorder.run)
        question = HttpRequest("POST", b"https://api.safaricom.co.ke/x")

        async def recorded() -> int:
            await trio.sleep(3)
            notes = await store.admin.provider_notes(NoteTopic.RECORDED)
            return sum(len(each.content.splitlines()) for each in notes)

        await account.ask(question)
        assert await recorded() == 0
        until = later(now(), MINUTE)
        await store.admin.note_provider(
            ProviderNote("kenya", NoteTopic.RECORDING, "", until, KEY.hex())
        )
        await trio.sleep(3)
        await account.ask(question)
        assert await recorded() == 0, "a key that nobody has sealed"
        sealed = seal_recording_key(keyring, "kenya", KEY)
        await store.admin.note_provider(
            ProviderNote("kenya", NoteTopic.RECORDING, "", until, sealed)
        )
        await trio.sleep(3)
        await account.ask(question)
        assert await recorded() == 1
        for _ in range(30):
            await account.ask(question)
        assert await recorded() == RECORDED_BYTES_MAX // 100_000 + 1
        await trio.sleep(60)
        await account.ask(question)
        assert await recorded() == RECORDED_BYTES_MAX // 100_000 + 1
        assert await store.admin.provider_notes(NoteTopic.RECORDING) == []
        await trio.sleep(2 * 3600)
        assert await recorded() == 0
        nursery.cancel_scope.cancel()
