"""Asks, before a pay-roll is paid, whose accounts are behind its numbers, and says beside each name
of the file what the operator tells. Nothing is sent."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator, Sequence
from typing import Final

from mmo_merchant.api.api_errors import ApiRejection, GatewayUnavailable, KeyRejected
from mmo_merchant.api.extension_objects import PayeeObject
from mmo_merchant.payroll.pay_roll import PayLine
from mmo_merchant.payroll.payment_run import PacedClient
from mmo_sansio.values.payees import MASK, plain_name

NOT_OFFERED: Final = (
    "This gateway doesn't tell whose account is behind a number: no name was compared. Its staff "
    "may switch that on."
)
_TOO_OFTEN: Final = 429

# How long to wait after a 429 that names no time.
_WAIT_S: Final = 2.0

# After so many lines in a row without an answer the others are not asked about: each takes the time
# limit of a request.
_UNANSWERED_MAX: Final = 3

# Whatever stands between words; masked letters are part of them.
_NO_WORD: Final = re.compile(rf"[^\w{re.escape(MASK)}]+")


async def compare_names(client: PacedClient, lines: Sequence[PayLine]) -> AsyncIterator[str]:
    """Yield a sentence for each line, and the counts at the end; a gateway that offers none of it
    is told once, and so is a method whose operator tells nothing. Raises KeyRejected, and
    GatewayUnavailable when it has not answered about some lines in a row."""
    # Methods whose operators tell nothing, as the gateway has said once.
    untold = set[str]()

    # One question for each payee, however many lines pay him.
    answers = dict[tuple[str, str, str], str]()
    differing = 0
    compared = 0
    unanswered = 0
    for line in lines:
        payment = line.payment
        believed = believed_name(line)
        if payment.method in untold:
            continue

        question = (payment.method, payment.payee.msisdn, believed)
        try:
            if question not in answers:
                answers[question] = describe(await _ask(client, *question), believed)
        except KeyRejected:
            # So would be every other line.
            raise
        except ApiRejection as error:
            if error.problem.status == 404:
                yield NOT_OFFERED
                return
            if error.problem.cause == "config_unsupported_payment_method":
                untold.add(payment.method)
                yield f"{payment.method}: {error.problem.detail}"
                continue
            yield f"line {line.number}: was not asked about: {error.problem.detail}"
            continue
        except GatewayUnavailable as error:
            unanswered += 1
            if unanswered == _UNANSWERED_MAX:
                raise

            yield f"line {line.number}: no answer came. {error}"
            continue

        unanswered = 0
        compared += 1
        differing += answers[question].startswith(DIFFERS)
        yield f"line {line.number}: {answers[question]}"

    yield f"{compared} lines asked about, {differing} with a difference. Nothing was sent."


async def _ask(client: PacedClient, method: str, msisdn: str, believed: str) -> PayeeObject:
    """Return what is told, however often the gateway asks to wait. Raises ApiRejection or
    GatewayUnavailable."""
    while True:
        try:
            return await client.payee(method, msisdn, name=believed)
        except GatewayUnavailable as error:
            if error.problem is None or error.problem.status != _TOO_OFTEN:
                raise
            await client.pause(error.problem.retry_after_s or _WAIT_S)


def believed_name(line: PayLine) -> str:
    """Return the name that the file has for a payee; empty without one."""
    payee = line.payment.payee
    return plain_name(f"{payee.first_name or ''} {payee.last_name or ''}")


# How a sentence begins that a person has to look at.
DIFFERS: Final = "DIFFERENT:"


def describe(payee: PayeeObject, believed: str) -> str:
    """Return what the operator tells beside what the file has."""
    in_file = "no name in the file"
    if believed:
        in_file = f"{believed} in the file"

    barred = ""
    if payee.is_barred:
        barred = " The account is barred: the pay-out would fail."

    match payee.outcome:
        case "named":
            name = plain_name(payee.name or "")
            sentence = f"{in_file}, {name} at the operator.{barred}"
            # Without a name in the file there is nothing that could differ.
            agrees = not barred and (not believed or names_agree(believed, name))
            if agrees:
                return sentence
            return f"{DIFFERS} {sentence}"
        case "compared" if payee.matches is None:
            return f"{in_file}; the operator can't compare it."
        case "compared":
            is_same = "is" if payee.matches else "is not"
            sentence = f"{in_file}, which {is_same} the account's by the operator's word."
            if payee.matches:
                return sentence
            return f"{DIFFERS} {sentence}"
        case "predicted":
            operator = plain_name(payee.operator or "")
            sentence = f"{in_file}; the number is probably of {operator}."
            if payee.is_served:
                return sentence
            return f"{DIFFERS} {sentence}"
        case "unknown":
            return f"{DIFFERS} {in_file}; the operator has no account behind the number."
        case _:
            # A gateway may have an outcome more than these.
            return f"{in_file}; the operator has told nothing. Ask again later."


def names_agree(one: str, other: str) -> bool:
    """Tell whether two names may be one person's: in any order, of any case, with or without
    accents, and with letters that an operator has masked. One of them may have more parts than the
    other, of which two at least are then the same."""
    shorter, longer = sorted((_words(one), _words(other)), key=len)
    # One name alone agrees with those of too many people.
    if len(shorter) < len(longer) and len(shorter) < 2:
        return False

    # Each part of a name counts once: Juma Juma is not Juma Ali.
    rest = list(longer)
    for word in shorter:
        fitting = next((word_ for word_ in rest if _fits(word, word_)), None)
        if fitting is None:
            return False

        rest.remove(fitting)

    return bool(shorter)


def _words(name: str) -> list[str]:
    # Accents become letters of their own, which are left out.
    plain = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return [word for word in _NO_WORD.split(plain.replace("'", "").replace("\u2019", "")) if word]


def _fits(one: str, other: str) -> bool:
    """Tell whether two words are the same but for masked letters, of which there may be any
    number."""
    # The masked word, if there is one, is the other.
    if MASK in one:
        one, other = other, one
    if MASK not in other:
        return one == other
    # Letters between two masks are not compared, as their places are unknown.
    first, *_, last = other.split(MASK)
    return one.startswith(first) and one.endswith(last)
