"""A topology without a class: plain functions as spout and bolts.

A function without arguments is a spout: what it returns goes into the field `lambda`, None means "nothing now". A
function of `(tup, collector)`, or of `(tup)`, is a basic bolt; the names after the parallelism are its output fields.
"""

import time

from pystorm_spark import LocalCluster, TopologyBuilder

LAST = 5


def main():
    numbers = iter(range(1, LAST + 1))
    builder = TopologyBuilder()
    builder.set_spout("numbers", lambda: next(numbers, None))
    builder.set_bolt(
        "square", lambda tup, collector: collector.emit([tup["lambda"], tup["lambda"] ** 2]), 1, "number", "square"
    ).shuffle_grouping("numbers")
    builder.set_bolt("show", lambda tup: print(f"{tup['number']}² = {tup['square']}")).shuffle_grouping("square")
    with LocalCluster() as cluster:
        cluster.submit_topology("lambda", None, builder.create_topology())
        # Such a spout does not track its tuples, so there are no acks at the spout to wait for.
        while cluster.topology_info("lambda").components["show"].acked < LAST:
            time.sleep(0.01)


if __name__ == "__main__":
    main()
