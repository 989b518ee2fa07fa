"""What is recorded of an operator: nothing that is secret or about a person, and enough to play it
again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderHinted, ProviderSucceeded
from mmo_sansio.providers.common.interface import ExchangeFailed, drive
from mmo_sansio.providers.common.recording import HOOKS, RecordedExchange, Redactor
from mmo_sansio.providers.common.redaction import RedactingProvider, find_secrets
from mmo_sansio.providers.mpesa_daraja.adapter import SCOPE, DarajaProvider
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext
from mmo_sansio.values.clock import MINUTE, Instant, Moment, MonotonicInstant, Span, later
from mmo_sansio.values.model import Stage
from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.account_notes import RECORDED_BYTES_MAX, AccountRecorder
from tests.sansio.providers.mpesa_daraja.test_adapter import payment
from tests.support.simulated_accounts import mpesa_options
from tests.support.sqlite_store import StoreFile

HOOKS_URL = "https://gw.example/hooks/kenya/a-token-of-32-characters-or-more"
SECRETS = ("consumer-secret", "consumer-key", "Safaricom999!*!", SANDBOX_PASSKEY)
KEY = bytes(16)
NOW = Instant(1_790_000_000_000_000)
STAND_IN = re.compile(re.escape(HOOKS) + "[0-9a-f]+")
ADDRESS = re.compile(r"https://gw\.example/hooks/[^\"\s]+")


def kenya(certificate: str) -> DarajaProvider:
    context = AdapterContext(HOOKS_URL, SystemCiphers())
    opened = PROVIDER_KINDS["mpesa_daraja"].open_adapter(
        "kenya", "M-Pesa", mpesa_options(certificate), context
    )
    assert isinstance(opened, DarajaProvider)
    return opened


Exchange = Callable[[HttpRequest], HttpResponse]
Callbacks = Callable[[], Iterator[HttpRequest]]


def paid(
    provider: DarajaProvider, kind: str, exchange: Exchange, callbacks: Callbacks
) -> ProviderSucceeded:
    """Play a payment until M-Pesa has confirmed it."""
    begun = payment(kind, submitted_at=NOW)
    accepted = drive(provider.submit(begun, now=Moment.at(NOW)), exchange)
    told = [provider.read_notification(each) for each in callbacks()]
    hint = next(each for each in told if isinstance(each, ProviderHinted))
    known = getattr(accepted, "provider_reference", None)
    progress = evolve(
        begun.progress, stage=Stage.AWAITING_RESULT, hint=hint.content, provider_reference=known
    )
    report: object = drive(
        provider.poll(evolve(begun, progress=progress), now=Moment.at(later(NOW, MINUTE))), exchange
    )
    if not isinstance(report, ProviderSucceeded):
        report = provider.read_notification(next(callbacks()))
    assert isinstance(report, ProviderSucceeded)
    return report


@define
class Recorded:
    """A simulated M-Pesa, of which everything is recorded."""

    certificate: str = ""
    lines: list[str] = Factory(list)
    token: str = ""

    def play(self, kind: str) -> ProviderSucceeded:
        simulator = open_mpesa()
        provider = kenya(simulator.certificate)
        self.certificate = simulator.certificate
        redactor = Redactor(KEY, tuple(find_secrets(provider)))
        due = iter(range(1, 100))

        def note(
            request: HttpRequest, answer: HttpResponse | ExchangeFailed, *, is_from_operator: bool
        ) -> None:
            self.lines.append(
                redactor.to_line(RecordedExchange(is_from_operator, 0, request, answer))
            )

        def exchange(request: HttpRequest) -> HttpResponse:
            if self.token:
                authorization = (b"authorization", f"Bearer {self.token}".encode())
                request = evolve(request, headers=(*request.headers, authorization))
            answer = simulator.handle_request(request, now=NOW)
            assert isinstance(answer, HttpResponse)
            note(request, answer, is_from_operator=False)
            return answer

        def callbacks() -> Iterator[HttpRequest]:
            for each in simulator.take_due_callbacks(now=later(NOW, Span(next(due) * MINUTE))):
                target = each.target.removeprefix(b"https://gw.example")
                request = HttpRequest(each.method, target, each.headers, each.body)
                note(request, HttpResponse(200), is_from_operator=True)
                yield request

        self.token = drive(provider.sign_in(SCOPE, now=Moment.at(NOW)), exchange).value
        return paid(provider, kind, exchange, callbacks)


def replayed(lines: list[str], certificate: str, kind: str) -> ProviderSucceeded:
    """Play the recording to a new adapter: its addresses take the places of their stand-ins."""
    left = [json.loads(each) for each in lines]
    addresses: dict[str, str] = {}

    def exchange(request: HttpRequest) -> HttpResponse:
        line = next(each for each in left if each["from"] == "gateway")
        left.remove(line)
        assert (line["method"], line["target"]) == (request.method, request.target.decode())
        stand_ins = STAND_IN.findall(json.dumps(line["body"]))
        addresses.update(zip(stand_ins, ADDRESS.findall(request.body.decode()), strict=True))
        return HttpResponse(line["answer"]["status"], (), body_of(line["answer"]["body"]))

    def callbacks() -> Iterator[HttpRequest]:
        while left and left[0]["from"] == "operator":
            line = left.pop(0)
            target = addresses[line["target"]].removeprefix("https://gw.example")
            yield HttpRequest(line["method"], target.encode(), (), body_of(line["body"]))

    provider = kenya(certificate)
    drive(provider.sign_in(SCOPE, now=Moment.at(NOW)), exchange)
    return paid(provider, kind, exchange, callbacks)


def body_of(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


@pytest.mark.spec("A5")
@pytest.mark.parametrize("kind", ["payin", "payout", "tax"])
def test_a_recording_names_no_secret_number_or_person_and_plays_to_the_same_outcome(
    kind: str,
) -> None:
    recorded = Recorded()
    outcome = recorded.play(kind)
    text = "\n".join(recorded.lines)
    operators = [each.security_credential for each in kenya(recorded.certificate).account.operators]
    for forbidden in (
        *SECRETS,
        *operators,
        recorded.token,
        "708374149",
        "JANE",
        "gw.example",
        "a-token-of-32",
    ):
        assert forbidden not in text
    assert HOOKS in text
    again = replayed(recorded.lines, recorded.certificate, kind)
    assert evolve(again, party_data=None) == evolve(outcome, party_data=None)
    assert again.provider_reference


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
    redactor = Redactor(KEY, ("1234", "long secret"))
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
            Redactor(KEY, ()).to_line(RecordedExchange(True, 5, request, HttpResponse(200)))
        )

    body = shown(
        b'{"a":"0772123456","b":256772123456,"c":"+256772123456","amount":10.5,"id":"GW0000000001"}'
    )["body"]
    assert body["a"][1:] == str(body["b"])[3:] == body["c"][4:]
    assert (body["a"][0], str(body["b"])[:3], body["c"][:4]) == ("0", "256", "+256")
    assert (body["amount"], body["id"]) == (10.5, "GW0000000001")
    assert shown(b"<html>Incapsula</html>")["body"] == "<html>Incapsula</html>"
    assert shown(b"")["headers"] == {"authorization": "[secret]", "x-country": "UG"}


def now() -> Instant:
    return Instant(round((trio.current_time() + 10**9) * 1_000_000))


def moment() -> Moment:
    return Moment.at(now())


async def test_a_recording_is_off_by_default_and_bounded_in_time_and_size(
    autojump_clock: MockClock,
) -> None:
    async def send(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), b'{"access_token":"t","x":"%s"}' % (b"y" * 100_000))

    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        provider = RedactingProvider(kenya(open_mpesa().certificate))
        account = ProviderAccount(provider, send, moment, lambda: MonotonicInstant(now()))
        recorder = AccountRecorder(store.admin, {"kenya": account}, {"kenya": SECRETS}, now)
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
        assert await recorded() == 1
        for _ in range(30):
            await account.ask(question)
        assert await recorded() == RECORDED_BYTES_MAX // 100_000 + 1
        await trio.sleep(60)
        await account.ask(question)
        assert await recorded() == RECORDED_BYTES_MAX // 100_000 + 1
        nursery.cancel_scope.cancel()
