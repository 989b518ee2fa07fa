"""The page shows whose account is behind the number to which a payment's money goes, before it goes
there.

The operator is asked when a person presses the button, who may see personal data; the audit log
says so, and has neither the number nor what was told. A reload of the page asks again."""

from __future__ import annotations

from quart import Blueprint, render_template
from werkzeug.exceptions import BadRequest

from mmo_sansio.values.payees import (
    PayeeCompared,
    PayeeNamed,
    PayeePredicted,
    PayeeReport,
    PayeeUnanswered,
    PayeeUnknown,
)
from mmo_trio.admin.explanation import load_payment_history
from mmo_trio.admin.reversals import money_left
from mmo_trio.console.context import console
from mmo_trio.console.payments import find_payment, may_ask_payee
from mmo_trio.console.permissions import Permission
from mmo_trio.console.sessions import record_action, require

# The action of the audit log.
PAYEE_ASKED = "payee_asked"

pages = Blueprint("payees", __name__)


@pages.post("/payments/<reference>/payee")
async def ask(reference: str) -> str:
    """Ask the operator, and show what it tells beside what the merchant has written."""
    payment = await find_payment(reference)
    await require(Permission.SEE_PERSONAL_DATA)
    history = await load_payment_history(console().store, payment)
    left = money_left(payment, history.suspense, history.reversals)
    payees = console().payees
    if payees is None or not may_ask_payee(payment, left, history.reversals):
        raise BadRequest("No operator is asked whose account this is.")

    order = payment.order
    await record_action(PAYEE_ASKED, f"payment:{payment.reference}", provider=order.provider)
    written = " ".join(filter(None, (order.party.first_name, order.party.last_name)))
    report = await payees.ask(order.provider, order.party.msisdn, written)
    sentence, is_doubtful = describe(report)
    return await render_template(
        "payee.html",
        payment=payment,
        order=order,
        written=written,
        told=report.name if isinstance(report, PayeeNamed) else "",
        sentence=sentence,
        is_doubtful=is_doubtful,
    )


def describe(report: PayeeReport) -> tuple[str, bool]:
    """Return what the operator's answer says, and whether a person should look twice."""
    match report:
        case PayeeNamed(is_barred=True):
            return "The operator says that the account is barred: it can't receive money.", True
        case PayeeNamed(is_masked=True):
            return "The operator has put * for letters of the name.", False
        case PayeeNamed():
            return "The operator's own text, which is no promise.", False
        case PayeeCompared(matches=True):
            return "The operator says that this name is the account's.", False
        case PayeeCompared(matches=False):
            return "The operator says that this name is not the account's.", True
        case PayeeCompared():
            return "The operator only compares names, and can't tell.", False
        case PayeePredicted(operator=operator, is_served=True):
            return f"By its digits the number is probably of {operator}; no name is told.", False
        case PayeePredicted(operator=operator):
            return f"By its digits the number is probably of another operator: {operator}.", True
        case PayeeUnknown():
            return "The operator has no account behind the number.", True
        case PayeeUnanswered():
            return f"Nothing is known: {report.reason}", False
