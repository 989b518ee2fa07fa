"""Opens an account with each operator and its simulator, for tests without a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import evolve, frozen
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mmo_provider_pawapay.account import read_account as pawapay_account_from
from mmo_provider_pawapay.adapter import PawapayProvider
from mmo_provider_wave import WaveProvider
from mmo_provider_wave.account import read_account as wave_account_from

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.airtel_money.adapter import open_airtel_money
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.mpesa_daraja.account import read_account as daraja_account_from
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mtn_momo.account import read_account as mtn_account_from
from mmo_sansio.providers.mtn_momo.adapter import MtnMomoProvider
from mmo_sansio.values.model import Operation
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mtn.accounts import SimulatedMtnAccounts
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_simulators.operators.pawapay import api as pawapay_api
from mmo_simulators.operators.wave import api as wave_api
from mmo_trio.system.ciphers import SystemCiphers
from tests.simulation.world.operator_kinds import (
    AIRTEL,
    MPESA,
    MTN,
    PAWAPAY,
    PAWAPAY_CODE,
    PAWAPAY_PAGE,
    WAVE,
    OperatorKind,
    all_operator_kinds,
)
from tests.support import airtel_account as airtel_stage
from tests.support.simulated_accounts import account_options, mpesa_options


@frozen
class Operator:
    """Is an operator, with how an account with it is opened outside of any world."""

    name: str
    """The name in `tests/simulation/world/operator_kinds.py`."""
    open: Callable[[], tuple[Provider, Simulator]]

    @property
    def kind(self) -> OperatorKind:
        """What is to be known about it."""
        return all_operator_kinds()[self.name]

    @property
    def country(self) -> str:
        """The country, ISO 3166-1 alpha-2."""
        return self.kind.method.country

    @property
    def currency(self) -> str:
        """The currency of the account."""
        return self.kind.method.currency

    @property
    def msisdn(self) -> str:
        """The telephone number of a payer or payee."""
        return f"{self.kind.method.number_prefix}{0:0{self.kind.method.number_digits}}"

    @property
    def confirms_elsewhere(self) -> bool:
        """Whether payers approve at a page of the operator, or with a code of it."""
        return Operation.DIRECT_PAYIN not in self.kind.method.operations


CONSUMER = HttpRequest(
    "GET",
    b"/oauth/v1/generate?grant_type=client_credentials",
    ((b"authorization", b"Basic Y29uc3VtZXIta2V5OmNvbnN1bWVyLXNlY3JldA=="),),
)
"""M-Pesa's own client signs in."""

HOOKS = "https://gw.example/hooks/NAME/token"


def open_mtn() -> tuple[Provider, Simulator]:
    options = account_options("mtn", market="mtnuganda")
    account = mtn_account_from(options, hooks_url=HOOKS)
    simulator = MtnSimulator(market="mtnuganda", accounts=SimulatedMtnAccounts(currency="UGX"))
    return MtnMomoProvider("mtn", "MTN", account), simulator


def open_mpesa_account(**options: str) -> tuple[Provider, Simulator]:
    simulator = open_mpesa()
    payer = OPERATORS["mpesa"].msisdn.removeprefix("+")
    simulator.open_accounts([{"account": payer, "balance": "400000.00"}])
    options |= mpesa_options(simulator.certificate)
    hooks_url = "https://gw.example/hooks/ke/token"
    account = daraja_account_from(options, hooks_url=hooks_url, ciphers=SystemCiphers())
    return DarajaProvider("ke", "M-Pesa", account), simulator


def open_airtel() -> tuple[Provider, Simulator]:
    simulator = airtel_stage.a_simulator(callback_url=HOOKS, callback_key="callback-key")
    payer = OPERATORS["airtel"].msisdn.removeprefix("+256")
    simulator.open_accounts([{"account": payer, "balance": "400000"}])
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


OPERATORS = {
    "mtn": Operator(MTN, open_mtn),
    "mpesa": Operator(MPESA, open_mpesa_account),
    "airtel": Operator(AIRTEL, open_airtel),
    "pawapay": Operator(PAWAPAY, open_pawapay),
    "pawapay, page": Operator(
        PAWAPAY_PAGE,
        partial(
            open_pawapay,
            market="WAVE_SEN",
            auth_type="REDIRECT_AUTH",
            payer_hosts="pawapay.example",
        ),
    ),
    "pawapay, code": Operator(
        PAWAPAY_CODE, partial(open_pawapay, market="ORANGE_BFA", auth_type="PREAUTH")
    ),
    "wave": Operator(WAVE, open_wave),
}
MPESA_WITH_PULL = evolve(
    OPERATORS["mpesa"], open=partial(open_mpesa_account, pull_number="254722000000")
)
"""An account that has Pull Transactions."""
