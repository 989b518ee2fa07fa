"""The limits of rates: a handful at once, then evenly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.resilience.token_bucket import TokenBucket
from mmo_sansio.values.clock import MINUTE, SECOND, MonotonicInstant, Span


def reserve(bucket: TokenBucket, now: MonotonicInstant) -> Span:
    """Take the next turn, and return how long to wait for it."""
    delay = bucket.delay(now)
    bucket.spend(now)
    return delay


def test_requests_come_evenly_after_a_first_handful() -> None:
    pace = TokenBucket(per_second=1, burst=6)
    assert [reserve(pace, MonotonicInstant(MINUTE)) for _ in range(8)] == [0] * 6 + [
        SECOND,
        2 * SECOND,
    ]


def test_a_look_takes_no_turn() -> None:
    pace = TokenBucket(per_second=1 / 60, burst=1 + 5 / 60)
    assert reserve(pace, MonotonicInstant(0)) == 0
    assert pace.delay(MonotonicInstant(0)) == pace.delay(MonotonicInstant(0)) == 55 * SECOND
    assert pace.delay(MonotonicInstant(MINUTE)) == 0


def at(seconds: float) -> MonotonicInstant:
    return MonotonicInstant(1_000 * SECOND + round(seconds * SECOND))


def test_a_burst_passes_and_then_the_rate() -> None:
    bucket = TokenBucket(per_second=10, burst=3)
    assert [bucket.take(at(0)) for _ in range(4)] == [0, 0, 0, SECOND // 10]
    assert bucket.take(at(0.05)) == SECOND // 20
    assert bucket.take(at(0.1)) == 0
    assert bucket.take(at(0.1)) == SECOND // 10
    assert [bucket.take(at(60)) for _ in range(4)] == [0, 0, 0, SECOND // 10]


def test_a_share_below_one_a_second_passes_now_and_then() -> None:
    bucket = TokenBucket(per_second=0.25, burst=1)
    assert bucket.take(at(0)) == 0
    assert bucket.take(at(1)) == 3 * SECOND
    assert bucket.take(at(4)) == 0


@given(st.lists(st.integers(0, SECOND), max_size=60), st.integers(1, 20), st.integers(1, 10))
def test_no_time_sees_more_than_the_burst_and_its_share(
    pauses: list[int], rate: int, burst: int
) -> None:
    bucket, now, passed = TokenBucket(rate, burst), at(0), list[int]()
    for pause in pauses:
        now = MonotonicInstant(now + pause)
        if bucket.take(now) == 0:
            passed.append(now)
    for first, begin in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            assert last - first + 1 <= burst + (end - begin) * rate / SECOND + 1e-4
