"""Plays whoever knows the addresses of an operator's notifications: he forges, repeats, replays and
changes those that a gateway has accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from attrs import define, evolve
from mmo_provider_pawapay.wire import operation_id

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.values.model import Flow, Transaction, Type
from tests.simulation.world.operator import WorldOperator
from tests.simulation.world.schedule import WorldSchedule
from tests.simulation.world.trace import SimulationTrace

WITHIN_S: Final = 3 * 3_600.0
"""The time in which he forges, from the first payment on."""

_HEX: Final = re.compile(r"[0-9a-f]{40,}")


@define(eq=False)
class WorldForger:
    """Forges the notifications of one operator."""

    operator: WorldOperator
    random: Random
    trace: SimulationTrace
    schedule: WorldSchedule
    transactions: Callable[[], Mapping[str, Transaction]]
    """Returns the payments: he knows of each, whoever has told him."""

    async def run(self, begin_s: float, *, times: int) -> None:
        """Send so many notifications of his own at any time."""
        for at_s in sorted(self.random.uniform(0.0, WITHIN_S) for _ in range(times)):
            await self.schedule.sleep_until(begin_s + at_s)
            request = self._next()
            if request is None:
                continue
            try:
                await self.operator.send(request)
            except ExchangeFailed:
                self._note("forgery lost")

    def _note(self, what: str) -> None:
        self.trace.add(what, self.operator.name)

    def _next(self) -> HttpRequest | None:
        accepted = self.operator.accepted
        if not accepted:
            return None
        open_ = {
            name
            for name, each in self.transactions().items()
            if not each.progress.stage.is_terminal
        }
        # Somebody would like these settled.
        pending = [each for each in accepted if _address(each)[1] in open_]
        is_pending = bool(pending) and self.random.random() < 0.5
        request = self.random.choice(pending if is_pending else accepted)
        chance = self.random.random()
        if chance < 0.2:
            self._note("repeated notification")
            return request
        try:
            document = json.loads(request.body)
        except ValueError:
            return request
        confirmations = [each for each in accepted if b'"BillRefNumber"' in each.body]
        if confirmations and chance < 0.85:
            return self._confirmation(self.random.choice(confirmations))
        self._note("forged result")
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
        self._note(f"forged confirmation, {kind}")
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
