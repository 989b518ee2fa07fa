"""`async def` tests run in Trio without a mark."""

from __future__ import annotations

from pytest_trio.enable_trio_mode import *  # noqa: F403

from tests.runtime.conftest import _public_authorities as _public_authorities
from tests.runtime.conftest import provider_packages as provider_packages
