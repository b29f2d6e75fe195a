"""Internal. Chains: Spark jobs that are chains of exchanges, shuffles of (slot, bytes). Spark decodes nothing.

In every stage there is one Spark task for each slot, and it visits that slot. A parcel is the frames from one slot to
another, packed by the slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import IO, Any

from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer, SpecialLengths, read_int

from pystorm_spark.errors import StormError
from pystorm_spark.spark.errors import SparkError, spark_errors_ignored, translated
from pystorm_spark.spark.exchange.visit import Order, Visit
from pystorm_spark.spark.session.worker_python import renew_workers


class WholeInput(NoOpSerializer):
    """Reads the parcels of a task, and raises where they end too soon.

    When Spark cannot fetch a part of a shuffle it closes the stream to the Python worker, whose own serializers take
    that for the end of the input. The slot would take in only a part, and refuse all of it when Spark tries again.
    """

    def load_stream(self, stream: IO[bytes]) -> Iterator[bytes]:
        read_length: Any = read_int  # pyspark gives it no types
        while (length := read_length(stream)) != SpecialLengths.END_OF_DATA_SECTION:
            parcel = stream.read(length)
            if len(parcel) < length:
                raise EOFError(f"{len(parcel)} bytes have come of a parcel of {length}")
            yield parcel


class Chains:
    """Runs one chain of exchanges after the other, and makes the next one while the last one runs.

    Making one takes as long as some exchanges: many small calls into the JVM, in which nothing would move.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self._runner = ThreadPoolExecutor(1, thread_name_prefix="pystorm-exchanges")
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="pystorm-chains")
        self._next: tuple[Order, int, Future[RDD[Any]]] | None = None

    def start(self, order: Order, exchanges: int) -> Future[dict[int, str]]:
        """Run them in another thread, as a job of the same group and pool as those of the calling one."""
        properties = self._sc._jsc.sc().getLocalProperties().clone()

        def run() -> dict[int, str]:
            self._sc._jsc.sc().setLocalProperties(properties)
            try:
                with translated(kind=SparkError):
                    return self.run(order, exchanges)
            except SparkError as exc:
                renew_workers(self._sc, exc.story)
                raise StormError(str(exc)) from exc.original

        return self._runner.submit(run)

    def run(self, order: Order, exchanges: int) -> dict[int, str]:
        """Run `exchanges` exchanges and hand the last frames over; {slot: "ok", "missed", "refused" or "lost"}."""
        chain = self._made(order, exchanges)
        following = replace(order, job=order.job + 1)
        self._next = following, exchanges, self._maker.submit(make_chain, self._sc, following, exchanges)
        try:
            return dict(chain.collect())
        finally:
            self._maker.submit(forget_shuffles, chain)

    def _made(self, order: Order, exchanges: int) -> RDD[Any]:
        made, self._next = self._next, None
        if made is not None and made[:2] == (order, exchanges):
            return made[2].result()
        return make_chain(self._sc, order, exchanges)

    def close(self) -> None:
        self._runner.shutdown()
        self._maker.shutdown()


def make_chain(sc: SparkContext, order: Order, exchanges: int) -> RDD[Any]:
    """An RDD that is (slot, status) of `exchanges` exchanges; collecting it runs them."""
    slots = len(order.addresses)
    rdd: RDD[Any] = sc.parallelize([], slots)
    jvm = _remembering_classes(sc)
    partitioner = jvm.PythonPartitioner(slots, 0)
    # Spark would choose Kryo, and every task would make one, which takes longer than to carry some parcels.
    serializer = jvm.JavaSerializer(sc._jsc.sc().conf())
    for number in range(exchanges):
        # Not preserving the partitioning: an RDD that Spark takes for partitioned already is not shuffled.
        keyed = rdd.mapPartitionsWithIndex(Visit(order, number, is_last=False))
        rdd = _shuffled(keyed, jvm, partitioner, serializer)
    rdd = rdd.mapPartitionsWithIndex(Visit(order, exchanges, is_last=True))
    rdd._jrdd  # noqa: B018 - made when it is first asked for
    return rdd


def forget_shuffles(chain: RDD[Any]) -> None:
    """Have Spark remove the files of a chain that is not run again: it would when the JVM's garbage is collected."""
    with spark_errors_ignored():
        chain._jrdd.rdd().cleanShuffleDependencies(False)


def _shuffled(keyed: RDD[Any], jvm: Any, partitioner: Any, serializer: Any) -> RDD[Any]:
    """Shuffle as `RDD.partitionBy` does, but without pickling: parcels are bytes already."""
    keyed._bypass_serializer = True  # type: ignore[attr-defined]  # which only pyspark's own RDDs declare
    moved = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD().partitionBy(partitioner)
    moved.rdd().setSerializer(serializer)
    return RDD(jvm.PythonRDD.valueOfPair(moved), keyed.context, WholeInput())


def _remembering_classes(sc: SparkContext) -> Any:
    """Spark's JVM, with the classes that a chain is made of at hand: py4j looks into all jars for one, each time."""
    jvm: Any = sc._jvm
    if "JavaSerializer" not in vars(jvm):
        for name in ("PairwiseRDD", "PythonPartitioner", "PythonRDD", "PythonUtils", "SimplePythonFunction"):
            setattr(jvm, name, getattr(jvm, name))
        jvm.JavaSerializer = jvm.org.apache.spark.serializer.JavaSerializer
    return jvm
