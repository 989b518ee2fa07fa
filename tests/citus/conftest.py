"""Fixtures of the tests on a cluster: one for all of them, and a database for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_trio.enable_trio_mode import *  # noqa: F403

from tests.support.citus_cluster import CitusCluster, citus_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[CitusCluster]:
    """A coordinator and two workers."""
    with citus_cluster() as running:
        yield running


@pytest.fixture
def distributed(cluster: CitusCluster) -> Iterator[str]:
    """The address of a database with distributed, empty tables."""
    url = cluster.migrated()
    yield url
    cluster.drop(url)


@pytest.fixture
def undistributed(cluster: CitusCluster) -> Iterator[str]:
    """The address of an empty database that knows the workers."""
    url = cluster.fresh()
    yield url
    cluster.drop(url)
