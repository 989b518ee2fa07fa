"""Judges the answers to the questions of an account's check."""

from __future__ import annotations

from attrs import frozen

from mmo_provider_pawapay.account import PawapayAccount
from mmo_provider_pawapay.configuration import (
    ActiveConfiguration,
    parse_active_configuration,
    parse_availability,
    parse_public_keys,
)
from mmo_provider_pawapay.signatures import load_public_keys
from mmo_provider_pawapay.wire import (
    DEPOSIT,
    PAYOUT,
    REFUND,
    Operation,
    is_turned_away,
    operation_of,
    parse_failure,
    parse_json,
)
from mmo_sansio.providers import AccountFinding, AccountState, HttpResponse, Type, no_answer_finding

MARKET_PART = "market"
CALLBACK_KEYS_PART = "callback_keys"
CLOSED = "CLOSED"

_REFUSALS = {
    401: (
        "pawaPay refuses the API token. Whoever manages the account in pawaPay's dashboard "
        "compares it with api_token; the sandbox and production have different ones."
    ),
    403: (
        "pawaPay refuses the API token, or this request with it. Whoever manages the account in "
        "pawaPay's dashboard compares it with api_token and looks at what it permits."
    ),
}

# The statuses of a submission whose signature and token pawaPay has accepted.
_TAKEN_STATUSES = ("ACCEPTED", "REJECTED", "DUPLICATE_IGNORED")

# The code of a request that the API token does not permit: others may be permitted.
NOT_PERMITTED = "AUTHORISATION_ERROR"

# What a refusal of our account means, by its code.
_SUBMISSION_REFUSALS = {
    "NO_AUTHENTICATION": _REFUSALS[401],
    "AUTHENTICATION_ERROR": _REFUSALS[401],
    NOT_PERMITTED: "The API token does not permit this kind of request. Whoever manages the "
    "account in pawaPay's dashboard looks at what it permits.",
    "HTTP_SIGNATURE_ERROR": "pawaPay refuses the signature of submissions. Whoever runs the "
    "gateway compares signing_key and signing_key_id with the public key in pawaPay's dashboard, "
    "and this machine's clock with the time: a signature lasts a minute.",
}

_TURNED_AWAY = (
    "A firewall in front of pawaPay turns this gateway away. Ask pawaPay to let the address pass "
    "from which this gateway sends."
)

# What each status means (documented, docs.pawapay.io, v2).
_STATUSES = {
    "OPERATIONAL": (AccountState.WORKS, "The operator works."),
    "DELAYED": (
        AccountState.WARNED,
        "The operator is disturbed: pay-outs wait with pawaPay until it works, and deposits are "
        "rejected.",
    ),
    CLOSED: (
        AccountState.WARNED,
        "The operator does not work, so nothing is sent: payments wait until it works again.",
    ),
}


def submissions_part(operation: Operation) -> str:
    """Return the part of the account under which submissions of an operation are found to work."""
    return f"{operation.key.lower()}_submissions"


@frozen
class AnswerJudge:
    """Says what answers to questions about one account mean."""

    provider: str
    account: PawapayAccount

    def active_configuration(self, response: HttpResponse) -> AccountFinding:
        """Return the finding from the active configuration."""
        if (refused := self._refused(MARKET_PART, response)) is not None:
            return refused

        try:
            configuration = parse_active_configuration(response.body, self.account.market)
        except ValueError:
            return no_answer_finding(self.provider, MARKET_PART, f"HTTP {response.status}")

        refusal = self._refusal(configuration)
        if refusal is not None:
            return self._market_finding(AccountState.REFUSED, refusal)

        warning = self._warning(configuration)
        if warning is not None:
            return self._market_finding(AccountState.WARNED, warning)

        return self._market_finding(
            AccountState.WORKS, "pawaPay answers questions about this market."
        )

    def availability(self, response: HttpResponse, type: Type) -> AccountFinding:
        """Return the finding from whether the operator works for payments of this type."""
        operation = operation_of(type)
        part = operation.key.lower()
        if (refused := self._refused(part, response)) is not None:
            return refused

        try:
            status = parse_availability(response.body, self.account.market).get(operation.key, "")
            state, words = _STATUSES[status]
        except (ValueError, KeyError):
            return no_answer_finding(self.provider, part, f"HTTP {response.status}")

        # A refund is paid out, so that it waits with the pay-outs.
        is_closed = status == CLOSED
        held: tuple[Type, ...] = ()
        if is_closed:
            held = (type,)

        return AccountFinding(
            self.provider,
            part,
            state,
            status,
            words,
            held=held,
            holds_reversals=is_closed and type is Type.PAYOUT,
        )

    def submission(self, response: HttpResponse, operation: Operation) -> AccountFinding | None:
        """Return the finding from the answer to a submission: whether pawaPay takes our signature
        and our token for it, if a firewall lets it pass. A refusal holds back what would meet it,
        too: all, or where the token does not permit this operation, what is of it."""
        part = submissions_part(operation)

        # 1. A firewall: it lets nothing pass, whatever is submitted.
        if is_turned_away(response):
            return AccountFinding(
                self.provider,
                part,
                AccountState.REFUSED,
                f"HTTP {response.status}",
                _TURNED_AWAY,
                held=(Type.PAYIN, Type.PAYOUT),
                holds_reversals=True,
            )

        try:
            document = parse_json(response.body)
            code = parse_failure(document).code
            status = document.get("status")
        except ValueError:
            return None

        # 2. pawaPay refuses token or signature; a permission is that of one operation only.
        words = _SUBMISSION_REFUSALS.get(code or "")
        if words is not None:
            held = tuple(
                type
                for type in (Type.PAYIN, Type.PAYOUT)
                if code != NOT_PERMITTED or operation_of(type) is operation
            )
            return AccountFinding(
                self.provider,
                part,
                AccountState.REFUSED,
                code or "",
                words,
                held=held,
                holds_reversals=code != NOT_PERMITTED or operation is REFUND,
            )

        # 3. Taken, or rejected for a reason of its own: either way we were let in.
        if response.status != 200 or status not in _TAKEN_STATUSES:
            return None

        works = "pawaPay takes submissions."
        return AccountFinding(self.provider, part, AccountState.WORKS, "", works)

    def public_keys(self, response: HttpResponse) -> AccountFinding:
        """Return the finding from pawaPay's public keys, of which the settings must have one."""
        try:
            published = load_public_keys(parse_public_keys(response.body))
        except ValueError:
            return no_answer_finding(self.provider, CALLBACK_KEYS_PART, f"HTTP {response.status}")

        # By their numbers, as one key has several texts; and all, as pawaPay may sign with any.
        numbers = [callback_key.public_numbers() for callback_key in self.account.callback_keys]
        if all(key.public_numbers() in numbers for key in published):
            words = "The settings have all of pawaPay's keys."
            return AccountFinding(self.provider, CALLBACK_KEYS_PART, AccountState.WORKS, "", words)

        words = (
            "pawaPay has a key that callback_keys has not, so callbacks signed with it are "
            "refused. Whoever runs the gateway adds the keys of GET /v2/public-key/http."
        )
        return AccountFinding(self.provider, CALLBACK_KEYS_PART, AccountState.REFUSED, "", words)

    def _market_finding(self, state: AccountState, words: str) -> AccountFinding:
        market = self.account.market
        return AccountFinding(self.provider, MARKET_PART, state, market, words)

    def _refused(self, part: str, response: HttpResponse) -> AccountFinding | None:
        words = _REFUSALS.get(response.status)
        if words is None:
            return None

        try:
            code = parse_failure(parse_json(response.body)).code or ""
        except ValueError:
            code = ""

        shown = f"HTTP {response.status}"
        if code.replace("_", "").isalnum() and code.isascii():
            shown = code

        return AccountFinding(self.provider, part, AccountState.REFUSED, shown, words)

    def _refusal(self, configuration: ActiveConfiguration) -> str | None:
        """Return why nothing works with this configuration, the worst first; None: it does."""
        if not configuration.terms:
            return (
                "The account does not have this market. Whoever manages it asks pawaPay for the "
                "market, or corrects `market`."
            )

        if configuration.signed_requests_only and self.account.signing_key is None:
            return "pawaPay takes signed requests only. Set signing_key and signing_key_id."

        if self.account.callback_keys and not configuration.signed_callbacks:
            return (
                "pawaPay does not sign its callbacks, so all are refused. Whoever manages the "
                "account enables signed callbacks in pawaPay's dashboard, or callback_keys goes "
                "from the settings."
            )

        return None

    def _warning(self, configuration: ActiveConfiguration) -> str | None:
        """Return what works worse than it could with this configuration; None: nothing."""
        deposits = [
            terms
            for (operation, _), terms in configuration.terms.items()
            if operation == DEPOSIT.key
        ]
        others = {deposit.authorisation for deposit in deposits} - {None, self.account.auth_type}
        if others:
            return (
                f"Payers of this market approve by {', '.join(sorted(filter(None, others)))}, so "
                "deposits fail. Whoever runs the gateway corrects auth_type. Pay-outs work."
            )

        # Unverified callbacks cause the same questions, and so can anybody's.
        if configuration.signed_callbacks and not self.account.callback_keys:
            return "pawaPay signs its callbacks. Set callback_keys, so that they are verified."

        used = [
            terms
            for (operation, _), terms in configuration.terms.items()
            if operation in (DEPOSIT.key, PAYOUT.key)
        ]
        if any(terms.callback_url is None for terms in used):
            return (
                "pawaPay has no address for callbacks, so results come from polls. Whoever manages "
                "the account enters that of `mmo providers address` in pawaPay's dashboard."
            )

        return None
