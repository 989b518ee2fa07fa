"""Defines the interface of providers, whose conversations are generators.

A conversation yields an HttpRequest (absolute-form target), receives the HttpResponse, and returns
a report. Its driver does the waiting; without a usable response it throws an ExchangeFailed into
the conversation, which decides what that means.

`now` has both times of the gateway: what leaves it is dated by `utc`, as is what an operator dates;
`time` judges what is due, and stays apart from wall time where the clock was once wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from attrs import evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalCannotTell,
    ReversalFailed,
    ReversalHinted,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.balances import BalanceReport
from mmo_sansio.providers.common.operations import (
    OperationKey,
    ProviderOperation,
    ReversalOperation,
)
from mmo_sansio.values.clock import SECOND, Instant, Moment, Span, elapsed
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    DepositAnswerOutcome,
    DepositClaim,
    DepositTrust,
    Evidence,
    Party,
    QrCode,
    Source,
    Transaction,
    Type,
)
from mmo_sansio.values.money import Money
from mmo_sansio.values.payer_actions import EnterCode, PayerAction
from mmo_sansio.values.reversals import Reversal

ResultT = TypeVar("ResultT")

Conversation: TypeAlias = Generator[HttpRequest, HttpResponse, ProviderReport]
"""A conversation about one payment."""


class ExchangeFailed(Exception):
    """Raised when a request had no usable response."""

    def __init__(
        self, reason: str, *, may_have_arrived: bool, sign_in_status: int | None = None
    ) -> None:
        super().__init__(reason)

        # What went wrong, in words without secrets.
        self.reason = reason

        # False only when it is certain that no byte of the request left (S6).
        self.may_have_arrived = may_have_arrived

        # The status that came instead of an access token; None: the request itself failed.
        self.sign_in_status = sign_in_status


# How long a commit may be in flight, as a submission may: one that might still be when its payment
# expires could move money for what the merchant was told has failed.
COMMIT_TIMEOUT = Span(30 * SECOND)

# How long before its end a token is renewed, unless a tenth of its lifetime is less: the tokens of
# Airtel Money live for three minutes.
TOKEN_RENEWAL_MARGIN = Span(60 * SECOND)


@frozen
class AccessToken:
    """Holds the token that a provider gave for our credentials."""

    # Whoever has it spends our float: no repr, and so no log, shows it.
    value: str = field(repr=False)
    issued_at: Instant
    expires_at: Instant

    def is_fresh(self, now: Instant) -> bool:
        """Tell whether it may still be used: it is renewed a minute, or a tenth of its lifetime,
        before its end."""
        margin = min(TOKEN_RENEWAL_MARGIN, (self.expires_at - self.issued_at) // 10)
        return now < self.expires_at - margin


class SignInFailed(Exception):
    """Reports that the provider rejected our credentials, or gave no readable token."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)

        # What went wrong, in words without secrets.
        self.reason = reason

        # The status of the provider's response.
        self.status = status


SignIn: TypeAlias = Generator[HttpRequest, HttpResponse, AccessToken]
"""Yields requests with all their headers; raises SignInFailed for a rejection. ExchangeFailed may
pass through it."""


@frozen
class DepositReport:
    """A provider reports an offline deposit in its own terms; the gateway's configuration names its
    owner (S4)."""

    # Our name of the account, not the operator's: two accounts with one operator are two providers.
    provider: str
    provider_reference: str
    """The provider's own transaction id; with the provider, it identifies the deposit."""
    account: str
    """The provider's account that was paid, e.g. a shortcode."""
    bill_reference: str
    """The payer's account or reference; empty when there is none."""
    # What has arrived, which is all that is known: nobody ordered it.
    amount: Money
    party: Party
    trust: DepositTrust = DepositTrust.CONFIRMED
    """Whether it may be booked as it is; an adapter that gives UNCONFIRMED reports is a
    VerifiesDeposits."""


@frozen
class DepositAnswer:
    """A provider reports the state of a deposit, when asked about its receipt."""

    provider: str
    receipt: str
    outcome: DepositAnswerOutcome
    is_ours: bool = False
    """Whether the answer names an account of ours as the one that was paid."""
    amount: Money | None = None
    reason: str = ""
    """The provider's words, for staff."""
    asked_at: Instant | None = None
    """When the question was asked that it answers at an address of that question; None: it came by
    another way."""
    payer: str = ""
    """The telephone number of the account that has paid; empty where it is not told in full."""


@frozen
class DepositValidation:
    """A provider requests whether an offline deposit is acceptable; no money has moved, and nothing
    is recorded."""

    deposit: DepositReport


class AccountState(StrEnum):
    """Lists what may be known of a part of our account."""

    WORKS = "works"
    WARNED = "warned"
    """It works, but a person has to act soon."""
    REFUSED = "refused"
    """The provider does not accept it, and a person has to mend that."""
    UNKNOWN = "unknown"


@frozen
class AccountFinding:
    """Says whether the provider accepts a part of our account."""

    provider: str
    part: str
    """The option that names it, such as `initiator`, or what is done with it."""
    state: AccountState
    code: str
    """The provider's code, or `HTTP 503`; empty when it gave none."""
    words: str
    """What is wrong, and who mends it; never words of the provider."""
    stopped_credential: str = ""
    """A digest of the credential with which nothing automatic may ask any more, as the provider
    would lock it; empty: none."""
    held: Sequence[Type] = ()
    """The types of payments that are not sent for now, as the provider says that it can't process
    them: they wait."""
    holds_reversals: bool = False
    """Whether the same is true of reversals."""

    @property
    def holds_back(self) -> bool:
        """Tell whether anything is not sent for now."""
        return bool(self.held) or self.holds_reversals

    def after(self, known: AccountFinding | None) -> AccountFinding:
        """Return what is known from now on: no answer ends no refusal, and only what works lets
        questions go on."""
        if known is None or self.state is AccountState.WORKS:
            return self

        # Silence is no good news: what was refused before is refused still.
        if self.state is AccountState.UNKNOWN and known.state is AccountState.REFUSED:
            return known

        # One more attempt with a stopped credential may lock it, so only success sets it free.
        return evolve(self, stopped_credential=self.stopped_credential or known.stopped_credential)


# One HTTP request of a provider says one thing. A report decides about a payment or a reversal; a
# hint only makes the gateway ask, as whoever knows the address could have sent it.
ProviderNotification: TypeAlias = (
    ProviderReport
    | ReversalReport
    | ReversalHinted
    | ProviderHinted
    | DepositReport
    | DepositAnswer
    | DepositValidation
    | AccountFinding
    | BalanceReport
    | UnmatchedNotified
)
"""The possible contents of a notification."""


class Provider(Protocol):
    """Represents one configured account with a provider of mobile money."""

    @property
    def name(self) -> str:
        """Return its configured name, which is in reports and in providerData."""

    @property
    def title(self) -> str:
        """Return its display name."""

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        """Return the operations that it offers, and how each behaves: the same as long
        as the account is open."""

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        """Submit the payment. A transaction is submitted once (S6)."""

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        """Poll the provider about a submission: a question, harmless at any time (S6)."""

    def read_notification(self, request: HttpRequest) -> ProviderNotification:
        """Return the meaning of the provider's notification (a webhook); never raises for bad
        input."""

    # Apart from reading, as what is written here depends on whether the store took the content.
    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """Return the response to a notification: `accepted` once its content is durable or, for the
        validation of a deposit, that it is acceptable; never raises for bad input."""


@runtime_checkable
class SignsIn(Protocol):
    """Represents a provider that gives access tokens for credentials. One whose requests have a key
    of the settings from the beginning is none."""

    def scope_of(self, request: HttpRequest) -> str | None:
        """Return the name of the access token that this request needs; None: no token. A provider
        with several products may give a token for each."""

    def sign_in(self, scope: str, *, now: Moment) -> SignIn:
        """Get the token of this scope, one that `scope_of` returned."""

    def rejects_token(self, response: HttpResponse) -> bool:
        """Tell whether this response rejects the token, so that nothing was done: usually a 401."""


@runtime_checkable
class HasBaseUrl(Protocol):
    """Represents a provider that is reached at one address, which tells whether money moves
    there (:attr:`mmo_sansio.providers.registry.ProviderKind.production_hosts`)."""

    @property
    def base_url(self) -> str:
        """Return the address of the operator's API."""


@runtime_checkable
class MayBeSimulated(Protocol):
    """Represents an account that knows whether it is simulated: no money moves by it."""

    @property
    def is_simulated(self) -> bool:
        """Tell whether no money moves by it."""


def is_simulated(account: Provider) -> bool:
    """Tell whether no money moves by this account; one that doesn't know counts as money."""
    return isinstance(account, MayBeSimulated) and account.is_simulated


@runtime_checkable
class AuthenticatesNotifications(Protocol):
    """Represents a provider whose notifications prove their origin, for a short time."""

    # With `now`, as a signature may be old: whoever has seen a notification could send it again.
    def refuse_notification(self, request: HttpRequest, *, now: Moment) -> str | None:
        """Return why a notification is not the provider's own now, in words without secrets; None:
        it may be read. Never raises for bad input."""


DepositConversation: TypeAlias = Generator[HttpRequest, HttpResponse, DepositAnswer | None]
"""A conversation about a claim of a deposit; it ends with None where the answer arrives as a
notification."""


@runtime_checkable
class VerifiesDeposits(Protocol):
    """Represents a provider that can be asked about a deposit by its receipt."""

    def verify_deposit(self, claim: DepositClaim, *, now: Moment) -> DepositConversation:
        """Ask whether the deposit was made, to which account and of which amount."""


# What was received, with what can't be read of it; raises ExchangeFailed, so that no half of a list
# counts as all of it.
DepositListing: TypeAlias = Generator[
    HttpRequest, HttpResponse, Sequence[DepositReport | UnmatchedNotified]
]


@runtime_checkable
class ListsDeposits(Protocol):
    """Represents a provider that can list what was paid to the account, whether or not it has
    notified that."""

    def list_deposits(self, begin: Instant, end: Instant) -> DepositListing:
        """List what was paid between these wall times, confirmed. They lie within the last two
        days."""


@runtime_checkable
class LimitsDecimals(Protocol):
    """Represents a provider that takes amounts with fewer decimals than a currency has."""

    def amount_decimals(self, currency: str) -> int:
        """Return how many decimals an amount in this currency may have."""


AccountCheck: TypeAlias = Generator[HttpRequest, HttpResponse, Sequence[AccountFinding]]
"""A conversation about an account; an answer that arrives as a notification is not among its
findings."""


@runtime_checkable
class ChecksAccount(Protocol):
    """Represents a provider that can be asked whether it accepts our account."""

    def check_account(self, *, now: Moment) -> AccountCheck:
        """Ask harmless questions: they move no money, and no payment depends on their answers."""


@runtime_checkable
class ReportsAvailability(Protocol):
    """Represents a provider that says what it can process now, such as an aggregator of an operator
    behind it."""

    def ask_availability(self, *, now: Moment) -> AccountCheck:
        """Ask harmless questions, every half minute; a finding without `held` ends what one of its
        part has held."""


@runtime_checkable
class JudgesAnswers(Protocol):
    """Represents a provider whose answer to a submission may refuse our account, and not the
    payment."""

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        """Return what the answer says about our account: a refusal, with the types that it holds
        back, or that all of its part works; None: nothing. Never raises for bad input.

        A payment that meets a refusal was never received: it waits with those that are held."""


@runtime_checkable
class CommitsPayments(Protocol):
    """Represents a provider that moves the money of some payments only once it is told that their
    payer has acted: has come back from its page, or has given a code."""

    def commit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        """Tell the provider, with the code where one was asked for, and report what it says.

        It stands in the place of each poll from then on, so it may be repeated at any time: the
        provider moves the money once, and for a repetition tells what became of the first."""


def may_commit(
    provider: Provider, transaction: Transaction, *, now: Moment
) -> TypeGuard[CommitsPayments]:
    """Tell whether the provider is told that the payer of this payment has acted, where it would be
    polled otherwise. What might still be in flight when the payment expires is not told."""
    # 1. The payer has acted. 2. An answer can still arrive in time. 3. The adapter can be told.
    return (
        transaction.progress.awaits_commit
        and elapsed(now.time, transaction.order.expires_at) >= COMMIT_TIMEOUT
        and isinstance(provider, CommitsPayments)
    )


class CredentialStopped(ExchangeFailed):
    """Raised when a question was not sent, because the provider has refused its credential and may
    lock it."""


@runtime_checkable
class NotifiesOnce(Protocol):
    """Represents a provider that may send each notification once, whatever the answer."""

    @property
    def sends_notifications_once(self) -> bool:
        """Tell whether a notification without a 2xx is not sent again: it is kept on disk then
        while the store is away. Any other provider is answered 503, and repeats it."""


@runtime_checkable
class LocksCredentials(Protocol):
    """Represents a provider that locks a credential after wrong attempts, and answers by
    notifications."""

    def credential_of(self, request: HttpRequest) -> str:
        """Return the digest of the credential that this request shows; empty when it shows none."""

    def uses_credential(self, credential: str) -> bool:
        """Tell whether a digest is that of a credential which the account has now."""

    def read_finding(self, request: HttpRequest) -> AccountFinding | None:
        """Return what a notification says about our account; None when it says nothing. Never
        raises."""


ReversalConversation: TypeAlias = Generator[HttpRequest, HttpResponse, ReversalReport]
"""A conversation about one reversal."""


@runtime_checkable
class ReversesPayments(Protocol):
    """Represents a provider that moves the money of a payment back."""

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """Return the operations whose payments it reverses, and how each reversal behaves."""

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> ReversalConversation:
        """Ask for the money of the transaction back. A reversal is sent once (S6); what the
        provider knows it by is made from its id, so that a repetition is the provider's
        duplicate."""

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment
    ) -> ReversalConversation:
        """Ask what became of the reversal; where no question can tell, report that
        (:class:`ReversalCannotTell`)."""


@frozen
class ReversalReports:
    """Makes the reports about one reversal that answers to our own requests give."""

    # Its version dates each report: what answers an older question is judged as such.
    reversal: Reversal
    """As it was when the request or the question was recorded."""
    provider: str

    def accepted(self, provider_reference: str | None = None) -> ReversalAccepted:
        """Report that the provider has the request, and has no result yet."""
        return ReversalAccepted(
            self.reversal.id,
            self.provider,
            Source.POLL,
            provider_reference,
            version=self.reversal.version,
        )

    def succeeded(
        self, provider_reference: str | None = None, amount: Money | None = None
    ) -> ReversalSucceeded:
        """Report that the money was moved back."""
        return ReversalSucceeded(
            self.reversal.id,
            self.provider,
            Source.POLL,
            provider_reference,
            amount,
            version=self.reversal.version,
        )

    def failed(
        self,
        reason: str,
        native_code: str | None = None,
        provider_reference: str | None = None,
        *,
        lacks_float: bool = False,
    ) -> ReversalFailed:
        """Report that the money was not and will not be moved back; an empty code is none."""
        return ReversalFailed(
            self.reversal.id,
            self.provider,
            Source.POLL,
            reason,
            native_code or None,
            provider_reference,
            lacks_float=lacks_float,
            version=self.reversal.version,
        )

    def unreachable(self, reason: str) -> ReversalUnreachable:
        """Report that nothing is known."""
        return ReversalUnreachable(
            self.reversal.id, self.provider, reason, version=self.reversal.version
        )

    def never_received(self) -> ReversalNeverReceived:
        """Report that the request has certainly never arrived."""
        return ReversalNeverReceived(self.reversal.id, self.provider, self.reversal.version)

    def cannot_tell(self) -> ReversalCannotTell:
        """Report that no question can tell the outcome."""
        return ReversalCannotTell(self.reversal.id, self.provider, self.reversal.version)

    def unanswered(self, failure: ExchangeFailed) -> ReversalUnreachable | ReversalNeverReceived:
        """Report what is known of a request that had no usable response."""
        # Asked, it may answer "done": to send it again could move the money twice (S6).
        if failure.may_have_arrived:
            return self.unreachable(failure.reason)
        return self.never_received()


@frozen
class PaymentReports:
    """Makes the reports about one payment that answers to our own requests give."""

    transaction: Transaction
    """As it was when the submission or the poll was recorded."""
    provider: str

    @property
    def version(self) -> int:
        """Return what the reports answer."""
        return self.transaction.progress.version

    def accepted(
        self,
        provider_reference: str | None = None,
        *,
        qr: QrCode | None = None,
        payer_action: PayerAction | None = None,
        poll_after: Span | None = None,
        is_told_when_asked: bool = False,
    ) -> ProviderAccepted:
        """Report that the provider has the payment, and has no result yet. `is_told_when_asked`: it
        notifies of none, so that it is asked on after the payment's expiry."""
        return ProviderAccepted(
            gateway_reference=self.transaction.reference,
            provider=self.provider,
            source=Source.POLL,
            provider_reference=provider_reference,
            poll_after=poll_after,
            qr=qr,
            payer_action=payer_action,
            is_told_when_asked=is_told_when_asked,
            version=self.version,
        )

    def succeeded(
        self,
        provider_reference: str | None = None,
        final: Money | None = None,
        *,
        settles_receipt: bool = False,
        lacks_receipt: bool = False,
    ) -> ProviderSucceeded:
        """Report that the payment was paid; without an amount, as it was requested."""
        return ProviderSucceeded(
            self.transaction.reference,
            self.provider,
            Source.POLL,
            provider_reference,
            final,
            settles_receipt=settles_receipt,
            lacks_receipt=lacks_receipt,
            version=self.version,
        )

    def failed(
        self,
        error_code: ErrorCode,
        native_code: str | None = None,
        native_message: str | None = None,
        provider_reference: str | None = None,
    ) -> ProviderFailed:
        """Report that the payment was not and will not be paid; an empty code or message is
        none."""
        return ProviderFailed(
            self.transaction.reference,
            self.provider,
            Source.POLL,
            error_code,
            provider_reference,
            native_code=native_code or None,
            native_message=native_message or None,
            version=self.version,
        )

    def unreachable(self, reason: str) -> ProviderUnreachable:
        """Report that nothing is known."""
        return ProviderUnreachable(
            self.transaction.reference, self.provider, reason, version=self.version
        )

    def doubtfully_paid(
        self, reason: str, native_code: str, receipt: str | None
    ) -> ProviderUnreachable:
        """Report that the provider's own answer calls the payment paid, and that something else in
        it can't be used: it is asked again, never told as failed, and left to a person if that
        lasts. Without a receipt the gatewayReference stands for it."""
        # The evidence keeps the payment from its expiry as failed: a person looks at it first.
        evidence = Evidence(receipt or self.transaction.reference, native_code)
        return evolve(self.unreachable(reason), evidence=evidence)

    def never_received(self) -> ProviderNeverReceived:
        """Report that the submission has certainly never arrived."""
        return ProviderNeverReceived(self.transaction.reference, self.provider, self.version)

    def needs_code(self, asked: EnterCode) -> ProviderNeverReceived:
        """Report that nothing was sent, as the provider needs a code of the payer first."""
        return evolve(self.never_received(), payer_action=asked)

    def cannot_tell(self) -> ProviderCannotTell:
        """Report that no poll can tell the outcome."""
        return ProviderCannotTell(self.transaction.reference, self.provider, self.version)

    def unanswered(self, failure: ExchangeFailed) -> ProviderReport:
        """Report what is known of a submission that had no usable response."""
        # Unknown is not failed: the payment is asked about, and never sent a second time (S6).
        if failure.may_have_arrived:
            return self.unreachable(failure.reason)
        return self.never_received()


@frozen
class Finished(Generic[ResultT]):
    """Ends a conversation with its result."""

    result: ResultT


def resume(
    conversation: Generator[HttpRequest, HttpResponse, ResultT],
    outcome: HttpResponse | ExchangeFailed | None = None,
) -> HttpRequest | Finished[ResultT]:
    """Pass on the outcome of the last request, or None at the beginning; return the next request or
    the end. Raises what the conversation raises."""
    try:
        match outcome:
            case None:
                # A generator that was just made takes no value (PEP 342).
                return next(conversation)
            case ExchangeFailed():
                # The conversation may catch it, and report what silence means.
                return conversation.throw(outcome)
            case _:
                return conversation.send(outcome)
    except StopIteration as end:
        return Finished(end.value)


def drive(
    conversation: Generator[HttpRequest, HttpResponse, ResultT],
    exchange: Callable[[HttpRequest], HttpResponse],
) -> ResultT:
    """Run a conversation with a function that answers at once, and return its result; for tests."""
    step = resume(conversation)
    while not isinstance(step, Finished):
        try:
            outcome: HttpResponse | ExchangeFailed = exchange(step)
        except ExchangeFailed as failure:
            outcome = failure
        step = resume(conversation, outcome)

    return step.result


# Java's name is all that the operators' documents give, so that it stands beside each.
class RsaPadding(StrEnum):
    """Says how text is padded before RSA (RFC 8017 section 7)."""

    PKCS1V15 = "pkcs1v15"
    """RSAES-PKCS1-v1_5; Java's `RSA/ECB/PKCS1Padding`."""
    OAEP_SHA1 = "oaep-sha1"
    """RSAES-OAEP with SHA-1 for both hashes."""
    OAEP_SHA256 = "oaep-sha256"
    """RSAES-OAEP with SHA-256 for both hashes."""
    OAEP_SHA256_MGF1_SHA1 = "oaep-sha256-mgf1-sha1"
    """RSAES-OAEP with SHA-256 and MGF1 with SHA-1: the default of Java's
    `OAEPWithSHA-256AndMGF1Padding`."""


class CipherError(ValueError):
    """Raised for a key that cannot be read, or that takes less text than this; the message contains
    neither."""


class Ciphers(Protocol):
    """Gives randomness and encryption. A public key is a certificate or a key in PEM, or a DER
    SubjectPublicKeyInfo."""

    def random_bytes(self, count: int) -> bytes:
        """Return so many unpredictable bytes."""

    def rsa_bits(self, public_key: bytes) -> int:
        """Return the length of the key's modulus. Raises CipherError when it is not an RSA key."""

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        """Encrypt the text for the holder of the private key. Raises CipherError for a bad key or
        too long a text."""

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Encrypt with AES in CBC mode and PKCS#7 padding (NIST SP 800-38A; RFC 5652 section 6.3);
        the key's length selects the AES. Raises CipherError unless the key has 16, 24 or 32 bytes
        and the initialization vector 16."""
