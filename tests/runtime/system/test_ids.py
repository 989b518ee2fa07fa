"""References and page tokens are unique and cannot be guessed; those of one moment are neighbours
in an index."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import define

from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Span, later
from mmo_trio.system.ids import NEIGHBOURS_MAX, PageTokenGenerator, ReferenceGenerator

NOON = Instant(1_795_262_400_000_000)


@define
class Wall:
    """A clock that the test moves."""

    at: Instant = NOON

    def now(self) -> Instant:
        return self.at

    def advance(self, span: int) -> None:
        self.at = later(self.at, Span(span))


def shared_of_reference(reference: str) -> str:
    """Return the beginning of the 12 characters that some operators repeat."""
    return reference[14:18]


def shared_of_token(token: str) -> str:
    return token[:4]


@pytest.mark.spec("W3")
def test_page_tokens_differ_in_168_random_bits_and_are_safe_in_a_url() -> None:
    tokens = PageTokenGenerator(Wall().now)
    drawn = [tokens.next() for _ in range(1000)]
    assert len({token[4:] for token in drawn}) == 1000
    assert all(
        len(token) == 32 and token.replace("-", "").replace("_", "").isalnum() for token in drawn
    )
    assert all(len({token[place] for token in drawn}) > 30 for place in range(4, 32))


def test_references_increase_even_when_the_clock_steps_back() -> None:
    wall = Wall()
    references = ReferenceGenerator(wall.now)
    drawn = []
    for turn in range(500):
        wall.advance(-MINUTE if turn == 250 else 100 * (turn % 20))
        drawn.append(references.next())
    assert all(earlier < following for earlier, following in pairwise(drawn))
    assert len({each[18:] for each in drawn}) == 500


def test_ids_of_one_second_are_neighbours_as_many_as_a_page_of_an_index_holds() -> None:
    wall = Wall()
    tokens, references = PageTokenGenerator(wall.now), ReferenceGenerator(wall.now)
    groups: list[tuple[str, str]] = []
    for _ in range(3 * NEIGHBOURS_MAX):
        wall.advance(5_000)
        groups.append((shared_of_token(tokens.next()), shared_of_reference(references.next())))
    for nth in range(3):
        assert len(set(groups[nth * NEIGHBOURS_MAX : (nth + 1) * NEIGHBOURS_MAX])) == 1
    assert len(set(groups)) == 3


@pytest.mark.spec("W3")
def test_ids_that_are_drawn_at_other_times_share_nothing() -> None:
    wall = Wall()
    tokens, references = PageTokenGenerator(wall.now), ReferenceGenerator(wall.now)
    groups = set()
    for _ in range(5):
        groups |= {shared_of_token(tokens.next()), shared_of_reference(references.next())}
        wall.advance(SECOND)
    wall.advance(-1 - SECOND)
    assert shared_of_token(tokens.next()) not in groups, "the clock has stepped back"
    assert len(groups) == 10
