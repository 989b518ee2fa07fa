"""The figures of one gateway process, in the text form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mmo_sansio.delivery import DeliveryOutcome
from mmo_trio.engine import EngineStatistics
from mmo_trio.workers.callbacks import CallbackStatistics
from mmo_trio.workers.providers import ProviderStatistics


@frozen
class Figures(Collector):
    """Reads the statistics of the parts whenever it is asked; labels are bounded, no brand or reference is one."""

    engine: Callable[[], EngineStatistics]
    providers: Callable[[], ProviderStatistics]
    callbacks: Callable[[], CallbackStatistics]

    def text(self) -> bytes:
        """All of them, now."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """One family after the other."""
        engine, providers, callbacks = self.engine(), self.providers(), self.callbacks()
        yield _counter("mmo_engine_batches", "Batches made durable.", engine.batches)
        yield _counter("mmo_engine_inputs", "Inputs decided.", engine.inputs)
        yield _gauge("mmo_engine_waiting", "Inputs waiting for a batch.", engine.waiting)
        yield _gauge("mmo_provider_conversations", "Conversations under way.", providers.talking)
        yield _gauge("mmo_provider_waiting", "Intents waiting for a provider.", providers.waiting)
        yield _counter("mmo_provider_submissions", "Submissions sent.", providers.submissions)
        yield _counter("mmo_provider_questions", "Questions asked.", providers.questions)
        yield _counter(
            "mmo_provider_unreachable",
            "Conversations without a usable answer.",
            providers.unreachable,
        )
        yield _gauge("mmo_callbacks_waiting", "Callbacks waiting.", callbacks.waiting)
        yield _gauge("mmo_callbacks_under_way", "Callbacks under way.", callbacks.under_way)
        yield _gauge(
            "mmo_callback_breakers_open",
            "Merchants whose breaker isn't closed.",
            len(callbacks.open_breakers),
        )
        outcomes = CounterMetricFamily(
            "mmo_callbacks", "Callbacks concluded, by outcome.", labels=["outcome"]
        )
        for outcome in DeliveryOutcome:
            outcomes.add_metric([outcome.value], callbacks.outcomes.get(outcome, 0))
        yield outcomes


def _counter(name: str, help_text: str, value: int) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def _gauge(name: str, help_text: str, value: int) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)
