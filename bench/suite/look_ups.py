"""Measures look-ups per second by gatewayReference, over all rows of the large tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from attrs import evolve

from bench import servers
from bench.load import LoadResult, Requests, look_ups, ratio, round_of
from bench.million import our_million, their_million
from bench.options import Options
from bench.report import COMPARISON, Goal, Outcome, Table, comparison, setting
from bench.servers import Server
from bench.suite.rising import BESIDE, FREE

GOAL = 3.0
DOES = (
    "key (any of many brands'), host, whose it is; the object is the same bytes everywhere",
    "less than we do: one key, one brand",
    "much less than we do: no key, one brand",
)


def run(options: Options) -> Outcome:
    """Run alternating rounds with 64 connections and references from all parts of the table, for
    each place of the rivals' database."""
    tables, ratios = list[Table](), list[float]()
    with ExitStack() as stack:
        ours = our_million(options.saved, options.rows)
        theirs = stack.enter_context(their_million(options.saved, options.rows))
        contenders = [
            stack.enter_context(servers.gateway(ours.folder)),
            *stack.enter_context(servers.rivals(options.folder, theirs.dsn, theirs.database)),
        ]
        asked = [look_ups(ours.references), *[look_ups(theirs.references)] * 2]
        for place in (FREE, BESIDE):
            theirs.database.place(is_spread=place == FREE)
            rounds = _rounds(contenders, asked, options)
            tables.append(
                _table(
                    f"{place}, 64 connections, medians, {options.rows:,} rows", contenders, rounds
                )
            )
            ratios.append(ratio(rounds[0], rounds[1]))
    return Outcome(
        "look_ups",
        "Look-ups by gatewayReference",
        f"One process, {options.rounds} rounds of {options.seconds} s for each in turn. All answer"
        " the whole"
        " transaction object; both rivals leave providerData null, the floor checks no key.",
        tables,
        [Goal("look-ups : FastAPI", GOAL, min(ratios), " x")],
        setting=setting(),
    )


def _rounds(
    contenders: Sequence[Server], asked: Sequence[Requests], options: Options
) -> list[list[LoadResult]]:
    """Return the rounds of each contender."""
    rounds: list[list[LoadResult]] = [[] for _ in contenders]
    for number in range(options.rounds):
        for place, server in enumerate(contenders):
            rounds[place].append(
                round_of(server, asked[place], seconds=options.seconds, run=f"{number}")
            )
    return rounds


def _table(
    caption: str, contenders: Sequence[Server], rounds: Sequence[Sequence[LoadResult]]
) -> Table:
    results = [
        (evolve(server, does=does), measured)
        for server, does, measured in zip(contenders, DOES, rounds, strict=True)
    ]
    return Table(
        caption,
        COMPARISON,
        comparison(results),
        "the server's own core; every row that is looked up is in the database's or the "
        "system's memory.",
    )
