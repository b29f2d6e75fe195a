"""A cluster in simulated time, which keeps states in memory, and others that keep them in a folder."""

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
    """A function: starts a new cluster on the folder, after a crash or a shutdown of the previous one."""
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
    if crash:  # what a process leaves behind that is killed: its files, and no lock
        cluster._running.clear()
    cluster.shutdown()
