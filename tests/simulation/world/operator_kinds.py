"""Describes the operators of simulated worlds: the account with each, its simulator, and what can
be read from its messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qs

from attrs import evolve, frozen
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mmo_provider_pawapay.refunds import refund_id
from mmo_provider_pawapay.wire import operation_id

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.callback_url import CallbackContext, MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.requests import account_reference
from mmo_sansio.providers.mtn_momo.adapter import reference_id
from mmo_sansio.values.model import Operation, Type
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.messages import path_and_query
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.airtel.api import AirtelSimulator
from mmo_simulators.operators.airtel.request_checks import SimulatedAirtelMarket
from mmo_simulators.operators.mpesa.accounts import SANDBOX_PASSKEY
from mmo_simulators.operators.mpesa.api import MpesaSimulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mpesa.result_bodies import DUMMY_RECEIPT
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_simulators.operators.pawapay.api import PawapaySimulator
from mmo_simulators.operators.wave.api import WaveSimulator
from mmo_trio.brands.keyring import KeyRing
from tests.simulation.world.files import API_PORT, GATEWAY_HOST, MASTER_KEY, WorldMethod
from tests.simulation.world.plan import PromptsConfirmed
from tests.support.simulated_accounts import account_options

MTN: Final = "mtn_ug"
AIRTEL: Final = "airtel_ug"
MPESA: Final = "saf_ke"
PAWAPAY: Final = "pawapay_rw"
PAWAPAY_PAGE: Final = "pawapay_sn"
"""Its payers approve at a page of their operator."""
PAWAPAY_CODE: Final = "pawapay_bf"
"""Its payers approve with a code that they get from their operator."""
WAVE: Final = "wave_sn"
_BOTH_WAYS: Final = (Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT)
_PAGE_AND_PAYOUTS: Final = (Operation.WEB_PAYIN, Operation.DIRECT_PAYOUT)
_BOTH_WAYS_AND_PAGE: Final = (*_BOTH_WAYS, Operation.WEB_PAYIN)
_BALANCE: Final = "400000"
_PERSONS: Final = range(100)
"""The last two digits of the numbers that have wallets."""
_AIRTEL_KEY_BITS: Final = 1024
"""Short, as it is used for each pay-out."""
_AIRTEL_UNKNOWN: Final = b'"ESB000045"'
_MPESA_SUBMISSIONS: Final = {
    b"/stkpush/v1/processrequest": "AccountReference",
    b"/paymentrequest": "OriginatorConversationID",
    b"/remittax": "Remarks",
}
MPESA_MAINTENANCE: Final = tuple(
    HttpResponse(status, ((b"content-type", b"application/json"),), body)
    for status, body in (
        (
            500,
            b'{"requestId":"1","errorCode":"500.003.1001","errorMessage":"Service is currently '
            b'unreachable."}',
        ),
        (503, b'{"errorCode":"","errorMessage":"Service is temporarily unavailable"}'),
        (500, b'{"requestId":"","errorCode":"","errorMessage":""}'),
        (
            503,
            b"<html><head><META NAME='robots'></head><body><iframe "
            b"src='/_Incapsula_Resource'></iframe></body>",
        ),
    )
)
"""As captured in 2026."""
_MPESA_SHORTCODE: Final = "174379"
_MPESA_TILL: Final = "174380"
_MPESA_SECRET: Final = "consumer-secret"
_MPESA_BAD_TOKEN: Final = b'"404.001.03"'


UNREADABLE: Final = tuple(
    HttpResponse(status, (), b"<html>Oops") for status in (200, 500, 502, 503, 504)
)
"""Pages of what stands before an operator."""


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
    failures: Sequence[str] = ()
    """More results of a payment that is not made, in its code; the last is one that it has not
    documented."""
    maintenance: Sequence[HttpResponse] = UNREADABLE
    """What it answers while it is maintained."""
    refusals: Sequence[Mapping[str, object]] = ()
    """Members of an account whose API operator is refused; the first are those of one that is
    not."""
    contradiction: str | None = None
    """The failure that questions about a paid payment may be answered with; None: they are not."""
    accounts: Mapping[Type, str] = MappingProxyType({})
    """The merchant's own account with it, by what is done with that."""
    pays_back_by: Type = Type.PAYIN
    """What is done with the account from which money goes back."""

    @property
    def takes_deposits(self) -> bool:
        """Whether somebody may pay without a request of the gateway's."""
        return Operation.QR_PAYIN in self.method.operations


def operator_host(name: str) -> str:
    """Return the name of an operator's API."""
    return f"{name.replace('_', '-')}.example"


def prepare_operators() -> None:
    """Make the keys of operators. They are made once, and before randomness comes from a seed."""
    _airtel_key()
    _mpesa()
    _pawapay_key()


def is_unauthorized(response: HttpResponse | DroppedConnection) -> bool:
    """Return whether an operator has rejected a request for its token, and done nothing."""
    return isinstance(response, HttpResponse) and (
        response.status == 401 or _MPESA_BAD_TOKEN in response.body
    )


def _segment(request: HttpRequest) -> str:
    return request.target.partition(b"?")[0].rstrip(b"/").rpartition(b"/")[2].decode("ascii")


def _nothing(request: HttpRequest, response: object) -> None:
    return None


def _hooks_url(name: str) -> str:
    """Return the address of an account's notifications."""
    token = KeyRing(MASTER_KEY).webhook_tokens(name)[0]
    return f"http://{GATEWAY_HOST}:{API_PORT}/hooks/{name}/{token}"


def _names_payment(member: str, *paths: str) -> Callable[[HttpRequest], str | None]:
    """Return a reader of how a submission to one of these paths names its payment, in this member
    of its document."""

    def read(request: HttpRequest) -> str | None:
        if request.method != "POST" or path_and_query(request)[0] not in paths:
            return None
        return str(json.loads(request.body)[member])

    return read


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
    market = SimulatedAirtelMarket(_airtel_key(), callback_url=_hooks_url(AIRTEL))
    simulator = AirtelSimulator(market)
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
        is_named = confirmed is PromptsConfirmed.BY_REFERENCE
        told = {
            "confirms_pushes": True,
            "confirmation_url": _mpesa_confirmation_url(),
            "tells_references": is_named,
        }
        simulator.open_accounts(
            [{"account": _MPESA_SHORTCODE if is_named else _MPESA_TILL, **told}]
        )
    return simulator


def _mpesa_confirmation_url() -> str:
    segment = CallbackContext(MpesaCallbackKind.CONFIRMATION).to_segment(_MPESA_SECRET.encode())
    return f"{_hooks_url(MPESA)}/{segment}"


def _open_mpesa_with_deposits() -> Simulator:
    simulator = _open_mpesa(PromptsConfirmed.NOT)
    simulator.open_accounts(
        [{"account": _MPESA_SHORTCODE, "confirmation_url": _mpesa_confirmation_url()}]
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


# pawaPay


@cache
def _pawapay_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _open_pawapay(name: str) -> Simulator:
    return PawapaySimulator(_pawapay_key(), callback_url=_hooks_url(name))


def _pawapay_denial(request: HttpRequest, response: HttpResponse | DroppedConnection) -> str | None:
    is_denial = (
        request.method == "GET"
        and isinstance(response, HttpResponse)
        and response.body == b'{"status": "NOT_FOUND"}'
    )
    return _segment(request) if is_denial else None


def _pawapay_names(reference: str) -> frozenset[str]:
    id = refund_id(reference) if "-" in reference else operation_id(reference)
    return frozenset({reference, id})


def _pawapay_options(name: str, market: str, **options: str) -> Mapping[str, str]:
    key = _pawapay_key().public_key()
    return {
        **account_options("pawapay", market=market, **options),
        "kind": "pawapay",
        "base_url": f"https://{operator_host(name)}",
        "callback_keys": key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
    }


def _pawapay_kind(method: WorldMethod, wallet: str) -> OperatorKind:
    return OperatorKind(
        method,
        partial(_open_pawapay, method.name),
        _names_payment("clientReferenceId", "/v2/deposits", "/v2/payouts"),
        _pawapay_denial,
        _pawapay_names,
        _unsigned,
        "PAYMENT_NOT_APPROVED",
        _names_reversal(b"/v2/refunds", "clientReferenceId"),
        "refund",
        "UNSPECIFIED_FAILURE",
        names_reversals=True,
        failures=("RECIPIENT_NOT_FOUND", "UNSPECIFIED_FAILURE", "SOMETHING_NEW"),
        accounts={Type.PAYIN: wallet, Type.PAYOUT: wallet},
    )


# Wave


def _open_wave() -> Simulator:
    return WaveSimulator(webhook_url=_hooks_url(WAVE))


def _wave_denial(request: HttpRequest, response: HttpResponse | DroppedConnection) -> str | None:
    path, query = path_and_query(request)
    if not path.endswith("/search") or not isinstance(response, HttpResponse):
        return None
    is_denial = response.status == 200 and json.loads(response.body)["result"] == []
    return parse_qs(query)["client_reference"][0] if is_denial else None


def _unsigned(request: HttpRequest, is_success: bool, reference: str | None) -> None:
    """Change nothing: what is changed has no signature, and is refused."""


_WAVE_OPTIONS: Final = {
    **account_options("wave"),
    "kind": "wave",
    "base_url": f"https://{operator_host(WAVE)}",
}


@cache
def operator_kinds(confirmed: PromptsConfirmed) -> Mapping[str, OperatorKind]:
    """Return the three operators that every merchant pays with, by prompts and pay-outs, by the
    name of the gateway's account with each. Call `prepare_operators` before."""
    deposits_to = (_MPESA_TILL,) if confirmed is PromptsConfirmed.BY_NOTHING else ()
    mpesa = WorldMethod(
        MPESA, "KE", "KES", _BOTH_WAYS, _mpesa_options(confirmed), "+2547000002", 2, deposits_to
    )
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
                failures=("EXPIRED", "PAYEE_NOT_FOUND", "SOMETHING_NEW"),
                accounts={Type.PAYIN: "collection", Type.PAYOUT: "disbursement"},
                pays_back_by=Type.PAYOUT,
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
                failures=("DP00800001029", "DP00900001013", "DP00900001000", "NEW"),
                contradiction="DP00800001005",
                accounts={Type.PAYIN: "collection", Type.PAYOUT: "disbursement"},
            ),
            MPESA: OperatorKind(
                mpesa,
                partial(_open_mpesa, confirmed),
                _mpesa_submission,
                _nothing,
                lambda reference: frozenset({reference, account_reference(reference)}),
                _mpesa_with_result,
                "1032",
                _names_reversal(b"/reversal/v1/request", "Remarks"),
                "reversal",
                "2028",
                failures=("1", "2040", "17", "SOMETHING_NEW"),
                maintenance=(*UNREADABLE, *MPESA_MAINTENANCE),
                refusals=(
                    {"operator_state": "active", "roles": None},
                    {"operator_state": "expired"},
                    {"operator_state": "locked"},
                    {"roles": ["b2c", "tax"]},
                ),
                contradiction="1037",
                accounts={
                    Type.PAYIN: _MPESA_SHORTCODE,
                    Type.PAYOUT: "600997",
                    Type.TAX: "600997",
                },
            ),
        }
    )


@cache
def all_operator_kinds() -> Mapping[str, OperatorKind]:
    """Return every operator with all that can be done with it, by the name of the gateway's account
    with each. Call `prepare_operators` before."""
    kinds = dict(operator_kinds(PromptsConfirmed.NOT))
    for name in (MTN, AIRTEL):
        method = evolve(kinds[name].method, operations=_BOTH_WAYS_AND_PAGE)
        kinds[name] = evolve(kinds[name], method=method)
    kinds[MPESA] = evolve(
        kinds[MPESA],
        method=evolve(
            kinds[MPESA].method,
            operations=tuple(Operation),
            push_accounts=(f"{_MPESA_SHORTCODE}/SHOP",),
        ),
        open=_open_mpesa_with_deposits,
    )
    amounts = (100, 1_000)
    for method, wallet in (
        (
            WorldMethod(
                PAWAPAY,
                *("RW", "RWF", _BOTH_WAYS_AND_PAGE),
                _pawapay_options(PAWAPAY, "MTN_MOMO_RWA"),
                *("+2507880000", 2),
                amounts=amounts,
            ),
            "RWA/RWF",
        ),
        (
            WorldMethod(
                PAWAPAY_PAGE,
                *("SN", "XOF", _PAGE_AND_PAYOUTS),
                _pawapay_options(
                    PAWAPAY_PAGE,
                    "WAVE_SEN",
                    auth_type="REDIRECT_AUTH",
                    payer_hosts=operator_host(PAWAPAY_PAGE),
                ),
                *("+2217750000", 2),
                amounts=amounts,
            ),
            "SEN/XOF",
        ),
        (
            WorldMethod(
                PAWAPAY_CODE,
                *("BF", "XOF", _PAGE_AND_PAYOUTS),
                _pawapay_options(PAWAPAY_CODE, "ORANGE_BFA", auth_type="PREAUTH"),
                *("+226075000", 2),
                amounts=amounts,
            ),
            "BFA/XOF",
        ),
    ):
        kinds[method.name] = _pawapay_kind(method, wallet)
    kinds[WAVE] = OperatorKind(
        WorldMethod(WAVE, "SN", "XOF", _PAGE_AND_PAYOUTS, _WAVE_OPTIONS, "+2217750000", 2),
        _open_wave,
        _names_payment("client_reference", "/v1/checkout/sessions", "/v1/payout"),
        _wave_denial,
        lambda reference: frozenset({reference}),
        _unsigned,
        "insufficient-funds",
        lambda request: None,
        "refund",
        "",
        failures=("blocked-account", "recipient-minor", "something-new"),
        accounts={Type.PAYIN: "wallet", Type.PAYOUT: "wallet"},
    )
    return MappingProxyType(kinds)
