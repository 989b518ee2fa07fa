"""Runs the tests of this folder on Trio."""

from __future__ import annotations

from pytest_trio.enable_trio_mode import *  # noqa: F403

from tests.runtime.conftest import _public_authorities as _public_authorities
