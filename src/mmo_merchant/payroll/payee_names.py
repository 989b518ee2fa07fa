"""Asks, before a pay-roll is paid, whose accounts are behind its numbers, and says beside each name
of the file what the operator tells. Nothing is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from attrs import frozen

from mmo_merchant.api.api_errors import ApiRejection, GatewayUnavailable, KeyRejected
from mmo_merchant.api.extension_objects import PayeeObject
from mmo_merchant.payroll.name_match import names_agree
from mmo_merchant.payroll.pay_roll import PayLine
from mmo_merchant.payroll.payment_run import PacedClient
from mmo_sansio.values.payees import plain_name

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


@frozen
class PayeeFinding:
    """Says what the operator tells of a payee beside what the file has."""

    text: str
    needs_look: bool = False
    """Whether a person has to look at it before the payee is paid."""

    @property
    def sentence(self) -> str:
        if self.needs_look:
            return f"DIFFERENT: {self.text}"
        return self.text


async def compare_names(client: PacedClient, lines: Sequence[PayLine]) -> AsyncIterator[str]:
    """Yield a sentence for each line, and the counts at the end; a gateway that offers none of it
    is told once, and so is a method whose operator tells nothing. Raises KeyRejected, and
    GatewayUnavailable when it has not answered about some lines in a row."""
    # Methods whose operators tell nothing, as the gateway has said once.
    untold = set[str]()

    # One question for each payee, however many lines pay him.
    findings = dict[tuple[str, str, str], PayeeFinding]()
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
            if question not in findings:
                findings[question] = describe(await _ask(client, *question), believed)
        except KeyRejected:
            # It is a kind of ApiRejection, and would come again for every other line.
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
        differing += findings[question].needs_look
        yield f"line {line.number}: {findings[question].sentence}"

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


def describe(payee: PayeeObject, believed: str) -> PayeeFinding:
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
            # Without a name in the file there is nothing that could differ.
            agrees = not believed or names_agree(believed, name)
            return PayeeFinding(
                f"{in_file}, {name} at the operator.{barred}",
                needs_look=payee.is_barred or not agrees,
            )
        case "compared" if payee.matches is None:
            return PayeeFinding(f"{in_file}; the operator can't compare it.")
        case "compared":
            verb = "is" if payee.matches else "is not"
            return PayeeFinding(
                f"{in_file}, which {verb} the account's by the operator's word.",
                needs_look=not payee.matches,
            )
        case "predicted":
            operator = plain_name(payee.operator or "")
            return PayeeFinding(
                f"{in_file}; the number is probably of {operator}.",
                needs_look=not payee.is_served,
            )
        case "unknown":
            return PayeeFinding(
                f"{in_file}; the operator has no account behind the number.", needs_look=True
            )
        case _:
            # A gateway may have an outcome more than these.
            return PayeeFinding(f"{in_file}; the operator has told nothing. Ask again later.")
