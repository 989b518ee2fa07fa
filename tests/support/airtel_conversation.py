"""Provides the other side of conversations with Airtel Money: an account, readable ciphers, and
answers in the operator's form."""

from __future__ import annotations

import base64
import json
from typing import Any

from attrs import define, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderReport
from mmo_sansio.providers.airtel_money.adapter import AirtelMoneyProvider, open_airtel_money
from mmo_sansio.providers.common.interface import (
    CipherError,
    Conversation,
    ExchangeFailed,
    RsaPadding,
    drive,
)
from mmo_sansio.testing import REFERENCE, START, a_party, a_transaction
from mmo_sansio.values.model import Flow, Stage, Transaction, Type
from mmo_sansio.values.money import Money

KEY = b"the operator's key"
SHORT_KEY = b"the operator's short key"
OPTIONS: dict[str, Any] = {
    "base_url": "https://openapi.airtel.ug",
    "country": "UG",
    "client_id": "client",
    "client_secret": "SECRET-CLIENT",
    "pin": "SECRET-PIN",
}


@frozen
class ReadableCiphers:
    """Implements ciphers with readable results and random numbers that count."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))

    def rsa_bits(self, public_key: bytes) -> int:
        if public_key not in (KEY, SHORT_KEY):
            raise CipherError("no key")
        return 1024 if public_key == SHORT_KEY else 2048

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        return f"{padding}|".encode() + plain

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        return b"aes|" + plain


def an_adapter(**options: Any) -> AirtelMoneyProvider:
    """Return the adapter of an account in Uganda; an option None is left out."""
    settings = {name: value for name, value in {**OPTIONS, **options}.items() if value is not None}
    return open_airtel_money("airtel_ug", "Airtel Uganda", settings, ReadableCiphers())


def a_payin(**members: Any) -> Transaction:
    """UGX 1000 from +256752000000, submitted at START."""
    standard: dict[str, Any] = {
        "provider": "airtel_ug",
        "country": "UG",
        "requested": Money(1000, "UGX"),
        "party": a_party(msisdn="+256752000000"),
        "submitted_at": START,
        "merchant_reference": "INV-0001",
    }
    return a_transaction(members.pop("stage", Stage.SUBMITTING), **{**standard, **members})


def a_payout(**members: Any) -> Transaction:
    """UGX 1000 to +256752000000, submitted at START."""
    return a_payin(**{"type": Type.PAYOUT, "flow": Flow.DIRECT, **members})


@define
class ScriptedExchange:
    """Gives scripted answers, or raises an exception for a lost answer, and records the
    requests."""

    answers: list[HttpResponse | ExchangeFailed]
    requests: list[HttpRequest]

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, ExchangeFailed):
            raise answer
        return answer


def run_conversation(
    conversation: Conversation, *answers: HttpResponse | ExchangeFailed
) -> tuple[ProviderReport, list[HttpRequest]]:
    """Return a conversation's report and its requests; every answer must be used."""
    exchange = ScriptedExchange(list(answers), [])
    report = drive(conversation, exchange)
    assert exchange.answers == []
    return report, exchange.requests


def json_answer(document: Any, status: int = 200) -> HttpResponse:
    """An answer in JSON."""
    return HttpResponse(status, (), json.dumps(document).encode())


def answer(
    code: str | None = None,
    *,
    transaction: Any = None,
    success: object = True,
    status: int = 200,
    message: str | None = None,
) -> HttpResponse:
    """Return an answer in the documented form."""
    fields = {
        "code": str(status),
        "message": message,
        "result_code": "ESB000010",
        "response_code": code,
        "success": success,
    }
    status_object = {name: value for name, value in fields.items() if value is not None}
    return json_answer(
        {"data": {"transaction": transaction or {}}, "status": status_object}, status
    )


def enquiry(
    transaction_status: str | None, code: str | None = None, **members: Any
) -> HttpResponse:
    """Return an answer to a poll of REFERENCE."""
    transaction = {"id": REFERENCE, "message": "told", "status": transaction_status}
    if transaction_status == "TS":
        transaction["airtel_money_id"] = "MP240101.1200.A00001"
    return answer(code, transaction=transaction, **members)


def key_answer(key: bytes = KEY, **members: Any) -> HttpResponse:
    """Return an answer with the operator's key."""
    data = {"key_id": 7, "key": base64.b64encode(key).decode(), **members}
    status_object = {"response_code": "DP02010001001", "success": True}
    return json_answer({"data": data, "status": status_object})


def body_of(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON body of a request."""
    document: dict[str, Any] = json.loads(request.body)
    return document
