"""What operators see, on a private listener: the console, and the figures of this process for Prometheus."""

from mmo_trio.console.app import create_console_app
from mmo_trio.metrics.process_files import ProcessMetricsFiles
from mmo_trio.metrics.prometheus import BacklogCache, PrometheusExporter

__all__ = ["BacklogCache", "ProcessMetricsFiles", "PrometheusExporter", "create_console_app"]
