"""Staff are told once of what waits for a person, again when there is more or after a long time,
and never more often than they want."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mmo_sansio.resilience.notices import (
    GROWTH_TOLD_AFTER,
    Matter,
    NoticeKind,
    NoticeLimits,
    NoticeRecord,
    attempted,
    delivered,
    is_due,
    patient,
    seen,
    sentence,
)
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Instant, Span
from mmo_sansio.values.money import Money

LIMITS = NoticeLimits(per_hour=3, repeat_after=Span(12 * HOUR))
STUCK, SUSPENSE = NoticeKind.PAYMENTS_STUCK, NoticeKind.SUSPENSE


class Staff:
    """Looks every minute at what waits, as a gateway does, and notes each message."""

    def __init__(self, limits: NoticeLimits = LIMITS) -> None:
        self.record, self.limits = NoticeRecord(), limits
        self.minute = 0
        self.messages: list[tuple[int, list[NoticeKind]]] = []
        self.arrives = True

    def wait(self, minutes: int, *matters: Matter) -> Sequence[tuple[int, list[NoticeKind]]]:
        """Let this wait for so many minutes; return the messages since the start."""
        for _ in range(minutes):
            now = Instant(10**15 + self.minute * MINUTE)
            self.record = seen(self.record, matters, now)
            lasting = patient(self.record, matters, now)
            if is_due(self.record, lasting, self.limits, now):
                self.record = attempted(self.record, now)
                self.messages.append((self.minute, [each.kind for each in lasting]))
                if self.arrives:
                    self.record = delivered(self.record, lasting, now)
            self.minute += 1
        return self.messages


def test_what_waits_is_told_once_and_again_after_the_interval() -> None:
    staff = Staff()
    staff.wait(5)
    assert staff.wait(25 * 60, Matter(STUCK, 2)) == [
        (5, [STUCK]),
        (5 + 12 * 60, [STUCK]),
        (5 + 24 * 60, [STUCK]),
    ]


def test_one_message_names_all_that_waits_the_most_urgent_first() -> None:
    assert Staff().wait(1, Matter(SUSPENSE, 1), Matter(STUCK, 2)) == [(0, [STUCK, SUSPENSE])]


def test_what_begins_to_wait_is_told_at_once_with_what_waits_already() -> None:
    staff = Staff()
    staff.wait(3, Matter(STUCK, 2))
    assert staff.wait(10, Matter(STUCK, 2), Matter(SUSPENSE, 1))[1:] == [(3, [STUCK, SUSPENSE])]


def test_more_of_the_same_is_told_after_a_while_and_less_is_not() -> None:
    staff = Staff()
    staff.wait(1, Matter(STUCK, 2))
    assert staff.wait(30, Matter(STUCK, 5))[1:] == [(GROWTH_TOLD_AFTER // MINUTE, [STUCK])]
    assert len(staff.wait(60, Matter(STUCK, 4))) == 2


def test_what_comes_and_goes_is_one_message() -> None:
    staff = Staff()
    for _ in range(4):
        staff.wait(1, Matter(STUCK, 2))
        staff.wait(2)
    assert len(staff.messages) == 1
    staff.wait(20)
    assert len(staff.wait(1, Matter(STUCK, 2))) == 2, "that is another time"


def test_an_hour_has_so_many_messages_and_the_last_is_for_news() -> None:
    staff = Staff()
    for count in range(1, 60):
        staff.wait(1, Matter(STUCK, count))
    assert [minute for minute, _ in staff.messages] == [0, 15]
    assert staff.wait(1, Matter(STUCK, 60), Matter(SUSPENSE, 1))[2:] == [(59, [STUCK, SUSPENSE])]


def test_the_bound_holds_whatever_waits() -> None:
    staff = Staff()
    kinds = list(NoticeKind)
    for number in range(600):
        waiting = [Matter(kind, number) for kind in kinds[: number % len(kinds) + 1]]
        staff.wait(1, *waiting)
        if number % 40 == 0:
            staff.wait(20)
    at = [minute for minute, _ in staff.messages]
    assert len(at) > 6
    assert all(sum(begin <= each < begin + 60 for each in at) <= 3 for begin in at)


def test_with_one_message_an_hour_repetitions_are_sent_too() -> None:
    staff = Staff(NoticeLimits(per_hour=1, repeat_after=Span(2 * HOUR)))
    assert len(staff.wait(3 * 60, Matter(STUCK, 1))) == 2


def test_a_receiver_that_is_down_is_tried_less_and_less_and_loses_nothing() -> None:
    staff = Staff(NoticeLimits(per_hour=60, repeat_after=Span(DAY)))
    staff.arrives = False
    staff.wait(60, Matter(STUCK, 1))
    assert [minute for minute, _ in staff.messages] == [0, 1, 3, 7, 15, 30, 45]
    staff.arrives = True
    assert len(staff.wait(60, Matter(STUCK, 1))) == 8


def test_a_receiver_that_was_down_for_hours_is_told_again() -> None:
    staff = Staff()
    staff.arrives = False
    staff.wait(1, Matter(STUCK, 1))
    staff.wait(300)
    staff.arrives = True
    assert len(staff.wait(1, Matter(STUCK, 1))) == 2


def test_what_may_pass_by_itself_is_told_when_it_lasts() -> None:
    kind = NoticeKind.SIGN_IN_FAILS
    staff = Staff()
    staff.wait(10, Matter(kind, 1))
    staff.wait(3)
    assert staff.wait(20, Matter(kind, 1)) == [(13 + 15, [kind])]


def test_what_a_round_does_not_find_lasts_when_the_next_one_does() -> None:
    kind = NoticeKind.SIGN_IN_FAILS
    staff = Staff()
    for _ in range(8):
        staff.wait(1, Matter(kind, 1))
        staff.wait(1)
    assert staff.wait(1, Matter(kind, 1)) == [(16, [kind])]


def test_the_days_of_a_certificate_are_told_with_the_interval() -> None:
    kind = NoticeKind.CERTIFICATE_EXPIRES
    staff = Staff()
    staff.wait(60, Matter(kind, 13))
    assert len(staff.wait(60, Matter(kind, 14))) == 1


@pytest.mark.parametrize("kind", list(NoticeKind))
@pytest.mark.parametrize("count", [1, 1_200])
def test_each_kind_is_a_sentence(kind: NoticeKind, count: int) -> None:
    text = sentence(Matter(kind, count))
    assert text.endswith(".")
    assert "{" not in text
    assert (count == 1) or "1,200" in text


def test_a_sentence_has_sums_by_currency_and_names_of_providers() -> None:
    sums = (Money(9_145_000, "KES"), Money(180_000, "UGX"))
    assert sentence(Matter(STUCK, 2, sums=sums)) == (
        "The outcomes of 2 payments have been unknown for an hour: "
        "KES\xa091,450.00, UGX\xa0180,000."
    ).replace("\xa0", " ")
    assert sentence(Matter(NoticeKind.FLOAT_LOW, 1, providers=("mtn",))) == "1 float is low: mtn."
