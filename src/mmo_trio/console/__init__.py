"""What operators see, on a private listener: the console, and the figures of this process for Prometheus."""

from mmo_trio.console.app import console_app
from mmo_trio.console.figures import Figures

__all__ = ["Figures", "console_app"]
