"""Describes the operators for simulated worlds, each with its simulator and an account."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attrs import evolve, frozen
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mmo_provider_pawapay.account import read_account as pawapay_account_from
from mmo_provider_pawapay.adapter import PawapayProvider
from mmo_provider_wave import WaveProvider
from mmo_provider_wave.account import read_account as wave_account_from

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.airtel_money.adapter import open_airtel_money
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.mpesa_daraja.account import read_account as daraja_account_from
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mtn_momo.account import read_account as mtn_account_from
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.values.model import Operation, Type
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_simulators.operators.pawapay import api as pawapay_api
from mmo_simulators.operators.wave import api as wave_api
from mmo_trio.system.ciphers import SystemCiphers
from tests.support import airtel_account as airtel_stage
from tests.support.simulated_accounts import account_options, mpesa_options

UNREADABLE = tuple(HttpResponse(status, (), b"<html>Oops") for status in (200, 500, 502, 503, 504))


@frozen
class Operator:
    """Describes an operator for a world."""

    open: Callable[[], tuple[Provider, Simulator]]
    operations: tuple[Operation | None, ...]
    """None: somebody pays by himself."""
    country: str
    currency: str
    failures: tuple[str, ...]
    """Codes that a submission may come to."""
    accounts: Mapping[Type, str]
    """The merchant's own account, by what is done with it."""
    msisdns: Sequence[str]
    """The telephone numbers of payers and payees."""
    maintenance: Sequence[HttpResponse] = UNREADABLE
    """What it answers while it is maintained."""
    contradiction: str | None = None
    """A code of failure that questions about a paid payment may be answered with."""
    refusals: Sequence[Mapping[str, object]] = ()
    """Members of an account whose API operator is refused; the first are those of one that is
    not."""
    amounts: tuple[int, int] = (10, 1_000)
    """In whole units."""
    confirms_elsewhere: bool = False
    """Whether payers approve at a page of the operator, or with a code of it."""
    pays_back_by: Type = Type.PAYIN
    """What is done with the merchant's own account from which money goes back."""

    @property
    def takes_deposits(self) -> bool:
        """Whether somebody may pay without a request of ours."""
        return None in self.operations

    def is_submission(self, request: HttpRequest) -> bool:
        """Whether a request may move money."""
        return request.method == "POST" and _SUBMISSIONS.search(request.target) is not None


_SUBMISSIONS = re.compile(
    rb"(stkpush/v1/processrequest|b2c/v\d/paymentrequest|remittax|qrcode/v1/generate"
    rb"|requesttopay|transfer|/payments/?|/disbursements/?|/refund|reversal/v1/request|/v2/deposits|/v2/payouts"
    rb"|/v1/checkout/sessions|/v1/payout)$"
)
CONSUMER = HttpRequest(
    "GET",
    b"/oauth/v1/generate?grant_type=client_credentials",
    ((b"authorization", b"Basic Y29uc3VtZXIta2V5OmNvbnN1bWVyLXNlY3JldA=="),),
)
"""M-Pesa's own client signs in."""

HOOKS = "https://gw.example/hooks/NAME/token"
KENYANS = tuple(str(254700000200 + number) for number in range(20))
UGANDANS = tuple(f"+256{752000000 + number}" for number in range(20))
SENEGALESE = tuple(f"+{221775000000 + number}" for number in range(20))
BURKINABE = tuple(f"+{22607500000 + number}" for number in range(20))
RWANDANS = tuple(f"+250{788000000 + number}" for number in range(20))


def open_mtn() -> tuple[Provider, Simulator]:
    options = account_options("mtn", market="mtnuganda")
    account = mtn_account_from(options, hooks_url=HOOKS)
    simulator = MtnSimulator(market="mtnuganda", accounts=SimulatedMtnAccounts(currency="UGX"))
    return MtnMomoProvider("mtn", "MTN", account), simulator


def open_mpesa_account(**options: str) -> tuple[Provider, Simulator]:
    simulator = open_mpesa()
    simulator.open_accounts([{"account": each, "balance": "400000.00"} for each in KENYANS])
    options |= mpesa_options(simulator.certificate)
    hooks_url = "https://gw.example/hooks/ke/token"
    account = daraja_account_from(options, hooks_url=hooks_url, ciphers=SystemCiphers())
    return DarajaProvider("ke", "M-Pesa", account), simulator


def open_airtel() -> tuple[Provider, Simulator]:
    simulator = airtel_stage.a_simulator(callback_url=HOOKS, callback_key="callback-key")
    wallets = [{"account": each.removeprefix("+256"), "balance": "400000"} for each in UGANDANS]
    simulator.open_accounts(wallets)
    options = airtel_stage.options("https://airtel.example", callback_key="callback-key")
    return open_airtel_money("ug", "Airtel", options, SystemCiphers()), simulator


def open_pawapay(**market: str) -> tuple[Provider, Simulator]:
    simulator = pawapay_api.open_pawapay()
    simulator.open_accounts([{"account": "merchant", "callback_url": HOOKS}])
    key = simulator.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    options = {
        "market": "MTN_MOMO_RWA",
        "base_url": "https://pawapay.example",
        "api_token": pawapay_api.API_TOKEN,
        "callback_keys": key.decode(),
        **market,
    }
    account = pawapay_account_from(options, hooks_url=HOOKS, pages_url="https://pages.example")
    return PawapayProvider("paw", "pawaPay", account), simulator


def open_wave() -> tuple[Provider, Simulator]:
    simulator = wave_api.WaveSimulator(webhook_url=HOOKS)
    options = {
        "base_url": "https://wave.example",
        "api_key": wave_api.API_KEY,
        "webhook_secret": wave_api.WEBHOOK_SECRET,
    }
    account = wave_account_from(options, pages_url="https://pay.example")
    return WaveProvider("wave", "Wave", account), simulator


MPESA_MAINTENANCE = tuple(
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

PAGE_AND_PAYOUTS = (Operation.WEB_PAYIN, Operation.DIRECT_PAYOUT)
PAYINS_AND_PAYOUTS = (Operation.DIRECT_PAYIN, Operation.WEB_PAYIN, Operation.DIRECT_PAYOUT)

OPERATORS = {
    "mtn": Operator(
        open_mtn,
        operations=PAYINS_AND_PAYOUTS,
        country="UG",
        currency="UGX",
        failures=("APPROVAL_REJECTED", "EXPIRED", "PAYEE_NOT_FOUND", "SOMETHING_NEW"),
        accounts={Type.PAYIN: "collection", Type.PAYOUT: "disbursement"},
        pays_back_by=Type.PAYOUT,
        msisdns=UGANDANS,
    ),
    "mpesa": Operator(
        open_mpesa_account,
        operations=(*PAYINS_AND_PAYOUTS, Operation.DIRECT_TAXPAYOUT, Operation.QR_PAYIN, None),
        country="KE",
        currency="KES",
        failures=("1", "1032", "2040", "17", "SOMETHING_NEW"),
        maintenance=(*UNREADABLE, *MPESA_MAINTENANCE),
        contradiction="1037",
        refusals=(
            {"operator_state": "active", "roles": None},
            {"operator_state": "expired"},
            {"operator_state": "locked"},
            {"roles": ["b2c", "tax"]},
        ),
        accounts={Type.PAYIN: "174379", Type.PAYOUT: "600997", Type.TAX: "600997"},
        msisdns=tuple(f"+{each}" for each in KENYANS),
    ),
    "airtel": Operator(
        open_airtel,
        operations=PAYINS_AND_PAYOUTS,
        country="UG",
        currency="UGX",
        failures=("DP00800001008", "DP00800001029", "DP00900001013", "DP00900001000", "NEW"),
        contradiction="DP00800001005",
        accounts={Type.PAYIN: "collection", Type.PAYOUT: "disbursement"},
        msisdns=UGANDANS,
    ),
    "pawapay": Operator(
        open_pawapay,
        operations=PAYINS_AND_PAYOUTS,
        country="RW",
        currency="RWF",
        failures=(
            "PAYMENT_NOT_APPROVED",
            "RECIPIENT_NOT_FOUND",
            "UNSPECIFIED_FAILURE",
            "SOMETHING_NEW",
        ),
        accounts={Type.PAYIN: "RWA/RWF", Type.PAYOUT: "RWA/RWF"},
        msisdns=RWANDANS,
        amounts=(100, 1_000),
    ),
    "pawapay, page": Operator(
        partial(
            open_pawapay,
            market="WAVE_SEN",
            auth_type="REDIRECT_AUTH",
            payer_hosts="pawapay.example",
        ),
        operations=PAGE_AND_PAYOUTS,
        country="SN",
        currency="XOF",
        failures=("PAYMENT_NOT_APPROVED", "RECIPIENT_NOT_FOUND", "SOMETHING_NEW"),
        accounts={Type.PAYIN: "SEN/XOF", Type.PAYOUT: "SEN/XOF"},
        msisdns=SENEGALESE,
        amounts=(100, 1_000),
        confirms_elsewhere=True,
    ),
    "pawapay, code": Operator(
        partial(open_pawapay, market="ORANGE_BFA", auth_type="PREAUTH"),
        operations=PAGE_AND_PAYOUTS,
        country="BF",
        currency="XOF",
        failures=("PAYMENT_NOT_APPROVED", "RECIPIENT_NOT_FOUND", "SOMETHING_NEW"),
        accounts={Type.PAYIN: "BFA/XOF", Type.PAYOUT: "BFA/XOF"},
        msisdns=BURKINABE,
        amounts=(100, 1_000),
        confirms_elsewhere=True,
    ),
    "wave": Operator(
        open_wave,
        operations=PAGE_AND_PAYOUTS,
        country="SN",
        currency="XOF",
        failures=("insufficient-funds", "blocked-account", "recipient-minor", "something-new"),
        accounts={Type.PAYIN: "wallet", Type.PAYOUT: "wallet"},
        msisdns=SENEGALESE,
        confirms_elsewhere=True,
    ),
}
MPESA_WITH_PULL = evolve(
    OPERATORS["mpesa"], open=partial(open_mpesa_account, pull_number="254722000000")
)
"""An account that has Pull Transactions."""
