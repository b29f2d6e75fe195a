"""DataFrameSpout: rows of Spark's sources as tuples, their replay, dead letters, and recovery after a crash."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest

from pystorm_spark import BasicBolt, CheckpointError, InvalidTopologyError, SparkCluster, StormError, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from pystorm_spark.spark.rows.sources import EXACT_TIMES, Layout
from tests.spark.components import DiesOnce, Sum, wait_until
from tests.spark.durable import EXACTLY_ONCE, Count
from tests.spark.faults import FetcherKilled, SlotsKilled, put_in_fetching

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
TWO_SLOTS = {"topology.workers": 2}


class Files:
    """A folder of JSON files; a stream reads one file per batch."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def put(self, numbers):
        lines = [json.dumps({"number": number, "text": f"row {number}"}) for number in numbers]
        fresh = self.folder / f".{numbers[0]:06}"
        fresh.write_text("\n".join(lines))
        os.utime(fresh, (numbers[0], numbers[0]))  # Spark reads the oldest first
        fresh.rename(self.folder / f"{numbers[0]:06}.json")

    def read(self, spark, schema="number long, text string"):
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self.folder))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path / "files")


class FailsOn(BasicBolt):
    """Raises on one number, a given number of times."""

    outputs = ("number",)

    def __init__(self, number, times, marker):
        self.number, self.times, self.marker = number, times, marker

    def execute(self, tup, collector):
        if tup[0] == self.number and self.failed() < self.times:
            with open(self.marker, "a") as file:
                file.write("x")
            raise ValueError(f"{tup[0]} is not to my liking")
        collector.emit([tup[0]])

    def failed(self):
        return os.path.getsize(self.marker) if os.path.exists(self.marker) else 0


def counting(build, journal, bolt=None, fields=("number",)):
    """Build rows → a bolt → sum, grouped so that tuples cross slots."""
    builder = TopologyBuilder()
    builder.set_spout("rows", DataFrameSpout(build, fields), 2)
    builder.set_bolt("dies", bolt or DiesOnce(-1, "/nonexistent"), 2).fields_grouping("rows", fields)
    builder.set_bolt("sum", Sum(journal), 2).fields_grouping("dies", ["number"])
    return builder.create_topology()


def numbers(journal):
    return sorted(map(int, journal.noted("executed")))


def committed(checkpoint, name, spout="rows"):
    """Return the batches of a spout that Spark has logged as done."""
    folder = checkpoint / name / "sources" / spout / "offsets" / "commits"
    return {int(path.name) for path in folder.glob("[0-9]*")} if folder.exists() else set()


def test_every_row_of_every_file_arrives_once(cluster, journal, files):
    files.put(range(1000))
    cluster.submit_topology("files", TWO_SLOTS, counting(files.read, journal))
    files.put(range(1000, 1500))

    wait_until(lambda: len(numbers(journal)) >= 1500)

    assert numbers(journal) == list(range(1500))
    wait_until(lambda: cluster.topology_info("files").components["rows"].acked == 1500)


def test_a_column_that_is_not_a_field_is_not_read(cluster, journal, files):
    files.put(range(10))

    def build(spark):
        return files.read(spark).selectExpr("number", "raise_error('somebody reads it') AS unread")

    cluster.submit_topology("columns", TWO_SLOTS, counting(build, journal))

    wait_until(lambda: numbers(journal) == list(range(10)))


def test_a_rate_source_is_a_spout(cluster, journal):
    def build(spark):
        rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
        return rate.selectExpr("timestamp", "value AS number")

    cluster.submit_topology("rate", TWO_SLOTS, counting(build, journal))

    wait_until(lambda: numbers(journal)[:60] == list(range(60)))


def test_a_socket_source_is_a_spout(cluster, journal):
    server = socket.create_server(("127.0.0.1", 0))
    sent = threading.Event()

    def serve():
        client, _ = server.accept()
        client.sendall("".join(f"{number}\n" for number in range(20)).encode())
        sent.wait(60)
        client.close()

    def build(spark):
        host, port = server.getsockname()
        lines = spark.readStream.format("socket").option("host", host).option("port", port).load()
        return lines.selectExpr("CAST(value AS long) AS number")

    thread = threading.Thread(target=serve)
    thread.start()
    cluster.submit_topology("socket", TWO_SLOTS, counting(build, journal))
    try:
        wait_until(lambda: len(numbers(journal)) >= 20)
    finally:
        sent.set()
        thread.join()
        server.close()

    assert numbers(journal) == list(range(20))


class NotesTypes(BasicBolt):
    def __init__(self, journal):
        self.journal = journal

    def execute(self, tup, collector):
        self.journal.note("types", " ".join(type(value).__name__ for value in tup.values))


def test_values_have_the_types_that_pyspark_gives_them(cluster, journal, files):
    files.put([1])
    columns = [
        "number",
        "text",
        "number / 2 AS half",
        "CAST(number AS decimal(5,2)) AS exact",
        "CAST('2024-02-29' AS date) AS day",
        "CAST('2024-02-29 12:00:00' AS timestamp) AS moment",
        "array(number) AS list",
        "map(text, number) AS map",
        "struct(number, text) AS struct",
        "CAST(null AS string) AS nothing",
        "CAST(text AS binary) AS raw",
    ]
    names = [column.rpartition(" ")[2] for column in columns]
    builder = TopologyBuilder()
    builder.set_spout("rows", DataFrameSpout(lambda spark: files.read(spark).selectExpr(columns), names))
    builder.set_bolt("notes", NotesTypes(journal)).shuffle_grouping("rows")

    cluster.submit_topology("types", TWO_SLOTS, builder.create_topology())

    wait_until(lambda: journal.noted("types"))
    assert journal.noted("types") == ["int str float Decimal date datetime list dict Row NoneType bytes"]


def test_a_row_that_fails_is_emitted_again(cluster, journal, files, tmp_path):
    files.put(range(10))
    bolt = FailsOn(5, 3, str(tmp_path / "failures"))
    cluster.submit_topology("replay", TWO_SLOTS, counting(files.read, journal, bolt))

    wait_until(lambda: len(numbers(journal)) >= 10)

    assert numbers(journal) == list(range(10))
    assert bolt.failed() == 3


def test_a_row_that_fails_too_often_becomes_a_dead_letter_and_the_others_go_on(spark, journal, files, tmp_path):
    files.put(range(10))
    files.put(range(10, 20))
    bolt = FailsOn(5, 1000, str(tmp_path / "failures"))
    columns = ["number", "text", "timestamp'2024-02-29 12:00:00.123456Z' AS moment"]
    with SparkCluster(spark, f"file:{tmp_path}/checkpoint") as cluster:  # through Hadoop
        conf = {**TWO_SLOTS, "topology.max.replays": 1}
        topology = counting(
            lambda spark: files.read(spark).selectExpr(columns), journal, bolt, ["number", "text", "moment"]
        )
        cluster.submit_topology("poison", conf, topology)
        wait_until(lambda: committed(tmp_path / "checkpoint", "poison") == {0, 1})

    assert numbers(journal) == [number for number in range(20) if number != 5]
    assert bolt.failed() == 2
    (letter,) = spark.read.json(str(tmp_path / "checkpoint" / "poison" / "dead-letters" / "rows")).collect()
    assert (letter.component, letter.batch, letter.number) == ("rows", 0, 5)
    assert (letter.row.number, letter.row.text) == (5, "row 5")
    assert letter.row.moment == "2024-02-29T12:00:00.123456Z"
    assert letter.error.startswith("dies:")
    assert letter.error.endswith("ValueError: 5 is not to my liking")


@pytest.mark.parametrize("policy", ["CORRECTED", "EXCEPTION", "LEGACY"])
def test_times_of_dead_letters_do_not_depend_on_sparks_settings(spark, tmp_path, policy):
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.timeParserPolicy", policy)
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")  # its offset once had seconds
    times = ["timestamp'1850-01-01 00:00:00.000001' AS zoned", "timestamp_ntz'1850-01-01 00:00:00.000001' AS bare"]

    session.range(1).selectExpr(times).write.options(**EXACT_TIMES).json(str(tmp_path / "times"))

    (row,) = session.read.json(str(tmp_path / "times")).collect()
    assert (row.zoned, row.bare) == ("1849-12-31T18:18:44.000001Z", "1850-01-01T00:00:00.000001")


@pytest.mark.parametrize("kind", [SlotsKilled, FetcherKilled])
def test_a_death_while_dead_letters_are_fetched_loses_none(spark, journal, files, tmp_path, monkeypatch, kind):
    files.put(range(10))
    put_in_fetching(monkeypatch, kind, tmp_path / "faults")
    topology = counting(files.read, journal, FailsOn(5, 1000, str(tmp_path / "failures")))
    with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
        handle = cluster.submit_topology("poison", {**TWO_SLOTS, "topology.max.replays": 0}, topology)
        wait_until(lambda: handle.await_termination(0) or committed(tmp_path / "checkpoint", "poison") == {0})

    (letter,) = spark.read.json(str(tmp_path / "checkpoint" / "poison" / "dead-letters" / "rows")).collect()
    assert letter.row.number == 5


def test_dead_letters_of_a_batch_that_runs_again_without_any_are_removed(spark, journal, files, tmp_path):
    files.put(range(10))
    checkpoint = tmp_path / "checkpoint"
    topology = counting(files.read, journal, FailsOn(5, 1, str(tmp_path / "failures")))
    for is_again in (False, True):
        with SparkCluster(spark, checkpoint) as cluster:
            cluster.submit_topology("poison", {**TWO_SLOTS, "topology.max.replays": 0}, topology)
            wait_until(lambda: committed(checkpoint, "poison") == {0})
        assert (checkpoint / "poison" / "dead-letters" / "rows" / "batch=0").exists() is not is_again
        for path in (checkpoint / "poison").rglob("commits/*0*"):  # as if the crash came before Spark's own commit
            path.unlink()

    assert set(numbers(journal)) == set(range(10))


def test_dead_letters_in_a_temporary_checkpoint_are_logged_as_temporary(cluster, journal, files, tmp_path, caplog):
    files.put(range(3))
    conf = {**TWO_SLOTS, "topology.max.replays": 0}
    cluster.submit_topology(
        "unnamed", conf, counting(files.read, journal, FailsOn(1, 1000, str(tmp_path / "failures")))
    )

    wait_until(lambda: "batch 0 has 1 dead letters, in" in caplog.text)

    assert "until the topology ends; name a checkpoint to keep them" in caplog.text


def keeping(build, journal):
    """rows → count, a stateful bolt."""
    builder = TopologyBuilder()
    builder.set_spout("rows", DataFrameSpout(build, ["number"]), 2)
    builder.set_bolt("count", Count(journal), 2).fields_grouping("rows", ["number"])
    return builder.create_topology()


def test_a_batch_whose_rows_come_in_other_partitions_after_a_restart_is_refused(spark, journal, files, tmp_path):
    checkpoint, source = tmp_path / "checkpoint", tmp_path / "checkpoint" / "dealt" / "sources" / "rows"
    files.put(range(10))
    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("dealt", EXACTLY_ONCE, keeping(files.read, journal))
        wait_until(lambda: committed(checkpoint, "dealt") == {0})
    layout = json.loads((source / "layout.json").read_text())
    assert (layout["batch"], sum(layout["rows"])) == (0, 10)

    files.put(range(10, 20))
    begun = {"batch": 1, "rows": [4, 3, 3], "parallelism": 7}  # by another driver, with other cores
    (source / "layout.json").write_text(json.dumps(begun))
    with SparkCluster(spark, checkpoint) as cluster:
        handle = cluster.submit_topology("dealt", EXACTLY_ONCE, keeping(files.read, journal))
        with pytest.raises(StormError, match=r"partitions of \[4, 3, 3\] rows.*leafNodeDefaultParallelism=7"):
            handle.await_termination(60)


def test_the_layout_of_a_new_batch_is_none():
    place = SimpleNamespace(read_text={"layout.json": ""}.get)
    assert Layout.kept(place) is None


@pytest.mark.parametrize("shuffled", [False, True], ids=["determinate", "shuffled"])
def test_a_slot_that_dies_in_a_batch_loses_no_row(spark, journal, files, tmp_path, shuffled):
    files.put(range(3000))
    files.put(range(3000, 3100))
    checkpoint = tmp_path / "checkpoint"

    def build(spark):
        return files.read(spark).repartition(3, "number") if shuffled else files.read(spark)

    with SparkCluster(spark, checkpoint) as cluster:
        topology = counting(build, journal, DiesOnce(2500, str(tmp_path / "marker")))
        cluster.submit_topology("dying", TWO_SLOTS, topology)
        wait_until(lambda: committed(checkpoint, "dying") == {0, 1})

    assert set(numbers(journal)) == set(range(3100))


def test_a_rebalance_in_a_batch_loses_no_row(spark, journal, files, tmp_path):
    files.put(range(2000))
    checkpoint = tmp_path / "checkpoint"
    with SparkCluster(spark, checkpoint) as cluster:
        conf = {**TWO_SLOTS, "topology.max.spout.pending": 10}
        cluster.submit_topology("moving", conf, counting(files.read, journal))
        wait_until(lambda: numbers(journal))
        assert committed(checkpoint, "moving") == set()
        cluster.rebalance("moving", num_workers=1)
        wait_until(lambda: committed(checkpoint, "moving") == {0})

    assert set(numbers(journal)) == set(range(2000))


def test_an_inactive_topology_reads_no_rows(cluster, journal, files):
    files.put(range(10))
    cluster.submit_topology("resting", TWO_SLOTS, counting(files.read, journal), active=False)
    assert numbers(journal) == []

    cluster.activate("resting")

    wait_until(lambda: numbers(journal) == list(range(10)))


def test_a_named_checkpoint_continues_after_the_last_finished_batch(spark, journal, files, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    files.put(range(10))
    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("again", TWO_SLOTS, counting(files.read, journal))
        wait_until(lambda: committed(checkpoint, "again") == {0})
    files.put(range(10, 20))

    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("again", TWO_SLOTS, counting(files.read, journal))
        wait_until(lambda: committed(checkpoint, "again") == {0, 1})

    assert numbers(journal) == list(range(20))


@pytest.mark.parametrize("place", [Path, Path.as_uri], ids=["path", "uri"])
def test_a_first_batch_interrupted_while_spark_logs_it_runs_again(spark, journal, files, tmp_path, place):
    offsets = tmp_path / "checkpoint" / "noted" / "sources" / "rows" / "offsets"
    unfinished = [
        offsets / log / name for log in ("offsets", "commits") for name in (".0.50bd6509.tmp", "..0.50bd6509.tmp.crc")
    ]
    for path in unfinished:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    files.put(range(10))

    with SparkCluster(spark, place(tmp_path / "checkpoint")) as cluster:
        cluster.submit_topology("noted", TWO_SLOTS, counting(files.read, journal))
        wait_until(lambda: committed(tmp_path / "checkpoint", "noted") == {0})

    assert numbers(journal) == list(range(10))
    assert not [path for path in unfinished if path.exists()]


SCRIPT = """
import sys
from pathlib import Path
from pystorm_spark import SparkCluster
from tests.spark.components import DiesOnce
from tests.spark.conftest import Journal
from tests.spark.rows.test_dataframe_spout import Files, counting

folder = Path(sys.argv[1])
journal, files = object.__new__(Journal), object.__new__(Files)
journal.folder, files.folder = folder / "journal", folder / "files"
topology = counting(files.read, journal)
conf = {"topology.workers": 2, "topology.max.spout.pending": int(sys.argv[2])}
with SparkCluster(checkpoint=folder / "checkpoint") as cluster:
    cluster.submit_topology("killed", conf, topology).await_termination()
"""


def run_script(folder, pending):
    script, home = folder / "script.py", folder / "tmp"
    script.write_text(SCRIPT)
    home.mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(home)}
    command = [sys.executable, str(script), str(folder), str(pending)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_killed_driver_repeats_the_unfinished_batch(journal):
    folder = Path(tempfile.mkdtemp(prefix="k-"))  # Spark needs short paths
    journal.folder = folder / "journal"
    journal.folder.mkdir()
    files, checkpoint = Files(folder / "files"), folder / "checkpoint"
    files.put(range(10))
    files.put(range(10, 500))
    try:
        script = run_script(folder, pending=5)
        wait_until(lambda: len(numbers(journal)) > 100)
        script.send_signal(signal.SIGKILL)
        script.wait()
        assert committed(checkpoint, "killed") == {0}

        script = run_script(folder, pending=1000)
        wait_until(lambda: committed(checkpoint, "killed") == {0, 1})
        script.send_signal(signal.SIGTERM)
        script.wait(60)
        assert set(numbers(journal)) == set(range(500))
        assert numbers(journal).count(0) == 1  # its batch was done
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Bad input.


def refused(cluster, build, fields=("number",)):
    builder = TopologyBuilder()
    builder.set_spout("rows", DataFrameSpout(build, fields))
    with pytest.raises(InvalidTopologyError) as caught:
        cluster.submit_topology("refused", None, builder.create_topology())
    assert cluster.list_topologies() == []
    return str(caught.value)


def test_a_dataframe_that_is_not_streaming_is_refused(cluster):
    error = refused(cluster, lambda spark: spark.range(10))
    assert "'rows' returned DataFrame[id: bigint], which is not streaming" in error
    assert "run_batch" in error


def test_fields_without_a_column_are_refused_with_a_suggestion(cluster, files):
    error = refused(cluster, files.read, ["nmuber"])
    assert "'rows' declares the field 'nmuber', but its DataFrame has no such column; did you mean 'number'?" in error


@pytest.mark.parametrize("name", ["number", "Number"])
def test_two_columns_that_spark_cannot_tell_apart_are_refused(cluster, files, name):
    error = refused(cluster, lambda spark: files.read(spark).selectExpr("number", f"text AS {name}"))
    assert f"several columns 'number': ['number', '{name}']; rename them" in error


@pytest.mark.parametrize(("value", "kind"), [("{}", "{}"), ("array({})", "array<{}>"), ("map(1, {})", "map<int,{}>")])
def test_a_column_whose_type_python_lacks_is_refused(cluster, files, value, kind):
    interval = value.format("interval '1-2' year to month")
    error = refused(cluster, lambda spark: files.read(spark).selectExpr(f"{interval} AS number"))
    assert f"no Python values for the type {kind.format('interval year to month')} of column 'number'; cast" in error


@pytest.mark.parametrize("fields", [[], ["nothing"]])
def test_a_column_that_a_dead_letter_cannot_hold_is_refused(cluster, files, fields):
    def build(spark):
        return files.read(spark).selectExpr("array(named_struct()) AS nothing")

    assert "without fields cannot be written as a dead letter" in refused(cluster, build, fields)


def test_an_object_that_is_not_a_dataframe_is_refused(cluster):
    assert "'rows' must return a streaming DataFrame, got 17" in refused(cluster, lambda spark: 17)


def test_an_exception_in_build_names_the_spout(cluster):
    error = refused(cluster, lambda spark: spark.readStream.format("nonsense").load())
    assert "build of spout 'rows' raised AnalysisException" in error or "nonsense" in error


def test_a_source_that_cannot_start_is_refused_and_leaves_nothing_running(spark, cluster, files):
    builder = TopologyBuilder()
    builder.set_spout("good", DataFrameSpout(files.read, ["number"]))
    builder.set_spout("sums", DataFrameSpout(lambda spark: files.read(spark).groupBy("number").count(), ["number"]))

    with pytest.raises(InvalidTopologyError, match=r"the source of spout 'sums' cannot be started: .*aggregations"):
        cluster.submit_topology("refused", TWO_SLOTS, builder.create_topology())

    assert spark.streams.active == []


def test_a_source_with_a_column_type_that_streams_lack_is_refused(cluster, files):
    error = refused(cluster, lambda spark: files.read(spark).selectExpr("TIME'12:34:56' AS hour"), ["hour"])
    assert "the source of spout 'rows' cannot be started: " in error or "build of spout 'rows' raised" in error


def test_a_pickled_spout_is_refused(cluster, files):
    builder = TopologyBuilder()
    spout = DataFrameSpout(files.read, ["number"])
    builder.set_spout("rows", cloudpickle.loads(cloudpickle.dumps(spout)))

    with pytest.raises(InvalidTopologyError, match="which drops its build function"):
        cluster.submit_topology("refused", TWO_SLOTS, builder.create_topology())


def test_a_build_that_is_not_callable_is_refused_at_once():
    with pytest.raises(InvalidTopologyError, match="takes a function build"):
        DataFrameSpout("rows", ["number"])


def test_a_source_whose_schema_has_changed_is_refused(spark, journal, files, tmp_path):
    with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
        cluster.submit_topology("changed", TWO_SLOTS, counting(files.read, journal))
        cluster.kill_topology("changed")
        topology = counting(lambda spark: files.read(spark, "number string, text string"), journal)

        with pytest.raises(
            CheckpointError, match=r"had the columns struct<number:bigint> .* has struct<number:string>"
        ):
            cluster.submit_topology("changed", TWO_SLOTS, topology)


def test_a_source_that_differs_in_nullability_goes_on_and_a_damaged_schema_is_named(spark, journal, files, tmp_path):
    schema = tmp_path / "checkpoint" / "nulls" / "sources" / "rows" / "schema.json"
    with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
        for column in ("number", "coalesce(number, 0L) AS number"):
            topology = counting(lambda spark: files.read(spark).selectExpr(column), journal)  # noqa: B023
            cluster.submit_topology("nulls", TWO_SLOTS, topology)
            cluster.kill_topology("nulls")
        schema.write_text("")

        with pytest.raises(CheckpointError, match=f"{schema}' is damaged"):
            cluster.submit_topology("nulls", TWO_SLOTS, topology)


def test_a_source_that_fails_ends_the_topology_with_its_error(cluster, journal, files):
    files.put([1])

    def build(spark):
        return files.read(spark).selectExpr("raise_error('out of ink') AS number")

    handle = cluster.submit_topology("failing", TWO_SLOTS, counting(build, journal))

    with pytest.raises(StormError, match=r"the source of spout 'rows' failed: .*out of ink"):
        handle.await_termination(timeout=120)
    assert cluster.list_topologies() == []
