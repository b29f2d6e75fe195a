"""load_state: the state of a stateful bolt as a table."""

import json
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum

import numpy
import pytest

from pystorm_spark import CheckpointError, LocalCluster, TopologyBuilder, load_state
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.part import read_sections
from pystorm_spark.repartition import repartition_state
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.storage import state_table
from pystorm_spark.spark.storage.state_columns import column_of, kind_of
from pystorm_spark.state import StatefulBolt
from pystorm_spark.state.key_value import pairs_of
from pystorm_spark.testing import FixedTupleSpout


@dataclass
class Score:
    points: int
    on: date


class Suit(str, Enum):
    HEARTS = "hearts"


class Grade(IntEnum):
    GOOD = 1


class Colour(Enum):
    RED = 1


NOW = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)


def shown(*values):
    """Return the type of a column that holds `values`, and the values in it."""
    column, as_column = column_of({kind_of(value) for value in values})
    return column.simpleString(), [as_column(value) for value in values]


@pytest.mark.parametrize("time", [datetime.min, datetime.max, datetime.min.replace(tzinfo=timezone.utc)])
def test_times_that_spark_cannot_give_back_are_json(time):
    assert shown(time, NOW) == ("string", [f'"{time}"', f'"{NOW}"'])


def test_values_of_numpy_are_json_of_their_content():
    assert shown(numpy.int64(5), numpy.bool_(True)) == ("string", ["5", "true"])
    _, (text,) = shown({"all": numpy.arange(2000).reshape(2, 1000)})
    assert json.loads(text) == {"all": [list(range(1000)), list(range(1000, 2000))]}


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["a", None], "string"),
        ([True], "boolean"),
        ([1, -(1 << 63)], "bigint"),
        ([0.5], "double"),
        ([b"a"], "binary"),
        ([date(2024, 2, 29)], "date"),
        ([NOW, NOW.replace(tzinfo=None)], "timestamp"),
        ([None], "string"),
        ([], "string"),
    ],
)
def test_values_of_one_type_are_a_column_of_it(values, column):
    assert shown(*values) == (column, values)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": [1, (2, None)]}, {"a": [1, [2, None]]}),
        ({(1, "a"): 2, 3: 4}, {'[1, "a"]': 2, "3": 4}),
        ({"x": {1: 2, "1": 3}}, {"x": [[1, 2], ["1", 3]]}),
        ({None: 1, "null": 2, "a": {}}, [[None, 1], ["null", 2], ["a", {}]]),
        ({Suit.HEARTS: Grade.GOOD, Grade.GOOD: Colour.RED}, {"hearts": 1, "1": "Colour.RED"}),
        ({1}, [1]),
        (1 << 63, 1 << 63),
        (Decimal("1.10"), "1.10"),
        ([NOW], ["2024-02-29 12:00:00+00:00"]),
        (Score(3, date(2024, 2, 29)), {"points": 3, "on": "2024-02-29"}),
    ],
)
def test_other_values_are_json(value, told):
    column, (found, nothing) = shown(value, None)
    assert (column, json.loads(found), nothing) == ("string", told, None)


def test_values_of_several_types_are_json():
    assert shown(1, "a", 0.5) == ("string", ["1", '"a"', "0.5"])


def test_lone_surrogates_make_strings_json():
    assert shown("\ud800", "a") == ("string", ['"\\ud800"', '"a"'])


class Keeps(StatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup["key"], tup["value"])
        self.collector.ack(tup)


def keep(folder, rows, topology="words"):
    """Store pairs in the state of a bolt of three tasks."""
    builder = TopologyBuilder()
    builder.set_spout("rows", FixedTupleSpout(rows, ["key", "value"]))
    builder.set_bolt("keep", Keeps(), 3).fields_grouping("rows", "key")
    with LocalCluster(simulated_time=True, checkpoint=folder) as cluster:
        cluster.submit_topology(topology, None, builder.create_topology())
        cluster.wait_until_idle()


@pytest.mark.spark
def test_a_state_is_a_table(spark, tmp_path):
    pairs = {f"key {number}": number for number in range(20)}
    keep(tmp_path, [list(pair) for pair in pairs.items()])
    table = load_state(spark, tmp_path, "keep")
    assert table.dtypes == [("key", "string"), ("value", "bigint"), ("task", "int")]
    assert {row.key: row.value for row in table.collect()} == pairs
    assert {row.task for row in table.collect()} == {0, 1, 2}


def test_unknown_topologies_and_bolts_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match=f"'{tmp_path}' holds no state"):
        load_state(None, tmp_path, "keep")
    keep(tmp_path, [["a", 1]])
    with pytest.raises(CheckpointError, match="holds no state of 'kept'; did you mean 'keep'"):
        load_state(None, tmp_path, "kept")
    keep(tmp_path, [["a", 1]], "others")
    with pytest.raises(CheckpointError, match=r"holds the states of 2 topologies, name one as `topology`"):
        load_state(None, tmp_path, "keep")
    with pytest.raises(CheckpointError, match=r"of 2 topologies, but none of 'other'; did you mean 'others'"):
        load_state(None, tmp_path, "keep", "other")


def test_files_removed_during_a_read_are_replaced_by_those_of_the_next_commit(tmp_path, monkeypatch):
    keep(tmp_path, [["a", 1]])
    files = PosixFiles(tmp_path / "words" / "state")

    def late(*args):
        monkeypatch.undo()
        repartition_state(tmp_path, "words", "keep", 1)
        return read_sections(*args)

    monkeypatch.setattr(state_table, "read_sections", late)
    ((index, sections),) = state_table.committed_sections(files, "words", "keep")
    assert (index, pairs_of(sections, ValueCodec())) == (0, {"a": 1})


def test_a_file_that_was_read_is_kept_after_its_removal(tmp_path, monkeypatch):
    keep(tmp_path, [["a", 1]])
    files = PosixFiles(tmp_path / "words" / "state")
    read = state_table.ReadOnce(files)
    (part,) = (name for name in files.names() if name.endswith(".part"))
    content = read.read(part)

    files.remove(part)

    assert (read.read(part), read.size(part)) == (content, len(content))


def test_a_damaged_file_is_named(tmp_path):
    keep(tmp_path, [["a", 1]])
    files = PosixFiles(tmp_path / "words" / "state")
    (part,) = (name for name in files.names() if name.endswith(".part"))
    (tmp_path / "words" / "state" / part).write_bytes(b"")
    with pytest.raises(CheckpointError, match=f"{part}' is damaged"):
        state_table.committed_sections(files, "words", "keep")
