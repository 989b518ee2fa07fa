"""Measures callbacks to 100 merchants of which 10 hang: the effect on the other 90."""

from __future__ import annotations

import statistics
from pathlib import Path

from bench import load, machine, merchants, servers
from bench.load import DIRECT
from bench.merchants import ReceivedCallbacks
from bench.options import Options
from bench.report import Goal, Outcome, Table

MERCHANTS = 100
HANGING = 10
PER_S = 150.0
SECONDS = 20.0
CONNECTIONS = 16
ROUNDS_MOST = 3


def run(options: Options) -> Outcome:
    """Run rounds without and with hanging merchants in turn, each on its own gateway."""
    rounds = min(options.rounds, ROUNDS_MOST)
    calm, hung = [], []
    for number in range(rounds):
        calm.append(_round(options.folder / f"calm-{number}", hanging=0))
        hung.append(_round(options.folder / f"hung-{number}", hanging=HANGING))
    ratios = [with_.p99_ms / without.p99_ms for with_, without in zip(hung, calm, strict=True)]
    ratio = statistics.median(ratios)
    table = Table(
        f"result to callback of the {MERCHANTS - HANGING} that are well; medians of "
        f"{rounds} rounds",
        ("the other 10", "callbacks", "p50 ms", "p99 ms", "p99 ratio"),
        [
            ["are well", *_cells(calm), "1.00 x"],
            ["hang", *_cells(hung), f"{ratio:.2f} x (of each round: {_listed(ratios)})"],
        ],
        "the server's core; a hanging merchant holds at most its own 16 places, until its "
        "breaker opens.",
    )
    return Outcome(
        "hanging",
        "Merchants that hang",
        f"{PER_S:g} payments a second for {SECONDS:g} s, spread evenly over {MERCHANTS} brands,"
        " each called back over"
        " TLS. The receivers that hang accept connections and never say a word, so that each"
        " callback to them takes"
        " its whole 15 s.",
        [table],
        [Goal("p99 of the others, 10 of 100 hanging", 1.5, ratio, " x", at_most=True)],
    )


def _round(folder: Path, *, hanging: int) -> ReceivedCallbacks:
    keys = [merchants.key_of(number) for number in range(MERCHANTS)]
    with (
        merchants.receivers(folder, keys) as receivers,
        servers.gateway(folder, brands=merchants.brands(MERCHANTS)) as server,
    ):
        results = []
        for number, key in enumerate(keys):
            place = receivers.hangs if number < hanging else receivers.well
            results.append((key, place, "h" if number < HANGING else "w"))
        child = load.start(
            server,
            DIRECT,
            seconds=SECONDS,
            connections=CONNECTIONS,
            merchants=merchants.write(folder / "merchants", results),
            rate=PER_S,
        )
        assert load.finish(child).bad == 0
        machine.wait_until_quiet(server.pid, timeout_s=20)
        return receivers.end()["w"]


def _cells(rounds: list[ReceivedCallbacks]) -> list[str]:
    return [
        f"{sum(each.count for each in rounds):,}",
        f"{statistics.median(each.p50_ms for each in rounds):.1f}",
        f"{statistics.median(each.p99_ms for each in rounds):.1f}",
    ]


def _listed(values: list[float]) -> str:
    return ", ".join(f"{each:.2f}" for each in values)
