"""DataFrameSink: the tuples of a batch become a DataFrame; `write` gets it, perhaps repeatedly; then they are acked."""

import sqlite3
from decimal import Decimal

import pytest

from pystorm_spark import BasicBolt, InvalidTopologyError, LocalCluster, SparkCluster, StormError, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink
from tests.spark.components import DiesOnce, Numbers, wait_until

pytestmark = pytest.mark.spark

TWO_SLOTS = {"topology.workers": 2}


class Squares(BasicBolt):
    outputs = ("number", "square")

    def execute(self, tup, collector):
        collector.emit([tup[0], tup[0] ** 2])


def sinking(count, journal, write, schema="number long, square long", bolt=None, rate=None):
    """Build numbers → squares → sink, grouped so that tuples cross slots."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(count, journal, rate), 2)
    builder.set_bolt("dies", bolt or DiesOnce(-1, "/nonexistent"), 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("squares", Squares(), 2).shuffle_grouping("dies")
    builder.set_bolt("sink", DataFrameSink(write, schema), 2).fields_grouping("squares", ["square"])
    return builder.create_topology()


class Written:
    """A `write` that keeps all rows; its first calls raise, as many as the test sets."""

    def __init__(self, failures=0, error=OSError):
        self.batches = []
        self.failures = failures
        self.error = error

    def __call__(self, df, batch_id):
        rows = sorted(tuple(row) for row in df.collect())
        self.batches.append((batch_id, rows))
        if len(self.batches) <= self.failures:
            raise self.error("the disk is full")

    def rows(self):
        return sorted(row for _, rows in self.batches for row in rows)


def squares(count):
    return [(number, number**2) for number in range(count)]


def acked(journal):
    return sorted(map(int, journal.noted("acked")))


def test_every_tuple_is_in_one_batch_and_is_acked(cluster, journal):
    written = Written()
    conf = {**TWO_SLOTS, "topology.max.spout.pending": 20}  # of a hundred tuples, so there are several batches
    cluster.submit_topology("sink", conf, sinking(100, journal, written))

    wait_until(lambda: acked(journal) == list(range(100)))

    assert written.rows() == squares(100)
    ids = [batch_id for batch_id, _ in written.batches]
    assert ids == sorted(set(ids))
    assert len(ids) > 1
    assert all(rows for _, rows in written.batches)


def test_tuples_are_acked_only_when_write_has_returned(cluster, journal):
    seen = []

    def write(df, batch_id):
        seen.append((acked(journal), sorted(row.number for row in df.collect())))

    cluster.submit_topology("acks", TWO_SLOTS, sinking(50, journal, write))
    wait_until(lambda: acked(journal) == list(range(50)))

    assert sorted(number for _, rows in seen for number in rows) == list(range(50))
    for before, rows in seen:
        assert not set(before) & set(rows)


def test_a_sink_in_a_single_slot_writes_batches(cluster, journal):
    written = Written()
    cluster.submit_topology("one", {"topology.workers": 1}, sinking(20, journal, written))

    wait_until(lambda: acked(journal) == list(range(20)))

    assert written.rows() == squares(20)


def test_a_sink_writes_parquet(spark, cluster, journal, tmp_path):
    def write(df, batch_id):
        df.write.mode("overwrite").parquet(str(tmp_path / "squares" / f"batch={batch_id}"))

    cluster.submit_topology("parquet", TWO_SLOTS, sinking(300, journal, write))
    wait_until(lambda: acked(journal) == list(range(300)))

    found = spark.read.parquet(str(tmp_path / "squares"))
    assert sorted((row.number, row.square) for row in found.collect()) == squares(300)


def two_sinks(journal, counts, writes):
    """Build two spouts, each with a sink of its own."""
    builder = TopologyBuilder()
    for name, count, write in zip("ab", counts, writes, strict=True):
        builder.set_spout(f"numbers-{name}", Numbers(count, journal))
        builder.set_bolt(f"sink-{name}", DataFrameSink(write, "number long")).shuffle_grouping(f"numbers-{name}")
    return builder.create_topology()


def test_a_batch_of_a_failed_commit_is_replaced_even_without_rows(spark, journal, tmp_path):
    first, broken = Written(), Written(failures=1000)
    with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
        handle = cluster.submit_topology("two", TWO_SLOTS, two_sinks(journal, (5, 5), (first, broken)))
        with pytest.raises(StormError, match="the disk is full"):
            handle.await_termination(60)
    written = broken.batches[-1][0]

    second, empty = Written(), Written()
    with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
        cluster.submit_topology("two", TWO_SLOTS, two_sinks(journal, (10, 0), (second, empty)))
        wait_until(lambda: acked(journal) == list(range(10)))

    assert empty.batches == [(written, [])]
    assert second.batches[0][0] == written


def test_a_sink_that_replaces_its_batch_has_every_row_once(cluster, journal, tmp_path):
    path = tmp_path / "squares.db"
    tries = []

    def write(df, batch_id):
        with sqlite3.connect(path) as database:  # one transaction
            database.execute("CREATE TABLE IF NOT EXISTS squares (batch, number, square)")
            database.execute("DELETE FROM squares WHERE batch = ?", [batch_id])
            rows = [(batch_id, row.number, row.square) for row in df.toLocalIterator()]
            database.executemany("INSERT INTO squares VALUES (?, ?, ?)", rows)
        database.close()
        tries.append(batch_id)
        if len(tries) == 1:
            raise ConnectionError("the answer to the commit was lost")

    cluster.submit_topology("sqlite", TWO_SLOTS, sinking(100, journal, write))
    wait_until(lambda: acked(journal) == list(range(100)))

    database = sqlite3.connect(path)
    assert database.execute("SELECT number, square FROM squares ORDER BY number").fetchall() == squares(100)
    database.close()
    assert tries[:2] == [0, 0]


def test_a_write_may_kill_its_topology_and_is_committed_first(cluster, journal, caplog):
    def write(df, batch_id):
        written.extend(row.number for row in df.collect())
        cluster.kill_topology("killed")

    written = []
    topology = sinking(100, journal, write, rate=50)
    conf = {**TWO_SLOTS, "topology.max.spout.pending": 20, "topology.state.guarantee": "exactly-once"}
    handle = cluster.submit_topology("killed", conf, topology)
    assert handle.await_termination(timeout=60)
    assert written
    assert sorted(written) == acked(journal)
    assert cluster.list_topologies() == []
    assert "without its last commit" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("what", ["rebalanced", "shut down"])
def test_a_call_in_write_that_would_wait_for_the_write_is_refused(cluster, journal, what):
    def write(df, batch_id):
        try:
            cluster.rebalance("waits") if what == "rebalanced" else cluster.shutdown()
        except StormError as exc:
            refused.append(str(exc))

    refused = []
    cluster.submit_topology("waits", TWO_SLOTS, sinking(10, journal, write))
    wait_until(lambda: acked(journal) == list(range(10)))
    assert f"topology 'waits' cannot be {what} from the write of one of its sinks" in refused[0]


def test_a_write_that_raises_is_called_again_with_the_same_rows_and_id(cluster, journal):
    written = Written(failures=2)
    cluster.submit_topology("again", TWO_SLOTS, sinking(10, journal, written))

    wait_until(lambda: acked(journal) == list(range(10)))

    first, second, third, *_ = written.batches
    assert first == second == third


@pytest.mark.parametrize("error", [OSError, SystemExit])
def test_a_write_that_keeps_raising_ends_the_topology_with_its_error(cluster, journal, caplog, error):
    handle = cluster.submit_topology("full", TWO_SLOTS, sinking(10, journal, Written(100, error)))

    told = f"write of sink 'sink' raised {error.__name__} in batch 0: the disk is full; it was tried 3 times"
    with pytest.raises(StormError, match=told) as caught:
        handle.await_termination(timeout=120)

    assert isinstance(caught.value.__cause__, error)
    assert acked(journal) == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"topology full ended: {told}"
    ]


def test_batch_ids_continue_from_a_named_checkpoint(spark, journal, tmp_path):
    first, second = Written(), Written()
    for written in (first, second):
        with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
            cluster.submit_topology("ids", TWO_SLOTS, sinking(10, journal, written))
            wait_until(lambda: len(written.rows()) == 10 and len(set(acked(journal))) == 10)  # noqa: B023

    # Acked rows are committed. A kill in the middle of a commit makes another, empty one, which leaves a gap.
    assert second.batches[0][0] - first.batches[-1][0] in (1, 2)


def test_a_slot_that_dies_loses_no_row(cluster, journal, tmp_path):
    written = Written()
    topology = sinking(400, journal, written, bolt=DiesOnce(200, str(tmp_path / "marker")), rate=100)
    cluster.submit_topology("dying", TWO_SLOTS, topology)

    wait_until(lambda: set(acked(journal)) == set(range(400)))

    assert sorted(set(written.rows())) == squares(400)


class Wrong(BasicBolt):
    outputs = ("number", "square")

    def execute(self, tup, collector):
        collector.emit([tup[0], Decimal("1e9") if tup[0] == 3 else Decimal(tup[0] ** 2)])


def test_a_tuple_that_does_not_fit_the_schema_fails_and_its_field_is_named(cluster, journal):
    written = Written()
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(5, journal))
    builder.set_bolt("wrong", Wrong()).shuffle_grouping("numbers")
    builder.set_bolt("sink", DataFrameSink(written, "number long, square decimal(3)")).shuffle_grouping("wrong")
    cluster.submit_topology("misfit", TWO_SLOTS, builder.create_topology())

    wait_until(lambda: acked(journal) == [0, 1, 2, 4] and journal.noted("failed"))

    error = cluster.topology_info("misfit").components["sink"].errors[0]
    assert "field 'square' does not fit its column of type decimal(3,0): 1E+9 has too many digits" in error.exception
    assert "1E+9" in error.input
    assert written.rows() == [row for row in squares(5) if row[0] != 3]


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("number long, square wide", "sink 'sink': its schema 'number long, square wide' cannot be read"),
        (17, "sink 'sink': its schema must be a StructType or a DDL string, got 17"),
        ("number long, square varchar(9)", r"sink 'sink': Spark cannot make a DataFrame with .*varchar"),
        ("number long", r"has the columns \['number'\], but stream 'default' of 'squares' has the fields"),
    ],
)
def test_an_invalid_schema_is_refused_at_submit(cluster, journal, schema, complaint):
    with pytest.raises(InvalidTopologyError, match=complaint):
        cluster.submit_topology("refused", TWO_SLOTS, sinking(5, journal, print, schema))


def test_a_write_that_is_not_callable_is_refused_at_once():
    with pytest.raises(InvalidTopologyError, match=r"takes a function write\(df, batch_id\), got 'table'"):
        DataFrameSink("table", "number long")


def test_a_local_cluster_is_refused(journal):
    with (
        LocalCluster() as cluster,
        pytest.raises(StormError, match="'sink' writes with Spark and needs a SparkCluster"),
    ):
        cluster.submit_topology("local", None, sinking(5, journal, print))
