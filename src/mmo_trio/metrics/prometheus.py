"""Exports the metrics of one gateway process in the text format of Prometheus.

The parts keep plain counts, which a scrape formats, so no request is slowed. Every label has a
closed set of values or is the name of a provider, or of a brand with limits; none is a reference or
a number."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import structlog
import trio
from attrs import Factory, define, frozen
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from mmo_sansio import __version__
from mmo_sansio.api.incoming.requests import ROUTE_NAMES
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values import clock
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span, earlier, elapsed
from mmo_sansio.values.model import Status
from mmo_sansio.values.problems import PROBLEM_TYPES
from mmo_trio.engine.engine import Engine
from mmo_trio.http.handler import UNROUTED
from mmo_trio.http.request_metrics import HttpMetrics
from mmo_trio.metrics.process_files import ProcessMetricsFiles
from mmo_trio.storage.interface.admin_types import Backlog
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.build import commit
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.latency import LatencyHistogram
from mmo_trio.system.logs import OUTPUT
from mmo_trio.workers.deliveries import CallbackStatistics
from mmo_trio.workers.housekeeping import RetentionStatistics
from mmo_trio.workers.providers.account import ProviderAccount
from mmo_trio.workers.providers.float_monitor import FloatMonitor, KnownFloat
from mmo_trio.workers.providers.payees import PayeeOutcomes
from mmo_trio.workers.providers.worker import REPORT_LABELS, ProviderCounts, ProviderWorker

logger = structlog.get_logger(__name__)

# How long after its `wake_at` a transaction that was not woken counts as overdue.
OVERDUE_METRIC_AFTER: Final = clock.MINUTE

ROUTES: Final = (*ROUTE_NAMES, UNROUTED)

# The store is queried at most once in this time: several scrapers share one read.
BACKLOG_TTL_S: Final = 10.0

# What each metric counts or shows, by its name.
HELP: Final[Mapping[str, str]] = MappingProxyType(
    {
        "mmo_build_info": "Version and commit of the gateway; always 1.",
        "mmo_log_lines_dropped": "Log lines that could not be written.",
        "mmo_qr_codes": "Concluded QR code deliveries, by outcome.",
        "mmo_provider_conversations": "Active conversations with providers.",
        "mmo_provider_waiting": "Submissions and polls waiting for a conversation.",
        "mmo_provider_breaker_state": "1 for the current state of this process's circuit breaker "
        "for the provider.",
        "mmo_provider_simulated": "1 while no money moves by this process's account with the "
        "provider.",
        "mmo_provider_closed": "1 while the provider is closed by hand for new payments.",
        "mmo_provider_account_state": "1 for what is known of a part of the account with a "
        "provider, on all nodes.",
        "mmo_provider_balance": "What is in an account with a provider, in whole units of its "
        "currency, on all nodes.",
        "mmo_provider_balance_seconds_old": "Seconds since a provider has told the balance of "
        "an account.",
        "mmo_provider_float_seconds_left": "Seconds until a float is empty at the rate of the "
        "last hours; absent while nothing is spent.",
        "mmo_provider_float_low": "1 while a float is below a threshold of the settings.",
        "mmo_provider_float_refusals": "Pay-outs that a provider has refused because a float "
        "lacked money.",
        "mmo_provider_submissions": "Submissions sent to a provider.",
        "mmo_provider_questions": "Polls of a provider for the status of a payment.",
        "mmo_provider_reports": "Outcomes of conversations with a provider: a payment's "
        "result, or none.",
        "mmo_provider_exchange_failures": "Requests to a provider without a usable response.",
        "mmo_provider_exchange_seconds": "Time from a request to a provider to its response or "
        "its failure.",
        "mmo_http_requests": "Responses of the merchant API, by route and status class.",
        "mmo_http_problems": "Rejected requests, by the problem type of the response.",
        "mmo_http_request_seconds": "Time from the first byte of a request to its response.",
        "mmo_wall_clock_trusted": "1 while the machine's wall clock is trusted; 0 for a minute "
        "after it has stepped.",
        "mmo_wall_clock_seconds_ahead": "Seconds by which the trusted wall time is ahead of the "
        "gateway's own time.",
        "mmo_store_clock_seconds_ahead": "Seconds by which recorded wall time is ahead of the "
        "clock of the database's server.",
        "mmo_engine_batches": "Committed batches.",
        "mmo_engine_batch_failures": "Batches whose commit failed or is in doubt.",
        "mmo_engine_inputs": "Inputs decided.",
        "mmo_engine_waiting": "Inputs waiting for a batch.",
        "mmo_engine_turned_away": "Inputs rejected because the queue was full; merchants get 503.",
        "mmo_store_log_bytes": "Length of SQLite's write-ahead log; none on PostgreSQL.",
        "mmo_store_commit_seconds": "Time from loading a batch's reads to its commit.",
        "mmo_store_up": "1 if the store could be queried, else 0.",
        "mmo_transactions_pending": "Pending transactions, on all nodes.",
        "mmo_transactions_ended": "Transactions that have ended, by provider and result.",
        "mmo_transactions_stuck": "Transactions whose outcome has been unknown for an hour, "
        "counted up to 1,000.",
        "mmo_transactions_overdue": "Transactions whose poll or expiry is overdue by more than "
        "a minute.",
        "mmo_callbacks_open": "Callbacks without an outcome, on all nodes.",
        "mmo_store_restorations": "How often the store was restored from a backup, or a failover "
        "has lost commits.",
        "mmo_brands_on_hold": "Brands of which no payment is submitted any more.",
        "mmo_brand_usage": "What a brand with limits uses: pending payments, or an amount of today "
        "in minor units.",
        "mmo_approvals_open": "What one user has proposed and another one has not yet approved or "
        "rejected.",
        "mmo_audit_log_changes": "How often the audit log no longer held what this process had "
        "read before.",
        "mmo_certificate_seconds_left": "Seconds until the certificate that the listeners show "
        "expires; absent without TLS.",
        "mmo_suspense_open": "Open entries of the suspense book.",
        "mmo_reversals_open": "Reversals without an outcome, with those that wait for an approval.",
        "mmo_reversal_reports": "Ended conversations about reversals, by provider and report.",
        "mmo_payee_questions": "Questions whose account is behind a number, by provider and "
        "outcome.",
        "mmo_deposit_claims_open": "Reported deposits that wait for the operator's confirmation or "
        "for the end of the payment that they name.",
        "mmo_retention_rows": "Old rows that this process has masked or removed, by what they are.",
        "mmo_retention_running": "1 while this process removes old rows.",
        "mmo_retention_failures": "Removals of old rows that ended early.",
        "mmo_callbacks_waiting": "Callbacks waiting for a delivery slot.",
        "mmo_callbacks_under_way": "Callbacks being delivered.",
        "mmo_callbacks_unrecorded": "Callbacks that wait for another attempt after a fault of "
        "ours; nothing of them was sent.",
        "mmo_callback_breakers_open": "Brands whose callback breaker is not closed.",
        "mmo_callbacks": "Concluded callbacks, by outcome.",
        "mmo_callback_seconds": "Duration of callbacks for which a request was sent.",
    }
)

Labels = Mapping[str, str]
ValueT = TypeVar("ValueT")


@define(eq=False)
class BacklogCache:
    """Reads the backlog of the store, at most once in BACKLOG_TTL_S."""

    store: Store
    own_time: Callable[[], Instant]
    _backlog: Backlog | None = None
    _expires_at: float = 0.0
    _lock: trio.Lock = Factory(trio.Lock)

    async def backlog(self) -> Backlog | None:
        """Return the backlog, at most ten seconds old; None while it can't be read, whatever the
        reason."""
        # Held during the read, so that all who ask meanwhile get its result.
        async with self._lock:
            if trio.current_time() >= self._expires_at:
                self._backlog = await self._read()
                self._expires_at = trio.current_time() + BACKLOG_TTL_S
        return self._backlog

    async def _read(self) -> Backlog | None:
        # What is overdue is judged by the gateway's own time, as the scheduler does.
        now = self.own_time()
        try:
            return await self.store.admin.backlog(
                now, overdue_before=earlier(now, OVERDUE_METRIC_AFTER)
            )
        except Exception as error:
            log_store_failure(logger, "backlog_read_failed", error)
            return None


@frozen
class PrometheusExporter:
    """Reads the statistics of the parts at each scrape."""

    http_metrics: HttpMetrics
    engine: Engine
    providers: ProviderWorker
    reversal_reports: Mapping[tuple[str, str], int]
    """The number of conversations about reversals, by provider and label of the report."""
    payee_outcomes: PayeeOutcomes
    """The number of questions about payees, by provider and outcome."""
    callbacks: Callable[[], CallbackStatistics]
    qr_codes: Mapping[DeliveryOutcome, int]
    """The number of concluded deliveries of QR codes, by outcome."""
    accounts: Mapping[str, ProviderAccount]
    """The accounts by the name of their provider."""
    account_findings: Callable[[], Sequence[AccountFinding]]
    """Returns what is known of the accounts."""
    float_monitor: FloatMonitor
    is_provider_closed: Callable[[str], bool]
    """Returns whether the provider with this name is closed for new payments."""
    backlog_cache: BacklogCache
    retention: RetentionStatistics
    clock: GatewayClock
    audit_log_changes: Callable[[], int]
    """Returns how often this process has found the audit log changed."""
    certificate_expires_at: Callable[[], Instant | None]
    """Returns when the listeners' certificate expires, by wall time; None without TLS."""
    ahead_of_store: Callable[[], Span | None]
    """Returns by how much wall time is ahead of the store's clock; None while that is not known."""
    process_files: ProcessMetricsFiles | None = None
    """The files of the service's processes; None when this process is the only one."""

    async def render(self) -> bytes:
        """Return all metrics; those of other processes are a few seconds old."""
        if self.process_files is None:
            return _to_text([*self._own_families(await self.backlog_cache.backlog())])
        # Each sample tells its process: rates are per process, and sums are for the query.
        families = await self._labelled_families(self.process_files.process_name)
        for text in self.process_files.read_others():
            families += text_string_to_metric_families(text)
        return _to_text(_merge_families(families))

    async def publish(self) -> None:
        """Write the metrics for the other processes until cancelled; return if there are none."""
        if self.process_files is not None:
            await self.process_files.run(self._render_own)

    async def _render_own(self) -> bytes:
        assert self.process_files is not None
        return _to_text(await self._labelled_families(self.process_files.process_name))

    async def _labelled_families(self, process_name: str) -> list[Metric]:
        families = list(self._own_families(await self.backlog_cache.backlog()))
        for family in families:
            family.samples = [
                sample._replace(labels={**sample.labels, "process": process_name})
                for sample in family.samples
            ]
        return families

    def _own_families(self, backlog: Backlog | None) -> Iterator[Metric]:
        build = {
            "version": __version__,
            "commit": commit(),
            "python": platform.python_version(),
        }
        yield _gauge("mmo_build_info", (build, 1))
        yield _counter("mmo_log_lines_dropped", ({}, OUTPUT.dropped))
        yield from _clock_metrics(self.clock, self.ahead_of_store())
        yield from _http_request_metrics(self.http_metrics)
        yield from _engine_metrics(self.engine)
        yield from _store_metrics(backlog)
        yield _counter("mmo_audit_log_changes", ({}, self.audit_log_changes()))
        yield self._certificate_metric()
        yield from _retention_metrics(self.retention)
        yield from self._provider_metrics()
        yield from _callback_metrics(self.callbacks())
        yield _outcome_counter("mmo_qr_codes", self.qr_codes)

    def _certificate_metric(self) -> Metric:
        expires_at = self.certificate_expires_at()
        # No sample rather than 0, which would raise an alarm where there is no TLS.
        if expires_at is None:
            return _gauge("mmo_certificate_seconds_left")
        left = elapsed(self.clock.wall_time(), expires_at) // SECOND
        return _gauge("mmo_certificate_seconds_left", ({}, left))

    def _provider_metrics(self) -> Iterator[Metric]:
        yield _gauge("mmo_provider_conversations", ({}, self.providers.active))
        yield _gauge("mmo_provider_waiting", ({}, self.providers.waiting))

        # Sorted, so that two scrapes differ in their values only.
        counts = dict(sorted(self.providers.counts.items()))
        yield from _provider_counters(counts)
        reports = sorted(self.reversal_reports.items())
        yield _counter(
            "mmo_reversal_reports",
            *(
                ({"provider": provider, "report": report}, times)
                for (provider, report), times in reports
            ),
        )
        yield _counter(
            "mmo_payee_questions",
            *(
                ({"provider": provider, "outcome": outcome}, times)
                for (provider, outcome), times in sorted(self.payee_outcomes.items())
            ),
        )
        yield _gauge(
            "mmo_provider_breaker_state",
            *(
                ({"provider": name, "state": state.value}, int(account.breaker.state is state))
                for name, account in sorted(self.accounts.items())
                for state in BreakerState
            ),
        )
        closed = (({"provider": name}, int(self.is_provider_closed(name))) for name in counts)
        yield _gauge("mmo_provider_closed", *closed)
        simulated = self.providers.simulated_providers
        yield _gauge(
            "mmo_provider_simulated",
            *(({"provider": name}, int(name in simulated)) for name in counts),
        )
        yield _gauge(
            "mmo_provider_account_state",
            *(
                (
                    {
                        "provider": account_finding.provider,
                        "part": account_finding.part,
                        "state": state.value,
                    },
                    int(account_finding.state is state),
                )
                for account_finding in self.account_findings()
                for state in AccountState
            ),
        )
        yield from _float_metrics(self.float_monitor.floats)
        monitor, now = self.float_monitor, self.float_monitor.moment().time
        ages = (
            ({"provider": provider, "account": account}, elapsed(at, now) / SECOND)
            for (provider, account), at in monitor.known_at.items()
        )
        yield _gauge("mmo_provider_balance_seconds_old", *ages)
        yield _counter(
            "mmo_provider_float_refusals",
            *(({"provider": name}, monitor.refusals[name]) for name in counts),
        )


def _provider_counters(counts: Mapping[str, ProviderCounts]) -> Iterator[Metric]:
    def by_provider(value: Callable[[ProviderCounts], ValueT]) -> list[tuple[Labels, ValueT]]:
        return [({"provider": name}, value(count)) for name, count in counts.items()]

    yield _counter("mmo_provider_submissions", *by_provider(lambda counts: counts.submissions))
    yield _counter("mmo_provider_questions", *by_provider(lambda counts: counts.polls))
    yield _counter(
        "mmo_provider_reports",
        *(
            ({"provider": name, "report": report}, count.reports[report])
            for name, count in counts.items()
            for report in REPORT_LABELS.values()
        ),
    )
    yield _counter(
        "mmo_transactions_ended",
        *(
            ({"provider": name, "result": result.value}, count.results[result])
            for name, count in counts.items()
            for result in (Status.SUCCESS, Status.FAILED)
        ),
    )
    yield _counter(
        "mmo_provider_exchange_failures", *by_provider(lambda counts: counts.failed_exchanges)
    )
    yield _histogram(
        "mmo_provider_exchange_seconds", *by_provider(lambda counts: counts.exchange_durations)
    )


def _float_metrics(floats: Sequence[KnownFloat]) -> Iterator[Metric]:
    balances: list[tuple[Labels, float]] = []
    seconds_left: list[tuple[Labels, float]] = []
    low: list[tuple[Labels, float]] = []
    for watched in floats:
        latest = watched.forecast.latest
        labels = {"provider": latest.provider, "account": latest.account}
        # A float is exact enough for a graph; books never come from metrics (G6).
        balances.append(({**labels, "currency": latest.amount.currency}, float(latest.amount.text)))
        if latest.is_float:
            low.append((labels, int(watched.is_low)))
            if watched.forecast.hours_left is not None:
                seconds_left.append((labels, watched.forecast.hours_left * (HOUR // SECOND)))

    yield _gauge("mmo_provider_balance", *balances)
    yield _gauge("mmo_provider_float_seconds_left", *seconds_left)
    yield _gauge("mmo_provider_float_low", *low)


def _http_request_metrics(http_metrics: HttpMetrics) -> Iterator[Metric]:
    yield _counter(
        "mmo_http_requests",
        *(
            ({"route": route, "status": f"{digit}xx"}, http_metrics.requests.get((route, digit), 0))
            for route in ROUTES
            for digit in (2, 4, 5)
        ),
    )

    # Each problem from the first scrape, also at 0: a rate needs a value before the first one.
    problems = (
        ({"problem": problem_type.segment}, http_metrics.problems.get(problem_type.segment, 0))
        for problem_type in PROBLEM_TYPES
    )
    yield _counter("mmo_http_problems", *problems)
    durations = (
        ({"route": route}, histogram) for route, histogram in sorted(http_metrics.durations.items())
    )
    yield _histogram("mmo_http_request_seconds", *durations)


def _clock_metrics(gateway_clock: GatewayClock, ahead_of_store: Span | None) -> Iterator[Metric]:
    yield _gauge("mmo_wall_clock_trusted", ({}, int(gateway_clock.guard.is_trusted)))
    yield _gauge(
        "mmo_wall_clock_seconds_ahead", ({}, round(gateway_clock.guard.utc_offset / SECOND))
    )
    ahead: list[tuple[Labels, float]] = (
        [] if ahead_of_store is None else [({}, round(ahead_of_store / SECOND, 3))]
    )
    yield _gauge("mmo_store_clock_seconds_ahead", *ahead)


def _engine_metrics(engine: Engine) -> Iterator[Metric]:
    statistics = engine.statistics
    yield _counter("mmo_engine_batches", ({}, statistics.batches))
    yield _counter("mmo_engine_batch_failures", ({}, statistics.failed_batches))
    yield _counter("mmo_engine_inputs", ({}, statistics.inputs))
    yield _gauge("mmo_engine_waiting", ({}, engine.queued))
    yield _counter("mmo_engine_turned_away", ({}, statistics.rejected))
    yield _histogram("mmo_store_commit_seconds", ({}, statistics.commit_durations))
    log_bytes = engine.store.log_bytes
    yield _gauge("mmo_store_log_bytes", *([] if log_bytes is None else [({}, log_bytes)]))


def _store_metrics(backlog: Backlog | None) -> Iterator[Metric]:
    yield _gauge("mmo_store_up", ({}, int(backlog is not None)))

    # The rest is unknown, which an old number would hide.
    if backlog is None:
        return

    yield _gauge("mmo_transactions_pending", ({}, backlog.pending))
    yield _gauge("mmo_transactions_stuck", ({}, backlog.stuck))
    yield _gauge("mmo_transactions_overdue", ({}, backlog.overdue))
    yield _gauge("mmo_callbacks_open", ({}, backlog.callbacks))
    yield _gauge("mmo_store_restorations", ({}, backlog.restorations))
    yield _gauge("mmo_brands_on_hold", ({}, backlog.held_brands))
    usage = (
        ({"brand": usage.brand, "counter": usage.counter}, usage.amount) for usage in backlog.usage
    )
    yield _gauge("mmo_brand_usage", *usage)
    yield _gauge("mmo_reversals_open", ({}, backlog.reversals))
    approvals = (({"kind": kind.value}, count) for kind, count in backlog.approvals.items())
    yield _gauge("mmo_approvals_open", *approvals)
    yield _gauge("mmo_suspense_open", ({}, backlog.suspense))
    yield _gauge("mmo_deposit_claims_open", ({}, backlog.deposit_claims))


def _retention_metrics(retention: RetentionStatistics) -> Iterator[Metric]:
    rows = (({"duty": duty.value}, count) for duty, count in retention.changed.items())
    yield _counter("mmo_retention_rows", *rows)
    yield _gauge("mmo_retention_running", ({}, int(retention.is_running)))
    yield _counter("mmo_retention_failures", ({}, retention.failed_runs))


def _callback_metrics(callbacks: CallbackStatistics) -> Iterator[Metric]:
    yield _gauge("mmo_callbacks_waiting", ({}, callbacks.waiting))
    yield _gauge("mmo_callbacks_under_way", ({}, callbacks.active))
    yield _gauge("mmo_callbacks_unrecorded", ({}, callbacks.unrecorded))
    yield _gauge("mmo_callback_breakers_open", ({}, len(callbacks.open_breakers)))
    yield _outcome_counter("mmo_callbacks", callbacks.outcomes)
    yield _histogram("mmo_callback_seconds", ({}, callbacks.durations))


def _outcome_counter(name: str, outcomes: Mapping[DeliveryOutcome, int]) -> Metric:
    return _counter(
        name,
        *(({"outcome": outcome.value}, outcomes.get(outcome, 0)) for outcome in DeliveryOutcome),
    )


def _merge_families(families: Iterable[Metric]) -> list[Metric]:
    # One family for each name, as the format wants it, with the samples of all processes.
    found: dict[str, Metric] = {}
    for family in families:
        found.setdefault(family.name, family)
        if found[family.name] is not family:
            found[family.name].samples += family.samples
    return list(found.values())


def _to_text(families: Sequence[Metric]) -> bytes:
    return generate_latest(_StaticCollector(families))


@frozen(eq=False)
class _StaticCollector(Collector):
    families: Sequence[Metric]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


def _counter(name: str, *samples: tuple[Labels, int]) -> Metric:
    return _add_samples(
        CounterMetricFamily(name, HELP[name], labels=_label_names(samples)), samples
    )


def _gauge(name: str, *samples: tuple[Labels, float]) -> Metric:
    return _add_samples(GaugeMetricFamily(name, HELP[name], labels=_label_names(samples)), samples)


def _add_samples(
    family: CounterMetricFamily | GaugeMetricFamily, samples: Sequence[tuple[Labels, float]]
) -> Metric:
    for labels, value in samples:
        family.add_metric(list(labels.values()), value)
    return family


def _histogram(name: str, *samples: tuple[Labels, LatencyHistogram]) -> Metric:
    family = HistogramMetricFamily(name, HELP[name], labels=_label_names(samples))
    for labels, durations in samples:
        family.add_metric(list(labels.values()), durations.cumulative_buckets(), durations.total_s)
    return family


def _label_names(samples: Sequence[tuple[Labels, object]]) -> list[str]:
    if samples:
        return list(samples[0][0])
    return []
