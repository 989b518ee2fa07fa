"""Lists the benchmarks by name, in the order of running and reporting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.options import Options
from bench.report import Outcome
from bench.suite import (
    back_test,
    callbacks,
    capacity,
    console,
    creates,
    decide,
    engine,
    expiry,
    flood,
    footprint,
    growth,
    hanging,
    life,
    limit,
    look_ups,
    overload,
    reconciliation,
    records,
    rest,
    rising,
    slow_readers,
    snapshot,
    unread,
    waits,
    whole_life,
)

SUITE: Mapping[str, Callable[[Options], Outcome]] = {
    "creates": creates.run,
    "rising": rising.run,
    "limit": limit.run,
    "look_ups": look_ups.run,
    "records": records.run,
    "reconciliation": reconciliation.run,
    "slow_readers": slow_readers.run,
    "unread": unread.run,
    "console": console.run,
    "back_test": back_test.run,
    "life": life.run,
    "whole_life": whole_life.run,
    "callbacks": callbacks.run,
    "hanging": hanging.run,
    "flood": flood.run,
    "overload": overload.run,
    "rest": rest.run,
    "waits": waits.run,
    "capacity": capacity.run,
    "snapshot": snapshot.run,
    "expiry": expiry.run,
    "footprint": footprint.run,
    "growth": growth.run,
    "engine": engine.run,
    "decide": decide.run,
}
