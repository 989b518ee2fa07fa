"""What operators see, on a private listener: the console, and the figures of this process for Prometheus."""

from mmo_trio.console.app import console_app
from mmo_trio.console.board import Board
from mmo_trio.console.figures import Figures, StoreFigures

__all__ = ["Board", "Figures", "StoreFigures", "console_app"]
