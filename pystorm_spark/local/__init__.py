"""LocalCluster: topologies in this process. Each has one slot, turned by a thread, or by calls in simulated time."""

from pystorm_spark.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
