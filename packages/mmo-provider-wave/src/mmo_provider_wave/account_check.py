"""Judges what Wave's answers say about an account: its key, and what that permits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mmo_provider_wave.codes import ACCOUNT_REFUSALS, PERMISSION_REFUSALS
from mmo_provider_wave.wire import Unclear, parse_document, parse_refusal
from mmo_sansio.providers import AccountFinding, AccountState, HttpResponse, Type, no_answer_finding

BALANCE_PART: Final = "balance"
WEBHOOKS_PART: Final = "webhooks"
CHECKOUTS_PART: Final = "checkouts"
PAYOUTS_PART: Final = "payouts"
REFUNDS_PART: Final = "refunds"

# The payments of each part to which Wave's answer may refuse our account: a key's permissions are
# for kinds of requests.
_HELD: Final[Mapping[str, tuple[Type, ...]]] = {
    CHECKOUTS_PART: (Type.PAYIN,),
    PAYOUTS_PART: (Type.PAYOUT,),
    REFUNDS_PART: (),
}

_PORTAL = "Whoever manages the account looks at the key in Wave's Business Portal"
_WORDS: Final[Mapping[str, str]] = {
    "api-key-revoked": f"The API key was revoked. {_PORTAL}, and sets api_key to a new one.",
    "disabled-wallet": "Wave has disabled the wallet. Whoever manages the account asks Wave why.",
    **dict.fromkeys(
        PERMISSION_REFUSALS,
        f"The key does not permit this kind of request. {_PORTAL}: which APIs it may use.",
    ),
}
_OTHER_WORDS: Final = f"Wave refuses the API key. {_PORTAL}, and compares it with api_key."


def balance_finding(provider: str, response: HttpResponse) -> AccountFinding:
    """Return the finding from the answer to a question for the balance."""
    if (code := _refused_by(response)) is not None:
        words = _WORDS.get(code, _OTHER_WORDS)
        return AccountFinding(provider, BALANCE_PART, AccountState.REFUSED, code, words)

    try:
        parse_document(response)
    except Unclear:
        return no_answer_finding(provider, BALANCE_PART, f"HTTP {response.status}")

    words = "Wave accepts the API key."
    return AccountFinding(provider, BALANCE_PART, AccountState.WORKS, "", words)


def submission_finding(provider: str, part: str, response: HttpResponse) -> AccountFinding | None:
    """Return the finding from the answer to a submission: a refusal holds back what would meet it,
    too: all, or where the key does not permit this kind of request, what is of it."""
    if (code := _refused_by(response)) is not None:
        # A key that is refused for everything holds everything back; a missing permission its part.
        held = _HELD[part]
        is_of_all = code not in PERMISSION_REFUSALS
        if is_of_all:
            held = (Type.PAYIN, Type.PAYOUT)

        return AccountFinding(
            provider,
            part,
            AccountState.REFUSED,
            code,
            _WORDS.get(code, _OTHER_WORDS),
            held=held,
            holds_reversals=is_of_all or part == REFUNDS_PART,
        )

    if response.status != 200:
        return None

    return AccountFinding(provider, part, AccountState.WORKS, "", "Wave takes submissions.")


def _refused_by(response: HttpResponse) -> str | None:
    # Only with Wave's own code: a firewall's 403 names none.
    refusal = None
    if response.status in (401, 403):
        refusal = parse_refusal(response.body)
    if refusal is None or refusal.code not in ACCOUNT_REFUSALS:
        return None
    return refusal.code
