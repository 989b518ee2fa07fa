"""The fuzzer finds nothing wrong with the listener, and would find it."""

from __future__ import annotations

import pytest

from mmo_sansio.http.listener_limits import ListenerLimits
from tests.support.http_listener import get, listening, open_descriptors, post, wait_for_descriptors
from tests.support.request_fuzzer import ViolationError, check_answers, fuzz
from tests.support.request_mutations import mutant

VALID = [
    get(b"/gateway/mmo/v2/status/01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    get(b"/gateway/mmo/v2/records?from=2026-01-01&to=2026-02-01", method=b"HEAD"),
    post(b'{"amount":{"value":10.50,"currency":"KES"},"labels":{"a":1}}', b"Content-Type: a/b"),
]
COUNT = 2_000


@pytest.mark.spec("G3", "G9", "P4")
async def test_no_mutated_request_breaks_an_invariant() -> None:
    limits = ListenerLimits(connections_per_address=4096)
    async with listening(limits, patience_s=120) as here:
        before = open_descriptors()
        tally = await fuzz(("127.0.0.1", here.port), VALID, seed=1, count=COUNT)
        await wait_for_descriptors(before)
    assert tally.total() >= COUNT
    assert {0, 200, 400, 401, 413, 414, 431} <= tally.keys(), "the mutations reach everywhere"


def test_a_case_is_made_from_its_seed_and_number_alone() -> None:
    assert mutant(VALID, 1, 7) == mutant(VALID, 1, 7)
    assert len({mutant(VALID, 1, number) for number in range(100)}) > 90


GOOD_HEAD = b"X-Request-Id: r\r\nCache-Control: no-store\r\n"


def an_answer(status: int, body: bytes = b"{}", kind: bytes = b"application/problem+json") -> bytes:
    """An answer that is good but for what the test says."""
    fields = b"Content-Type: %s\r\nContent-Length: %d\r\n" % (kind, len(body))
    return b"HTTP/1.1 %d X\r\n" % status + GOOD_HEAD + fields + b"\r\n" + body


def a_problem(status: int) -> bytes:
    return b'{"type":"t","title":"t","status":%d,"detail":"d","errorCode":"e"}' % status


def test_good_answers_are_found_good() -> None:
    came = b"HTTP/1.1 100 Continue\r\n\r\n" + an_answer(200) + an_answer(400, a_problem(400))
    assert check_answers(came) == [200, 400]
    assert check_answers(an_answer(404, a_problem(404)).partition(b"{")[0], lenient=True) == [404]


VIOLATIONS = [
    (b"HTTP/0.9", "no HTTP/1.1 answer"),
    (an_answer(200)[:-1], "cut short"),
    (an_answer(200).replace(b"no-store", b"private"), "lacks"),
    (an_answer(200).replace(b"X-Request-Id", b"X-Other"), "lacks"),
    (an_answer(200, kind=b"text/html; charset=utf-8"), "HTML"),
    (an_answer(500, a_problem(500)), "not for a client to cause"),
    (an_answer(503, a_problem(503)), "not for a client to cause"),
    (an_answer(404, a_problem(404), b"application/json"), "not a problem document"),
    (an_answer(404, a_problem(400)), "says 400"),
    (an_answer(404, b'{"status":404}'), "incomplete"),
]


@pytest.mark.parametrize(("came", "words"), VIOLATIONS, ids=range(len(VIOLATIONS)))
def test_a_violation_is_seen(came: bytes, words: str) -> None:
    with pytest.raises(ViolationError, match=words):
        check_answers(came)
