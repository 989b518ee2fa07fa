"""Reads what pawaPay says about an account in a market: its active configuration, and whether the
operator works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from mmo_provider_pawapay.wire import (
    DEPOSIT,
    PAYOUT,
    objects,
    parse_json,
    parse_limit,
    parse_objects,
)
from mmo_sansio import Money
from mmo_sansio.providers import (
    object_member,
    text_member,
)

# The payer approves on the phone.
PROVIDER_AUTH: Final = "PROVIDER_AUTH"

# The payer approves at a page of the operator, whose address comes after the acceptance.
REDIRECT_AUTH: Final = "REDIRECT_AUTH"

# The payer gets a code from the operator, and the deposit is made with it.
PREAUTH: Final = "PREAUTH"

AUTHORISATIONS: Final = (PROVIDER_AUTH, REDIRECT_AUTH, PREAUTH)

# The longest instructions for a payer; what is longer is no text for a page.
WORDS_CHARACTERS_MAX: Final = 2_000


@frozen
class Terms:
    """Holds the terms of one operation in one currency."""

    # None: the market tells none.
    minimum: Decimal | None
    maximum: Decimal | None
    takes_decimals: bool
    authorisation: str | None
    """How the payer of a deposit approves it."""
    callback_url: str | None
    code_instructions: tuple[tuple[str, str], ...] = ()
    """How a payer gets a code, in the operator's own words: pairs of a language and a text."""

    def refusal(self, amount: Money) -> str | None:
        """Return why the market does not take this amount, in words for staff; None: it does."""
        # By its value: 150.00 needs no decimals.
        value = Decimal(amount.text)
        if not self.takes_decimals and value != int(value):
            return "The market takes no decimals."
        if self.minimum is not None and value < self.minimum:
            return f"The market takes {self.minimum} {amount.currency} or more."
        if self.maximum is not None and value > self.maximum:
            return f"The market takes {self.maximum} {amount.currency} or less."
        return None


@frozen
class ActiveConfiguration:
    """Holds what of the active configuration is about one market."""

    terms: Mapping[tuple[str, str], Terms]
    """By the key of the operation and the currency; empty: the account does not have the market."""
    signed_requests_only: bool
    signed_callbacks: bool


def parse_active_configuration(body: bytes, market: str) -> ActiveConfiguration:
    """Return the active configuration of a market. Raises ValueError for a body that can't be
    read."""
    document = parse_json(body)
    signatures = object_member(document, "signatureConfiguration")
    terms = {
        (operation, text_member(currency, "currency") or ""): _parse_terms(members)
        for provider in _providers(objects(document, "countries"), market)
        for currency in objects(provider, "currencies")
        for operation, members in _operations(currency)
    }
    return ActiveConfiguration(
        MappingProxyType(terms),
        signatures.get("signedRequestsOnly") is True,
        signatures.get("signedCallbacks") is True,
    )


def parse_availability(body: bytes, market: str) -> Mapping[str, str]:
    """Return the status of each operation of a market: `OPERATIONAL`, `DELAYED` or `CLOSED`. Raises
    ValueError for a body that can't be read."""
    return {
        operation: text_member(members, "status") or ""
        for provider in _providers(parse_objects(body), market)
        for operation, members in _operations(provider)
    }


def parse_public_keys(body: bytes) -> bytes:
    """Return pawaPay's public keys in PEM, one after the other. Raises ValueError for a body that
    can't be read."""
    return "\n".join(
        text_member(published, "key") or "" for published in parse_objects(body)
    ).encode()


def _providers(countries: list[dict[str, Any]], market: str) -> Iterator[dict[str, Any]]:
    for country in countries:
        for provider in objects(country, "providers"):
            if text_member(provider, "provider") == market:
                yield provider


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each operation. The documentation's example has an array, some of whose objects name
    the operation by their only key and others by a member; its schema and the API itself have an
    object."""
    # Each form is read, as it was published; another one is none.
    operation_types = document.get("operationTypes", {})
    if isinstance(operation_types, list):
        entries = objects(document, "operationTypes")
    else:
        entries = [operation_types]

    for member in entries:
        if not isinstance(member, dict):
            raise ValueError("operationTypes is of no known form")

        if (operation := text_member(member, "operationType")) is not None:
            yield operation, member
            continue

        # Only what this adapter has: other keys are other products.
        for key in member.keys() & {DEPOSIT.key, PAYOUT.key}:
            yield key, object_member(member, key)


def _parse_terms(members: Mapping[str, Any]) -> Terms:
    return Terms(
        # Two names of a limit are in use.
        parse_limit(members, "minAmount", "minTransactionLimit"),
        parse_limit(members, "maxAmount", "maxTransactionLimit"),
        text_member(members, "decimalsInAmount") != "NONE",
        text_member(members, "authType"),
        text_member(members, "callbackUrl"),
        _parse_instructions(members),
    )


def _parse_instructions(members: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the instructions of the first channel that has any, by language, a line for each step;
    none where they are of another form, as a deposit needs none of them.

    The documentation shows this form for the prompt that does not come (`pinPromptInstructions`);
    that a code's are under `authTokenInstructions` is assumed."""
    with suppress(ValueError):
        for channel in objects(object_member(members, "authTokenInstructions"), "channels"):
            texts = object_member(channel, "instructions")
            instructions = {language: _steps(texts, language) for language in texts}
            if any(instructions.values()):
                return tuple((language, text) for language, text in instructions.items() if text)

    return ()


def _steps(texts: Mapping[str, Any], language: str) -> str:
    steps = (text_member(step, "text") or "" for step in objects(texts, language))
    return "\n".join(filter(None, steps))[:WORDS_CHARACTERS_MAX]
