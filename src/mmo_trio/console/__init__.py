"""What operators see, on a private listener: the console, and the figures of this process for Prometheus."""

from mmo_trio.console.app import console_app
from mmo_trio.metrics.process_files import Board
from mmo_trio.metrics.prometheus import Figures, StoreFigures

__all__ = ["Board", "Figures", "StoreFigures", "console_app"]
