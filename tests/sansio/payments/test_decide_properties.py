"""The six laws of `decide`, for any inputs in any order."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mmo_sansio
from mmo_sansio.messages.changes import JournalEntry, SuspenseRecorded, TransactionAdvanced
from mmo_sansio.messages.inputs import CreatePayment, Input, ProviderHinted, UnmatchedNotified
from mmo_sansio.messages.intents import DeliverCallback, IntentKind, PollEnded, PollProvider
from mmo_sansio.messages.replies import Rejected
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, NotPrefetched, Reads, merge_reads
from mmo_sansio.testing import (
    KES,
    START,
    a_begin_submission,
    a_brand,
    a_confirmation,
    a_create_payment,
    a_deposit,
    a_method,
    a_party,
    a_resolution,
    a_wake,
    accepted,
    callback_concluded,
    cannot_tell,
    failed,
    hinted,
    never_received,
    numbered_reference,
    succeeded,
    unreachable,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Source
from mmo_sansio.values.money import Money

BRANDS = (a_brand(), a_brand(id="duka", methods=(a_method(provider="other"),)))
Stamped = tuple[Input, Instant]

references = st.integers(0, 4).map(numbered_reference)
providers = st.sampled_from(["test", "test", "test", "other"])
sources = st.sampled_from([Source.WEBHOOK, Source.POLL])
finals = st.sampled_from([None, KES(150), KES(149), Money(1, "UGX")])
codes = st.sampled_from(ErrorCode)
creations = st.builds(
    a_create_payment,
    brand=st.sampled_from(BRANDS),
    merchant_reference=st.sampled_from(["order-1", "order-2", "order-3"]),
    operation=st.sampled_from([Operation.DIRECT_PAYIN, Operation.WEB_PAYIN]),
    method=st.sampled_from(["test_ke", "test_ke", "test_ke", "nope"]),
)
reports = st.one_of(
    st.builds(accepted, references, provider=providers, source=sources),
    st.builds(succeeded, references, provider=providers, source=sources, final=finals),
    st.builds(failed, references, provider=providers, source=sources, error_code=codes),
    st.builds(unreachable, references, provider=providers),
    st.builds(never_received, references, provider=providers, version=st.integers(1, 5)),
    st.builds(cannot_tell, references, provider=providers),
    st.builds(hinted, references, provider=providers),
)
others = st.one_of(
    st.builds(a_begin_submission, references),
    st.builds(a_confirmation, references),
    st.builds(a_wake, references),
    st.builds(a_resolution, references, error_code=st.none() | codes, final=finals),
    st.builds(callback_concluded, references),
    st.builds(UnmatchedNotified, providers, st.just("?")),
)
deposits = st.builds(
    a_deposit,
    provider=providers,
    provider_reference=st.sampled_from(["DEP-1", "DEP-2"]),
    brand=st.sampled_from([*BRANDS, None]),
    amount=st.sampled_from([KES(75), KES(76)]),
    party=st.sampled_from([a_party(), a_party(id="other")]),
    succeeded=st.sampled_from([True, True, False]),
)
pauses = st.sampled_from([1, 1, clock.SECOND, 30 * clock.SECOND, 15 * clock.MINUTE, 2 * clock.DAY])


@st.composite
def histories(draw: st.DrawFn) -> list[Stamped]:
    """Inputs with strictly increasing stamps; what is new gets a fresh reference, as the edge mints
    it (law 6)."""
    wanted = st.one_of(creations, creations, reports, reports, others, deposits)
    history: list[Stamped] = []
    now = START
    minted = 0
    for given_input, pause in draw(st.lists(st.tuples(wanted, pauses), min_size=5, max_size=40)):
        each = given_input
        if hasattr(each, "draft") or hasattr(each, "party"):
            each = attrs.evolve(each, gateway_reference=numbered_reference(minted))
            minted += 1
        now = later(now, Span(pause))
        history.append((each, now))
    return history


def copied(ledger: Ledger) -> Ledger:
    return Ledger(
        ledger.prefetched,
        dict(ledger.transactions),
        dict(ledger.references),
        dict(ledger.deposits),
        dict(ledger.intents),
        dict(ledger.claims),
        dict(ledger.usage),
        dict(ledger.reversals),
    )


def one_by_one(history: list[Stamped]) -> tuple[Ledger, list[Decision]]:
    ledger = Ledger()
    decisions = []
    for each, now in history:
        decision = decide(ledger, each, now=now)
        ledger.apply(decision.changes, decision.intents)
        decisions.append(decision)
    return ledger, decisions


@given(histories())
@settings(max_examples=150)
def test_law_1_decide_never_mutates_the_ledger(history: list[Stamped]) -> None:
    ledger = Ledger()
    for each, now in history:
        before = copied(ledger)
        decision = decide(ledger, each, now=now)
        assert ledger == before
        ledger.apply(decision.changes, decision.intents)


@given(histories())
@settings(max_examples=150)
def test_law_1_decide_looks_only_at_what_it_reads(history: list[Stamped]) -> None:
    """A working set with these keys and no others gives the same decision, and never raises
    NotPrefetched."""
    ledger = Ledger()
    for each, now in history:
        decision = decide(ledger, each, now=now)
        assert decide(ledger.working_set(reads(each)), each, now=now) == decision
        ledger.apply(decision.changes, decision.intents)


@given(histories())
@settings(max_examples=50)
def test_law_2_same_ledger_input_and_now_same_decision(history: list[Stamped]) -> None:
    assert one_by_one(history) == one_by_one(history)


@pytest.mark.spec("S1", "S5")
@given(histories())
@settings(max_examples=150)
def test_law_3_what_has_ended_never_changes(history: list[Stamped]) -> None:
    ledger = Ledger()
    for each, now in history:
        ended = {
            name: one for name, one in ledger.transactions.items() if one.progress.stage.is_terminal
        }
        decision = decide(ledger, each, now=now)
        ledger.apply(decision.changes, decision.intents)
        assert ended.items() <= ledger.transactions.items()


@given(histories())
@settings(max_examples=150)
def test_law_4_a_decision_is_whole(history: list[Stamped]) -> None:
    """A refusal carries nothing; an intent never comes without the change that gives rise to it;
    one line each."""
    ledger = Ledger()
    for each, now in history:
        decision = decide(ledger, each, now=now)
        if isinstance(each, ProviderHinted) and decision.intents and not decision.changes:
            assert decision.intents == (PollEnded(each.gateway_reference, now),)
            assert ledger.transactions[each.gateway_reference].progress.stage.is_terminal
            ledger.apply((), decision.intents)
            continue
        lines = [one for one in decision.changes if isinstance(one, JournalEntry)]
        assert len(lines) == (1 if decision.changes else 0)
        assert decision.changes[-1:] == tuple(lines)
        if isinstance(decision.reply, Rejected) or not decision.changes:
            assert (decision.changes, decision.intents) == ((), ())
        if {type(one) for one in decision.changes} <= {SuspenseRecorded, JournalEntry}:
            assert decision.intents == ()
        ledger.apply(decision.changes, decision.intents)
        for intent in decision.intents:
            has_ended = ledger.transactions[intent.gateway_reference].progress.stage.is_terminal
            assert has_ended is isinstance(intent, DeliverCallback | PollEnded), (
                "no wake_at polls it"
            )
            if isinstance(intent, PollProvider):
                assert any(isinstance(one, TransactionAdvanced) for one in decision.changes)
            else:
                assert ledger.open_intent((intent.gateway_reference, intent.kind)) == intent


@given(histories(), st.data())
@settings(max_examples=150)
def test_law_5_any_batches_end_in_the_same_ledger(
    history: list[Stamped], data: st.DataObject
) -> None:
    expected, one_by_one_decisions = one_by_one(history)
    durable = Ledger()
    decisions: list[Decision] = []
    rest = history
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:size], rest[size:]
        working = durable.working_set(merge_reads(reads(each) for each, _ in batch))
        made = []
        for each, now in batch:
            decision = decide(working, each, now=now)
            working.apply(decision.changes, decision.intents)
            made.append(decision)
        for decision in made:
            durable.apply(decision.changes, decision.intents)
        decisions += made
    assert decisions == one_by_one_decisions
    assert durable == expected


@given(histories())
@settings(max_examples=100)
def test_law_6_every_reference_was_minted_at_the_edge(history: list[Stamped]) -> None:
    ledger, _ = one_by_one(history)
    told = {each.gateway_reference for each, _ in history if hasattr(each, "gateway_reference")}
    assert set(ledger.transactions) <= told
    tokens = {each.page_token for each, _ in history if isinstance(each, CreatePayment)}
    pages = [one.order.page for one in ledger.transactions.values()]
    assert {page.token for page in pages if page} <= tokens
    stamps = {now for _, now in history}
    assert {one.order.created_at for one in ledger.transactions.values()} <= stamps


@pytest.mark.parametrize("module", ["rules", "decide.py", "states.py", "ledger.py", "gateway.py"])
def test_law_2_nothing_asks_for_the_time_or_for_chance(module: str) -> None:
    """Neither by a name nor by an import: what the law can't see it can't depend on."""
    root = Path(mmo_sansio.__file__).parent / module
    forbidden = {"datetime", "time", "random", "secrets", "os", "uuid", "environ", "open", "id"}
    for path in [root] if root.is_file() else sorted(root.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & forbidden, f"{path.name} uses {names & forbidden}"


A, B = numbered_reference(1), numbered_reference(2)


LOOKS: list[tuple[str, Callable[[Ledger], object], str]] = [
    ("transaction", lambda ledger: ledger.transaction(B), B),
    ("reference", lambda ledger: ledger.reference_use("acme", "order-2"), "order-2"),
    ("deposit", lambda ledger: ledger.deposit("test", "DEP-2"), "DEP-2"),
    ("intent", lambda ledger: ledger.open_intent((B, IntentKind.CALLBACK)), B),
]


@pytest.mark.parametrize(("look", "key"), [row[1:] for row in LOOKS], ids=[row[0] for row in LOOKS])
def test_absent_and_not_loaded_never_look_the_same(
    look: Callable[[Ledger], object], key: str
) -> None:
    first = Reads(
        frozenset({A}),
        frozenset({("acme", "order-1")}),
        frozenset({("test", "DEP-1")}),
        frozenset({(A, IntentKind.CALLBACK)}),
    )
    second = Reads(
        frozenset({B}),
        frozenset({("acme", "order-2")}),
        frozenset({("test", "DEP-2")}),
        frozenset({(B, IntentKind.CALLBACK)}),
    )
    assert not look(Ledger())
    with pytest.raises(NotPrefetched, match=key):
        look(Ledger(first))
    assert not look(Ledger(merge_reads([second, first])))
    assert not look(Ledger(merge_reads([first, second])))


def test_a_change_that_does_not_fit_raises() -> None:
    """A store would refuse it as well."""
    ledger, (made, begun) = one_by_one(
        [(a_create_payment(A), START), (a_begin_submission(A), later(START, Span(1)))]
    )
    with pytest.raises(AssertionError):
        ledger.apply(made.changes)
    with pytest.raises(AssertionError):
        ledger.apply(begun.changes)
    _, (deposited,) = one_by_one([(a_deposit(gateway_reference=B), START)])
    ledger.apply(deposited.changes, deposited.intents)
    with pytest.raises(AssertionError):
        ledger.apply(deposited.changes)
    assert set(ledger.intents.values()) == {DeliverCallback(B)}


def test_a_working_set_can_conclude_an_intent_that_it_was_not_given() -> None:
    """Beginning a submission looks at no intent, and ends one all the same."""
    ledger, _ = one_by_one([(a_create_payment(A), START)])
    working = ledger.working_set(reads(a_begin_submission(A)))
    begun = decide(working, a_begin_submission(A), now=later(START, Span(1)))
    for each in (working, ledger):
        each.apply(begun.changes, begun.intents)
        assert each.intents == {}
