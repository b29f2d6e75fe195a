"""LocalCluster: topologies in this process, each one slot turned by one thread, or by hand in simulated time."""

from pystorm_spark.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
