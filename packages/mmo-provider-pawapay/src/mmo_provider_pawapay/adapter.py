"""Holds the conversations with pawaPay: submissions, polls, callbacks, and the check of an account.

A submission is known by an id that is made of the gatewayReference, so that a repetition is
pawaPay's own duplicate: `DUPLICATE_IGNORED` says that pawaPay has the payment and not how it ends,
so it is polled like an accepted one. What was sent fails by pawaPay's own statement only: a
request REJECTED with a code, or a payment FAILED, which is final. What the market would not take
fails before it is sent.

How the payers of a market approve deposits is its `auth_type`: on their phones (PROVIDER_AUTH), at
a page whose address comes with a later answer (REDIRECT_AUTH), or by a code that they get first and
that is sent with the deposit (PREAUTH). Pay-outs are the same in all."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

from attrs import define, field

from mmo_provider_pawapay import refunds
from mmo_provider_pawapay.account import PawapayAccount, authority_of, read_account
from mmo_provider_pawapay.account_check import CALLBACK_KEYS_PART, MARKET_PART, AnswerJudge
from mmo_provider_pawapay.codes import FAILURES, find_failure
from mmo_provider_pawapay.configuration import (
    PREAUTH,
    PROVIDER_AUTH,
    REDIRECT_AUTH,
    ActiveConfiguration,
    Terms,
    parse_active_configuration,
)
from mmo_provider_pawapay.signatures import (
    SignatureFault,
    check_age,
    signed_headers,
    verify_signature,
)
from mmo_provider_pawapay.wire import (
    DEPOSIT,
    PAYOUT,
    PENDING_STATUSES,
    RECEIPT_CHARACTERS_MAX,
    REFUND,
    FailureReason,
    Initiation,
    Operation,
    gateway_reference,
    operation_id,
    operation_of,
    parse_amount,
    parse_failure,
    parse_initiation,
    parse_json,
    parse_wallets,
    submission_body,
)
from mmo_sansio import (
    HOUR,
    MINUTE,
    SECOND,
    ErrorCode,
    Instant,
    Moment,
    ProviderFailed,
    ProviderSucceeded,
    Source,
    Transaction,
)
from mmo_sansio.providers import (
    DIRECT_PAYIN,
    DIRECT_PAYOUT,
    WEB_PAYIN,
    AccountBalance,
    AccountCheck,
    AccountFinding,
    AccountQuestion,
    AdapterContext,
    BalanceInquiry,
    BalanceReport,
    Conversation,
    EnterCode,
    ExchangeFailed,
    Headers,
    HttpRequest,
    HttpResponse,
    OpenUrl,
    OperationKey,
    PayeeInquiry,
    PayeePredicted,
    PayeeReport,
    PayeeUnanswered,
    PayeeUnknown,
    PaymentReports,
    ProviderHinted,
    ProviderNotification,
    ProviderOperation,
    ProviderReport,
    Reversal,
    ReversalConversation,
    ReversalHinted,
    ReversalOperation,
    ReversalReports,
    Span,
    Stage,
    Type,
    UnmatchedNotified,
    ask_all,
    object_member,
    operation_key,
    plain_name,
    return_url,
    stored_text,
    text_member,
    to_json,
)

PREDICTION: Final = "/v2/predict-provider"

# The status of a payment that was paid.
COMPLETED: Final = "COMPLETED"

# The polls are frequent while the payer may approve; then rare: a pay-out may wait for hours at
# pawaPay.
POLL_INTERVALS: Final[Sequence[Span]] = (
    Span(10 * SECOND),
    Span(10 * SECOND),
    Span(20 * SECOND),
    *(Span(30 * SECOND) for _ in range(11)),
    Span(5 * MINUTE),
    Span(15 * MINUTE),
    HOUR,
)

# That what is not found was not accepted pawaPay's guide says; how soon that is certain is assumed.
NOT_FOUND_IS_FINAL_AFTER: Final[Span] = Span(15 * MINUTE)

# For how long the active configuration is used; pawaPay asks for some minutes.
CONFIGURATION_LIFETIME: Final[Span] = Span(10 * MINUTE)

_OPERATION = ProviderOperation(
    is_idempotent=True,
    can_be_polled=True,
    not_found_is_final_after=NOT_FOUND_IS_FINAL_AFTER,
    poll_intervals=POLL_INTERVALS,
)

# A web pay-in is a direct one that began on the gateway's own page.
OPERATIONS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType(
    dict.fromkeys((DIRECT_PAYIN, WEB_PAYIN, DIRECT_PAYOUT), _OPERATION)
)

# Those of a market whose payers approve at a page or with a code: a direct pay-in has no page.
ELSEWHERE_OPERATIONS: Final[Mapping[OperationKey, ProviderOperation]] = MappingProxyType(
    dict.fromkeys((WEB_PAYIN, DIRECT_PAYOUT), _OPERATION)
)

# How long to wait before pawaPay is asked for the page: a payer waits for it.
PAGE_AWAITED_FOR: Final = Span(2 * SECOND)

# How often it is asked at that interval.
PAGE_POLLS: Final = 15


@define(eq=False)
class PawapayProvider:
    """Holds the conversations of one account with pawaPay."""

    name: str
    title: str
    account: PawapayAccount
    _configuration: ActiveConfiguration | None = field(default=None, init=False, repr=False)
    """The active configuration as it was last read; None: it was not, and pawaPay itself rejects
    what it does not take."""
    # When it was asked for last, also where nothing came that could be read.
    _asked_at: Instant | None = field(default=None, init=False, repr=False)

    @property
    def operations(self) -> Mapping[OperationKey, ProviderOperation]:
        """The operations: pay-ins are deposits."""
        if self.account.auth_type == PROVIDER_AUTH:
            return OPERATIONS
        return ELSEWHERE_OPERATIONS

    @property
    def payer_hosts(self) -> Sequence[str]:
        """The hosts of the pages at which payers approve."""
        return self.account.payer_hosts

    def submit(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        """Request a deposit by the payer, or a pay-out. An amount that the market does not take is
        not sent."""
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        order = transaction.order
        if operation_key(transaction) not in self.operations:
            return about.failed(ErrorCode.MERCHANT_MISCONFIGURED)

        # 1. What the market would reject is not sent. Unknown terms reject nothing: pawaPay will.
        yield from self._ask_configuration(now.time)
        operation = operation_of(order.type)
        terms: Terms | None = None
        if self._configuration is not None:
            terms = self._configuration.terms.get((operation.key, order.requested.currency))

        refusal = None
        if terms is not None:
            refusal = terms.refusal(order.requested)

        if refusal is not None:
            return about.failed(ErrorCode.AMOUNT_OUT_OF_RANGE, native_message=refusal)
        if operation is DEPOSIT and (fault := self._authorisation_fault(terms)) is not None:
            return about.failed(ErrorCode.MERCHANT_MISCONFIGURED, native_message=fault)

        # 2. A deposit that needs a code waits for the payer, who sees the operator's instructions.
        if self._lacks_code(transaction):
            instructions: tuple[tuple[str, str], ...] = ()
            if terms is not None:
                instructions = terms.code_instructions
            return about.needs_code(EnterCode(instructions))

        # 3. Everything else is sent.
        sends_away = operation is DEPOSIT and self.account.auth_type == REDIRECT_AUTH
        returns_to = None
        if sends_away:
            returns_to = return_url(self.account.pages_url, order)

        body = submission_body(
            order,
            self.account.market,
            self.account.customer_message,
            code=_given_code(transaction),
            returns_to=returns_to,
        )
        try:
            answer = yield self._submission(operation, body, now=now.utc)
        except ExchangeFailed as failure:
            return about.unanswered(failure)

        return _submission_report(about, answer, is_elsewhere=sends_away)

    def poll(self, transaction: Transaction, *, now: Moment | Instant) -> Conversation:
        now = Moment.at(now)
        about = PaymentReports(transaction, self.name)
        operation = operation_of(transaction.order.type)
        path = f"{operation.path}/{operation_id(transaction.reference)}"
        try:
            answer = yield self._question(path)
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)

        if answer.status != 200:
            return about.unreachable(f"A question was answered {answer.status}.")

        try:
            document = parse_json(answer.body)
            if text_member(document, "status") == "NOT_FOUND":
                # A deposit of this market without a code is rejected, so none moves money.
                is_unknown = transaction.progress.stage is Stage.SUBMITTING
                if is_unknown and self._lacks_code(transaction):
                    return about.never_received()
                return _not_found(about, now=now.time)

            if text_member(document, "status") != "FOUND":
                raise ValueError("its status is none that is known")

            data = object_member(document, "data")
        except ValueError as error:
            return about.unreachable(f"An answer can't be read: {error}.")

        try:
            return self._payment_report(about, data)
        except ValueError as error:
            # Whatever else can't be used: what is called paid is never told as failed.
            if data.get("status") != COMPLETED:
                return about.unreachable(f"An answer can't be read: {error}.")

            receipt = data.get("providerTransactionId")
            if isinstance(receipt, str):
                receipt = receipt[:RECEIPT_CHARACTERS_MAX]
            else:
                receipt = None

            reason = f"An answer calls it paid, but {error}."
            return about.doubtfully_paid(reason, COMPLETED, receipt)

    def check_account(self, *, now: Moment | Instant) -> AccountCheck:
        """Ask for the active configuration, whether the operator works, and for pawaPay's keys."""
        judge = AnswerJudge(self.name, self.account)
        questions = [
            AccountQuestion(MARKET_PART, self._configuration_question(), judge.active_configuration)
        ]
        questions += self._availability_questions()
        if self.account.callback_keys:
            request = self._question("/v2/public-key/http")
            questions.append(AccountQuestion(CALLBACK_KEYS_PART, request, judge.public_keys))
        return ask_all(self.name, questions)

    def judge_answer(self, request: HttpRequest, response: HttpResponse) -> AccountFinding | None:
        """Return what the answer to a submission says about signature and token."""
        if request.method != "POST":
            return None
        for operation in (DEPOSIT, PAYOUT, REFUND):
            if request.target.endswith(operation.path.encode()):
                return AnswerJudge(self.name, self.account).submission(response, operation)
        return None

    def ask_availability(self, *, now: Moment | Instant) -> AccountCheck:
        """Ask whether the operator works: for deposits and for pay-outs."""
        return ask_all(self.name, self._availability_questions())

    def ask_balances(self, *, now: Moment | Instant) -> BalanceInquiry:
        """Ask for the wallets of the country: pay-ins fill the one from which pay-outs are paid."""
        now = Moment.at(now)
        try:
            answer = yield self._question(f"/v2/wallet-balances?country={self.account.country}")
            wallets = parse_wallets(answer.body, self.account.market)
        except (ExchangeFailed, ValueError):
            return BalanceReport()

        return BalanceReport(
            tuple(
                AccountBalance(self.name, wallet, amount, now.time, is_float=True)
                for wallet, amount in wallets.items()
            )
        )

    def ask_payee(self, msisdn: str, name: str, *, now: Moment | Instant) -> PayeeInquiry:
        """Ask of which operator the number probably is: pawaPay tells no names."""
        body = to_json({"phoneNumber": msisdn.removeprefix("+")})
        headers = (*self._token, (b"content-type", b"application/json"))
        try:
            answer = yield HttpRequest("POST", self._target(PREDICTION), headers, body)
        except ExchangeFailed as failure:
            return PayeeUnanswered(self.name, failure.reason)
        return _prediction(self.name, self.account.market, msisdn, answer)

    @property
    def reversal_operations(self) -> Mapping[OperationKey, ReversalOperation]:
        """The refunds of deposits."""
        return refunds.OPERATIONS

    def reverse(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        """Ask for the refund of a deposit, or of a part of it."""
        now = Moment.at(now)
        about = ReversalReports(reversal, self.name)
        body = refunds.submission_body(reversal)
        try:
            answer = yield self._submission(REFUND, body, now=now.utc)
        except ExchangeFailed as failure:
            return about.unanswered(failure)
        return refunds.submission_report(about, answer)

    def poll_reversal(
        self, reversal: Reversal, transaction: Transaction, *, now: Moment | Instant
    ) -> ReversalConversation:
        now = Moment.at(now)
        about = ReversalReports(reversal, self.name)
        try:
            answer = yield self._question(f"{REFUND.path}/{refunds.refund_id(reversal.id)}")
        except ExchangeFailed as failure:
            return about.unreachable(failure.reason)
        return refunds.poll_report(about, answer, now=now.time)

    def refuse_notification(self, request: HttpRequest, *, now: Moment | Instant) -> str | None:
        """Return why a callback is not pawaPay's own: it is not signed, wrongly, long ago, or for
        another address.

        Without `callback_keys` nothing is refused, and nothing is believed either.
        """
        now = Moment.at(now)
        if not self.account.callback_keys:
            return None

        # A callback that somebody has seen could be sent again: an old one is nobody's.
        try:
            check_age(
                verify_signature(request, self.account.callback_keys, self._authorities(request)),
                now=now.utc,
            )
        except SignatureFault as fault:
            return str(fault)

        return None

    def read_notification(self, request: HttpRequest) -> ProviderNotification:
        """Read a callback, which causes a question, also where it is signed.

        A signature proves that pawaPay has sent it, and not for whom: pawaPay signs every
        merchant's callbacks with the same keys, and each merchant chooses ids and address. Who
        knows ours could pay themselves under the id of our payment. The question is about our own
        account, so its answer counts.
        """
        content = stored_text(request.body)
        try:
            document = parse_json(request.body)
            subject = _subject_of(document)
        except ValueError:
            return UnmatchedNotified(self.name, content)

        if subject is None:
            return UnmatchedNotified(self.name, content)

        operation, reference, market = subject
        name = self.account.callbacks_of.get(market or "", self.name)

        # Its age was judged when it came: it may be read from the disk, hours later.
        if self.account.callback_keys:
            try:
                verify_signature(request, self.account.callback_keys, self._authorities(request))
            except SignatureFault:
                return UnmatchedNotified(self.name, content)

        if operation is REFUND:
            return ReversalHinted(reference, name)

        says_paid = document.get("status") == COMPLETED
        return ProviderHinted(reference, name, content, says_paid=says_paid)

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        """Return the response; pawaPay repeats a callback without a 200 for 15 minutes."""
        if accepted:
            return HttpResponse(200)
        return HttpResponse(503)

    def _payment_report(self, about: PaymentReports, document: Mapping[str, Any]) -> ProviderReport:
        """Return the report from the payment in an answer. Raises ValueError for an invalid
        payment."""
        transaction = about.transaction
        operation = operation_of(transaction.order.type)
        if text_member(document, operation.id) != operation_id(transaction.reference):
            raise ValueError("it is about another payment")

        result = _result(transaction.reference, self.name, document, operation=operation)
        if result is None and text_member(document, "status") not in PENDING_STATUSES:
            raise ValueError("its status is none that is known")
        if result is None:
            return self._pending_report(about, document)

        return result

    def _pending_report(self, about: PaymentReports, document: Mapping[str, Any]) -> ProviderReport:
        """Return the report of a payment that has no result yet, with the page for its payer once
        pawaPay has that."""
        if self.account.auth_type != REDIRECT_AUTH or about.transaction.order.page is None:
            return about.accepted()

        url = text_member(document, "authorizationUrl")
        if url is not None:
            return about.accepted(payer_action=OpenUrl(url))

        # Asked often while the payer may wait for the page; then as any other payment is.
        if about.transaction.progress.polls <= PAGE_POLLS:
            return about.accepted(poll_after=PAGE_AWAITED_FOR)
        return about.accepted()

    def _authorisation_fault(self, terms: Terms | None) -> str | None:
        """Return why a deposit is not sent, in words for staff: the market's payers approve in
        another way than the settings say."""
        if terms is None or terms.authorisation in (None, self.account.auth_type):
            return None
        return f"The market has {terms.authorisation}, and auth_type says {self.account.auth_type}."

    def _lacks_code(self, transaction: Transaction) -> bool:
        """Tell whether a payment needs a code, and its payer has given none: nothing is sent."""
        is_deposit = operation_of(transaction.order.type) is DEPOSIT
        needs_code = is_deposit and self.account.auth_type == PREAUTH
        return needs_code and _given_code(transaction) is None

    def _ask_configuration(self, now: Instant) -> Generator[HttpRequest, HttpResponse, None]:
        """Read the active configuration where the known one is too old. Without an answer the known
        one stays."""
        if self._asked_at is not None and now - self._asked_at < CONFIGURATION_LIFETIME:
            return

        try:
            answer = yield self._configuration_question()
        except ExchangeFailed:
            # Without it nothing is refused by us: the next payment asks again.
            return

        # Any answer ends the questions for a while, also an error that lasts.
        self._asked_at = now
        if answer.status != 200:
            return

        try:
            self._configuration = parse_active_configuration(answer.body, self.account.market)
        except ValueError:
            return

    def _authorities(self, request: HttpRequest) -> Sequence[str]:
        """Return what may stand for our host in a signature: the public one, or the one that the
        request names."""
        # Proxies between pawaPay and us may have changed the name that was signed.
        host = (request.value(b"host") or b"").decode("latin-1")
        return tuple(dict.fromkeys((authority_of(self.account.hooks_url), host)))

    @property
    def _token(self) -> Headers:
        return ((b"authorization", f"Bearer {self.account.api_token}".encode()),)

    def _target(self, path: str) -> bytes:
        return f"{self.account.base_url}{path}".encode()

    def _question(self, path: str) -> HttpRequest:
        return HttpRequest("GET", self._target(path), self._token)

    def _availability_questions(self) -> Sequence[AccountQuestion]:
        judge = AnswerJudge(self.name, self.account)
        path = f"/v2/availability?country={self.account.country}"
        operations = {type_: operation_of(type_).key for type_ in (Type.PAYIN, Type.PAYOUT)}
        return [
            AccountQuestion(
                key.lower(),
                self._question(f"{path}&operationType={key}"),
                partial(judge.availability, type=type),
            )
            for type, key in operations.items()
        ]

    def _configuration_question(self) -> HttpRequest:
        return self._question(f"/v2/active-conf?country={self.account.country}")

    def _submission(self, operation: Operation, body: bytes, *, now: Instant) -> HttpRequest:
        headers = (*self._token, *self._content_headers(operation.path, body, now=now))
        return HttpRequest("POST", self._target(operation.path), headers, body)

    def _content_headers(self, path: str, body: bytes, *, now: Instant) -> Headers:
        key = self.account.signing_key
        if key is None:
            return ((b"content-type", b"application/json"),)
        # The path as pawaPay sees it, with what stands in base_url before ours.
        signed_path = f"{urlsplit(self.account.base_url).path}{path}"
        return signed_headers(key, "POST", self.account.authority, signed_path, body, now=now)


def _prediction(provider: str, market: str, msisdn: str, response: HttpResponse) -> PayeeReport:
    """Return what the answer to a prediction tells. pawaPay writes the number back, cleaned: a
    prediction for another one is none."""
    try:
        document = parse_json(response.body)
        # A body beside a 5xx may be a proxy's.
        is_clear = response.status < 500
        if is_clear and parse_failure(document).code == "INVALID_PHONE_NUMBER":
            return PayeeUnknown(provider)
        if response.status != 200:
            return PayeeUnanswered(provider, f"A question was answered {response.status}.")

        predicted = text_member(document, "provider")
        number = text_member(document, "phoneNumber")
    except ValueError:
        return PayeeUnanswered(provider, "An answer can't be read.")

    if predicted is None or number not in (None, msisdn.removeprefix("+")):
        return PayeeUnanswered(provider, "An answer is about another number, or names no operator.")

    return PayeePredicted(provider, plain_name(predicted), predicted == market)


def open_pawapay(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> PawapayProvider:
    """Return the adapter of one account. Raises SettingsError."""
    account = read_account(options, hooks_url=context.hooks_url, pages_url=context.pages_url)
    return PawapayProvider(name, title, account)


def _given_code(transaction: Transaction) -> str | None:
    asked = transaction.progress.payer_action
    if isinstance(asked, EnterCode):
        return asked.code
    return None


def _submission_report(
    about: PaymentReports, response: HttpResponse, *, is_elsewhere: bool
) -> ProviderReport:
    transaction = about.transaction
    operation = operation_of(transaction.order.type)
    unclear = f"A submission was answered {response.status}."
    match parse_initiation(response, operation, operation_id(transaction.reference)):
        # The page's address comes with a later answer, and its payer waits.
        case Initiation.ACCEPTED if is_elsewhere:
            return about.accepted(poll_after=PAGE_AWAITED_FOR)
        case Initiation.ACCEPTED:
            return about.accepted()
        case Initiation.NEVER_RECEIVED:
            return about.never_received()
        case Initiation.UNCLEAR:
            return about.unreachable(unclear)
        case FailureReason() as reason:
            # It may be due to the earlier one, if that has arrived after all.
            if reason.code not in FAILURES and transaction.progress.is_resubmission:
                return about.unreachable(unclear)

            code, message = _meaning(reason, transaction.order.type)
            return about.failed(code, reason.code, message)
        case never:
            assert_never(never)


def _not_found(about: PaymentReports, *, now: Instant) -> ProviderReport:
    """Return the report from pawaPay's "not found". What it had accepted is never sent again."""
    progress = about.transaction.progress
    submitted_at = progress.submitted_at
    if submitted_at is None or not _OPERATION.is_not_found_final(submitted_at, now=now):
        return about.unreachable("It is not found, and may be too new for that.")

    # "Accepted" was pawaPay's own word: a second submission could pay twice (S6).
    if progress.stage is Stage.AWAITING_RESULT:
        return about.unreachable("It was accepted, and is not found.")
    return about.never_received()


def _result(
    reference: str, name: str, document: Mapping[str, Any], *, operation: Operation
) -> ProviderSucceeded | ProviderFailed | None:
    """Return the result of a payment; None: it has none yet. Raises ValueError for an invalid
    payment."""
    receipt = text_member(document, "providerTransactionId")
    status = text_member(document, "status")
    receipt = receipt and receipt[:RECEIPT_CHARACTERS_MAX]
    if status == COMPLETED:
        return ProviderSucceeded(
            reference, name, Source.POLL, receipt, final=parse_amount(document)
        )

    if status == "FAILED":
        # Whose wallet a code is about depends on the direction.
        direction = Type.PAYOUT
        if operation is DEPOSIT:
            direction = Type.PAYIN

        reason = parse_failure(document)
        code, message = _meaning(reason, direction)
        return ProviderFailed(
            gateway_reference=reference,
            provider=name,
            source=Source.POLL,
            error_code=code,
            provider_reference=receipt,
            native_code=reason.code,
            native_message=message,
        )

    return None


def _subject_of(document: Mapping[str, Any]) -> tuple[Operation, str, str | None] | None:
    """Return the operation of a callback, our reference of the payment or of the reversal, and the
    market; None where it names none of ours. Raises ValueError for a callback of another form."""
    for operation in (DEPOSIT, PAYOUT, REFUND):
        # By the member that has the id: no other tells what a callback is about.
        if (id := text_member(document, operation.id)) is not None:
            if operation is REFUND:
                reference = refunds.reversal_of(document, id)
            else:
                reference = gateway_reference(id)
            details = object_member(object_member(document, operation.party), "accountDetails")
            if reference is None:
                return None
            return (operation, reference, text_member(details, "provider"))

    return None


def _meaning(reason: FailureReason, type: Type) -> tuple[ErrorCode, str | None]:
    failure = find_failure(reason.code, reason.message)
    return failure.error_code(type), reason.message or failure.reason or None
