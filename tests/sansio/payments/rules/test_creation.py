"""May this brand have this payment? (clauses C6 to C14)"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve

from mmo_sansio.messages.changes import JournalEntry, ReferenceConsumed, TransactionCreated
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.intents import SubmitToProvider
from mmo_sansio.messages.replies import Accepted, Rejected
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    START,
    a_begin_submission,
    a_brand,
    a_create_payment,
    a_method,
    a_party,
    failed,
    numbered_reference,
)
from mmo_sansio.values import problems
from mmo_sansio.values.clock import DAY, HOUR, MICROSECOND, MINUTE, Span, later
from mmo_sansio.values.model import (
    Brand,
    Flow,
    Limits,
    Operation,
    Order,
    Page,
    Party,
    Progress,
    ProviderData,
    ReferenceReuse,
    ReusePolicy,
    Stage,
    Terms,
    Transaction,
    Type,
)
from mmo_sansio.values.money import Money
from mmo_sansio.values.problems import ProblemType

WINDOW = 15 * MINUTE


def created(**members: Any) -> Transaction:
    """The transaction that comes of a request with these members."""
    decision = decide(Ledger(), a_create_payment(**members), now=START)
    assert isinstance(decision.reply, Accepted), decision.reply
    made = [each for each in decision.changes if isinstance(each, TransactionCreated)]
    assert decision.reply == Accepted(made[0].transaction.order)
    return made[0].transaction


def cause_of(decision: Decision) -> tuple[int, str, str]:
    assert isinstance(decision.reply, Rejected), decision.reply
    assert decision.changes == ()
    assert decision.intents == ()
    problem = decision.reply.problem
    return problem.status, problem.error_code, problem.segment


def refusal(**members: Any) -> tuple[int, str, str]:
    return cause_of(decide(Ledger(), a_create_payment(**members), now=START))


def segment(cause: ProblemType) -> tuple[int, str, str]:
    return cause.status, cause.error_code, cause.segment


@pytest.mark.spec("C1", "C6", "C7")
def test_an_order_says_what_was_asked() -> None:
    party = a_party(first_name="Wanjiru")
    order = created(party=party, labels='{"order":7}', scenario="slow").order
    assert order == Order(
        gateway_reference=REFERENCE,
        brand="acme",
        type=Type.PAYIN,
        flow=Flow.DIRECT,
        method="test_ke",
        country="KE",
        provider="test",
        provider_title="Test Money",
        requested=KES(150),
        party=party,
        merchant_reference="order-1",
        reconciliation_reference="order-1",
        labels='{"order":7}',
        result_url="https://acme.example/result",
        created_at=START,
        expires_at=later(START, Span(3 * DAY)),
        scenario="slow",
    )


@pytest.mark.spec("A4")
def test_an_order_records_which_key_made_it() -> None:
    decision = decide(Ledger(), evolve(a_create_payment(), api_key_id="7"), now=START)
    assert isinstance(decision.reply, Accepted)
    assert decision.reply.order.api_key_id == "7"


@pytest.mark.spec("C6")
def test_an_accepted_payment_consumes_its_reference_and_wants_to_be_submitted() -> None:
    decision = decide(Ledger(), a_create_payment(), now=START)
    used, made, line = decision.changes
    assert used == ReferenceConsumed("acme", "order-1", REFERENCE, START)
    assert isinstance(made, TransactionCreated)
    assert isinstance(line, JournalEntry)
    assert made.transaction.progress.stage is Stage.CREATED
    assert made.transaction.progress.version == 1
    assert made.transaction.progress.wake_at == START + 3 * DAY
    assert made.transaction.progress.provider_data is None
    assert decision.intents == (SubmitToProvider(REFERENCE),)


@pytest.mark.spec("C1", "C2", "C3", "C4", "C5", "T1")
@pytest.mark.parametrize(
    ("operation", "kind", "flow"),
    [
        (Operation.DIRECT_PAYIN, Type.PAYIN, Flow.DIRECT),
        (Operation.DIRECT_PAYOUT, Type.PAYOUT, Flow.DIRECT),
        (Operation.QR_PAYIN, Type.PAYIN, Flow.QR),
        (Operation.WEB_PAYIN, Type.PAYIN, Flow.WEB),
        (Operation.DIRECT_TAXPAYOUT, Type.TAX, Flow.DIRECT),
    ],
    ids=str,
)
def test_type_and_flow_of_each_operation(operation: Operation, kind: Type, flow: Flow) -> None:
    order = created(operation=operation).order
    assert (order.type, order.flow) == (kind, flow)


@pytest.mark.spec("C3")
def test_a_qr_order_keeps_where_its_code_goes() -> None:
    url = "https://acme.example/qr"
    assert created(operation=Operation.QR_PAYIN, display_qr_url=url).order.display_qr_url == url
    assert created(operation=Operation.QR_PAYIN).order.page is None


@pytest.mark.spec("C7")
def test_a_reconciliation_reference_of_its_own_is_kept() -> None:
    assert created(reconciliation_reference="batch-9").order.reconciliation_reference == "batch-9"


@pytest.mark.spec("C5", "M5")
def test_a_tax_payout_names_its_authority() -> None:
    operation = Operation.DIRECT_TAXPAYOUT
    assert created(operation=operation, party=None).order.party == Party("test_ke", "000")
    method = a_method(tax_authority_id="KRA", tax_authority_account="572572")
    brand = a_brand(methods=(method,))
    order = created(operation=operation, party=None, brand=brand).order
    assert order.party == Party("KRA", "572572")


@pytest.mark.spec("C4", "W1")
def test_a_web_payment_waits_for_its_payer() -> None:
    given = a_create_payment(
        operation=Operation.WEB_PAYIN,
        page_token="token-7",
        success_redirect_url="https://acme.example/thanks",
        error_redirect_url="https://acme.example/sorry",
    )
    decision = decide(Ledger(), given, now=START)
    assert decision.intents == ()
    assert isinstance(decision.reply, Accepted)
    closes_at = later(START, Span(30 * MINUTE))
    assert decision.reply.order.page == Page(
        "token-7", closes_at, "https://acme.example/thanks", "https://acme.example/sorry"
    )
    made = decision.changes[1]
    assert isinstance(made, TransactionCreated)
    assert made.transaction.progress.stage is Stage.AWAITING_CUSTOMER
    assert made.transaction.progress.version == 1
    assert made.transaction.progress.wake_at == closes_at


@pytest.mark.spec("W1", "V1")
@pytest.mark.parametrize(
    ("terms", "closes_after"),
    [
        (Terms(page_session=None), 3 * DAY),
        (Terms(page_session=HOUR), HOUR),
        (Terms(page_session=Span(4 * DAY)), 3 * DAY),
        (Terms(pending_timeout=MINUTE), MINUTE),
        (Terms(pending_timeout=MINUTE, page_session=None), MINUTE),
    ],
    ids=["off", "an hour", "longer than pending", "shorter pending", "off, shorter pending"],
)
def test_a_page_never_outlives_its_payment(terms: Terms, closes_after: int) -> None:
    order = created(operation=Operation.WEB_PAYIN, terms=terms).order
    assert order.page is not None
    assert order.page.closes_at == START + closes_after
    assert order.expires_at == START + terms.pending_timeout


@pytest.mark.spec("V1")
def test_the_figures_of_the_specification() -> None:
    assert Terms() == Terms(Span(3 * DAY), Span(15 * MINUTE), Span(30 * MINUTE))


REFUSALS: list[tuple[str, dict[str, Any], ProblemType]] = [
    ("unknown method", {"method": "nope"}, problems.UNSUPPORTED_METHOD),
    ("another case of the method", {"method": "Test_KE"}, problems.UNSUPPORTED_METHOD),
    ("unknown country", {"country": "ZZ"}, problems.UNSUPPORTED_COUNTRY),
    ("another case of the country", {"country": "ke"}, problems.UNSUPPORTED_COUNTRY),
    ("unknown currency", {"currency": "UGX"}, problems.UNSUPPORTED_CURRENCY),
    ("another case of the currency", {"currency": "kes"}, problems.UNSUPPORTED_CURRENCY),
    ("too many decimals", {"amount": Decimal("100.005")}, problems.VALIDATION_FAILED),
    ("a cent too little", {"amount": Decimal("9.99")}, problems.BELOW_MINIMUM),
    ("a cent too much", {"amount": Decimal("150000.01")}, problems.ABOVE_MAXIMUM),
]


@pytest.mark.spec("C10", "C11", "C14", "M1", "M2", "P2")
@pytest.mark.parametrize(
    ("members", "cause"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_what_the_brand_does_not_have_is_refused(
    members: dict[str, Any], cause: ProblemType
) -> None:
    assert refusal(**members) == segment(cause)


@pytest.mark.spec("C10")
def test_a_method_is_refused_for_a_flow_that_it_does_not_offer() -> None:
    brand = a_brand(methods=(a_method(operations=frozenset({Operation.DIRECT_PAYIN})),))
    assert created(brand=brand).order.method == "test_ke"
    refused = refusal(brand=brand, operation=Operation.WEB_PAYIN)
    assert refused == segment(problems.UNSUPPORTED_METHOD)


@pytest.mark.spec("C10")
def test_only_the_flows_of_the_same_key_and_country_count() -> None:
    uganda = a_method(country="UG", operations=frozenset({Operation.DIRECT_PAYOUT}))
    kenya = a_method(operations=frozenset({Operation.DIRECT_PAYIN}))
    brand = a_brand(methods=(uganda, kenya))
    assert created(brand=brand).order.country == "KE"
    assert refusal(brand=brand, country="UG") == segment(problems.UNSUPPORTED_COUNTRY)


@pytest.mark.spec("C11")
@pytest.mark.parametrize("value", ["10", "10.00", "150000", "150000.000"])
def test_the_bounds_themselves_are_allowed(value: str) -> None:
    assert created(amount=Decimal(value)).order.requested.text in ("10.00", "150000.00")


@pytest.mark.spec("C11")
def test_limits_are_per_brand_method_and_currency() -> None:
    limits = {
        "KES": Limits(KES(10), KES(20)),
        "UGX": Limits(Money(1000, "UGX"), Money(2000, "UGX")),
    }
    brand = a_brand(methods=(a_method(limits=limits),))
    amount = created(brand=brand, amount=Decimal(1500), currency="UGX").order.requested
    assert amount == Money(1500, "UGX")
    assert refusal(brand=brand, amount=Decimal(1500)) == segment(problems.ABOVE_MAXIMUM)
    below = refusal(brand=brand, amount=Decimal(15), currency="UGX")
    assert below == segment(problems.BELOW_MINIMUM)
    assert created(amount=Decimal(1500)).order.requested == KES(1500)


@pytest.mark.spec("C9", "P1")
def test_each_refusal_says_what_was_wrong() -> None:
    told = {}
    for name, members, _ in REFUSALS:
        reply = decide(Ledger(), a_create_payment(**members), now=START).reply
        assert isinstance(reply, Rejected)
        told[name] = reply.problem
    assert told["unknown method"].detail == (
        "The method 'nope' is not configured for direct/payin of this brand. Known are: test_ke."
    )
    assert told["unknown country"].detail == (
        "The country 'ZZ' is not configured for the method 'test_ke'. Known are: KE."
    )
    assert told["unknown currency"].detail == (
        "The currency 'UGX' is not configured for the method 'test_ke'. Known are: KES."
    )
    decimals = "must have at most 2 decimals in KES"
    assert told["too many decimals"].detail.endswith(f" {decimals}.")
    assert "amount.value" in told["too many decimals"].detail
    (fault,) = told["too many decimals"].errors
    assert fault.field == "amount.value"
    assert decimals in fault.detail
    assert told["a cent too little"].detail == (
        "The amount 9.99 KES is below the minimum of 10.00 KES."
    )
    assert told["a cent too much"].detail == (
        "The amount 150000.01 KES is above the maximum of 150000.00 KES."
    )


PRECEDENCE: list[tuple[str, dict[str, Any], ProblemType]] = [
    ("method", {"method": "nope"}, problems.UNSUPPORTED_METHOD),
    ("country", {"country": "ZZ"}, problems.UNSUPPORTED_COUNTRY),
    ("currency", {"currency": "UGX"}, problems.UNSUPPORTED_CURRENCY),
    ("decimals", {"amount": Decimal("0.001")}, problems.VALIDATION_FAILED),
    ("minimum", {"amount": Decimal("1")}, problems.BELOW_MINIMUM),
    ("duplicate", {}, problems.DUPLICATE_REFERENCE),
]


@pytest.mark.spec("C9")
@pytest.mark.parametrize("first", range(len(PRECEDENCE)), ids=[row[0] for row in PRECEDENCE])
def test_the_earlier_cause_wins(first: int) -> None:
    """Broken in this and in every later way, with the reference used a moment ago."""
    members: dict[str, Any] = {}
    for _, members_after, _ in reversed(PRECEDENCE[first:]):
        members.update(members_after)
    ledger = Ledger()
    taken = decide(ledger, a_create_payment(), now=START)
    ledger.apply(taken.changes, taken.intents)
    again = decide(
        ledger, a_create_payment(numbered_reference(2), **members), now=later(START, Span(1))
    )
    assert cause_of(again) == segment(PRECEDENCE[first][2])


@pytest.mark.spec("C9")
def test_above_the_maximum_wins_over_a_duplicate() -> None:
    ledger = Ledger()
    ledger.apply(decide(ledger, a_create_payment(), now=START).changes)
    given = a_create_payment(numbered_reference(2), amount=Decimal(10**6))
    assert cause_of(decide(ledger, given, now=START)) == segment(problems.ABOVE_MAXIMUM)


def second_use(
    after: Span, *, brand: Brand | None = None, terms: Terms | None = None, other: str = "order-1"
) -> Decision:
    """The same reference again after this time, by the same brand; the first payment has failed."""
    ledger = Ledger()
    for given in (a_create_payment(brand=brand), a_begin_submission(), failed()):
        ledger.apply(decide(ledger, given, now=START).changes)
    given = a_create_payment(
        numbered_reference(2), brand=brand, terms=terms, merchant_reference=other
    )
    return decide(ledger, given, now=later(START, after))


DUPLICATE = (422, "merchant_transactionid_duplicate", "merchant_transactionid_duplicate")


@pytest.mark.spec("C12", "P2")
@pytest.mark.parametrize("after", [-HOUR, -1, 0, 1, WINDOW - MICROSECOND])
def test_a_reference_is_guarded_for_fifteen_minutes(after: Span) -> None:
    decision = second_use(after)
    assert cause_of(decision) == DUPLICATE
    assert isinstance(decision.reply, Rejected)
    assert decision.reply.problem.detail == (
        "The merchantReference 'order-1' was used before. Look the payment up by it, and send a "
        "new reference only for"
        " another payment."
    )


@pytest.mark.spec("C12")
@pytest.mark.parametrize("after", [WINDOW, WINDOW + 1, 9 * DAY])
def test_after_the_window_reuse_is_accepted(after: Span) -> None:
    assert isinstance(second_use(after).reply, Accepted)


@pytest.mark.spec("C12")
@pytest.mark.parametrize("after", [0, WINDOW, 10_000 * DAY])
def test_a_brand_can_be_set_to_refuse_reuse_for_ever(after: Span) -> None:
    never = a_brand(reference_reuse=ReusePolicy.same_for_all(ReferenceReuse.NEVER))
    assert cause_of(second_use(after, brand=never)) == DUPLICATE


@pytest.mark.spec("C12", "V1")
def test_the_window_is_a_setting() -> None:
    terms = Terms(idempotency_window=MINUTE)
    assert cause_of(second_use(Span(MINUTE - 1), terms=terms)) == DUPLICATE
    assert isinstance(second_use(MINUTE, terms=terms).reply, Accepted)


@pytest.mark.spec("C12")
def test_references_are_compared_exactly() -> None:
    assert isinstance(second_use(Span(1), other="Order-1").reply, Accepted)
    assert isinstance(second_use(Span(1), other="order-1 ").reply, Accepted)


@pytest.mark.spec("C12")
def test_another_brand_may_use_the_same_reference() -> None:
    ledger = Ledger()
    ledger.apply(decide(ledger, a_create_payment(), now=START).changes)
    other = evolve(a_brand(), id="duka")
    decision = decide(ledger, a_create_payment(numbered_reference(2), brand=other), now=START)
    assert isinstance(decision.reply, Accepted)


@pytest.mark.spec("C12")
def test_a_refused_request_consumes_nothing() -> None:
    ledger = Ledger()
    refused = decide(ledger, a_create_payment(method="nope"), now=START)
    ledger.apply(refused.changes, refused.intents)
    assert ledger == Ledger()
    assert isinstance(decide(ledger, a_create_payment(), now=START).reply, Accepted)


@pytest.mark.spec("C12")
def test_a_refused_duplicate_does_not_prolong_the_window() -> None:
    ledger = Ledger()
    for number, at in enumerate([0, WINDOW - 1, WINDOW], start=1):
        about, now = numbered_reference(number), later(START, Span(at))
        for given in (a_create_payment(about), a_begin_submission(about), failed(about)):
            decision = decide(ledger, given, now=now)
            ledger.apply(decision.changes, decision.intents)
            if isinstance(decision.reply, Rejected):
                break
    assert set(ledger.transactions) == {numbered_reference(1), numbered_reference(3)}
    used = ledger.reference_use("acme", "order-1")
    assert used is not None
    assert used.gateway_reference == numbered_reference(3)


RESERVED = evolve(a_create_payment(), reserved_provider=a_method().provider)


@pytest.mark.spec("S6", "T3")
def test_a_payment_with_a_reserved_conversation_is_created_with_its_submission_on_record() -> None:
    decision = decide(Ledger(), RESERVED, now=START)
    created = next(
        each.transaction for each in decision.changes if isinstance(each, TransactionCreated)
    )
    assert created.progress == Progress(
        Stage.SUBMITTING,
        1,
        later(START, SUBMISSION_TIMEOUT),
        provider_data=ProviderData(created.order.provider, created.order.provider_title),
        submitted_at=START,
        submissions=1,
        sent_version=1,
    )
    assert decision.reply == Accepted(created.order, created)
    assert decision.intents == ()


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    ("input_", "held"),
    [
        (evolve(RESERVED, reserved_provider="another"), frozenset[str]()),
        (RESERVED, frozenset({RESERVED.brand.id})),
    ],
    ids=["another provider", "brand on hold"],
)
def test_what_may_not_be_sent_at_once_waits_for_its_submission(
    input_: CreatePayment, held: frozenset[str]
) -> None:
    decision = decide(Ledger(held_brands=held), input_, now=START)
    created = next(
        each.transaction for each in decision.changes if isinstance(each, TransactionCreated)
    )
    assert created.progress.stage is Stage.CREATED
    assert decision.reply == Accepted(created.order)
    assert decision.intents == (SubmitToProvider(REFERENCE),)


@pytest.mark.spec("W1")
def test_a_web_payment_waits_for_its_payer_whatever_is_reserved() -> None:
    web = evolve(
        a_create_payment(operation=Operation.WEB_PAYIN), reserved_provider=a_method().provider
    )
    decision = decide(Ledger(), web, now=START)
    created = next(
        each.transaction for each in decision.changes if isinstance(each, TransactionCreated)
    )
    assert created.progress.stage is Stage.AWAITING_CUSTOMER


@pytest.mark.spec("S6")
def test_what_would_expire_in_flight_is_not_submitted_as_it_is_created() -> None:
    for timeout, stage in (
        (SUBMISSION_TIMEOUT, Stage.SUBMITTING),
        (SUBMISSION_TIMEOUT - 1, Stage.CREATED),
    ):
        soon = evolve(RESERVED, terms=Terms(pending_timeout=Span(timeout)))
        decision = decide(Ledger(), soon, now=START)
        created = next(
            each.transaction for each in decision.changes if isinstance(each, TransactionCreated)
        )
        assert (created.progress.stage, created.progress.wake_at) == (
            stage,
            created.order.expires_at,
        )


def test_a_creation_reads_the_brands_on_hold_only_if_it_may_be_sent_at_once() -> None:
    assert reads(RESERVED).held_brands
    assert not reads(a_create_payment()).held_brands
