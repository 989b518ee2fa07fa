"""Draws the page of a simulated operator, where a payer approves a deposit."""

from __future__ import annotations

from html import escape
from typing import Final

from mmo_simulators.operators.pawapay.accounts import SimulatedPawapayPayment

# Without a script: it works in any browser, and shows what a payer's page at least is.
_FORM: Final = """<form method="post">
<button name="decision" value="approve">Approve</button>
<button name="decision" value="decline">Decline</button>
</form>"""


def approval_page(payment: SimulatedPawapayPayment, *, is_open: bool) -> bytes:
    """Return the page, with its buttons while the payer may say something."""
    # All that came from outside is escaped: a name may hold markup.
    name = escape(payment.provider.name)
    amount = escape(str(payment.amount))
    form = "<p>There is nothing to approve.</p>"
    if is_open:
        form = _FORM
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name} (simulated)</title>
<h1>{name}</h1>
<p>{amount} from {escape(payment.msisdn)}</p>
{form}
""".encode()
