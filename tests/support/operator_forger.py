"""Plays whoever knows the addresses of an operator's notifications: he forges, repeats, replays and
changes them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

import trio
from attrs import Factory, define, evolve
from mmo_provider_pawapay.wire import operation_id

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.model import Flow, Transaction, Type

FORGERIES = (
    "forged confirmation",
    "forged confirmation of another account",
    "forged result",
    "repeated notification",
    "replayed receipt",
    "replayed receipt with another amount",
)
"""What a tally says of them."""

_HEX = re.compile(r"[0-9a-f]{40,}")

Notify = Callable[[HttpRequest], Awaitable[HttpResponse | None]]


@define
class Forger:
    """Holds what was captured of the notifications that the gateway has accepted."""

    random: Random
    tally: Counter[str]
    transactions: Callable[[], Mapping[str, Transaction]]
    captured: list[HttpRequest] = Factory(list)

    def capture(self, request: HttpRequest) -> None:
        """Remember a notification that was accepted."""
        self.captured.append(request)

    async def run(self, notify: Notify, *, times: int, within: Span) -> None:
        """Send so many notifications of his own at any time."""
        moments = sorted(self.random.randrange(within) for _ in range(times))
        began = trio.current_time()
        for at in moments:
            await trio.sleep(max(0.0, began + at / SECOND - trio.current_time()))
            request = self._next()
            if request is not None:
                await notify(request)

    def _next(self) -> HttpRequest | None:
        if not self.captured:
            return None
        open_ = {
            name
            for name, each in self.transactions().items()
            if not each.progress.stage.is_terminal
        }
        pending = [
            each for each in self.captured if _address(each)[1] in open_
        ]  # Somebody would like these settled.
        request = self.random.choice(
            pending if pending and self.random.random() < 0.5 else self.captured
        )
        chance = self.random.random()
        if chance < 0.2:
            self.tally["repeated notification"] += 1
            return request
        try:
            document = json.loads(request.body)
        except ValueError:
            return request
        confirmations = [each for each in self.captured if b'"BillRefNumber"' in each.body]
        if confirmations and chance < 0.85:
            return self._confirmation(self.random.choice(confirmations))
        self.tally["forged result"] += 1
        forged = self._paid_result(request, document) or self._improved(document)
        return evolve(request, body=json.dumps(forged).encode())

    def _paid_result(self, request: HttpRequest, document: Any) -> Any:
        """Return M-Pesa's complete report, at this payment's own address, or pawaPay's about any
        payment, that it was paid, with a receipt that was made up or is another payment's; None
        where the document is no such report."""
        kind, about, minor = _address(request)
        receipt = (
            about
            if kind == MpesaCallbackKind.DEPOSIT_RESULT
            else self.random.choice((*self._receipts(), f"FAKE{self.random.randrange(10**6):06d}"))
        )
        match document:
            case {"Body": {"stkCallback": dict(told)}}:
                paid = {"Amount": int(minor) / 100, "MpesaReceiptNumber": receipt}
                items = [{"Name": name, "Value": value} for name, value in paid.items()]
                return {
                    "Body": {
                        "stkCallback": {
                            **told,
                            "ResultCode": 0,
                            "CallbackMetadata": {"Item": items},
                        }
                    }
                }
            case {"Result": dict(told)} if minor:
                amount = int(minor) / 100
                paid = {
                    "TransactionAmount": amount,
                    "Amount": amount,
                    "TransactionStatus": "Completed",
                }
                paid |= {"ReceiptNo": receipt, "CreditPartyName": "174379 - TEST SHOP"}
                items = [{"Key": name, "Value": value} for name, value in paid.items()]
                parameters = {"ResultParameter": items}
                return {
                    "Result": {
                        **told,
                        "ResultCode": 0,
                        "TransactionID": receipt,
                        "ResultParameters": parameters,
                    }
                }
            case {"depositId": str()} if (target := self._target()) is not None:
                paid = {
                    "depositId": operation_id(target.reference),
                    "amount": target.order.requested.text,
                }
                return {**document, **paid, "status": "COMPLETED", "providerTransactionId": receipt}
            case _:
                return None

    def _receipts(self) -> list[str]:
        """Return the receipts of payments that have ended."""
        every = (each.progress.provider_reference for each in self.transactions().values())
        return sorted(each for each in every if each is not None and each.startswith("SIM"))

    def _confirmation(self, request: HttpRequest) -> HttpRequest:
        """Change a confirmation: its payment, and its receipt, amount or account."""
        document = json.loads(request.body)
        target = self._target()
        document["BillRefNumber"] = account_reference(target.reference) if target else "SHOP"
        kind = self.random.choice(("forged", "foreign", "replayed", "other amount"))
        if kind in ("forged", "foreign"):
            document["TransID"] = f"FORGED{self.random.randrange(10**6):06d}"
            document["TransAmount"] = target.order.requested.text if target else "70000.00"
        if kind == "foreign":
            document["BusinessShortCode"] = "999999"
        if kind == "other amount":
            document["TransAmount"] = f"{self.random.randrange(1, 10**6)}.00"
        self.tally[
            {
                "forged": "forged confirmation",
                "foreign": "forged confirmation of another account",
                "replayed": "replayed receipt",
                "other amount": "replayed receipt with another amount",
            }[kind]
        ] += 1
        return evolve(request, body=json.dumps(document).encode())

    def _target(self) -> Transaction | None:
        """Return a pay-in that somebody would like to see settled, a QR payment rather than
        another; None: a deposit is made up."""
        every = [each for each in self.transactions().values() if each.order.type is Type.PAYIN]
        pending = [
            each
            for each in every
            if not each.progress.stage.is_terminal and each.order.flow is not Flow.PUSH
        ]
        codes = [each for each in pending if each.order.flow is Flow.QR]
        candidates: Sequence[Transaction] = (
            codes if codes and self.random.random() < 0.6 else pending
        )
        return (
            self.random.choice(candidates) if candidates and self.random.random() < 0.85 else None
        )

    def _improved(self, value: Any) -> Any:
        """Return a result that claims success and another amount."""
        if isinstance(value, dict):
            return {name: self._improved_member(name, each) for name, each in value.items()}
        return [self._improved(each) for each in value] if isinstance(value, list) else value

    def _improved_member(self, name: str, value: Any) -> Any:
        if name in ("ResultCode", "status", "status_code"):
            success = "COMPLETED" if value in ("COMPLETED", "FAILED") else "SUCCESSFUL"
            return {"ResultCode": 0, "status": success, "status_code": "TS"}[name]
        if name == "amount":
            return str(self.random.randrange(1, 10**6))
        return self._improved(value)


def _address(request: HttpRequest) -> tuple[str, str, str]:
    """Return kind, subject and cents of a signed address, which everybody can read; three empty
    texts for another."""
    segment = request.target.rpartition(b"/")[2].decode()
    if not _HEX.fullmatch(segment):
        return "", "", ""
    kind, about, minor, *_ = bytes.fromhex(segment)[:-16].decode().split("|")
    return kind, about, minor
