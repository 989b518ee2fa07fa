"""Fixtures for the tests of merchants' programs with sockets and databases; `async def` tests run
in Trio without a mark. What needs neither is tested in `tests/sansio/merchant`."""

from pytest_trio.enable_trio_mode import *  # noqa: F403

from tests.runtime.conftest import _public_authorities as _public_authorities
from tests.runtime.conftest import database as database
from tests.runtime.conftest import postgres as postgres
