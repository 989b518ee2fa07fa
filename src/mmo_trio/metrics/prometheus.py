"""The figures of one gateway process, in the text form that Prometheus reads.

Nothing here is on the path of a request: the parts keep plain counts, and whoever asks has them made into text. Every
label is one of a closed set, or the name of a configured provider; no brand, reference or number is one.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import structlog
import trio
from attrs import Factory, define, frozen
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from mmo_sansio import __version__
from mmo_sansio.api.incoming.routes import ROUTE_NAMES
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.problems import CATALOGUE
from mmo_trio.engine.engine import EngineStatistics
from mmo_trio.http.handler import UNROUTED
from mmo_trio.http.request_metrics import Traffic
from mmo_trio.metrics.process_files import Board
from mmo_trio.storage.interface.store import Backlog, Store, StoreUnavailable
from mmo_trio.system.latency import Durations
from mmo_trio.workers.delivery.callbacks import CallbackStatistics
from mmo_trio.workers.providers.account import Account
from mmo_trio.workers.providers.counters import REPORTS, ProviderStatistics

logger = structlog.get_logger(__name__)

STUCK_AFTER: Final = clock.HOUR
"""A transaction that has been pending for so long needs a person."""
OVERDUE_AFTER: Final = clock.MINUTE
"""A transaction that should have been woken so long ago is part of a backlog."""
ROUTES: Final = (*ROUTE_NAMES, UNROUTED)
BACKLOG_S: Final = 10.0
"""The store is asked at most this often, however many ask us."""

Labels = Mapping[str, str]


@define(eq=False)
class StoreFigures:
    """What is waiting in the store, asked for now and then."""

    store: Store
    now: Callable[[], Instant]
    _kept: Backlog | None = None
    _until: float = 0.0
    _asking: trio.Lock = Factory(trio.Lock)

    async def backlog(self) -> Backlog | None:
        """At most ten seconds old; None while the store can't serve."""
        async with self._asking:
            if trio.current_time() >= self._until:
                self._kept = await self._ask()
                self._until = trio.current_time() + BACKLOG_S
        return self._kept

    async def _ask(self) -> Backlog | None:
        now = self.now()
        try:
            return await self.store.backlog(
                stuck_before=now - STUCK_AFTER, overdue_before=now - OVERDUE_AFTER
            )
        except StoreUnavailable as error:
            logger.warning("backlog not read", error=str(error))
            return None


@frozen
class Figures:
    """Reads the statistics of the parts whenever it is asked."""

    traffic: Traffic
    engine: Callable[[], EngineStatistics]
    providers: Callable[[], ProviderStatistics]
    callbacks: Callable[[], CallbackStatistics]
    qr_codes: Mapping[DeliveryOutcome, int]
    """Concluded so far."""
    accounts: Mapping[str, Account]
    """By the name of their provider."""
    is_closed: Callable[[str], bool]
    """Whether a person has closed the provider with this name for new payments."""
    store: StoreFigures
    board: Board | None = None
    """Where other processes of this service leave theirs; None: there are none."""

    async def text(self) -> bytes:
        """All of them, now; of other processes as they were a few seconds ago."""
        own = tuple(self._families(await self.store.backlog()))
        if self.board is None:
            return _written(own)
        told = [
            family
            for text in self.board.others()
            for family in text_string_to_metric_families(text)
        ]
        return _written(_merged([*_of_process(own, self.board.name), *told]))

    async def share(self) -> None:
        """Leave ours to the other processes, until cancelled; nothing to do where there are none."""
        if self.board is not None:
            await self.board.run(self._shared)

    async def _shared(self) -> bytes:
        assert self.board is not None
        own = tuple(self._families(await self.store.backlog()))
        return _written(_of_process(own, self.board.name))

    def _families(self, backlog: Backlog | None) -> Iterator[Metric]:
        build = {"version": __version__, "python": platform.python_version()}
        yield _gauge("mmo_build_info", "Which gateway this is; always 1.", (build, 1))
        yield from _of_requests(self.traffic)
        yield from _of_engine(self.engine())
        yield from _of_store(backlog)
        yield from self._of_providers()
        yield from _of_callbacks(self.callbacks())
        yield _outcomes("mmo_qr_codes", "QR codes that were concluded, by outcome.", self.qr_codes)

    def _of_providers(self) -> Iterator[Metric]:
        statistics = self.providers()
        counts = {name: statistics.by_provider[name] for name in sorted(statistics.by_provider)}
        yield _gauge(
            "mmo_provider_conversations",
            "Conversations with providers under way.",
            ({}, statistics.talking),
        )
        yield _gauge(
            "mmo_provider_waiting",
            "Submissions and questions waiting for a conversation.",
            ({}, statistics.waiting),
        )
        yield _counter(
            "mmo_provider_submissions",
            "Submissions that were let go out to a provider.",
            *(({"provider": name}, each.submissions) for name, each in counts.items()),
        )
        yield _counter(
            "mmo_provider_questions",
            "Questions to a provider about the status of a payment.",
            *(({"provider": name}, each.questions) for name, each in counts.items()),
        )
        yield _counter(
            "mmo_provider_reports",
            "What conversations came to: a payment's own result, or none.",
            *(
                ({"provider": name, "report": report}, each.reports[report])
                for name, each in counts.items()
                for report in REPORTS.values()
            ),
        )
        yield _counter(
            "mmo_provider_exchange_failures",
            "Requests to a provider that had no usable answer.",
            *(({"provider": name}, each.failed_exchanges) for name, each in counts.items()),
        )
        yield _histogram(
            "mmo_provider_exchange_seconds",
            "From a request to a provider to its answer, or to what came instead.",
            *(({"provider": name}, each.exchanges) for name, each in counts.items()),
        )
        yield _gauge(
            "mmo_provider_breaker_state",
            "1 for the state in which this process's breaker of the provider is.",
            *(
                ({"provider": name, "state": state.value}, int(account.state is state))
                for name, account in sorted(self.accounts.items())
                for state in BreakerState
            ),
        )
        yield _gauge(
            "mmo_provider_closed",
            "1 while a person has closed the provider for new payments.",
            *(({"provider": name}, int(self.is_closed(name))) for name in counts),
        )


def _of_requests(traffic: Traffic) -> Iterator[Metric]:
    yield _counter(
        "mmo_http_requests",
        "Requests to the merchant API that were answered, by route and class of status.",
        *(
            ({"route": route, "status": f"{digit}xx"}, traffic.requests.get((route, digit), 0))
            for route in ROUTES
            for digit in (2, 4, 5)
        ),
    )
    yield _counter(
        "mmo_http_problems",
        "Requests that were refused, by the cause in the type of their problem document.",
        *(({"problem": each.segment}, traffic.problems.get(each.segment, 0)) for each in CATALOGUE),
    )
    yield _histogram(
        "mmo_http_request_seconds",
        "From the first byte of a request to its answer.",
        *(({"route": route}, each) for route, each in sorted(traffic.durations.items())),
    )


def _of_engine(engine: EngineStatistics) -> Iterator[Metric]:
    yield _counter("mmo_engine_batches", "Batches that were made durable.", ({}, engine.batches))
    yield _counter(
        "mmo_engine_batch_failures",
        "Batches that the store didn't take, or may not have taken.",
        ({}, engine.failed_batches),
    )
    yield _counter("mmo_engine_inputs", "Inputs that were decided.", ({}, engine.inputs))
    yield _gauge("mmo_engine_waiting", "Inputs waiting for a batch.", ({}, engine.waiting))
    yield _counter(
        "mmo_engine_turned_away",
        "Inputs for which the queue had no room; merchants hear 503.",
        ({}, engine.turned_away),
    )
    yield _histogram(
        "mmo_store_commit_seconds",
        "From loading what a batch reads to its being durable.",
        ({}, engine.commits),
    )


def _of_store(backlog: Backlog | None) -> Iterator[Metric]:
    yield _gauge(
        "mmo_store_up", "Whether the store could be asked.", ({}, int(backlog is not None))
    )
    if backlog is None:
        return
    yield _gauge(
        "mmo_transactions_pending",
        "Transactions that haven't ended, on all nodes.",
        ({}, backlog.pending),
    )
    yield _gauge(
        "mmo_transactions_stuck",
        "Transactions that have been pending for more than an hour.",
        ({}, backlog.stuck),
    )
    yield _gauge(
        "mmo_transactions_overdue",
        "Transactions that should have been asked about or expired more than a minute ago.",
        ({}, backlog.overdue),
    )
    yield _gauge(
        "mmo_callbacks_open",
        "Callbacks that aren't concluded, on all nodes.",
        ({}, backlog.callbacks),
    )
    yield _gauge("mmo_suspense_open", "Open entries of the suspense book.", ({}, backlog.suspense))


def _of_callbacks(callbacks: CallbackStatistics) -> Iterator[Metric]:
    yield _gauge("mmo_callbacks_waiting", "Callbacks waiting for a place.", ({}, callbacks.waiting))
    yield _gauge("mmo_callbacks_under_way", "Callbacks under way.", ({}, callbacks.under_way))
    yield _gauge(
        "mmo_callbacks_unrecorded",
        "Callbacks that ended in a fault of ours; they stay open until a restart.",
        ({}, callbacks.unrecorded),
    )
    yield _gauge(
        "mmo_callback_breakers_open",
        "Merchants whose breaker isn't closed.",
        ({}, len(callbacks.open_breakers)),
    )
    yield _outcomes(
        "mmo_callbacks", "Callbacks that were concluded, by outcome.", callbacks.outcomes
    )
    yield _histogram(
        "mmo_callback_seconds",
        "How long callbacks took for which somebody was called.",
        ({}, callbacks.sent),
    )


def _outcomes(name: str, help_text: str, outcomes: Mapping[DeliveryOutcome, int]) -> Metric:
    samples = (({"outcome": each.value}, outcomes.get(each, 0)) for each in DeliveryOutcome)
    return _counter(name, help_text, *samples)


def _of_process(families: Iterable[Metric], name: str) -> list[Metric]:
    """The same, each sample with the process that it is of."""
    for family in families:
        family.samples = [
            each._replace(labels={**each.labels, "process": name}) for each in family.samples
        ]
    return list(families)


def _merged(families: Iterable[Metric]) -> list[Metric]:
    """One family for each name."""
    found: dict[str, Metric] = {}
    for family in families:
        found.setdefault(family.name, family)
        if found[family.name] is not family:
            found[family.name].samples += family.samples
    return list(found.values())


def _written(families: Sequence[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return generate_latest(registry)


@frozen(eq=False)
class _Collected(Collector):
    families: Sequence[Metric]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


def _counter(name: str, help_text: str, *samples: tuple[Labels, int]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=_names(samples))
    for labels, value in samples:
        family.add_metric(list(labels.values()), value)
    return family


def _gauge(name: str, help_text: str, *samples: tuple[Labels, int]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=_names(samples))
    for labels, value in samples:
        family.add_metric(list(labels.values()), value)
    return family


def _histogram(name: str, help_text: str, *samples: tuple[Labels, Durations]) -> Metric:
    family = HistogramMetricFamily(name, help_text, labels=_names(samples))
    for labels, durations in samples:
        family.add_metric(list(labels.values()), durations.cumulative(), durations.total_s)
    return family


def _names(samples: Sequence[tuple[Labels, object]]) -> list[str]:
    return list(samples[0][0]) if samples else []
