"""What happened to a payment, as people read it: every event in order, repeated ones in one
line."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import MINUTE, Span, later
from mmo_sansio.values.model import Stage
from mmo_trio.admin.timeline import timeline
from tests.runtime.admin.test_explanation import case


def test_the_timeline_follows_the_journal() -> None:
    lines = timeline(case(a.a_begin_submission(), a.accepted(), a.succeeded()))
    assert [line.actor for line in lines] == [
        "merchant",
        "gateway",
        "gateway",
        "provider:test",
        "provider:test",
    ]
    assert "[on its way to the provider → waits for the result]" in lines[3].description
    assert [line.at for line in lines] == sorted(line.at for line in lines)


def test_the_timeline_says_how_a_request_was_routed() -> None:
    asked, routed, *_ = timeline(case())
    assert (asked.actor, routed.actor) == ("merchant", "gateway")
    assert routed.description.startswith(
        "found the request valid: test_ke in KE may take 150.00 KES (direct/payin)"
    )


def test_equal_answers_to_repeated_polls_are_one_line() -> None:
    history = case(a.a_begin_submission(), a.accepted())
    answer = evolve(history.journal[-1], stage_before=Stage.AWAITING_RESULT)
    tick = evolve(answer, input_name="TransactionWoke", actor="clock", detail="{}")
    polled = [
        evolve(each, at=later(a.START, Span(minute * MINUTE)))
        for minute in range(1, 84)
        for each in (tick, answer)
    ]
    lines = timeline(evolve(history, journal=[*history.journal, *polled]))
    assert [(line.actor, line.times) for line in lines] == [
        ("merchant", 1),
        ("gateway", 1),
        ("gateway", 1),
        ("provider:test", 1),
        ("provider:test", 83),
    ]
    assert (lines[4].at, lines[4].last_at) == (polled[0].at, polled[-1].at)
    assert "83 times, the last at " in lines[4].text


def test_a_time_to_act_without_an_answer_is_a_line() -> None:
    history = case(a.a_begin_submission(), a.accepted())
    tick = evolve(
        history.journal[-1],
        input_name="TransactionWoke",
        actor="clock",
        stage_before=Stage.AWAITING_RESULT,
    )
    assert [line.actor for line in timeline(evolve(history, journal=[*history.journal, tick]))][
        -1
    ] == "clock"
