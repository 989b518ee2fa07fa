"""Says when a test that waits is ended."""

from __future__ import annotations

HANGS_AFTER_S = 300.0
"""Seconds after which what a test waits for counts as hung: many times what it takes on a busy
machine. It is no bound on how long anything may take."""
