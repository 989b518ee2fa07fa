"""When a server counts as lost, in seconds that nobody waits."""

from __future__ import annotations

from mmo_sansio.resilience.reachability import Reachability, ServerState

REACHABLE, SUSPECTED, LOST = ServerState


def test_a_server_that_answers_nobody_is_lost_after_a_failed_probe() -> None:
    server = Reachability(5)
    for now in (1, 3, 4.9):
        server.record_silence(0, now)
        assert server.state is REACHABLE, "a failover takes as long"
    server.record_silence(0, 5)
    assert server.state is SUSPECTED
    server.record_failed_probe()
    assert server.state is LOST


def test_any_answer_makes_it_reachable() -> None:
    for probes in (0, 1, 2):
        server = Reachability(5)
        server.record_silence(0, 5)
        for _ in range(probes):
            server.record_failed_probe()
        server.record_answer(6)
        assert server.state is REACHABLE
        server.record_failed_probe()
        assert server.state is REACHABLE, "that probe began before the answer"


def test_one_call_without_an_answer_counts_from_the_last_answer_to_another() -> None:
    server = Reachability(5)
    server.record_answer(9)
    server.record_silence(0, 10)
    assert server.state is REACHABLE
    server.record_silence(12, 13)
    server.record_silence(13, 14)
    assert server.state is SUSPECTED, "since 9"


def test_answers_in_between_keep_it_reachable() -> None:
    server = Reachability(5)
    for second in range(100):
        server.record_silence(second - 7, second)
        server.record_answer(second)
    assert server.state is REACHABLE
