"""Asks M-Pesa whether it accepts our account, and reads that from the callbacks that an API
operator causes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.account_check import (
    AccountQuestion,
    SubmissionPart,
    ask_all,
    no_answer_finding,
)
from mmo_sansio.providers.common.interface import AccountCheck, AccountFinding, AccountState
from mmo_sansio.providers.mpesa_daraja import requests
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.callback_url import (
    CallbackContext,
    MpesaCallbackKind,
    parse_callback_url,
)
from mmo_sansio.providers.mpesa_daraja.codes import (
    ACCOUNT_REFUSED_CODES,
    SUCCESS,
    MpesaSubmissionState,
    interpret_error,
    is_code,
    lacks_product,
)
from mmo_sansio.providers.mpesa_daraja.results import parse_result
from mmo_sansio.providers.mpesa_daraja.wire import (
    code_member,
    parse_json,
    text_member,
    to_nairobi_time,
)
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Type

# How long M-Pesa lets a password of an API operator live.
PASSWORD_LIFETIME: Final = timedelta(days=90)
# Time for the administrator of the shortcode, who is often a person of another house.
PASSWORD_WARNED_BEFORE: Final = timedelta(days=14)

# Codes after which a further question may lock the API operator, or keep it locked: a wrong
# password, and one that is locked (documented, Business To Customer).
LOCKING_CODES: Final = frozenset({"2001", "8006"})

# The parts that results tell of, each with a role of its own. Their address is known to more people
# than that of a question, so they raise the alarm and hold back what follows, and stop no question.
RESULT_PARTS: Final[Mapping[MpesaCallbackKind, SubmissionPart]] = MappingProxyType(
    {
        MpesaCallbackKind.RESULT: SubmissionPart("payouts", (Type.PAYOUT,)),
        MpesaCallbackKind.TAX_RESULT: SubmissionPart("taxes", (Type.TAX,)),
        MpesaCallbackKind.REVERSAL_RESULT: SubmissionPart("reversals", holds_reversals=True),
    }
)

# The result code of a request that M-Pesa did not process because of its own load (reported, in the
# lists of other people's programs).
OVERLOADED: Final = "26"

# The part that the question for a balance tells of.
BALANCE: Final = "balance"

# The part that a registration of the addresses for deposits tells of.
C2B: Final = "c2b"

_NO_BALANCE_ROLE: Final = (
    "The API operator lacks the role for Account Balance. The administrator of the shortcode adds "
    "it in M-Pesa's portal; balance_interval_s = 0 ends the question."
)
_STOPPED: Final = " Nothing asks with this password until it changes or a person asks."
_NO_PRODUCT: Final = (
    "The access token is accepted, but the app does not have this product. Whoever manages the app "
    "in Daraja's portal adds it."
)
_PASSKEY_REFUSED: Final = (
    "M-Pesa refuses the passkey. Whoever runs the gateway compares it and the shortcode with the "
    "portal."
)
_TURNED_AWAY: Final = (
    "M-Pesa, or a firewall in front of it, turns this gateway away. Ask Safaricom to let the "
    "address pass from which this gateway sends."
)
_FIELD_REFUSED: Final = (
    "M-Pesa refuses a field that is the same in each request, such as the shortcode, the API "
    "operator or the address for results. Whoever runs the gateway compares the settings with the "
    "portal."
)
_BUSY: Final = "M-Pesa is overloaded and processes nothing for now: what follows waits."
_OTHER: Final = (
    "M-Pesa refuses the shortcode or its API operator. Ask Safaricom's support, and name the code."
)

_REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "21": (
            "The API operator lacks a role. The administrator of the shortcode adds it in M-Pesa's "
            "portal: Transaction Status query ORG API for questions, Org Reversals Initiator for "
            "reversals, and those for pay-outs and taxes."
        ),
        "2001": (
            "The password of the API operator is wrong, or older than 90 days. The administrator "
            "of the shortcode sets another one in M-Pesa's portal; whoever runs the gateway puts "
            "it into the settings."
        ),
        "8006": (
            "The API operator is locked. The administrator of the shortcode unlocks it in M-Pesa's "
            "portal."
        ),
        "SFC_IC0003": (
            "M-Pesa knows no such API operator of this shortcode. Whoever runs the gateway "
            "compares both with M-Pesa's portal."
        ),
        "401.002.01": _NO_PRODUCT,
    }
)


def check_account(provider: str, account: MpesaAccount, *, now: Instant) -> AccountCheck:
    """Ask as each API operator about a receipt, and with the passkey about a prompt, that do not
    exist. What M-Pesa says about an API operator arrives by a callback."""
    # Nothing can come of them: no receipt and no prompt has these ids.
    questions = [
        (operator.part, requests.account_check(account, operator)) for operator in account.operators
    ]
    if account.passkey:
        questions.append(
            ("passkey", requests.push_query(account, requests.IMPOSSIBLE_CHECKOUT, now=now))
        )

    findings = yield from ask_all(
        provider,
        [
            AccountQuestion(part, question, partial(_response_finding, provider, part))
            for part, question in questions
        ],
    )
    return (*findings, *_password_findings(provider, account, now=now))


def read_finding(
    provider: str, account: MpesaAccount, request: HttpRequest
) -> AccountFinding | None:
    """Return what a callback says about the API operator that has caused it; None when it says
    nothing, or when that has another password now."""
    address = parse_callback_url(request.target, account.signing_key)

    # One that was caused with an earlier password says nothing of the one in the settings.
    parts = {operator.credential: operator.part for operator in account.operators}
    if address is None or address.credential not in parts:
        return None

    try:
        code = parse_result(request.body).code
    except ValueError:
        return None

    # The result of a payment speaks of its role; the answer to a question of the person who asks.
    submitted = RESULT_PARTS.get(address.kind)
    is_check = address.kind is MpesaCallbackKind.CHECK_RESULT
    if submitted is None:
        part = parts[address.credential]
    else:
        part = submitted.name

    # Without this role the API operator still pays, so that nothing is held back for it.
    if address.kind is MpesaCallbackKind.BALANCE_RESULT and code not in LOCKING_CODES:
        return _balance_finding(provider, code)

    # 1. Refused: the whole account where the code may lock it, else what this role does.
    if code in ACCOUNT_REFUSED_CODES or (is_check and code in _REFUSALS):
        words = _REFUSALS.get(code, _OTHER)
        if code in LOCKING_CODES:
            refused = AccountFinding(provider, part, AccountState.REFUSED, code, words)
            return _locked_finding(account, address, refused)

        if submitted is not None:
            return submitted.refused(provider, code, words)

        return AccountFinding(provider, part, AccountState.REFUSED, code, words)

    # 2. Overloaded: what follows would fail as well, and is held back.
    if submitted is not None and code == OVERLOADED:
        return evolve(submitted.refused(provider, code, _BUSY), state=AccountState.WARNED)

    # 3. It works, also where a question's receipt is not found: there is none.
    if code == SUCCESS or (submitted is None and code == "2032"):
        return AccountFinding(
            provider, part, AccountState.WORKS, code, "M-Pesa accepts the API operator."
        )

    # 4. Any other code answers no question; of a payment it says something about that only.
    if is_check:
        return no_answer_finding(provider, part, code)

    return None


def _locked_finding(
    account: MpesaAccount, address: CallbackContext, finding: AccountFinding
) -> AccountFinding:
    """Return the finding that M-Pesa refuses the password of an API operator, with all that it
    sends: each further request may lock it. Only the answer to a question stops the questions."""
    if address.kind not in RESULT_PARTS:
        words = finding.words + _STOPPED
        finding = evolve(finding, words=words, stopped_credential=address.credential)

    held: tuple[Type, ...] = ()
    if address.credential == account.initiator.credential:
        held = (Type.PAYOUT, Type.TAX)

    return evolve(
        finding,
        held=held,
        holds_reversals=address.credential == account.reverser.credential,
    )


def registered_finding(provider: str, version: int) -> AccountFinding:
    """Return what a registration of the addresses for deposits shows, by the version of C2B that
    Daraja has accepted."""
    words = f"Daraja has the addresses for deposits, by version {version} of C2B."
    return AccountFinding(provider, C2B, AccountState.WORKS, f"v{version}", words)


# The part of the account that is found to work or not, by the path of a submission.
_SUBMISSION_PARTS: Final[Mapping[bytes, SubmissionPart]] = MappingProxyType(
    {
        b"/mpesa/stkpush/v1/processrequest": SubmissionPart("prompt_submissions", (Type.PAYIN,)),
        b"/mpesa/b2c/v3/paymentrequest": SubmissionPart("payout_submissions", (Type.PAYOUT,)),
        b"/mpesa/b2b/v1/remittax": SubmissionPart("tax_submissions", (Type.TAX,)),
        b"/mpesa/reversal/v1/request": SubmissionPart("reversal_submissions", holds_reversals=True),
    }
)


def submission_finding(
    provider: str, request: HttpRequest, response: HttpResponse
) -> AccountFinding | None:
    """Return what the answer to a submission says about what is the same in each; None: nothing."""
    part = next(
        (part for path, part in _SUBMISSION_PARTS.items() if request.target.endswith(path)), None
    )
    if part is None:
        return None

    try:
        document = parse_json(response.body)
    except ValueError:
        # A firewall answers in HTML: its status has to be enough.
        document = {}

    code = text_member(document, "errorCode")
    message = text_member(document, "errorMessage")
    means = interpret_error(response.status, code, message)
    is_refused = means is MpesaSubmissionState.ACCOUNT_REFUSED or lacks_product(code, message)
    if response.status != 200 and is_refused:
        shown = f"HTTP {response.status}"
        if is_code(code):
            shown = code
        return part.refused(provider, shown, _submission_refusal(code, message))

    is_taken = response.status == 200 and code_member(document, "ResponseCode") == SUCCESS
    if is_taken:
        return part.works(provider)

    return None


def _submission_refusal(code: str, message: str) -> str:
    """Return what an answer means that refuses what is the same in each submission."""
    if lacks_product(code, message):
        return _NO_PRODUCT
    # Of the many meanings of `500.001.1001` only the credentials refuse an account.
    match code:
        case "500.001.1001":
            return _PASSKEY_REFUSED
        case "400.002.02":
            return _FIELD_REFUSED
        case _:
            return _TURNED_AWAY


def _balance_finding(provider: str, code: str) -> AccountFinding:
    """Return what the answer to the question for a balance says: without its role the API operator
    still pays."""
    if code == "21":
        return AccountFinding(provider, BALANCE, AccountState.WARNED, code, _NO_BALANCE_ROLE)
    if code == SUCCESS:
        return AccountFinding(
            provider, BALANCE, AccountState.WORKS, code, "M-Pesa tells the balance."
        )
    return no_answer_finding(provider, BALANCE, code)


def _response_finding(provider: str, part: str, response: HttpResponse) -> AccountFinding | None:
    """Return what the response to a question says; None when M-Pesa will answer by a callback. The
    code for a prompt that does not exist is that for a wrong passkey: only the words differ."""
    # No JSON: a firewall, or the system behind Daraja. Then only the status is known.
    try:
        document = parse_json(response.body)
        code = code_member(document, "ResponseCode") or text_member(document, "errorCode")
        message = text_member(document, "errorMessage").lower()
    except ValueError:
        code = ""
        message = ""

    # For a receipt M-Pesa has taken the question: what it thinks of us comes as a callback.
    if code == SUCCESS and part != "passkey":
        return None

    shown = f"HTTP {response.status}"
    if is_code(code):
        shown = code

    # Whoever is told that this prompt does not exist has been let in.
    if "transaction does not exist" in message:
        return AccountFinding(
            provider, part, AccountState.WORKS, shown, "M-Pesa accepts the passkey."
        )

    words = _REFUSALS.get(code)
    if lacks_product(code, message):
        words = _NO_PRODUCT
    if "wrong credentials" in message or "merchant does not exist" in message:
        words = _PASSKEY_REFUSED

    if words:
        return AccountFinding(provider, part, AccountState.REFUSED, shown, words)

    return no_answer_finding(provider, part, shown)


def _password_findings(
    provider: str, account: MpesaAccount, *, now: Instant
) -> tuple[AccountFinding, ...]:
    if account.password_set_on is None:
        return ()

    ends_on = account.password_set_on + PASSWORD_LIFETIME
    words = f"The password of the API operator ends on {ends_on}."
    state = AccountState.WORKS

    # Its day is one in Nairobi, where the password was set.
    if to_nairobi_time(now).date() >= ends_on - PASSWORD_WARNED_BEFORE:
        state = AccountState.WARNED
        words += (
            " The administrator of the shortcode sets another one in M-Pesa's portal; whoever runs "
            "the gateway puts it and its day into the settings."
        )

    return (AccountFinding(provider, "password_set_on", state, str(ends_on), words),)
