"""Describes the operators of simulated worlds: the account with each, its simulator, and what can
be read from its messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.callback_url import CallbackContext, MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.airtel.api import AirtelSimulator
from mmo_simulators.operators.airtel.request_checks import SimulatedAirtelMarket
from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY
from mmo_simulators.operators.mpesa.api import MpesaSimulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mpesa.result_bodies import DUMMY_RECEIPT
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_trio.brands.keyring import KeyRing
from tests.simulation.world.files import API_PORT, GATEWAY_HOST, MASTER_KEY, WorldMethod
from tests.simulation.world.plan import PromptsConfirmed
from tests.support.simulated_accounts import account_options

MTN: Final = "mtn_ug"
AIRTEL: Final = "airtel_ug"
MPESA: Final = "saf_ke"
_BOTH_WAYS: Final = ("direct/payin", "direct/payout")
_BALANCE: Final = "400000"
_PERSONS: Final = range(100)
"""The last two digits of the numbers that have wallets."""
_AIRTEL_KEY_BITS: Final = 1024
"""Short, as it is used for each pay-out."""
_AIRTEL_UNKNOWN: Final = b'"ESB000045"'
_MPESA_SUBMISSIONS: Final = {
    b"/stkpush/v1/processrequest": "AccountReference",
    b"/paymentrequest": "OriginatorConversationID",
}
_MPESA_SHORTCODE: Final = "174379"
_MPESA_TILL: Final = "174380"
_MPESA_SECRET: Final = "consumer-secret"
_MPESA_BAD_TOKEN: Final = b'"404.001.03"'


@frozen
class OperatorKind:
    """Says what a world has to know about an operator."""

    method: WorldMethod
    open: Callable[[], Simulator]
    submission: Callable[[HttpRequest], str | None]
    """Returns the operator's name of the payment that a request submits; None for another
    request."""
    denial: Callable[[HttpRequest, HttpResponse | DroppedConnection], str | None]
    """Returns the operator's name of the payment that it has answered not to know; None
    otherwise."""
    names: Callable[[str], frozenset[str]]
    """Returns the names that the operator may have for a payment, by its gatewayReference."""
    with_result: Callable[[HttpRequest, bool, str | None], HttpRequest | None]
    """Returns a notification as of another result: whether it is a success, and of which payment,
    if not of the same; None where that can't be."""
    refusal: str
    """The result of a payment that the other party declines, in the operator's code."""
    reversal: Callable[[HttpRequest], str | None]
    """Returns what a request names that asks for money back: the reversal, or the operator's
    receipt of the payment; None for another request."""
    reversal_kind: str
    """How the operator's book calls money that went back."""
    reversal_refusal: str
    """The result of a reversal that the operator refuses, in its code."""
    names_reversals: bool = False
    """Whether its book names each reversal, and not the payment, which then goes back whole."""


def operator_host(name: str) -> str:
    """Return the name of an operator's API."""
    return f"{name.replace('_', '-')}.example"


def prepare_operators() -> None:
    """Make the keys of operators. They are made once, and before randomness comes from a seed."""
    _airtel_key()
    _mpesa()


def is_unauthorized(response: HttpResponse | DroppedConnection) -> bool:
    """Return whether an operator has rejected a request for its token, and done nothing."""
    return isinstance(response, HttpResponse) and (
        response.status == 401 or _MPESA_BAD_TOKEN in response.body
    )


def _segment(request: HttpRequest) -> str:
    return request.target.partition(b"?")[0].rstrip(b"/").rpartition(b"/")[2].decode("ascii")


def _nothing(request: HttpRequest, response: object) -> None:
    return None


def _altered(request: HttpRequest, change: Callable[[Any], None]) -> HttpRequest:
    document = json.loads(request.body)
    change(document)
    return evolve(request, body=json.dumps(document).encode())


def _names_reversal(path: bytes, *members: str) -> Callable[[HttpRequest], str | None]:
    """Return a reader of what a request to this path names, in this member of its document."""

    def read(request: HttpRequest) -> str | None:
        if request.method != "POST" or not request.target.partition(b"?")[0].endswith(path):
            return None
        found = json.loads(request.body)
        for each in members:
            found = found[each]
        return str(found)

    return read


# MTN MoMo


def _mtn_submission(request: HttpRequest) -> str | None:
    is_submission = request.method == "POST" and _segment(request) in (
        "requesttopay",
        "transfer",
        "deposit",
    )
    return str(json.loads(request.body)["externalId"]) if is_submission else None


def _mtn_denial(request: HttpRequest, response: HttpResponse | DroppedConnection) -> str | None:
    is_denial = (
        request.method == "GET" and isinstance(response, HttpResponse) and response.status == 404
    )
    return _segment(request) if is_denial else None


def _mtn_with_result(request: HttpRequest, is_success: bool, reference: str | None) -> HttpRequest:
    def change(document: Any) -> None:
        document["status"] = "SUCCESSFUL" if is_success else "FAILED"
        document["externalId"] = reference or document["externalId"]

    target = (
        request.target
        if reference is None
        else request.target.rpartition(b"/")[0] + b"/" + reference.encode()
    )
    return evolve(_altered(request, change), target=target)


def _open_mtn() -> Simulator:
    return MtnSimulator(market="mtnuganda", accounts=SimulatedMtnAccounts(currency="UGX"))


_MTN_OPTIONS: Final = {
    "kind": "mtn_momo",
    **account_options("mtn", market="mtnuganda"),
    "base_url": f"https://{operator_host(MTN)}",
}

# Airtel Money


@cache
def _airtel_key() -> RSAPrivateKey:
    return generate_private_key(65537, _AIRTEL_KEY_BITS)


def _open_airtel() -> Simulator:
    token = KeyRing(MASTER_KEY).webhook_tokens(AIRTEL)[0]
    callback_url = f"http://{GATEWAY_HOST}:{API_PORT}/hooks/{AIRTEL}/{token}"
    simulator = AirtelSimulator(SimulatedAirtelMarket(_airtel_key(), callback_url=callback_url))
    simulator.open_accounts(
        [{"account": f"7520000{each:02}", "balance": _BALANCE} for each in _PERSONS]
    )
    simulator.open_accounts([{"account": "disbursement", "balance": "100000000"}])
    return simulator


def _airtel_submission(request: HttpRequest) -> str | None:
    is_submission = request.method == "POST" and _segment(request) in ("payments", "disbursements")
    return str(json.loads(request.body)["transaction"]["id"]) if is_submission else None


def _airtel_denial(request: HttpRequest, response: HttpResponse | DroppedConnection) -> str | None:
    is_denial = (
        request.method == "GET"
        and isinstance(response, HttpResponse)
        and _AIRTEL_UNKNOWN in response.body
    )
    return _segment(request) if is_denial else None


def _airtel_with_result(
    request: HttpRequest, is_success: bool, reference: str | None
) -> HttpRequest:
    def change(document: Any) -> None:
        transaction = document["transaction"]
        transaction["status_code"] = "TS" if is_success else "TF"
        transaction["id"] = reference or transaction["id"]

    return _altered(request, change)


_AIRTEL_OPTIONS: Final = {
    "kind": "airtel_money",
    "base_url": f"https://{operator_host(AIRTEL)}",
    "country": "UG",
    "client_id": "client-id",
    "client_secret": "client-secret",
    "pin": "1234",
}

# M-Pesa


@cache
def _mpesa() -> MpesaSimulator:
    return open_mpesa()


def _open_mpesa(confirmed: PromptsConfirmed) -> Simulator:
    simulator = MpesaSimulator(certificate=_mpesa().certificate, decrypt=_mpesa().decrypt)
    simulator.open_accounts(
        [{"account": f"2547000002{each:02}", "balance": _BALANCE} for each in _PERSONS]
    )
    simulator.open_accounts([{"account": "600997", "balance": "100000000"}])
    if confirmed is not PromptsConfirmed.NOT:
        is_named, token = (
            confirmed is PromptsConfirmed.BY_REFERENCE,
            KeyRing(MASTER_KEY).webhook_tokens(MPESA)[0],
        )
        segment = CallbackContext(MpesaCallbackKind.CONFIRMATION).to_segment(_MPESA_SECRET.encode())
        url = f"http://{GATEWAY_HOST}:{API_PORT}/hooks/{MPESA}/{token}/{segment}"
        told = {"confirms_pushes": True, "confirmation_url": url, "tells_references": is_named}
        simulator.open_accounts(
            [{"account": _MPESA_SHORTCODE if is_named else _MPESA_TILL, **told}]
        )
    return simulator


def _mpesa_submission(request: HttpRequest) -> str | None:
    for path, member in _MPESA_SUBMISSIONS.items():
        if request.target.endswith(path):
            return str(json.loads(request.body)[member])
    return None


def _mpesa_with_result(
    request: HttpRequest, is_success: bool, reference: str | None
) -> HttpRequest | None:
    if reference is not None or b'"Result"' not in request.body:
        return None  # Its own names of payments are not known to others.

    def change(document: Any) -> None:
        result = document["Result"]
        if isinstance(result["ResultCode"], str) and not is_success:  # That of a reversal.
            result |= {"ResultCode": "1", "TransactionID": DUMMY_RECEIPT}
            result.pop("ResultParameters", None)
        else:
            result["ResultCode"] = 0 if is_success else 1

    return _altered(request, change)


def _mpesa_options(confirmed: PromptsConfirmed) -> Mapping[str, str]:
    options = {
        "kind": "mpesa_daraja",
        "base_url": f"https://{operator_host(MPESA)}",
        "consumer_key": "consumer-key",
        "consumer_secret": _MPESA_SECRET,
        "shortcode": _MPESA_SHORTCODE,
        "passkey": SANDBOX_PASSKEY,
        "payout_shortcode": "600997",
        "initiator": "testapi",
        "initiator_password": "Safaricom999!*!",
        "certificate": _mpesa().certificate,
        "merchant_name": "TEST SHOP",
    }
    if confirmed is PromptsConfirmed.BY_NOTHING:
        options["till"] = _MPESA_TILL
    return options if confirmed is PromptsConfirmed.NOT else options | {"deposits": "trust"}


@cache
def operator_kinds(confirmed: PromptsConfirmed) -> Mapping[str, OperatorKind]:
    """Return every operator by the name of the gateway's account with it. Call `prepare_operators`
    before."""
    deposits_to = (_MPESA_TILL,) if confirmed is PromptsConfirmed.BY_NOTHING else ()
    uganda = ("UG", "UGX", _BOTH_WAYS)
    return MappingProxyType(
        {
            MTN: OperatorKind(
                WorldMethod(MTN, *uganda, _MTN_OPTIONS, "+25677", 7),
                _open_mtn,
                _mtn_submission,
                _mtn_denial,
                lambda reference: frozenset({reference, reference_id(reference)}),
                _mtn_with_result,
                "APPROVAL_REJECTED",
                _names_reversal(b"/refund", "externalId"),
                "refund",
                "NOT_ALLOWED",
                names_reversals=True,
            ),
            AIRTEL: OperatorKind(
                WorldMethod(AIRTEL, *uganda, _AIRTEL_OPTIONS, "+2567520000", 2),
                _open_airtel,
                _airtel_submission,
                _airtel_denial,
                lambda reference: frozenset({reference}),
                _airtel_with_result,
                "DP00800001008",
                _names_reversal(b"/refund", "transaction", "airtel_money_id"),
                "refund",
                "DP00800001008",
            ),
            MPESA: OperatorKind(
                WorldMethod(
                    MPESA,
                    "KE",
                    "KES",
                    _BOTH_WAYS,
                    _mpesa_options(confirmed),
                    "+2547000002",
                    2,
                    deposits_to,
                ),
                partial(_open_mpesa, confirmed),
                _mpesa_submission,
                _nothing,
                lambda reference: frozenset({reference, account_reference(reference)}),
                _mpesa_with_result,
                "1032",
                _names_reversal(b"/reversal/v1/request", "Remarks"),
                "reversal",
                "2028",
            ),
        }
    )
