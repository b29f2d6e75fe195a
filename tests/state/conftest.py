"""Clusters in simulated time: one with states in memory, and others with states in a folder."""

import pytest

from pystorm_spark import LocalCluster


@pytest.fixture
def cluster():
    with LocalCluster(simulated_time=True) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoint"


@pytest.fixture
def start(folder):
    """Return a function that starts a new cluster on the folder, after a crash or a shutdown of the previous one."""
    clusters = []

    def started(crash=False):
        if clusters:
            end(clusters.pop(), crash)
        clusters.append(LocalCluster(simulated_time=True, checkpoint=folder))
        return clusters[-1]

    yield started
    if clusters:
        clusters[-1].shutdown()


def end(cluster, crash):
    if crash:  # a killed process leaves its files, but no lock
        cluster._running.clear()
    cluster.shutdown()
