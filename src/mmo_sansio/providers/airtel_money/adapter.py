"""Holds the conversations with Airtel Money. The shell signs in and puts the token on every
request."""

from __future__ import annotations

import base64
from collections.abc import Generator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import define, evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderHinted, UnmatchedNotified
from mmo_sansio.providers.airtel_money import results, wire
from mmo_sansio.providers.airtel_money.account import AirtelAccount, read_account
from mmo_sansio.providers.airtel_money.codes import STALE_KEY_CODES, is_inconclusive_status
from mmo_sansio.providers.airtel_money.wire import parse_response
from mmo_sansio.providers.common.account_check import AccountQuestion, ask_all
from mmo_sansio.providers.common.balances import (
    AccountBalance,
    BalanceInquiry,
    BalanceReport,
    parse_balance,
)
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountCheck,
    AccountFinding,
    CipherError,
    Ciphers,
    Conversation,
    ExchangeFailed,
    ReversalConversation,
    ReversalReports,
    SignIn,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    OperationKey,
    ProviderOperation,
    ReversalOperation,
    operation_key,
)
from mmo_sansio.providers.common.payees import PayeeInquiry
from mmo_sansio.providers.common.wire import JSON_HEADERS, parse_json, parse_token_lifetime
from mmo_sansio.values.clock import (
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    Moment,
    Span,
    elapsed,
    from_datetime,
    later,
)
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.payees import PayeeUnanswered
from mmo_sansio.values.reversals import Reversal

# The time for which a fetched RSA key is used. Its own end has an undocumented time zone.
KEY_LIFETIME = HOUR

# Airtel names no account: this is our word for the wallet that pays out.
WALLET: Final = "disbursement"

# The lifetime of a token whose response has none.
TOKEN_LIFETIME = Span(3 * MINUTE)


def account_operations(account: AirtelAccount) -> Mapping[OperationKey, ProviderOperation]:
    """Return the account's operations. Airtel rejects a repeated id instead of recognising it, and
    only one source says so; so a submission is repeated only when the operator has denied for a
    while that it knows the payment."""
    later_polls = tuple(Span(minutes * MINUTE) for minutes in (1, 2, 5, 15, 60))
    payin = ProviderOperation(
        is_idempotent=False,
        can_be_polled=True,
        # Assumed, as is half an hour for pay-outs: how soon one is found is not published.
        not_found_is_final_after=Span(10 * MINUTE),
        poll_intervals=(account.first_poll_after, *later_polls),
    )
    operations = {DIRECT_PAYIN: payin, WEB_PAYIN: payin}
    # A pay-out mostly ends with its own answer, so that the first poll comes soon.
    if account.pin is not None:
        operations[DIRECT_PAYOUT] = evolve(
            payin,
            not_found_is_final_after=Span(30 * MINUTE),
            poll_intervals=(Span(10 * SECOND), *later_polls),
        )

    return MappingProxyType(operations)


@frozen
class EncryptionKey:
    """Holds the operator's RSA key, and until when it is used."""

    public_key: bytes
    valid_until: Instant
    """By the gateway's own time."""


class EncryptionKeyUnavailable(Exception):
    """Raised when the operator gives no key. That is never a fault of the payment."""


@define(eq=False)
class AirtelMoneyProvider:
    """Holds the conversations of one application, in one country and currency."""

    name: str
    title: str
    account: AirtelAccount
    ciphers: Ciphers
    operations: Mapping[OperationKey, ProviderOperation] = field(init=False)
    # The key that was fetched last; a process that has none fetches it.
    _key: EncryptionKey | None = field(default=None, init=False, repr=False)

    @property
    def base_url(self) -> str:
        return self.account.base_url

    def __attrs_post_init__(self) -> None:
        self.operations = account_operations(self.account)

    def scope_of(self, request: HttpRequest) -> str:
        """Return the one scope, because one token serves all requests."""
        return "all"

    def sign_in(self, scope: str, *, now: Moment | Instant) -> SignIn:
        """Get a token, which is valid for three minutes."""
        now = Moment.at(now)
        answer = yield wire.sign_in_request(self.account)
        if answer.status != 200:
            raise SignInFailed(
                f"Airtel Money answered {answer.status} to a sign-in.", status=answer.status
            )

        try:
            document = parse_json(answer.body)
            value = document.get("access_token")
            life = parse_token_lifetime(document.get("expires_in"), default=TOKEN_LIFETIME)
        except ValueError:
            raise SignInFailed(
                "Airtel Money gave no answer that can be read.", status=answer.status
            ) from None

        # It becomes a header, so that nothing in it may end one.
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise SignInFailed("Airtel Money gave no token that can be read.", status=answer.status)

        return AccessToken(value, issued_at=now.time, expires_at=later(now.time, life))

    def rejects_token(self, response: HttpResponse) -> bool:
        """Tell whether it is a 401; the operator has no code of its own for that."""
        return response.status == 401

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Submit the payment once; a second time only when the cached RSA key turned out to be
        outdated."""
        now = Moment.at(now)
        about = results.AirtelPayment(transaction, self.name, self.account)
        if (unfit := self._unsupported_reason(transaction)) is not None:
            return about.failed(ErrorCode.MERCHANT_MISCONFIGURED, native_message=unfit)

        # Twice at most: the second round has a key that was just fetched.
        while True:
            was_kept = self._cached_key(now) is not None
            try:
                public_key = yield from self._public_key(transaction, now=now)
                request = wire.submission_request(
                    self.account, transaction.order, self.ciphers, public_key
                )
            except wire.ForeignNumberError as fault:
                return about.failed(ErrorCode.USER_NOT_FOUND, native_message=str(fault))
            except (CipherError, EncryptionKeyUnavailable):
                # Nothing was sent: a key that can't be had is no fault of the payment.
                self._key = None
                return about.never_received()

            try:
                answer = parse_response((yield request))
            except ExchangeFailed as failure:
                if failure.may_have_arrived:
                    return about.unknown(f"gave no answer: {failure.reason.rstrip('.')}")
                return about.never_received()

            # The operator has a new key. Only what it has certainly refused for that is sent again.
            if answer.code in STALE_KEY_CODES:
                self._key = None
                if (
                    was_kept
                    and not is_inconclusive_status(answer.status)
                    and answer.success is not True
                ):
                    continue

            return results.submission_report(answer, about)

    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        now = Moment.at(now)
        about = results.AirtelPayment(transaction, self.name, self.account)
        operation = self.operations.get(operation_key(transaction))
        if operation is None:
            return about.unknown("is not configured for this operation")
        try:
            answer = yield wire.status_request(self.account, transaction.order)
        except ExchangeFailed as failure:
            return about.unknown(f"gave no answer: {failure.reason.rstrip('.')}")
        return results.poll_report(parse_response(answer), about, operation, now=now.time)

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """The refunds of pay-ins."""
        return dict.fromkeys((DIRECT_PAYIN, WEB_PAYIN), results.REFUND)

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask for a refund of the payment by its airtel_money_id."""
        now = Moment.at(now)
        about = ReversalReports(reversal, self.name)
        receipt = transaction.progress.provider_reference

        # The gatewayReference stands for an id that Airtel did not name.
        if receipt is None or receipt == transaction.reference:
            return about.failed(
                "Airtel's own id of the payment, by which it is refunded, is not known."
            )

        try:
            public_key = yield from self._public_key(transaction, now=now)
            request = wire.refund_request(self.account, receipt, self.ciphers, public_key)
        except (CipherError, EncryptionKeyUnavailable):
            self._key = None
            return about.never_received()

        try:
            answer = parse_response((yield request))
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        report = results.refund_report(answer, about)
        # The next request has the operator's new key; this one is not repeated by itself.
        if answer.code in STALE_KEY_CODES:
            self._key = None

        return report

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Report that nobody can tell: there is no question about a refund."""
        # A conversation without any request.
        yield from ()
        return ReversalReports(reversal, self.name).cannot_tell()

    def check_account(self, *, now: Moment | Instant) -> AccountCheck:
        """Ask about a payment that does not exist, and for the balance."""
        return ask_all(
            self.name,
            [
                AccountQuestion(
                    results.ACCOUNT_PART,
                    request,
                    partial(results.account_finding, self.name, asks_balance=asks_balance),
                )
                for request, asks_balance in wire.check_requests(self.account)
            ],
        )

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        """Return what the answer to a submission says about the application and its signature."""
        part = wire.submission_part(self.account, request)
        if part is None:
            return None
        return results.submission_finding(self.name, part, parse_response(response))

    def ask_balances(self, *, now: Moment | Instant) -> BalanceInquiry:
        """Ask for the balance of the wallet that pays out; without pay-outs it is no float."""
        now = Moment.at(now)
        # No answer, or one that can't be read, is no balance.
        with suppress(ExchangeFailed, ValueError):
            answer = yield wire.balance_request(self.account)
            data = wire.object_member(parse_json(answer.body, number=str), "data")
            amount = parse_balance(data.get("balance"), data.get("currency"))
            is_float = self.account.pin is not None
            return BalanceReport((AccountBalance(self.name, WALLET, amount, now.time, is_float),))
        return BalanceReport()

    def ask_payee(self, msisdn: str, name: str, *, now: Moment | Instant) -> PayeeInquiry:
        """Make a user enquiry."""
        try:
            request = wire.user_request(self.account, msisdn)
            answer = yield request
        except wire.ForeignNumberError as fault:
            return PayeeUnanswered(self.name, str(fault))
        except ExchangeFailed as failure:
            return PayeeUnanswered(self.name, failure.reason)
        return results.payee_report(self.name, wire.national_number(self.account, msisdn), answer)

    def read_notification(self, request: HttpRequest) -> ProviderHinted | UnmatchedNotified:
        """Return a hint: a callback only causes a poll."""
        return results.read_callback(request, self.account, self.name)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """Return 200: the operator expects it quickly, with any body."""
        if accepted:
            return HttpResponse(200, JSON_HEADERS, b"{}")
        return HttpResponse(503, JSON_HEADERS, b"{}")

    def _unsupported_reason(self, transaction: Transaction) -> str | None:
        order = transaction.order
        account = self.account
        if operation_key(transaction) not in self.operations:
            return "The account doesn't offer this operation."
        if (order.country, order.requested.currency) != (account.country, account.currency):
            return f"The account is for {account.currency} in {account.country}."
        return None

    def _public_key(
        self, transaction: Transaction, *, now: Moment
    ) -> Generator[HttpRequest, HttpResponse, bytes]:
        """Return the operator's key where a request about the payment needs one; empty otherwise.
        Raises EncryptionKeyUnavailable."""
        if not wire.needs_key(self.account, transaction.order):
            return b""
        return self.account.public_key or (yield from self._encryption_key(now=now))

    def _encryption_key(self, *, now: Moment) -> Generator[HttpRequest, HttpResponse, bytes]:
        """Return the operator's key, and fetch it when no valid one is cached. Raises
        EncryptionKeyUnavailable."""
        if (cached := self._cached_key(now)) is not None:
            return cached
        try:
            answer = yield wire.key_request(self.account)
        except ExchangeFailed as failure:
            raise EncryptionKeyUnavailable(failure.reason) from None
        self._key = _parse_key(answer, now=now)
        return self._key.public_key

    def _cached_key(self, now: Moment) -> bytes | None:
        if self._key is None or now.time >= self._key.valid_until:
            return None
        return self._key.public_key


def open_airtel_money(
    name: str, title: str, options: Mapping[str, Any], ciphers: Ciphers
) -> AirtelMoneyProvider:
    """Return the adapter of one account. Raises SettingsError for options that are unknown, missing
    or unusable."""
    return AirtelMoneyProvider(name, title, read_account(options), ciphers)


def _parse_key(response: HttpResponse, *, now: Moment) -> EncryptionKey:
    """Return the key in a response. Raises EncryptionKeyUnavailable."""
    if response.status != 200:
        raise EncryptionKeyUnavailable(f"Airtel Money answered {response.status}.")

    try:
        data = parse_json(response.body)["data"]
        public_key = base64.b64decode(data["key"], validate=True)
        end = _parse_valid_until(data.get("valid_upto"))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise EncryptionKeyUnavailable("It can't be read.") from None

    # Never longer than an hour, as the time zone of `valid_upto` is not documented.
    life = KEY_LIFETIME
    if end is not None:
        life = min(KEY_LIFETIME, elapsed(now.utc, end))

    return EncryptionKey(public_key, later(now.time, life))


def _parse_valid_until(text: object) -> Instant | None:
    """Parse `DD-MM-YYYY HH:mm:ss` as UTC; return None for anything else."""
    try:
        moment = datetime.strptime(str(text), "%d-%m-%Y %H:%M:%S")
    except ValueError:
        return None
    return from_datetime(moment.replace(tzinfo=UTC))
