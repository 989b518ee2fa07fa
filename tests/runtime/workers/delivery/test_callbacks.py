"""The callback worker makes one attempt, with one breaker for each merchant, and records it
once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import structlog
import trio
from attrs import evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS_PER_BRAND
from mmo_sansio.testing import numbered_reference
from mmo_sansio.values.clock import Span, later
from mmo_sansio.values.model import Order
from mmo_trio.brands.delivery_key import DeliveryRefused
from mmo_trio.http.client.client import MaySend
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.workers.deliveries import SMALL_BODY_BYTES, CallbackStatistics, CallbackWorker
from mmo_trio.workers.scheduler import BACKLOG_WAIT_MAX_S, DueBacklog
from tests.support.callback_work import (
    DeliveryRecords,
    MerchantServers,
    callback_worker,
    delivery_client,
    monotonic_of_trio,
    running_worker,
    trio_clock,
    work_for,
)
from tests.support.hostile_receivers import (
    answers,
    answers_and_closes,
    only_accepts,
    running_receiver,
    server_context,
)

DELIVERED = DeliveryOutcome.DELIVERED
NON_2XX = DeliveryOutcome.NON_2XX
TIMEOUT = DeliveryOutcome.TIMEOUT
TRANSPORT_ERROR = DeliveryOutcome.TRANSPORT_ERROR
EGRESS_REFUSED = DeliveryOutcome.EGRESS_REFUSED
BREAKER_OPEN = DeliveryOutcome.BREAKER_OPEN

EMPTY_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """Return the log events of the worker."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.mark.spec("K1", "A4", "T4")
async def test_a_callback_arrives_with_the_merchant_s_key_and_the_transaction() -> None:
    records = DeliveryRecords(keys={"acme": b"the oldest key in use"})
    async with (
        running_receiver(answers(EMPTY_OK), server_context()) as receiver,
        running_worker(records, delivery_client().deliver) as worker,
    ):
        work = work_for("acme", 1, receiver.url)
        assert worker.try_enqueue(work)
        assert await records.outcomes(1) == [DELIVERED]
    (request,) = receiver.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /callbacks HTTP/1.1\r\n")
    assert b"content-type: application/json" in head.lower()
    assert b"x-api-key: the oldest key in use" in head.lower()
    assert body == transaction_object(work.transaction)


@pytest.mark.spec("K2")
async def test_a_receiver_that_never_answers_has_timed_out_after_15_s(
    jumping_clock: MockClock,
) -> None:
    records = DeliveryRecords()
    async with (
        running_receiver(only_accepts, server_context()) as receiver,
        running_worker(records, delivery_client().deliver) as worker,
    ):
        worker.try_enqueue(work_for("acme", 1, receiver.url))
        assert await records.outcomes(1) == [TIMEOUT]
    (attempt,) = records.recorded.values()
    assert attempt.duration_ms == 15_000


@pytest.mark.spec("K3")
@pytest.mark.parametrize("status", [b"500 Oops", b"429 Slow\r\nRetry-After: 0", b"301 There"])
async def test_there_is_one_attempt_whatever_comes_of_it(
    status: bytes, jumping_clock: MockClock
) -> None:
    records = DeliveryRecords()
    refusal = b"HTTP/1.1 " + status + b"\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
    async with (
        running_receiver(answers_and_closes(refusal), server_context()) as receiver,
        running_worker(records, delivery_client().deliver) as worker,
    ):
        worker.try_enqueue(work_for("acme", 1, receiver.url))
        assert await records.outcomes(1) == [NON_2XX]
        await trio.sleep(3600)
    assert receiver.connections == 1


@pytest.mark.spec("K4")
async def test_the_answer_s_body_goes_into_the_record() -> None:
    records = DeliveryRecords()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nthank you!"
    async with (
        running_receiver(answers(answer), server_context()) as receiver,
        running_worker(records, delivery_client().deliver) as worker,
    ):
        worker.try_enqueue(work_for("acme", 1, receiver.url))
        await records.outcomes(1)
    (attempt,) = records.recorded.values()
    assert (attempt.status, attempt.body) == (200, b"thank you!")


@pytest.mark.spec("K5")
async def test_an_open_breaker_sends_nothing_until_a_probe_succeeds(
    autojump_clock: MockClock,
) -> None:
    records, servers = DeliveryRecords(), MerchantServers({"acme": (NON_2XX, 0)})
    async with running_worker(records, servers.deliver) as worker:
        for number in range(5):
            worker.try_enqueue(work_for("acme", number))
        assert await records.outcomes(*range(5)) == [NON_2XX] * 5
        assert worker.statistics().open_breakers == {"acme"}
        worker.try_enqueue(work_for("acme", 5))
        assert await records.outcomes(5) == [BREAKER_OPEN]
        assert servers.times_sent("acme") == 5

        await trio.sleep(30)
        servers.answers["acme"] = (DELIVERED, 1)
        for number in (6, 7):
            worker.try_enqueue(work_for("acme", number))
        assert sorted(await records.outcomes(6, 7)) == [BREAKER_OPEN, DELIVERED]
        worker.try_enqueue(work_for("acme", 8))
        assert await records.outcomes(8) == [DELIVERED]
        assert not worker.statistics().open_breakers
    assert servers.times_sent("acme") == 7


@pytest.mark.spec("K5")
async def test_one_merchant_s_breaker_doesn_t_stop_another_at_the_same_host(
    autojump_clock: MockClock,
) -> None:
    records, servers = DeliveryRecords(), MerchantServers({"acme": (TRANSPORT_ERROR, 0)})
    async with running_worker(records, servers.deliver) as worker:
        for number in range(5):
            worker.try_enqueue(work_for("acme", number))
        await records.outcomes(*range(5))
        worker.try_enqueue(work_for("other", 5))
        assert await records.outcomes(5) == [DELIVERED]


@pytest.mark.spec("K5", "K6")
async def test_callbacks_behind_an_open_breaker_wait_for_due_payments_and_others_do_not(
    autojump_clock: MockClock,
) -> None:
    records, servers, backlog = (
        DeliveryRecords(),
        MerchantServers({"acme": (TRANSPORT_ERROR, 0)}),
        DueBacklog(),
    )
    backlog.update(is_present=True)
    async with running_worker(
        records, servers.deliver, wait_for_due=backlog.wait_for_end
    ) as worker:
        for number in range(5):
            worker.try_enqueue(work_for("acme", number))
        await records.outcomes(*range(5))
        worker.try_enqueue(work_for("acme", 5))
        worker.try_enqueue(work_for("other", 6))
        assert await records.outcomes(6) == [DELIVERED]
        await trio.sleep(0.9 * BACKLOG_WAIT_MAX_S)
        assert numbered_reference(5) not in records.recorded
        backlog.update(is_present=False)
        await wait_all_tasks_blocked()
        assert await records.outcomes(5) == [BREAKER_OPEN]
        backlog.update(is_present=True)
        worker.try_enqueue(work_for("acme", 7))
        await trio.sleep(1.1 * BACKLOG_WAIT_MAX_S)
        assert await records.outcomes(7) == [BREAKER_OPEN], (
            "a backlog that lasts stops none for long"
        )


@pytest.mark.spec("K5")
async def test_a_sandbox_that_moves_its_clock_fails_nothing_that_is_under_way(
    autojump_clock: MockClock,
) -> None:
    records, servers, ahead = DeliveryRecords(), MerchantServers({"acme": (DELIVERED, 5)}), [0]
    worker = CallbackWorker(
        deliver=servers.deliver,
        find_key=records.find_key,
        record_outcome=records.record,
        own_time=lambda: later(trio_clock(), Span(ahead[0])),
        monotonic=lambda: later(monotonic_of_trio(), Span(ahead[0])),
        breaker=BreakerSettings(),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: worker.run(drain=trio.Event()))
        for number in range(10):
            worker.try_enqueue(work_for("acme", number))
        await trio.sleep(1)
        ahead[0] = 20_000_000
        worker.try_enqueue(work_for("acme", 10))
        assert await records.outcomes(*range(11)) == [DELIVERED] * 11
        nursery.cancel_scope.cancel()


@pytest.mark.spec("K7", "K5")
async def test_what_egress_refuses_is_recorded_and_is_no_matter_of_the_breaker_s() -> None:
    records = DeliveryRecords()
    public_only = delivery_client(EgressRules())
    async with (
        running_receiver(answers(EMPTY_OK), server_context()) as receiver,
        running_worker(records, public_only.deliver) as worker,
    ):
        for number in range(10):
            worker.try_enqueue(work_for("acme", number, receiver.url))
        assert await records.outcomes(*range(10)) == [EGRESS_REFUSED] * 10
        assert not worker.statistics().open_breakers
    assert receiver.connections == 0


@pytest.mark.spec("K3")
async def test_work_that_is_handed_out_twice_is_done_once(autojump_clock: MockClock) -> None:
    records, servers = DeliveryRecords(), MerchantServers({"acme": (DELIVERED, 1)})
    async with running_worker(records, servers.deliver) as worker:
        assert worker.try_enqueue(work_for("acme", 1))
        assert worker.try_enqueue(work_for("acme", 1))
        await wait_all_tasks_blocked()
        assert worker.try_enqueue(work_for("acme", 1))
        assert await records.outcomes(1) == [DELIVERED]
        await trio.sleep(60)
    assert servers.times_sent("acme") == 1


@pytest.mark.spec("K3", "P5")
@pytest.mark.parametrize("error", [StoreUnavailable, OutcomeUnknown])
async def test_an_outcome_that_can_t_be_recorded_now_is_recorded_later_and_not_sent_again(
    error: type[Exception], autojump_clock: MockClock
) -> None:
    records, servers = DeliveryRecords(failures_left=12, error=error), MerchantServers()
    async with running_worker(records, servers.deliver) as worker:
        worker.try_enqueue(work_for("acme", 1))
        await trio.sleep(10)
        assert worker.try_enqueue(work_for("acme", 1))
        assert await records.outcomes(1) == [DELIVERED]
    assert servers.times_sent("acme") == 1


@pytest.mark.spec("K3")
async def test_an_outcome_that_cannot_be_decided_is_repeated_until_it_can_and_sent_once(
    autojump_clock: MockClock, logged: list[Any]
) -> None:
    records, servers = DeliveryRecords(failures_left=9, error=RuntimeError), MerchantServers()
    async with running_worker(records, servers.deliver) as worker:
        worker.try_enqueue(work_for("acme", 1))
        assert await records.outcomes(1) == [DELIVERED]
        await wait_all_tasks_blocked()
        assert worker.statistics() == CallbackStatistics(0, 0, {DELIVERED: 1}, frozenset(), 0)
    assert servers.times_sent("acme") == 1
    assert {line["event"] for line in logged} == {"delivery_record_retried", "callback_concluded"}


@pytest.mark.spec("K3")
async def test_outcomes_that_cannot_be_decided_keep_no_place_from_other_callbacks(
    autojump_clock: MockClock,
) -> None:
    bad = range(2 * DELIVERY_SLOTS_PER_BRAND)
    records = DeliveryRecords(undecidable=frozenset(map(numbered_reference, bad)))
    servers = MerchantServers()
    async with running_worker(records, servers.deliver) as worker:
        for number in bad:
            assert worker.try_enqueue(work_for("acme", number))
        await trio.sleep(60)
        assert worker.statistics().unrecorded == len(bad)
        good = range(len(bad), len(bad) + 5)
        for number in good:
            assert worker.try_enqueue(work_for("acme", number))
        assert await records.outcomes(*good) == [DELIVERED] * len(good)
    assert servers.times_sent("acme") == len(bad) + len(good)


class SealError(Exception):
    """The master key that sealed the merchant's key is not here."""


@pytest.mark.spec("K3", "A4")
async def test_a_fault_before_anything_is_sent_postpones_callbacks_and_blocks_no_channel(
    autojump_clock: MockClock, logged: list[Any]
) -> None:
    records, servers, is_mended = DeliveryRecords(), MerchantServers(), False

    async def find_key(order: Order, url: str) -> bytes | DeliveryRefused:
        key = await records.find_key(order, url)
        if order.brand == "acme" and not is_mended:
            raise SealError
        return key

    async with running_worker(records, servers.deliver, find_key=find_key) as worker:
        for number in range(70):
            assert worker.try_enqueue(work_for("acme", number))
        await trio.sleep(30)
        assert (worker.claimed_of("acme"), worker.unrecorded, servers.times_sent("acme")) == (
            0,
            70,
            0,
        )
        assert worker.try_enqueue(work_for("duka", 99))
        assert await records.outcomes(99) == [DELIVERED]
        assert {line["log_level"] for line in logged if line["event"] == "delivery_postponed"} == {
            "error"
        }
        is_mended = True
        assert await records.outcomes(*range(70)) == [DELIVERED] * 70
        assert (worker.unrecorded, len(worker.claimed())) == (0, 0)
    assert servers.times_sent("acme") == 70


@pytest.mark.spec("K3")
async def test_a_fault_after_something_may_have_been_sent_ends_the_one_attempt(
    autojump_clock: MockClock,
) -> None:
    records, sent = DeliveryRecords(), list[str]()

    async def breaks_off(request: HttpRequest, *, brand: str, may_send: MaySend) -> DeliveryAttempt:
        await trio.lowlevel.checkpoint()
        assert may_send()
        sent.append(brand)
        raise ZeroDivisionError

    async with running_worker(records, breaks_off) as worker:
        worker.try_enqueue(work_for("acme", 1))
        assert await records.outcomes(1) == [TRANSPORT_ERROR]
        await trio.sleep(3_600)
    assert sent == ["acme"]


@pytest.mark.spec("K3")
async def test_what_is_postponed_does_not_delay_the_end_of_a_process(
    autojump_clock: MockClock,
) -> None:
    records, drain = DeliveryRecords(), trio.Event()

    async def cannot_find(order: Order, url: str) -> bytes | DeliveryRefused:
        await trio.lowlevel.checkpoint()
        raise SealError

    worker = callback_worker(records, MerchantServers().deliver, find_key=cannot_find)
    worker.try_enqueue(work_for("acme", 1))
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(worker.run, drain=drain))
        await trio.sleep(100)
        drain.set()
        began = trio.current_time()
    assert trio.current_time() == began


@pytest.mark.spec("A4")
async def test_a_brand_without_a_key_is_sent_nothing_and_its_breaker_stays_closed(
    autojump_clock: MockClock,
) -> None:
    records, servers = DeliveryRecords(keys={"acme": None}), MerchantServers()
    async with running_worker(records, servers.deliver) as worker:
        for number in range(10):
            worker.try_enqueue(work_for("acme", number))
        assert await records.outcomes(*range(10)) == [TRANSPORT_ERROR] * 10
        assert not worker.statistics().open_breakers
    assert not servers.sent
    assert all("no API key" in attempt.detail for attempt in records.recorded.values())


@pytest.mark.spec("K5", "K7")
async def test_a_probe_that_is_not_sent_leaves_its_place_to_the_next_callback(
    autojump_clock: MockClock,
) -> None:
    records, servers = DeliveryRecords(), MerchantServers({"acme": (NON_2XX, 0)})
    async with running_worker(records, servers.deliver) as worker:
        for number in range(5):
            worker.try_enqueue(work_for("acme", number))
        await records.outcomes(*range(5))
        await trio.sleep(30)
        servers.answers["acme"] = (EGRESS_REFUSED, 0)
        worker.try_enqueue(work_for("acme", 5))
        assert await records.outcomes(5) == [EGRESS_REFUSED]
        servers.answers["acme"] = (DELIVERED, 0)
        worker.try_enqueue(work_for("acme", 6))
        assert await records.outcomes(6) == [DELIVERED]
        assert not worker.statistics().open_breakers


@pytest.mark.spec("A4")
async def test_the_key_is_read_at_sending_time(autojump_clock: MockClock) -> None:
    records, servers = (
        DeliveryRecords(keys={"acme": b"first"}),
        MerchantServers({"first": (DELIVERED, 5)}),
    )
    async with running_worker(records, servers.deliver, active_per_brand_max=1) as worker:
        worker.try_enqueue(work_for("acme", 1))
        worker.try_enqueue(work_for("acme", 2))
        await trio.sleep(1)
        records.keys["acme"] = b"second"
        await records.outcomes(1, 2)
    assert [brand for brand, _ in servers.sent] == ["first", "second"]


@pytest.mark.spec("K3")
async def test_a_worker_that_drains_ends_what_it_has_begun_and_begins_nothing(
    autojump_clock: MockClock,
) -> None:
    records, servers, drain = (
        DeliveryRecords(),
        MerchantServers({"acme": (DELIVERED, 10)}),
        trio.Event(),
    )
    worker = a_worker(records, servers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: worker.run(drain=drain, grace_s=20))
        for number in range(20):
            worker.try_enqueue(work_for("acme", number))
        await trio.sleep(5)
        drain.set()
        await wait_all_tasks_blocked()
        assert not worker.try_enqueue(work_for("other", 99))
    assert len(records.recorded) == 16
    assert worker.statistics().waiting == 4
    assert servers.times_sent("acme") == 16


@pytest.mark.spec("K3", "K5")
async def test_what_shutdown_cancels_is_not_concluded_and_counts_as_neither(
    autojump_clock: MockClock,
) -> None:
    records, servers, drain = (
        DeliveryRecords(),
        MerchantServers({"acme": (TIMEOUT, 15)}),
        trio.Event(),
    )
    worker = a_worker(records, servers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: worker.run(drain=drain, grace_s=3))
        for number in range(10):
            worker.try_enqueue(work_for("acme", number))
        await trio.sleep(1)
        drain.set()
    assert not records.recorded
    assert not worker.statistics().open_breakers
    assert worker.statistics().active == 0


@pytest.mark.spec("K6")
async def test_a_full_worker_refuses_the_greedy_and_takes_from_newcomers(
    autojump_clock: MockClock,
) -> None:
    records, servers = DeliveryRecords(), MerchantServers({"greedy": (TIMEOUT, 15)})
    async with running_worker(records, servers.deliver, waiting_max=100) as worker:
        taken = [worker.try_enqueue(work_for("greedy", number)) for number in range(200)]
        assert taken == [True] * 66 + [False] * 134  # 16 under way, 50 waiting
        assert not worker.has_room_for("greedy")
        assert worker.has_room_for("newcomer")
        assert worker.try_enqueue(work_for("newcomer", 1000))
        assert await records.outcomes(1000) == [DELIVERED]


@pytest.mark.spec("A5")
async def test_the_log_says_what_became_of_a_callback_without_key_url_and_body(
    logged: list[Any],
) -> None:
    records = DeliveryRecords(keys={"acme": b"canary-key"})

    async def deliver(request: HttpRequest, *, brand: str, may_send: MaySend) -> DeliveryAttempt:
        await trio.lowlevel.checkpoint()
        return DeliveryAttempt(DELIVERED, request.target.decode(), 200, 7, "", b"canary-body")

    async with running_worker(records, deliver) as worker:
        worker.try_enqueue(work_for("acme", 1, "https://merchant.example/canary-path"))
        await records.outcomes(1)
        await wait_all_tasks_blocked()
        assert "canary" not in repr(worker.statistics())
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("callback_concluded", "debug")
    assert (line["brand"], line["outcome"], line["status"]) == ("acme", "delivered", 200)
    assert "canary" not in repr(line)


@pytest.mark.parametrize("is_simulated", [False, True])
async def test_a_line_about_a_payment_by_which_no_money_moves_says_so(
    is_simulated: bool, logged: list[Any]
) -> None:
    records = DeliveryRecords()

    async def deliver(request: HttpRequest, *, brand: str, may_send: MaySend) -> DeliveryAttempt:
        await trio.lowlevel.checkpoint()
        return DeliveryAttempt(DELIVERED, request.target.decode(), 200, 7, "", b"")

    work = work_for("acme", 1)
    order = evolve(work.transaction.order, is_simulated=is_simulated)
    marked = evolve(work, transaction=evolve(work.transaction, order=order))
    async with running_worker(records, deliver) as worker:
        worker.try_enqueue(marked)
        await records.outcomes(1)
        await wait_all_tasks_blocked()
    (line,) = logged
    assert line.get("simulated") is (True if is_simulated else None)


async def test_a_callback_that_did_not_arrive_is_logged_with_its_reason(logged: list[Any]) -> None:
    records = DeliveryRecords()

    async def deliver(request: HttpRequest, *, brand: str, may_send: MaySend) -> DeliveryAttempt:
        await trio.lowlevel.checkpoint()
        refused = "Connecting failed: Connection refused."
        return DeliveryAttempt(
            DeliveryOutcome.TRANSPORT_ERROR, "https://merchant.example/", None, 7, refused, b""
        )

    async with running_worker(records, deliver) as worker:
        worker.try_enqueue(work_for("acme", 1, "https://merchant.example/"))
        await records.outcomes(1)
        await wait_all_tasks_blocked()
    (line,) = logged
    assert (line["log_level"], line["reason"]) == (
        "warning",
        "Connecting failed: Connection refused.",
    )


def a_worker(records: DeliveryRecords, servers: MerchantServers) -> CallbackWorker:
    """Return a worker that does not run yet."""
    return CallbackWorker(
        deliver=servers.deliver,
        find_key=records.find_key,
        record_outcome=records.record,
        own_time=trio_clock,
        monotonic=monotonic_of_trio,
        breaker=BreakerSettings(),
    )


@pytest.mark.spec("K4")
async def test_the_answers_of_one_merchant_do_not_fill_the_disk(autojump_clock: MockClock) -> None:
    records, size = DeliveryRecords(), 1024 * 1024

    async def deliver(request: HttpRequest, *, brand: str, may_send: MaySend) -> DeliveryAttempt:
        await trio.lowlevel.checkpoint()
        return DeliveryAttempt(
            DELIVERED, request.target.decode(), 200, 1, "The receiver answered 200.", b"x" * size
        )

    async with running_worker(records, deliver, stored_bodies_bytes=3 * size) as worker:
        for number in range(40):
            worker.try_enqueue(work_for("acme", number))
        await records.outcomes(*range(40))
        stored = [len(each.body) for each in records.recorded.values()]
        assert sorted(stored) == [SMALL_BODY_BYTES] * 37 + [size] * 3
        cut = next(each for each in records.recorded.values() if len(each.body) < size)
        assert cut.detail.endswith(
            f"Of its answer's {size} bytes, the first {SMALL_BODY_BYTES} are stored."
        )
        worker.try_enqueue(work_for("globex", 40))
        await records.outcomes(40)
        assert len(list(records.recorded.values())[-1].body) == size, (
            "the next merchant has its own"
        )
        await trio.sleep(3600)
        worker.try_enqueue(work_for("acme", 41))
        await records.outcomes(41)
        assert len(list(records.recorded.values())[-1].body) == size
