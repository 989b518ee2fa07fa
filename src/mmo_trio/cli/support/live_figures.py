"""Reads the figures of a running gateway from its metrics: what is now, and what happened between two readings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import frozen
from prometheus_client.parser import text_string_to_metric_families

from mmo_sansio.values.model import Operation

CREATION_ROUTES = frozenset(each.value for each in Operation)
DELIVERED = "delivered"

Labels: TypeAlias = frozenset[tuple[str, str]]


@frozen
class MetricsReading:
    """Holds all samples of one reading of `/metrics`, over all processes."""

    at_s: float
    """When it was read, by a clock that runs evenly."""
    samples: Mapping[tuple[str, Labels], float]
    """The values by name and labels without `process`; counters are summed, gauges of the store are the highest."""
    processes: int

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with these labels, whatever other labels they have."""
        wanted = labels.items()
        return sum(value for (each, found), value in self.samples.items() if each == name and found >= wanted)

    def label_values(self, name: str, label: str) -> list[str]:
        """Return the values that a label of these samples has, sorted."""
        return sorted({dict(found)[label] for each, found in self.samples if each == name and label in dict(found)})


@frozen
class Traffic:
    """Says what happened between two readings, a second."""

    requests: float
    creations: float
    rejected: float
    """Requests that were answered with a 4xx."""
    failed: float
    """Requests that were answered with a 5xx."""
    slowest_ms: float | None
    """The 99th percentile of the time to an answer, as the upper bound of its bucket: infinity beyond the last one, and
    None without a request."""
    commits: float
    commit_ms: float | None
    """The 99th percentile of a commit's time, in the same way."""
    delivered: float
    undelivered: float


@frozen
class ProviderFigures:
    """Holds one provider's conversations between two readings, and whether it is used."""

    name: str
    submissions: float
    """Submissions a second."""
    failures: float
    """Requests without a usable response, a second."""
    exchange_ms: float | None
    breaker: str
    """The state of the circuit breaker; of several processes, the worst."""
    is_closed: bool


@frozen
class LiveFigures:
    """Holds what one screen shows."""

    processes: int
    is_store_up: bool
    traffic: Traffic | None
    """None at the first reading."""
    pending: int
    stuck: int
    overdue: int
    callbacks_open: int
    callback_breakers: int
    suspense: int
    providers: tuple[ProviderFigures, ...]


_SAME_ON_ALL_NODES = (
    "mmo_transactions_",
    "mmo_callbacks_open",
    "mmo_suspense_",
    "mmo_deposit_",
    "mmo_brand",
    "mmo_store_up",
)
"""The beginnings of metrics that are read from the store, and so are not summed over processes."""

_BREAKER_STATES = ("open", "half_open", "closed")
"""Those of a circuit breaker, the worst first."""


def read_metrics(text: str, at_s: float) -> MetricsReading:
    """Parse metrics in the text format of Prometheus. Raises ValueError for other text."""
    samples: dict[tuple[str, Labels], float] = {}
    processes = set[str]()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            processes.add(sample.labels.get("process", ""))
            labels = frozenset((name, value) for name, value in sample.labels.items() if name != "process")
            key = (sample.name, labels)
            value = float(sample.value)
            if key not in samples:
                samples[key] = value
            elif sample.name.startswith(_SAME_ON_ALL_NODES):
                samples[key] = max(samples[key], value)
            else:
                samples[key] += value
    if not samples:
        raise ValueError("there are no metrics in it")
    return MetricsReading(at_s, samples, len(processes))


def live_figures(now: MetricsReading, before: MetricsReading | None) -> LiveFigures:
    """Return the figures of this reading, with rates since the one before."""
    return LiveFigures(
        processes=now.processes,
        is_store_up=now.total("mmo_store_up") > 0,
        traffic=None if before is None else _traffic(now, before),
        pending=int(now.total("mmo_transactions_pending")),
        stuck=int(now.total("mmo_transactions_stuck")),
        overdue=int(now.total("mmo_transactions_overdue")),
        callbacks_open=int(now.total("mmo_callbacks_open")),
        callback_breakers=int(now.total("mmo_callback_breakers_open")),
        suspense=int(now.total("mmo_suspense_open")),
        providers=tuple(_provider(now, before, name) for name in now.label_values("mmo_provider_closed", "provider")),
    )


def _traffic(now: MetricsReading, before: MetricsReading) -> Traffic:
    requests = "mmo_http_requests_total"
    delivered = _rate(now, before, "mmo_callbacks_total", outcome=DELIVERED)
    return Traffic(
        requests=_rate(now, before, requests),
        creations=sum(_rate(now, before, requests, route=route, status="2xx") for route in CREATION_ROUTES),
        rejected=_rate(now, before, requests, status="4xx"),
        failed=_rate(now, before, requests, status="5xx"),
        slowest_ms=_percentile_ms(now, before, "mmo_http_request_seconds"),
        commits=_rate(now, before, "mmo_engine_batches_total"),
        commit_ms=_percentile_ms(now, before, "mmo_store_commit_seconds"),
        delivered=delivered,
        undelivered=_rate(now, before, "mmo_callbacks_total") - delivered,
    )


def _provider(now: MetricsReading, before: MetricsReading | None, name: str) -> ProviderFigures:
    breaker = "mmo_provider_breaker_state"
    states = [each for each in _BREAKER_STATES if now.total(breaker, provider=name, state=each)]
    return ProviderFigures(
        name,
        0.0 if before is None else _rate(now, before, "mmo_provider_submissions_total", provider=name),
        0.0 if before is None else _rate(now, before, "mmo_provider_exchange_failures_total", provider=name),
        None if before is None else _percentile_ms(now, before, "mmo_provider_exchange_seconds", provider=name),
        states[0] if states else "closed",
        now.total("mmo_provider_closed", provider=name) > 0,
    )


def _rate(now: MetricsReading, before: MetricsReading, name: str, **labels: str) -> float:
    """Return by how much a counter rose a second; one that fell belongs to a process that has begun again."""
    rose = now.total(name, **labels) - before.total(name, **labels)
    return max(rose, 0.0) / max(now.at_s - before.at_s, 1e-9)


def _percentile_ms(now: MetricsReading, before: MetricsReading, name: str, **labels: str) -> float | None:
    """Return the upper bound of the bucket of the 99th percentile of what was observed between two readings."""
    name = f"{name}_bucket"
    counts = _buckets(now, name, labels.items())
    counts.subtract(_buckets(before, name, labels.items()))
    observed = counts[math.inf]
    if observed <= 0:
        return None
    return next(bound for bound in sorted(counts) if counts[bound] >= 0.99 * observed) * 1_000


def _buckets(reading: MetricsReading, name: str, labels: Iterable[tuple[str, str]]) -> Counter[float]:
    counts, wanted = Counter[float](), set(labels)
    for (each, found), value in reading.samples.items():
        if each == name and found >= wanted:
            counts[float(dict(found)["le"])] += int(value)
    return counts
