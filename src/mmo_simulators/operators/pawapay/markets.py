"""Lists the countries and providers of the simulated pawaPay, their limits, and the published test
numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from attrs import frozen


class OperationType(StrEnum):
    """Lists what an account may do, as the active configuration names it."""

    DEPOSIT = "DEPOSIT"
    PAYOUT = "PAYOUT"
    REFUND = "REFUND"

    @property
    def id_member(self) -> str:
        """The member of messages with the merchant's id."""
        return f"{self.lower()}Id"

    @property
    def party_member(self) -> str:
        """The member of messages with the other party."""
        if self is OperationType.DEPOSIT:
            return "payer"
        return "recipient"


# What the list of test numbers says of a payment that never gets a result.
STUCK: Final = "SUBMITTED"

# What the endings of test numbers mean (docs.pawapay.io/v2/docs/test_numbers); those that end with
# 789 succeed, as does any other number.
_FAILURES_BY_ENDING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "019": "PAYER_LIMIT_REACHED",
        "029": "PAYER_NOT_FOUND",
        "039": "PAYMENT_NOT_APPROVED",
        "049": "INSUFFICIENT_BALANCE",
        "059": "TRANSACTION_ALREADY_IN_PROCESS",
        "069": "UNSPECIFIED_FAILURE",
        "079": "RECIPIENT_NOT_FOUND",
        "089": "RECIPIENT_NOT_FOUND",
        "099": "WALLET_LIMIT_REACHED",
        "109": "RECIPIENT_LIMIT_REACHED",
        "119": "UNSPECIFIED_FAILURE",
        "129": STUCK,
    }
)


class Authorisation(StrEnum):
    """Lists how payers of deposits approve, as the active configuration names it."""

    PROVIDER_AUTH = "PROVIDER_AUTH"
    """On the phone."""
    REDIRECT_AUTH = "REDIRECT_AUTH"
    """At a page of the operator."""
    PREAUTH = "PREAUTH"
    """With a code that they get from the operator before."""


@frozen
class SimulatedProvider:
    """Describes a mobile money operator behind pawaPay."""

    code: str
    name: str
    numbers: str
    """Its test numbers without their last three digits."""
    deposit_endings: str
    payout_endings: str
    """The last three digits of the test numbers that fail, for deposits and for pay-outs."""
    deposit_decimals: int = 0
    payout_decimals: int = 0
    authorisation: Authorisation = Authorisation.PROVIDER_AUTH

    def decimals(self, operation: OperationType) -> int:
        """Return how many decimals an amount may have."""
        if operation is OperationType.DEPOSIT:
            return self.deposit_decimals
        return self.payout_decimals

    def test_outcomes(self, operation: OperationType) -> Mapping[str, str]:
        """Return the failure codes, or STUCK, by test number."""
        endings = {
            OperationType.DEPOSIT: self.deposit_endings,
            OperationType.PAYOUT: self.payout_endings,
        }
        return {
            f"{self.numbers}{ending}": _FAILURES_BY_ENDING[ending]
            for ending in endings.get(operation, "").split()
        }


@frozen
class SimulatedCountry:
    """Describes a country in which the account is active."""

    code: str
    """ISO 3166-1 alpha-3."""
    name: str
    prefix: str
    """The calling code."""
    limits: Mapping[str, tuple[str, str]]
    """The least and the greatest amount of a payment by currency; a real account has limits of its
    own."""
    providers: tuple[SimulatedProvider, ...]


# Nine of some twenty. Amounts in UGX are whole, as the currency has no smaller unit, though MTN
# takes decimals.
COUNTRIES: Final = (
    SimulatedCountry("BEN", "Benin", "229", {"XOF": ("100", "2000000")}, (
        SimulatedProvider("MTN_MOMO_BEN", "MTN", "22951345",
            "029 039 069 129", "089 119 129"),
    )),
    SimulatedCountry("BFA", "Burkina Faso", "226", {"XOF": ("100", "2000000")}, (
        SimulatedProvider("ORANGE_BFA", "Orange", "22607345",
            "029 039 049 069 129", "089 119 129", authorisation=Authorisation.PREAUTH),
    )),
    SimulatedCountry("CMR", "Cameroon", "237", {"XAF": ("100", "1000000")}, (
        SimulatedProvider("MTN_MOMO_CMR", "MTN", "237653456",
            "019 029 039 069 129", "089 119 129"),
        SimulatedProvider("ORANGE_CMR", "Orange", "237693456",
            "019 029 039 049 069 129", "099 119 129"),
    )),
    SimulatedCountry("COD", "DRC", "243", {"CDF": ("100", "5000000"), "USD": ("1", "2500")}, (
        SimulatedProvider("VODACOM_MPESA_COD", "Vodacom", "243813456",
            "019 029 039 049 069 129", "089 119 129", 2, 2),
        SimulatedProvider("AIRTEL_COD", "Airtel", "243973456",
            "069 129", "089 119 129", 2, 2),
    )),
    SimulatedCountry("KEN", "Kenya", "254", {"KES": ("1", "250000")}, (
        SimulatedProvider("MPESA_KEN", "M-Pesa", "254703456",
            "019 039 049 059 069 129", "089 099 109 119 129", 0, 2),
    )),
    SimulatedCountry("RWA", "Rwanda", "250", {"RWF": ("100", "2000000")}, (
        SimulatedProvider("MTN_MOMO_RWA", "MTN", "250783456",
            "019 129", "129"),
        SimulatedProvider("AIRTEL_RWA", "Airtel", "250733456",
            "039 049 069 129", "089 119 129"),
    )),
    SimulatedCountry("SEN", "Senegal", "221", {"XOF": ("100", "2000000")}, (
        SimulatedProvider("WAVE_SEN", "Wave", "221773456",
            "039 049 069 129", "089 119 129", authorisation=Authorisation.REDIRECT_AUTH),
    )),
    SimulatedCountry("UGA", "Uganda", "256", {"UGX": ("500", "5000000")}, (
        SimulatedProvider("MTN_MOMO_UGA", "MTN", "256783456",
            "019 029 069 129", "089 099 119", 2, 2),
        SimulatedProvider("AIRTEL_OAPI_UGA", "Airtel", "256753456",
            "019 039 049 069 129", "089 099 119 129"),
    )),
    SimulatedCountry("ZMB", "Zambia", "260", {"ZMW": ("1", "20000")}, (
        SimulatedProvider("MTN_MOMO_ZMB", "MTN", "260763456",
            "019 029 039 069 129", "079 119 129", 2, 2),
        SimulatedProvider("AIRTEL_OAPI_ZMB", "Airtel", "260973456",
            "019 039 049 069 129", "089 119 129", 2, 2),
    )),
)  # fmt: skip

# Each provider with its country, by its code.
PROVIDERS: Final[Mapping[str, tuple[SimulatedCountry, SimulatedProvider]]] = MappingProxyType(
    {provider.code: (country, provider) for country in COUNTRIES for provider in country.providers}
)

# The country and the currency of each wallet that the merchant has.
WALLETS: Final = tuple((country, currency) for country in COUNTRIES for currency in country.limits)
