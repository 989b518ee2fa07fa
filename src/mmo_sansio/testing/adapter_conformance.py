"""Defines the public suite for providers' adapters: an adapter that passes keeps the promises of
`Provider`.

    check_adapter(AdapterCase(KIND, OPTIONS))                # all of it, or
    @pytest.mark.parametrize("check", ADAPTER_CHECKS)        # one test for each check

The checks know no operator's protocol: they answer with meaningless responses, with broken
connections, and with nothing. The meaning of the operator's own words is for the adapter's own
tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, TypeAlias

from attrs import Factory, evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages import inputs
from mmo_sansio.messages.reversals import ReversalFailed, ReversalSucceeded
from mmo_sansio.providers.common.balances import ReportsBalances
from mmo_sansio.providers.common.interface import (
    AccessToken,
    ChecksAccount,
    CipherError,
    Ciphers,
    Conversation,
    ExchangeFailed,
    Finished,
    Provider,
    ReportsAvailability,
    ReversesPayments,
    RsaPadding,
    SignInFailed,
    SignsIn,
    VerifiesDeposits,
    drive,
    resume,
)
from mmo_sansio.providers.common.operations import PUSH, OperationKey
from mmo_sansio.providers.common.payees import NamesPayees
from mmo_sansio.providers.common.payer_urls import SendsPayersAway, payer_url_error
from mmo_sansio.providers.registry import AdapterContext, ProviderKind
from mmo_sansio.testing.builders import REFERENCE, START, a_party, a_transaction
from mmo_sansio.testing.request_dates import named_days
from mmo_sansio.values.clock import DAY, MINUTE, Instant, Moment, Span, earlier, later
from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import DepositClaim, Evidence, Flow, Page, Stage, Transaction
from mmo_sansio.values.money import to_money
from mmo_sansio.values.payees import (
    NAME_CHARACTERS_MAX,
    PayeeNamed,
    PayeePredicted,
    PayeeUnanswered,
    PayeeUnknown,
)
from mmo_sansio.values.reversals import Reversal, ReversalState

# The name under which the suite opens accounts.
NAME: Final = "conformance"

NOW: Final = Moment.at(START)

# How far wall time is ahead of the gateway's own: far behind, so that a date tells which was used.
AHEAD: Final = Span(-500 * DAY)

# A moment at which the gateway's own time is far ahead of wall time.
APART: Final = Moment(time=earlier(START, AHEAD), utc=START)

# What an adapter is given, and must not tell where it is secret.
HOOKS_URL: Final = "https://gw.example/hooks/conformance/token"
PAGES_URL: Final = "https://pages.example"
PAGE_TOKEN: Final = "token-of-the-page"
# The two ways in which a request may fail: after it may have arrived, or surely before.
LOST: Final = ExchangeFailed("The connection broke.", may_have_arrived=True)
UNSENT: Final = ExchangeFailed("No connection.", may_have_arrived=False)

# Bodies that no operator sends on purpose: empty, in another format, of another shape, nested too
# deeply.
UNREADABLE_BODIES: Final = (
    *(b"", b"<html>Bad gateway</html>", b"null", b"[]", b"{}", b"7", b'"\\u0000"', b"\xff\0"),
    *(b"[" * 100_000, b'{"id":' * 50_000, b'{"status":"x","code":"\\u0000","amount":1e999}'),
)

# Names of accounts as they may be told: with controls of terminals and of the direction of writing,
# with code, and far too long.
HOSTILE_NAMES: Final = (
    *("Jane\nDoe", "\x1b[31mJane", "Jane\u202eeoD", "Jane\x00Doe", "\ud800Jane", "\t \r\n"),
    *("<script>alert(1)</script>", "=HYPERLINK(1)", "x" * 10_240, "Ja**", "\u0300" * 5_000),
)

# Statuses that, with a meaningless body, leave the outcome of a submission open.
AMBIGUOUS_STATUSES: Final = (200, 302, 500, 502, 503, 504)

# What a person may write for an option by mistake.
UNUSABLE_VALUES: Final[tuple[Any, ...]] = (
    [],
    {},
    True,
    -1,
    10**30,
    "",
    "\0",
    "\u00e9\n",
    "x" * 9999,
)

# Whole, with decimals, the least, and some that a market's currency does not have.
AMOUNTS: Final = ("1", "150", "70000", "0.10", "1234.56")
# Numbers in a body, whatever its format.
NUMBER: Final = re.compile(rb"\d+(?:\.\d+)?")
HEADER_NAME: Final = re.compile(rb"[a-z0-9-]+")
TARGET: Final = re.compile(rb"https?://[!-~]+")


@frozen
class TransparentCiphers:
    """Encrypts nothing, and gives bytes that are not random, so that a check can be repeated."""

    def random_bytes(self, count: int) -> bytes:
        """Return zeros."""
        return bytes(count)

    def rsa_bits(self, public_key: bytes) -> int:
        """Return a usual length; raises CipherError for an empty key."""
        if not public_key:
            raise CipherError("there is no key")
        return 2048

    def rsa_encrypt(self, public_key: bytes, plain: bytes, padding: RsaPadding) -> bytes:
        """Return the text in reverse."""
        return plain[::-1]

    def aes_cbc_encrypt(self, key: bytes, iv: bytes, plain: bytes) -> bytes:
        """Return the text in reverse."""
        return plain[::-1]


@frozen
class AdapterCase:
    """Describes an adapter under test, and a payment in its market."""

    kind: ProviderKind
    options: Mapping[str, Any] = field(repr=False)
    """Good options, with every secret among them, each of 6 characters or more."""
    country: str = "KE"
    currency: str = "KES"
    msisdn: str = "+254708374149"
    ciphers: Ciphers = Factory(TransparentCiphers)
    prepare: Callable[[HttpRequest], HttpResponse | None] = lambda _: None
    """The operator's response to a request that prepares a submission, such as one for a key; None
    for any other request."""

    def open_adapter(self, options: Mapping[str, Any] | None = None) -> Provider:
        """Return the adapter. Raises SettingsError."""
        context = AdapterContext(HOOKS_URL, self.ciphers, pages_url=PAGES_URL)
        chosen = self.options if options is None else options
        return self.kind.open_adapter(NAME, self.kind.title, chosen, context)

    def transaction(self, key: OperationKey, amount: str = "150") -> Transaction:
        """Return a payment of this operation that is being submitted, since START."""
        type, flow = key
        return a_transaction(
            Stage.SUBMITTING,
            type=type,
            flow=flow,
            provider=NAME,
            provider_title=self.kind.title,
            country=self.country,
            requested=to_money(Decimal(amount), self.currency),
            party=a_party(msisdn=self.msisdn),
            reconciliation_reference="PRN1234XN",
            display_qr_url="https://shop.example/qr" if flow is Flow.QR else None,
            page=Page(PAGE_TOKEN, later(START, DAY)) if flow is Flow.WEB else None,
            submitted_at=START,
        )


class RecordedOptions(dict[str, Any]):
    """Holds options and remembers which of them were read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.read: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def ambiguous_outcomes() -> Iterator[HttpResponse | ExchangeFailed]:
    """Yield outcomes of a request that may have been carried out."""
    yield LOST
    for status in AMBIGUOUS_STATUSES:
        for body in UNREADABLE_BODIES:
            yield HttpResponse(status, (), body)


def answer_with(
    case: AdapterCase, outcome: HttpResponse | ExchangeFailed, sent: list[HttpRequest] | None = None
) -> Callable[[HttpRequest], HttpResponse]:
    """Return an exchange that answers preparations, and everything else with this outcome."""

    def exchange(request: HttpRequest) -> HttpResponse:
        # A key or a token is given, so that the request itself is reached.
        if (prepared := case.prepare(request)) is not None:
            return prepared
        if sent is not None:
            sent.append(request)
        if isinstance(outcome, ExchangeFailed):
            # A new one each time, as an exception that is raised again keeps its first trace.
            raise ExchangeFailed(outcome.reason, may_have_arrived=outcome.may_have_arrived)
        return outcome

    return exchange


def sent_requests(case: AdapterCase, conversation: Conversation) -> list[HttpRequest]:
    """Return what a conversation sends when every answer but those to preparations is lost."""
    sent: list[HttpRequest] = []
    drive(conversation, answer_with(case, LOST, sent))
    return sent


AdapterCheck: TypeAlias = Callable[[AdapterCase], None]


def check_operations(case: AdapterCase) -> None:
    """Check that the operations are declared, with intervals to poll at."""
    provider = case.open_adapter()
    assert (provider.name, provider.title) == (NAME, case.kind.title)
    assert provider.operations, "it offers no operation"
    for key, operation in provider.operations.items():
        assert all(poll_interval > 0 for poll_interval in operation.poll_intervals), (
            f"{key}: an interval is empty"
        )
        after = operation.not_found_is_final_after
        assert after is None or after >= 0, f"{key}: not_found_is_final_after is negative"


def check_requests(case: AdapterCase) -> None:
    """Check that the same payment makes the same requests, all absolute and without an access
    token."""
    provider = case.open_adapter()
    for transaction in _transactions(case, provider):
        sent = sent_requests(case, provider.submit(transaction, now=NOW))
        # A repetition after a crash must be the same payment to the operator.
        assert sent == sent_requests(case, provider.submit(transaction, now=NOW))
        for request in sent + sent_requests(case, provider.poll(transaction, now=NOW)):
            assert TARGET.fullmatch(request.target), f"{request.target!r} is not absolute"
            assert not _tells(request, PAGE_TOKEN), "it tells the token of the payment's page"
            assert all(HEADER_NAME.fullmatch(name) for name, _ in request.headers)
            # The gateway adds the token, and renews it: an adapter that keeps one cannot.
            if isinstance(provider, SignsIn) and provider.scope_of(request) is not None:
                assert request.value(b"authorization") is None, "a request has its own token"


def check_amounts(case: AdapterCase) -> None:
    """Check that a submission names the amount exactly, or is rejected before anything is sent."""
    provider = case.open_adapter()
    for key in _submitted_operations(provider):
        for amount in AMOUNTS:
            try:
                transaction = case.transaction(key, amount)
            except ValueError:
                continue  # The currency has no such amount.
            sent = [
                request for request in _submission(case, provider, transaction) if _moves(request)
            ]
            named = {
                Decimal(number.decode()) for body in sent for number in NUMBER.findall(body.body)
            }
            # What a currency of the operator cannot express must fail before anything is sent.
            if sent:
                assert Decimal(amount) in named, f"{key}: {amount} is not what was sent"
            else:
                report = drive(provider.submit(transaction, now=NOW), answer_with(case, LOST))
                assert isinstance(report, inputs.ProviderFailed), (
                    f"{key}: {amount} came to {report}"
                )


def check_submission_is_sent_once(case: AdapterCase) -> None:
    """Check that a submission whose outcome is ambiguous is unknown, and isn't sent again (S6)."""
    provider = case.open_adapter()
    for transaction in _transactions(case, provider):
        for outcome in ambiguous_outcomes():
            sent: list[HttpRequest] = []
            exchange = answer_with(case, outcome, sent)
            report = drive(provider.submit(transaction, now=NOW), exchange)
            _check_report(report, inputs.ProviderUnreachable, outcome)
            # A retry within the adapter would pay twice (S6).
            assert sum(map(_moves, sent)) <= 1, f"it was submitted twice after {outcome!r}"


def check_unsent_submission(case: AdapterCase) -> None:
    """Check that a submission of which no byte left was never received (S6)."""
    provider = case.open_adapter()
    for transaction in _transactions(case, provider):
        report = drive(provider.submit(transaction, now=NOW), answer_with(case, UNSENT))
        _check_report(report, inputs.ProviderNeverReceived, UNSENT)


def check_polls(case: AdapterCase) -> None:
    """Check that a poll without a usable answer decides nothing, and never submits: of a payment
    whose submission had no answer, and of one of which the operator has told its own id."""
    provider, now = case.open_adapter(), Moment.at(later(START, MINUTE))
    for transaction in _transactions(case, provider):
        submission = {
            (request.method, request.target) for request in _submission(case, provider, transaction)
        }
        # Asked by our own reference, and by the operator's id.
        for polled in (transaction, _accepted(transaction)):
            for outcome in (UNSENT, *ambiguous_outcomes()):
                sent: list[HttpRequest] = []
                report = drive(provider.poll(polled, now=now), answer_with(case, outcome, sent))
                _check_report(report, _undecided(polled, has_asked=bool(sent)), outcome)
                again = [
                    request for request in sent if (request.method, request.target) in submission
                ]
                assert not any(map(_moves, again)), "a poll submits"


def check_reversals(case: AdapterCase) -> None:
    """Check that a reversal, and a question about one, without a usable answer is not told as done
    or refused (S6). What is refused before anything is sent may fail."""
    provider = case.open_adapter()
    if not isinstance(provider, ReversesPayments):
        return

    for key in provider.reversal_operations:
        paid = _paid(case.transaction(key))
        reversal = _reversal_of(paid)
        for outcome in (UNSENT, *ambiguous_outcomes()):
            for converse in (provider.reverse, provider.poll_reversal):
                sent: list[HttpRequest] = []
                exchange = answer_with(case, outcome, sent)
                report = drive(converse(reversal, paid, now=NOW), exchange)
                # Without a request nothing can have moved, so a refusal is certain.
                is_decided = isinstance(report, ReversalSucceeded | ReversalFailed)
                assert not (sent and is_decided), f"{outcome!r} came to {report}"


def check_payees(case: AdapterCase) -> None:
    """Check that a question about a payee submits nothing, tells nothing of an answer that can't be
    used, and that a name is fit to be shown, whatever the operator writes."""
    provider = case.open_adapter()
    if not isinstance(provider, NamesPayees):
        return

    # To ask about a payee must move no money.
    submissions = {
        (request.method, request.target)
        for transaction in _transactions(case, provider)
        for request in _submission(case, provider, transaction)
        if _moves(request)
    }
    for outcome in (UNSENT, *ambiguous_outcomes()):
        sent: list[HttpRequest] = []
        inquiry = provider.ask_payee(case.msisdn, "Jane Doe", now=NOW)
        report = drive(inquiry, answer_with(case, outcome, sent))
        assert isinstance(report, PayeeUnanswered), f"{outcome!r} came to {report}"
        assert report.provider == NAME
        assert not [request for request in sent if (request.method, request.target) in submissions]
        assert all(TARGET.fullmatch(request.target) for request in sent), "a target is not absolute"

    for text in HOSTILE_NAMES:
        for named in _with_every_member(text):
            answer = HttpResponse(200, (), json.dumps(named).encode())
            inquiry = provider.ask_payee(case.msisdn, "", now=NOW)
            report = drive(inquiry, answer_with(case, answer))
            assert not isinstance(report, PayeeUnknown), f"{text[:40]!r} hides an account"
            shown = ""
            if isinstance(report, PayeeNamed):
                shown = report.name
            if isinstance(report, PayeePredicted):
                shown = report.operator
            assert shown.isprintable(), f"{text[:40]!r} is shown as {shown!r}"
            assert len(shown) <= NAME_CHARACTERS_MAX, "a name is too long to be shown"


def _with_every_member(text: str) -> Iterator[dict[str, Any]]:
    """Yield answers with this name under the members that operators use for one, plain and within
    `data`."""
    names = dict.fromkeys(
        ("name", "given_name", "family_name", "first_name", "last_name", "provider"), text
    )
    yield names
    yield {"data": names, "status": {"success": True, "code": "200"}}


def check_notifications(case: AdapterCase) -> None:
    """Check that a notification without proof of its origin is a hint at most, and that none
    raises."""
    provider = case.open_adapter()
    named = b'{"id":"%s","status":"SUCCESSFUL","amount":"150"}' % REFERENCE.encode()
    # Whatever reaches the hook reaches the adapter: anybody may send it.
    targets = (b"/hooks/conformance/token", b"/hooks/conformance/token/x/y?z", b"/", b"\xff")
    for body in (*UNREADABLE_BODIES, named, b"x" * 1_000_000):
        for target in targets:
            request = HttpRequest("POST", target, ((b"x-signature", b"AAAA"),), body)
            report = provider.read_notification(request)
            assert isinstance(report, inputs.ProviderHinted | inputs.UnmatchedNotified), (
                f"{body[:40]!r}: {report}"
            )
            assert report.provider == NAME
            # PostgreSQL takes no NUL in a text.
            assert "\0" not in (report.content or ""), "no store can hold it"
            for accepted in (True, False):
                status = provider.answer_notification(request, accepted).status
                assert 200 <= status < 600


def check_times(case: AdapterCase) -> None:
    """Check that no request is dated by the gateway's own time, which is apart from wall time."""
    provider, own_day = case.open_adapter(), APART.time // DAY
    named = [
        (request, day)
        for conversation in _conversations_apart(case, provider)
        for request in _requests_of(case, conversation)
        for day in named_days(request)
    ]
    # The day before and after, as a market's dates may be of its own zone.
    wrong = [request for request, day in named if abs(day - own_day) <= 1]
    assert not wrong, f"it is dated by the gateway's own time: {wrong[0]}"


def check_sign_in(case: AdapterCase) -> None:
    """Check that a sign-in without a usable response fails without a secret, and that tokens are
    not rejected early."""
    provider = case.open_adapter()
    if not isinstance(provider, SignsIn):
        return

    assert not provider.rejects_token(HttpResponse(200, (), b"{}"))
    provider.scope_of(HttpRequest("GET", b"https://elsewhere.example/"))
    # An operator that repeats what it was sent must not bring our secrets into a log.
    echo = " ".join(_secrets(case)).encode()
    bodies = (*UNREADABLE_BODIES, echo, b'{"error":"%s"}' % echo)
    for scope in sorted(_scopes(case, provider)):
        for status in (200, 401, 403, 500):
            for body in bodies:
                _check_sign_in_failure(case, provider, scope, HttpResponse(status, (), body))

        try:
            token = _sign_in(provider, scope, LOST)
        except (ExchangeFailed, SignInFailed):
            token = None

        assert token is None, "a lost answer brought a token"


def check_options(case: AdapterCase) -> None:
    """Check that the declared options are those that are read, and that an unusable one is
    named."""
    # What is read and not declared is missing in the pages; what is declared and not read does
    # nothing.
    recorded = RecordedOptions(case.options)
    case.kind.factory(NAME, case.kind.title, recorded, AdapterContext(HOOKS_URL, case.ciphers))
    declared = {option.name for option in case.kind.options}
    assert recorded.read == declared, f"declared, or read: {sorted(recorded.read ^ declared)}"
    # A misspelt option must not be ignored: it may be a limit.
    unknown = _option_error(case, {**case.options, "no_such_option": "x"})
    assert unknown is not None
    assert unknown.location == "no_such_option"
    for key in sorted(declared):
        for options in _spoilt_options(case, key):
            error = _option_error(case, options)
            if error is not None:
                for fault in error.each:
                    assert fault.location in declared, f"{fault.location} is no option"
                    assert fault.fault
                    assert fault.remedy


def check_payer_hosts(case: AdapterCase) -> None:
    """Check that an adapter that sends payers to pages of its operator names hosts, to which they
    are sent by https."""
    provider = case.open_adapter()
    if not isinstance(provider, SendsPayersAway):
        return
    for host in provider.payer_hosts:
        # A host with a star stands for any name below it.
        error = payer_url_error(f"https://{host.replace('*', 'any')}/", provider.payer_hosts)
        assert error is None, f"{host!r} is no host: {error}"


def check_secrets(case: AdapterCase) -> None:
    """Check that no secret is in a repr or in the message of an error (A5)."""
    secrets = _secrets(case)
    assert all(key in case.options for key in case.kind.secrets), "the case leaves out a secret"
    shown = repr(case.open_adapter())
    for key in case.kind.secrets:
        for options in _spoilt_options(case, key):
            error = _option_error(case, options)
            shown += "" if error is None else str(error) + repr(error)
    assert not [secret for secret in secrets if secret in shown], "a secret is shown"


ADAPTER_CHECKS: Final[tuple[AdapterCheck, ...]] = (
    check_operations,
    check_requests,
    check_amounts,
    check_submission_is_sent_once,
    check_unsent_submission,
    check_polls,
    check_reversals,
    check_payees,
    check_notifications,
    check_times,
    check_sign_in,
    check_options,
    check_payer_hosts,
    check_secrets,
)
"""Every check, by itself."""


def check_adapter(case: AdapterCase) -> None:
    """Run every check; raises AssertionError at the first broken promise."""
    for check in ADAPTER_CHECKS:
        check(case)


def _submitted_operations(provider: Provider) -> list[OperationKey]:
    """Return all operations but deposits, which begin with the operator."""
    return [key for key in provider.operations if key != PUSH]


def _tells(request: HttpRequest, secret: str) -> bool:
    """Tell whether a request has this text anywhere."""
    parts = (request.target, request.body, *(value for _, value in request.headers))
    return any(secret.encode() in part for part in parts)


def _transactions(case: AdapterCase, provider: Provider) -> Iterator[Transaction]:
    for key in _submitted_operations(provider):
        yield case.transaction(key)


def _conversations_apart(
    case: AdapterCase, provider: Provider
) -> Iterator[Generator[HttpRequest, HttpResponse, object]]:
    """Yield every conversation that the adapter has, begun while the clocks are apart."""
    for pending in _transactions(case, provider):
        paid = _apart(pending)
        reversal = _reversal_of(paid)
        yield provider.submit(paid, now=APART)
        yield provider.poll(paid, now=APART)
        if isinstance(provider, ReversesPayments):
            yield provider.reverse(reversal, paid, now=APART)
            yield provider.poll_reversal(reversal, paid, now=APART)

    if isinstance(provider, SignsIn):
        for scope in sorted(_scopes(case, provider)):
            yield provider.sign_in(scope, now=APART)

    if isinstance(provider, VerifiesDeposits):
        yield provider.verify_deposit(_claim(case), now=APART)

    if isinstance(provider, ChecksAccount):
        yield provider.check_account(now=APART)

    if isinstance(provider, ReportsAvailability):
        yield provider.ask_availability(now=APART)

    if isinstance(provider, ReportsBalances):
        yield provider.ask_balances(now=APART)

    if isinstance(provider, NamesPayees):
        yield provider.ask_payee(case.msisdn, "", now=APART)


def _requests_of(
    case: AdapterCase, conversation: Generator[HttpRequest, HttpResponse, object]
) -> list[HttpRequest]:
    """Return what a conversation sends when every answer is lost; also what prepares it."""
    sent: list[HttpRequest] = []
    with suppress(ExchangeFailed, SignInFailed):
        drive(conversation, answer_with(evolve(case, prepare=_noted(case, sent)), LOST, sent))
    return sent


def _noted(
    case: AdapterCase, sent: list[HttpRequest]
) -> Callable[[HttpRequest], HttpResponse | None]:
    def prepare(request: HttpRequest) -> HttpResponse | None:
        sent.append(request)
        return case.prepare(request)

    return prepare


def _apart(payment: Transaction) -> Transaction:
    """Return the payment as it was taken while the clocks were apart, and is known to the
    operator."""
    paid = _paid(payment, at=APART.time)
    order = evolve(payment.order, expires_at=later(APART.time, DAY), utc_offset=AHEAD)
    return Transaction(order, evolve(paid.progress, submitted_at=APART.time))


def _accepted(payment: Transaction) -> Transaction:
    """Return the payment as the operator has accepted it, with an id of its own."""
    return evolve(payment, progress=evolve(payment.progress, provider_reference="ID-1"))


def _undecided(payment: Transaction, *, has_asked: bool) -> tuple[type[inputs.ProviderReport], ...]:
    """Return the reports that decide nothing about a payment. What can be paid only at a page that
    no answer has named can be paid by nobody, which an adapter may know without a question."""
    known: tuple[type[inputs.ProviderReport], ...] = (
        inputs.ProviderUnreachable,
        inputs.ProviderCannotTell,
    )
    if payment.progress.provider_reference is not None:
        return (*known, inputs.ProviderAccepted)
    if payment.order.flow is Flow.WEB and not has_asked:
        return (*known, inputs.ProviderNeverReceived)

    return known


def _paid(payment: Transaction, *, at: Instant = START) -> Transaction:
    """Return the payment as the operator knows it, and has called it paid."""
    receipt = Evidence("RECEIPT001", "0", payment.order.requested)
    progress = evolve(
        payment.progress,
        provider_reference="ID-1",
        final=payment.order.requested,
        evidence=evolve(receipt, reported_at=at),
    )
    return evolve(payment, progress=progress)


def _reversal_of(payment: Transaction) -> Reversal:
    order = payment.order
    return Reversal(
        payment=payment.reference,
        number=1,
        brand=order.brand,
        provider=order.provider,
        amount=order.requested,
        reason="Paid twice.",
        asked_by="amina",
        asked_at=APART.utc,
        state=ReversalState.SENT,
        wake_at=None,
        sent_at=APART.time,
        submissions=1,
        provider_reference="ID-2",
    )


def _claim(case: AdapterCase) -> DepositClaim:
    return DepositClaim(
        provider=NAME,
        receipt="RECEIPT001",
        provider_title=case.kind.title,
        gateway_reference=REFERENCE,
        account="",
        bill_reference="",
        amount=to_money(Decimal(150), case.currency),
        party=a_party(msisdn=case.msisdn),
        payment=None,
        brand=None,
        received_at=APART.time,
        expires_at=later(APART.time, DAY),
        wake_at=APART.time,
    )


def _moves(request: HttpRequest) -> bool:
    return request.method != "GET"


def _submission(
    case: AdapterCase, provider: Provider, transaction: Transaction
) -> list[HttpRequest]:
    return sent_requests(case, provider.submit(transaction, now=NOW))


def _check_report(
    report: inputs.ProviderReport,
    expected: type[inputs.ProviderReport] | tuple[type[inputs.ProviderReport], ...],
    outcome: HttpResponse | ExchangeFailed,
) -> None:
    shown = (
        f"{outcome.status} {outcome.body[:40]!r}" if isinstance(outcome, HttpResponse) else outcome
    )
    if isinstance(expected, tuple):
        allowed = expected
    else:
        allowed = (expected,)

    names = " or ".join(kind.__name__ for kind in allowed)
    assert isinstance(report, expected), f"{shown} came to {report}, and not to {names}"
    assert (report.gateway_reference, report.provider) == (REFERENCE, NAME)


def _scopes(case: AdapterCase, provider: Provider) -> set[str]:
    if not isinstance(provider, SignsIn):
        return set()
    found = set()
    for transaction in _transactions(case, provider):
        requests = _submission(case, provider, transaction)
        requests += sent_requests(case, provider.poll(transaction, now=NOW))
        found |= {provider.scope_of(request) for request in requests}
    return {value for value in found if value is not None}


def _sign_in(provider: SignsIn, scope: str, outcome: HttpResponse | ExchangeFailed) -> AccessToken:
    conversation = provider.sign_in(scope, now=NOW)
    step = resume(conversation)
    while not isinstance(step, Finished):
        assert TARGET.fullmatch(step.target)
        step = resume(conversation, outcome)
    return step.result


def _check_sign_in_failure(
    case: AdapterCase, provider: SignsIn, scope: str, response: HttpResponse
) -> None:
    try:
        _sign_in(provider, scope, response)
        shown = None
    except SignInFailed as failure:
        shown = failure.reason
    assert shown is not None, f"{response.status} {response.body[:40]!r} brought a token"
    assert not [secret for secret in _secrets(case) if secret in shown], "a secret is shown"


def _secrets(case: AdapterCase) -> list[str]:
    return [str(case.options[key]) for key in case.kind.secrets if key in case.options]


def _spoilt_options(case: AdapterCase, key: str) -> Iterator[dict[str, Any]]:
    """Yield the good options without this one, and with values that can't be used."""
    yield {name: value for name, value in case.options.items() if name != key}
    value = case.options.get(key, "x")
    for unusable in (*UNUSABLE_VALUES, [value], {"value": value}, f"{value}\0\n"):
        yield {**case.options, key: unusable}


def _option_error(case: AdapterCase, options: Mapping[str, Any]) -> SettingsError | None:
    try:
        case.open_adapter(options)
    except SettingsError as error:
        return error
    return None
