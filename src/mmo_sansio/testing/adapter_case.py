"""Describes an adapter under test, and the inputs that the suite in `adapter_conformance` gives it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from attrs import Factory, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import (
    CipherError,
    Ciphers,
    Conversation,
    ExchangeFailed,
    Provider,
    RsaPadding,
    drive,
)
from mmo_sansio.providers.common.operations import OperationKey
from mmo_sansio.providers.registry import AdapterContext, ProviderKind
from mmo_sansio.testing.builders import START, a_party, a_transaction
from mmo_sansio.values.model import Flow, Stage, Transaction
from mmo_sansio.values.money import to_money

NAME: Final = "conformance"
"""The name under which the suite opens accounts."""

HOOKS_URL: Final = "https://gw.example/hooks/conformance/token"
LOST: Final = ExchangeFailed("The connection broke.", may_have_arrived=True)
UNSENT: Final = ExchangeFailed("No connection.", may_have_arrived=False)
UNREADABLE_BODIES: Final = (
    *(b"", b"<html>Bad gateway</html>", b"null", b"[]", b"{}", b"7", b'"\\u0000"', b"\xff\0"),
    *(b"[" * 100_000, b'{"id":' * 50_000, b'{"status":"x","code":"\\u0000","amount":1e999}'),
)
"""Bodies that no operator sends on purpose: empty, in another format, of another shape, nested too deeply."""

AMBIGUOUS_STATUSES: Final = (200, 302, 500, 502, 503, 504)
"""Statuses that, with a meaningless body, leave the outcome of a submission open."""

UNUSABLE_VALUES: Final[tuple[Any, ...]] = ([], {}, True, -1, 10**30, "", "\0", "\u00e9\n", "x" * 9999)

AMOUNTS: Final = ("1", "150", "70000", "0.10", "1234.56")
NUMBER: Final = re.compile(rb"\d+(?:\.\d+)?")
HEADER_NAME: Final = re.compile(rb"[a-z0-9-]+")
TARGET: Final = re.compile(rb"https?://[!-~]+")


@frozen
class TransparentCiphers:
    """Encrypts nothing, and gives bytes that are not random, so that a check can be repeated."""

    def random_bytes(self, count: int) -> bytes:
        """Return zeros."""
        return bytes(count)

    def rsa_bits(self, public_key: bytes) -> int:
        """Return a usual length; raises CipherError for an empty key."""
        if not public_key:
            raise CipherError("there is no key")
        return 2048

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        """Return the text in reverse."""
        return plain[::-1]

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Return the text in reverse."""
        return plain[::-1]


def _no_preparation(request: HttpRequest) -> HttpResponse | None:
    return None


@frozen
class AdapterCase:
    """Describes an adapter under test, and a payment in its market."""

    kind: ProviderKind
    options: Mapping[str, Any] = field(repr=False)
    """Good options, with every secret among them, each of 6 characters or more."""
    country: str = "KE"
    currency: str = "KES"
    msisdn: str = "+254708374149"
    ciphers: Ciphers = Factory(TransparentCiphers)
    prepare: Callable[[HttpRequest], HttpResponse | None] = _no_preparation
    """The operator's response to a request that prepares a submission, such as one for a key; None for any other
    request."""

    def open_adapter(self, options: Mapping[str, Any] | None = None) -> Provider:
        """Return the adapter. Raises OptionError."""
        context = AdapterContext(HOOKS_URL, self.ciphers)
        chosen = self.options if options is None else options
        return self.kind.open_adapter(NAME, self.kind.title, chosen, context)

    def transaction(self, key: OperationKey, amount: str = "150") -> Transaction:
        """Return a payment of this operation that is being submitted, since START."""
        type, flow = key
        return a_transaction(
            Stage.SUBMITTING,
            type=type,
            flow=flow,
            provider=NAME,
            provider_title=self.kind.title,
            country=self.country,
            requested=to_money(Decimal(amount), self.currency),
            party=a_party(msisdn=self.msisdn),
            reconciliation_reference="PRN1234XN",
            display_qr_url="https://shop.example/qr" if flow is Flow.QR else None,
            submitted_at=START,
        )


class RecordedOptions(dict[str, Any]):
    """Holds options and remembers which of them were read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.read: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def ambiguous_outcomes() -> Iterator[HttpResponse | ExchangeFailed]:
    """Yield outcomes of a request that may have been carried out."""
    yield LOST
    for status in AMBIGUOUS_STATUSES:
        for body in UNREADABLE_BODIES:
            yield HttpResponse(status, (), body)


def answer_with(
    case: AdapterCase, outcome: HttpResponse | ExchangeFailed, sent: list[HttpRequest] | None = None
) -> Callable[[HttpRequest], HttpResponse]:
    """Return an exchange that answers preparations, and everything else with this outcome."""

    def exchange(request: HttpRequest) -> HttpResponse:
        if (prepared := case.prepare(request)) is not None:
            return prepared
        if sent is not None:
            sent.append(request)
        if isinstance(outcome, ExchangeFailed):
            raise ExchangeFailed(outcome.reason, may_have_arrived=outcome.may_have_arrived)
        return outcome

    return exchange


def sent_requests(case: AdapterCase, conversation: Conversation) -> list[HttpRequest]:
    """Return what a conversation sends when every answer but those to preparations is lost."""
    sent: list[HttpRequest] = []
    drive(conversation, answer_with(case, LOST, sent))
    return sent
