"""Descriptors: as many as the system allows, and the most important users keep theirs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mmo_trio.system.descriptors import share_descriptors

RAISE = """
import resource
from mmo_trio.system.descriptors import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
limit = raise_descriptor_limit()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
highest = 1_048_576 if hard == resource.RLIM_INFINITY else min(hard, 1_048_576)
assert limit == soft == highest, (limit, soft, hard)
assert raise_descriptor_limit() == limit
"""


def test_the_limit_is_raised_as_far_as_the_system_allows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RAISE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("limit", [256, 1024, 4096, 65_536, 1_048_576])
def test_the_pages_stop_first_then_the_console_then_the_api(limit: int) -> None:
    shares = share_descriptors(limit, callbacks=2048, api_connections=4096)
    assert 0 < shares.pages < shares.console < shares.api < limit
    assert limit - shares.api == min(2048 + 128, limit // 4)
    assert shares.api - shares.console == min(4096, limit // 4)
