"""Who may call a merchant back, where several processes have one store: leases, channels, fences
(K3, K5)."""

from __future__ import annotations

import pytest
from attrs import Factory, define
from hypothesis import given, settings
from hypothesis import strategies as st

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.inputs import CallbackConcluded
from mmo_sansio.messages.intents import DeliverCallback, IntentKind
from mmo_sansio.messages.replies import Applied, Ignored
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.resilience.circuit_breaker import (
    DEFAULT_BREAKER_SETTINGS,
    INITIAL_SNAPSHOT,
    BreakerSnapshot,
    BreakerState,
    CircuitBreaker,
    SubWindow,
)
from mmo_sansio.resilience.ownership import (
    LEASE_DURATION,
    LEASE_MARGIN,
    LEASE_RENEWAL_INTERVAL,
    STEADY_FOR,
    STEADY_GAP,
    Channel,
    OwnershipCounts,
    RenewalHistory,
    beyond_share,
    trusted_until,
)
from mmo_sansio.testing import a_transaction, an_attempt, ledger_with, numbered_reference
from mmo_sansio.values import clock
from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant, Span, earlier, later
from mmo_sansio.values.model import Stage
from tests.support.ownership_model import OwnershipModel, is_in_wake_share

NOW = MonotonicInstant(1_700_000_000 * SECOND)
OPEN = BreakerSnapshot(
    BreakerState.OPEN, later(NOW, Span(30 * SECOND)), None, 2, (SubWindow(NOW, 0, 5),)
)


@pytest.mark.spec("K3")
def test_a_lease_lasts_its_time_and_not_a_microsecond_longer() -> None:
    book = OwnershipModel()
    one = book.renew(None, now=NOW)
    assert book.renew(one, now=earlier(later(NOW, LEASE_DURATION), Span(1))) == one
    end = earlier(later(NOW, Span(2 * LEASE_DURATION)), Span(1))
    assert book.alive(now=earlier(end, Span(1))) == [one]
    book.end_expired_leases(now=earlier(end, Span(1)))
    assert not book.is_over(one)
    assert book.alive(now=end) == []
    assert book.renew(one, now=end) == one, "nobody has ended it"
    book.end_expired_leases(now=later(end, LEASE_DURATION))
    assert book.is_over(one)
    assert book.renew(one, now=later(end, LEASE_DURATION)) > one, "what was ended is never renewed"


@pytest.mark.spec("K3")
def test_a_channel_is_taken_from_the_dead_only_and_its_fence_grows() -> None:
    book = OwnershipModel()
    one, other = book.renew(None, now=NOW), book.renew(None, now=later(NOW, SECOND))
    assert book.claim(one, ["acme"]) == [Channel("acme", 1, INITIAL_SNAPSHOT)]
    assert not book.claim(other, ["acme"], known={})
    assert not book.claim(one, ["acme"]), "it has it"
    book.end_expired_leases(now=later(NOW, LEASE_DURATION))
    assert book.claim(other, ["acme"]) == [Channel("acme", 2, INITIAL_SNAPSHOT)]
    assert not book.claim(one, ["globex"], known={}), "its lease was ended"
    assert book.fence(one, "acme") is None
    assert book.fence(other, "acme") == 2


@pytest.mark.spec("K3")
def test_who_does_not_know_what_it_has_claimed_claims_its_own_again_under_a_new_fence() -> None:
    book = OwnershipModel()
    one, other = book.renew(None, now=NOW), book.renew(None, now=NOW)
    book.claim(one, ["acme"])
    assert book.claim(one, ["acme", "globex"], known={}) == [
        Channel("acme", 2, INITIAL_SNAPSHOT),
        Channel("globex", 1, INITIAL_SNAPSHOT),
    ]
    assert book.claim(one, ["acme", "globex"], known={"acme": 1, "globex": 1}) == [
        Channel("acme", 3, INITIAL_SNAPSHOT)
    ]
    assert not book.claim(other, ["acme", "globex"], known={})


@pytest.mark.spec("K3")
def test_who_renews_steadily_may_end_leases_and_who_could_not_renew_waits() -> None:
    history = RenewalHistory()
    assert not history.may_end_leases(NOW)
    at = NOW
    for _ in range(3):
        history = history.renewed(at)
        at = later(at, LEASE_RENEWAL_INTERVAL)
    assert not history.may_end_leases(earlier(later(NOW, STEADY_FOR), Span(1)))
    assert history.may_end_leases(later(NOW, STEADY_FOR))
    last = earlier(at, LEASE_RENEWAL_INTERVAL)
    assert history.may_end_leases(later(last, STEADY_GAP))
    assert not history.may_end_leases(later(later(last, STEADY_GAP), Span(1))), (
        "it cannot renew now"
    )
    again = later(later(last, STEADY_GAP), Span(1))
    history = history.renewed(again)
    assert not history.may_end_leases(later(again, SECOND)), "the others were hindered as well"
    history = history.renewed(later(again, STEADY_GAP)).renewed(later(again, STEADY_FOR))
    assert history.may_end_leases(later(again, STEADY_FOR))


@pytest.mark.spec("K3")
def test_what_is_given_up_under_another_fence_stays() -> None:
    book = OwnershipModel()
    one = book.renew(None, now=NOW)
    book.claim(one, ["acme"])
    book.release(one, {"acme": 2}, {"acme": OPEN})
    assert book.fence(one, "acme") == 1
    book.release(one, {"acme": 1}, {})
    assert book.fence(one, "acme") is None
    assert book.claim(one, ["acme"]) == [Channel("acme", 2, INITIAL_SNAPSHOT)]


@pytest.mark.spec("K5")
def test_a_channel_is_given_up_with_its_breaker() -> None:
    book = OwnershipModel()
    one = book.renew(None, now=NOW)
    book.claim(one, ["acme"])
    book.release(one, {"acme": 1}, {"acme": OPEN})
    assert book.claim(one, ["acme"]) == [Channel("acme", 2, OPEN)]


@pytest.mark.spec("K5")
def test_an_earlier_owner_s_breaker_changes_nothing() -> None:
    book = OwnershipModel()
    one = book.renew(None, now=NOW)
    book.claim(one, ["acme"])
    book.save_breaker("acme", 1, OPEN)
    book.end_lease(one)
    other = book.renew(None, now=NOW)
    assert book.claim(other, ["acme"]) == [Channel("acme", 2, OPEN)]
    book.save_breaker("acme", 1, INITIAL_SNAPSHOT)
    assert book.breakers() == {"acme": OPEN}


@pytest.mark.spec("S3")
@given(
    st.sets(st.integers(1, 99), min_size=1, max_size=6),
    st.lists(st.text(min_size=1, max_size=26), max_size=20),
)
def test_each_payment_is_in_one_share(alive: set[int], references: list[str]) -> None:
    for each in references:
        assert sum(is_in_wake_share(each, holder, alive) for holder in alive) == 1
        assert not is_in_wake_share(each, 100, alive)


@pytest.mark.spec("K3")
@given(st.lists(st.sets(st.integers(0, 30), max_size=12), min_size=1, max_size=5))
def test_everybody_keeps_a_share_and_what_is_beyond_is_enough_for_the_others(
    holdings: list[set[int]],
) -> None:
    held = sum(map(len, holdings))
    standing = OwnershipCounts(alive=len(holdings), held=held)
    brands = [{f"brand-{each}" for each in holding} for holding in holdings]
    beyond = [beyond_share(each, standing) for each in brands]
    for each, given_up in zip(brands, beyond, strict=True):
        assert set(given_up) <= each
        assert (len(each) - len(given_up)) <= -(-held // len(holdings))
        assert not given_up or len(each) - len(given_up) >= held // len(holdings)
    wanting = sum(max(0, held // len(holdings) - len(each)) for each in brands)
    assert sum(map(len, beyond)) <= held
    assert sum(map(len, beyond)) >= wanting - len(holdings), "give or take one for each"


@pytest.mark.spec("K3")
def test_alone_a_holder_keeps_all_of_its_channels() -> None:
    assert not beyond_share(["acme", "globex"], OwnershipCounts(alive=1, held=2))
    assert not beyond_share(["acme"], OwnershipCounts(alive=2, held=1)), "one can't be shared"
    assert len(beyond_share(["acme", "globex", "initech"], OwnershipCounts(alive=2, held=3))) == 1


@pytest.mark.spec("K5")
def test_a_clock_that_was_set_back_keeps_no_breaker_open_for_longer_than_usual() -> None:
    now = earlier(NOW, clock.HOUR)
    restored = CircuitBreaker(restored=OPEN.clamped(DEFAULT_BREAKER_SETTINGS, now=now))
    assert restored.request_permit(earlier(later(now, Span(30 * SECOND)), Span(1))) is None
    assert restored.request_permit(later(now, Span(30 * SECOND))) is not None


@pytest.mark.spec("K5")
def test_a_breaker_goes_on_from_where_its_last_owner_left_it() -> None:
    """Kept in wall time, by a process with one monotonic clock, for a process with another."""
    here, there = MonotonicInstant(5 * SECOND), MonotonicInstant(900 * SECOND)
    first = CircuitBreaker()
    for nth in range(4):
        permit = first.request_permit(later(here, Span(nth)))
        assert permit is not None
        first.record(permit, succeeded=False, now=later(here, Span(nth)))
    kept = first.snapshot().shifted(Span(NOW - here))
    second = CircuitBreaker(
        restored=kept.shifted(Span(there - NOW)).clamped(
            DEFAULT_BREAKER_SETTINGS, now=later(there, Span(9))
        )
    )
    permit = second.request_permit(later(there, Span(9)))
    assert permit is not None
    second.record(permit, succeeded=False, now=later(there, Span(9)))
    assert second.state is BreakerState.OPEN, "the fifth failure"


@pytest.mark.spec("K3")
@pytest.mark.parametrize("fences", [(0, 0), (1, 1), (2, 1), (1, 2)])
def test_of_two_outcomes_the_first_counts(fences: tuple[int, int]) -> None:
    gateway = Gateway()
    gateway.ledger = ledger_with(a_transaction(Stage.SUCCEEDED))
    (transaction,) = gateway.ledger.transactions
    gateway.ledger.intents[transaction, IntentKind.CALLBACK] = DeliverCallback(transaction)
    for fence, reply in zip(fences, (Applied, Ignored), strict=True):
        outcome = CallbackConcluded(transaction, an_attempt(), fence)
        assert isinstance(gateway.receive(outcome, now=Instant(NOW)), reply)
    assert len(gateway.callbacks) == 1
    assert not gateway.ledger.intents


@define
class Process:
    """A sender with a clock of its own, that may be stopped at any time."""

    ahead: Span
    """How far its clock is ahead of the store's."""
    number: int | None = None
    fences: dict[str, int] = Factory(dict)
    renewals: RenewalHistory = RenewalHistory()
    trusted: MonotonicInstant = MonotonicInstant(-1)
    sending: list[DeliverCallback] = Factory(list)
    """Taken, and not yet sent."""
    sent: list[DeliverCallback] = Factory(list)
    """Sent, and not yet concluded."""


@define
class Nodes:
    """Processes on one store: each step is one process's; those that take no step are stopped."""

    processes: list[Process]
    book: OwnershipModel = Factory(OwnershipModel)
    gateway: Gateway = Factory(Gateway)
    now: MonotonicInstant = NOW
    sent: list[str] = Factory(list)
    """References, in the order in which they were sent."""
    on_the_wire: dict[str, list[tuple[int, MonotonicInstant]]] = Factory(dict)
    """By brand: under which fence something was sent, and when."""

    def step(self, who: int, what: str) -> None:
        process = self.processes[who % len(self.processes)]
        mine = later(self.now, process.ahead)
        match what:
            case "round":
                for part in ("renew", "take", "find"):
                    self.step(who, part)
            case "renew":
                number = self.book.renew(process.number, now=self.now)
                if number != process.number or mine >= process.trusted:
                    process.number, process.fences = number, {}
                process.trusted, process.renewals = (
                    trusted_until(mine),
                    process.renewals.renewed(mine),
                )
            case "take" | "lose" if process.number is not None:
                if process.renewals.may_end_leases(mine):
                    self.book.end_expired_leases(now=self.now)
                waiting = {self.brand(each.gateway_reference) for each in self.open()}
                taken = self.book.claim(process.number, sorted(waiting), known=process.fences)
                if what == "lose":  # The answer is lost, so nothing is known of its channels.
                    process.fences.clear()
                else:
                    process.fences |= {channel.brand: channel.fence for channel in taken}
            case "find" if process.number is not None:
                in_hand = {each.gateway_reference for each in process.sending + process.sent}
                for each in self.open():
                    brand = self.brand(each.gateway_reference)
                    fence = self.book.fence(process.number, brand)
                    if (
                        fence
                        and process.fences.get(brand) == fence
                        and each.gateway_reference not in in_hand
                    ):
                        process.sending.append(DeliverCallback(each.gateway_reference, fence))
            case "send" if process.sending:
                work = process.sending.pop(0)
                brand = self.brand(work.gateway_reference)
                if process.fences.get(brand) == work.fence and mine < process.trusted:
                    self.on_the_wire.setdefault(brand, []).append((work.fence, self.now))
                    process.sent.append(work)
                    self.sent.append(work.gateway_reference)
            case "conclude" if process.sent:
                work = process.sent.pop(0)
                self.conclude(work)
            case "die":
                process.number, process.fences, process.trusted = None, {}, MonotonicInstant(-1)
                process.renewals, process.sending, process.sent = RenewalHistory(), [], []
            case _:
                pass

    def conclude(self, work: DeliverCallback) -> None:
        attempt = an_attempt(DeliveryOutcome.DELIVERED)
        self.gateway.receive(
            CallbackConcluded(work.gateway_reference, attempt, work.fence), now=Instant(self.now)
        )

    def open(self) -> list[DeliverCallback]:
        kept = self.gateway.ledger.intents.values()
        return [each for each in kept if isinstance(each, DeliverCallback)]

    def brand(self, gateway_reference: str) -> str:
        return self.gateway.transaction(gateway_reference).order.brand


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            ["round", "round", "renew", "take", "lose", "find", "send", "send", "conclude", "die"]
        ),
        st.sampled_from(
            [
                0,
                0,
                0,
                SECOND // 3,
                LEASE_RENEWAL_INTERVAL,
                LEASE_DURATION - LEASE_MARGIN,
                LEASE_DURATION,
            ]
        ),
    ),
    max_size=120,
)


@pytest.mark.spec("K3")
@settings(max_examples=300)
@given(STEPS, st.tuples(*[st.integers(-clock.DAY, clock.DAY)] * 3))
def test_whatever_stops_when_one_process_at_a_time_sends_and_all_is_recorded_once(
    steps: list[tuple[int, str, int]], ahead: tuple[int, ...]
) -> None:
    nodes = Nodes([Process(Span(each)) for each in ahead])
    nodes.gateway.ledger = ledger_with(
        *(
            a_transaction(
                Stage.SUCCEEDED,
                gateway_reference=numbered_reference(number),
                brand=("acme", "globex")[number % 2],
                merchant_reference=f"order-{number}",
            )
            for number in range(6)
        )
    )
    for who, what, then in steps:
        nodes.step(who, what)
        nodes.now = later(nodes.now, Span(then))
    for sent in nodes.on_the_wire.values():
        fences = [fence for fence, _ in sent]
        assert fences == sorted(fences), "an earlier owner sent after a later one"
    # Whoever lives on brings everything to its end.
    nodes.now = later(nodes.now, Span(2 * LEASE_DURATION))
    for _ in range(40):
        for what in ("round", "send", "conclude"):
            nodes.step(0, what)
        nodes.now = later(nodes.now, LEASE_RENEWAL_INTERVAL)
    assert not nodes.open()
    recorded = [each.gateway_reference for each in nodes.gateway.callbacks]
    assert sorted(recorded) == [numbered_reference(number) for number in range(6)]


STANDSTILLS = st.lists(
    st.tuples(
        st.integers(1, 8),
        st.integers(0, 40 * SECOND),
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.sampled_from(["round", "lose", "find", "take", "send", "send", "conclude"]),
            ),
            max_size=30,
        ),
    ),
    max_size=6,
)


@pytest.mark.spec("K3")
@settings(max_examples=300)
@given(STANDSTILLS, st.tuples(*[st.integers(-clock.DAY, clock.DAY)] * 3))
def test_while_nobody_dies_nothing_is_sent_twice_however_long_the_store_stands_still(
    standstills: list[tuple[int, int, list[tuple[int, str]]]], ahead: tuple[int, ...]
) -> None:
    """Every process renews its lease in time while the store answers, and soon after it stood
    still."""
    nodes = Nodes([Process(Span(each)) for each in ahead])
    nodes.gateway.ledger = ledger_with(
        *(
            a_transaction(
                Stage.SUCCEEDED,
                gateway_reference=numbered_reference(number),
                brand=("acme", "globex")[number % 2],
                merchant_reference=f"order-{number}",
            )
            for number in range(12)
        )
    )
    for renewals, stood_still, steps in standstills:
        for _ in range(renewals):
            for who in range(3):
                nodes.step(who, "renew")
                nodes.now = later(nodes.now, Span(SECOND // 10))
            for who, what in steps:
                nodes.step(who, what)
            nodes.now = later(nodes.now, Span(2 * SECOND))
        nodes.now = later(nodes.now, Span(stood_still))
        for who, what in steps:
            if what != "round":
                nodes.step(who, what)
    assert len(nodes.sent) == len(set(nodes.sent))
