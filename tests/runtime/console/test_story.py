"""A payment is told in words, amounts and times for people."""

from __future__ import annotations

import json

import pytest

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span
from mmo_sansio.values.model import Stage
from mmo_trio.admin.timeline import TimelineEntry
from mmo_trio.console.permissions import PersonalDataMask
from mmo_trio.console.views import (
    actor_name,
    describe_suspense,
    format_words,
    list_phases,
    parse_actor,
    tell_story,
    to_reading_text,
)
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.system.display_text import format_span

SEEING = PersonalDataMask(can_see_personal_data=True)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (Span(SECOND // 25), "0.04 s"),
        (Span(SECOND * 3 // 2), "1.5 s"),
        (Span(12 * SECOND), "12 s"),
        (Span(3 * MINUTE + 5 * SECOND), "3 min 5 s"),
        (Span(2 * HOUR + 10 * MINUTE), "2 h 10 min"),
        (Span(3 * DAY + 4 * HOUR), "3 d 4 h"),
    ],
)
def test_a_time_between_steps_is_short(span: Span, text: str) -> None:
    assert format_span(span) == text


def test_steps_have_an_icon_an_actor_and_the_time_since_the_step_before() -> None:
    entries = [
        TimelineEntry(
            Instant(0),
            "merchant",
            "asked for the payment",
            "CreatePayment",
            ("nothing", Stage.CREATED),
        ),
        TimelineEntry(Instant(0), "gateway", "routed it"),
        TimelineEntry(
            Instant(SECOND),
            "provider:momo",
            "has it",
            "ProviderAccepted",
            times=3,
            last_at=Instant(5 * SECOND),
        ),
        TimelineEntry(
            Instant(7 * SECOND),
            "provider:momo",
            "says that the money will not move",
            "ProviderFailed",
            ("awaiting_result", Stage.FAILED),
            {"nativeCode": "E7"},
        ),
    ]
    asked, routed, has, failed = tell_story(entries, SEEING, {"momo": "MoMo"})
    assert (asked.actor, asked.icon, asked.gap, asked.end) == ("Merchant", "shop", "", "")
    assert routed.gap == "", "no time says nothing"
    assert (has.actor, has.gap, has.times) == ("MoMo", "+1.0 s", 3)
    assert (failed.icon, failed.tone, failed.gap) == ("cross", "bad", "+2.0 s")
    assert json.loads(failed.members) == {"nativeCode": "E7"}


def test_a_bar_says_where_the_time_went() -> None:
    def entry(at_s: float, kind: str, stages: tuple[str, str] | None = None) -> TimelineEntry:
        return TimelineEntry(Instant(round(at_s * SECOND)), "x", "x", kind, stages)

    life = [
        entry(0, "CreatePayment", ("nothing", Stage.CREATED)),
        entry(1, "BeginSubmission"),
        entry(3, "ProviderAccepted"),
        entry(9, "ProviderSucceeded", (Stage.AWAITING_RESULT, Stage.SUCCEEDED)),
        entry(10, "CallbackConcluded"),
    ]
    phases = list_phases(life)
    assert [(each.name, each.span, each.begin, each.width) for each in phases] == [
        ("before it was sent", "1.0 s", 0, 10),
        ("until the provider had it", "2.0 s", 10, 20),
        ("PIN and result", "6.0 s", 30, 60),
        ("callback", "1.0 s", 90, 10),
    ]
    assert list_phases(life[:3]) == []
    straight = list_phases([life[1], life[3]])
    assert [(each.name, each.width) for each in straight] == [("PIN and result", 100)]


def test_steps_within_a_second_say_how_long_they_took() -> None:
    steps = [TimelineEntry(Instant(at * SECOND // 10), "x", "x") for at in (0, 2, 2)]
    assert [each.gap for each in tell_story(steps, SEEING, {})] == ["", "+0.20 s", ""]


def test_names_are_for_people() -> None:
    assert actor_name("user:ada", {}) == "ada"
    assert actor_name("provider:gone", {}) == "gone"
    assert format_words("awaiting_result") == "awaiting result"


def test_sentences_are_written_as_pages_write() -> None:
    sentence = (
        "It failed with user_cancelled at 2026-11-22T23:42:25.412983Z: 10000.00 KES by mpesa_ke."
    )
    assert to_reading_text(sentence) == (
        "It failed with user cancelled at 2026-11-22 23:42:25 UTC: KES 10,000.00 by mpesa_ke."
    )


@pytest.mark.spec("S5")
@pytest.mark.parametrize("reason", SuspenseReason)
def test_each_entry_of_the_suspense_book_has_its_sentence_with_both_amounts(
    reason: SuspenseReason,
) -> None:
    content = json.dumps({"result": "success", "amount": "2449.99 KES"})
    entry = SuspenseEntry(
        3, reason, "mpesa", content, a.REFERENCE, "acme", Instant(0), Instant(0), 1
    )
    gateway = Gateway()
    gateway.receive(a.a_create_payment(), now=a.START)
    text = describe_suspense(entry, gateway.transaction(a.REFERENCE))
    is_settled = reason in (SuspenseReason.SETTLED_LESS, SuspenseReason.SETTLED_MORE)
    said = "settled" if is_settled else "reported success,"
    assert text == f"Asked KES 150.00, {said} KES 2,449.99."
    assert describe_suspense(entry, None) == "Reported success, KES 2,449.99."


@pytest.mark.parametrize(
    ("shown", "actor"),
    [
        ("ada", "user:ada"),
        ("user:ada", "user:ada"),
        ("root (command line)", "cli:root"),
        ("gateway", "gateway"),
        ("nobody", "nobody"),
    ],
)
def test_an_actor_is_named_as_the_list_shows_it(shown: str, actor: str) -> None:
    assert parse_actor(shown) == actor
