"""Feeding as the driver sees it, with scripted slots: which shares are fed again, and when a batch is done."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from pyspark.errors import PySparkRuntimeError

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.protocol.messages import Settled
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.rows.feeding import (
    FIRST_CHUNK_ROWS,
    LARGEST_CHUNK_BYTES,
    Feeder,
    Handing,
    Rows,
    Stopped,
    dealt,
)
from pystorm_spark.spark.rows.row_batches import SIZE_KEY, selected

TASKS = [3, 4]
SLOT_OF = {3: 0, 4: 1}


class Deaf:
    """A connection without a peer."""

    def send(self, message):
        pass


class ScriptedRows:
    """Rows of two partitions, one for each task; records the tasks that got them."""

    kinds = "q"
    chunk_rows = 500

    why = "a Python worker has exited unexpectedly"

    def __init__(self, determinate=True, unreached=0, failing=0, count=10, size=100):
        self.determinate, self.unreached, self.failing = determinate, unreached, failing
        self.got = [1, count, size]
        self.handed = []

    def is_determinate(self):
        return self.determinate

    def hand_over(self, handing, partitions):
        tasks = sorted(handing.addresses)
        self.handed.append(tasks)
        if len(self.handed) <= self.failing:
            raise PySparkRuntimeError(self.why)
        if len(self.handed) <= self.unreached:
            return [(0, 100, {3: self.got}), (1, 101, None)]
        return [(task, 100 + task, {task: self.got}) for task in tasks]


class ScriptedDriver:
    """A driver that makes the next event of a script happen whenever the feeder waits."""

    def __init__(self, *script):
        self.script = list(script)
        self.links = {slot: self.new_link(slot) for slot in (0, 1)}

    def new_link(self, slot):
        link = SlotLink(slot, 0, Deaf(), is_near=False)
        link.state, link.address = "ready", Address(f"slot-{slot}")
        return link

    def all_ready(self):
        return None if self.script == ["end"] else list(self.links.values())

    def pause(self, secs):
        return self.script != ["end"]

    def wait_for(self, condition, secs=None):
        while not condition():
            if not self.script or self.script[0] == "end":
                return False
            self.script.pop(0)(self)
        return True

    # The events.

    def settle(self, task, dead=0):
        share = self.feeder._shares[task]
        message = Settled(task, share.round, dead)
        self.feeder.on_settled(self.links[SLOT_OF[task]], message)

    def lose(self, slot):
        self.links[slot].state = "lost"
        self.links[slot] = self.new_link(slot)


def settled(task, dead=0):
    return lambda driver: driver.settle(task, dead)


def lost(slot):
    return lambda driver: driver.lose(slot)


def feeder(*script, by_ids=False):
    driver = ScriptedDriver(*script)
    driver.feeder = Feeder(driver, b"token", TASKS, SLOT_OF, by_ids)
    return driver.feeder


def fed(rows, *script, by_ids=False):
    """Return {task: its share} after the events of `script`."""
    return feeder(*script, by_ids=by_ids).feed(rows, 0)


def test_rows_are_handed_over_until_python_workers_have_ceased_to_die():
    rows = ScriptedRows(failing=10)
    rows.why = "Python worker exited unexpectedly (crashed)"
    fed(rows, settled(3), settled(4))
    assert len(rows.handed) == 11


def test_a_batch_is_done_once_every_task_has_settled_its_share():
    rows = ScriptedRows()

    shares = fed(rows, settled(3), settled(4, dead=2))

    assert rows.handed == [[3, 4]]
    assert {task: (share.rows, share.dead) for task, share in shares.items()} == {3: (10, 0), 4: (10, 2)}


def test_the_share_of_a_lost_slot_is_fed_again():
    rows = ScriptedRows()

    fed(rows, settled(3), lost(1), settled(4))

    assert rows.handed == [[3, 4], [4]]


def test_a_batch_in_unstable_order_is_fed_again_as_a_whole():
    rows = ScriptedRows(determinate=False)

    fed(rows, settled(3), lost(1), settled(4), settled(3))

    assert rows.handed == [[3, 4], [3, 4]]


def test_with_exactly_once_a_row_that_may_have_been_executed_is_not_fed_again(caplog):
    rows = ScriptedRows(determinate=False)

    fed(rows, settled(3), lost(1), settled(4), by_ids=True)

    assert rows.handed == [[3, 4], [4]]
    assert "exactly-once holds only if it does not" in caplog.text


def test_a_share_that_was_settled_before_its_slot_was_lost_is_not_fed_again():
    rows = ScriptedRows()

    fed(rows, settled(3), lost(0), settled(4))

    assert rows.handed == [[3, 4]]


def test_a_share_whose_dead_letters_are_lost_is_fed_again():
    rows = ScriptedRows()

    shares = fed(rows, settled(3, dead=1), lost(0), settled(3, dead=1), settled(4))

    assert rows.handed == [[3, 4], [3]]
    assert shares[3].dead == 1


def test_a_round_that_has_not_reached_a_slot_is_run_again():
    rows = ScriptedRows(unreached=1)

    fed(rows, lost(1), settled(3), settled(4))

    assert rows.handed == [[3, 4], [3, 4]]


def test_a_job_that_fails_is_run_again():
    rows = ScriptedRows(failing=2)

    fed(rows, settled(3), settled(4))

    assert rows.handed == [[3, 4]] * 3


def test_a_job_that_fails_every_time_is_an_error():
    rows = ScriptedRows(failing=3)

    with pytest.raises(StormError, match="the rows cannot be read: a Python worker has exited unexpectedly"):
        fed(rows)

    assert len(rows.handed) == 3


def test_a_job_that_finds_a_full_disk_is_run_again_until_there_is_room():
    rows = ScriptedRows(failing=10)
    rows.why = "java.io.IOException: No space left on device"

    fed(rows, settled(3), settled(4))

    assert len(rows.handed) == 11


def test_a_job_that_is_interrupted_at_the_end_is_not_run_again():
    rows = ScriptedRows(failing=1)
    feeds = feeder(settled(3), settled(4))
    feeds.is_stopping = True

    with pytest.raises(StormError):
        feeds.feed(rows, 0)

    assert len(rows.handed) == 1


def test_the_end_of_the_topology_ends_a_batch_with_an_error():
    with pytest.raises(Stopped):
        fed(ScriptedRows(), settled(3), "end")


@pytest.mark.parametrize(
    ("count", "size", "wanted"),
    [
        pytest.param(100, 1_000, 100, id="few rows are dealt in small chunks"),
        pytest.param(8_000, 80_000, 1_000, id="every task gets several chunks"),
        pytest.param(1_000_000, 10**7, 4_000, id="no chunk is very large"),
        pytest.param(1_000_000, 10**10, 838, id="nor has it very many bytes"),
        pytest.param(1_000, 5 * 10**8, 16, id="large rows"),
        pytest.param(10, 10**9, 1, id="very large rows"),
        pytest.param(0, 0, None, id="nothing is known"),
    ],
)
def test_the_size_of_chunks_follows_the_last_batch(count, size, wanted):
    feeds = feeder(settled(3), settled(4))
    assert feeds.chunk_rows() is None

    feeds.feed(ScriptedRows(count=count, size=size), 0)

    assert feeds.chunk_rows() == wanted


def test_a_chunk_of_rows_that_are_not_arrow_batches_ends_where_it_is_large():
    handing = Handing(1, b"token", kinds="", chunk_rows=3, tasks=(3, 4), addresses={})
    rows = [[b"small"]] * 4 + [[bytes(LARGEST_CHUNK_BYTES)], [b"small"]]

    counts = [count for count, _ in handing._chunks(rows)]

    assert counts == [3, 2, 1]


@pytest.mark.parametrize("tasks", [1, 2, 3, 64])
@pytest.mark.parametrize("chunks", [1, 100, 1000, 100_000])
def test_tasks_get_about_as_many_chunks_of_a_partition_in_few_stretches(tasks, chunks):
    order = [dealt(number, tasks) for number in range(chunks)]
    counts = [order.count(task) for task in range(tasks)]

    assert max(counts) - min(counts) <= 1 + chunks / tasks / 16
    assert sum(one != other for one, other in pairwise(order)) <= 64 * tasks * max(1, chunks.bit_length() - 6)


def test_the_first_chunks_are_dealt_one_by_one():
    assert [dealt(number, 3) for number in range(192)] == [number % 3 for number in range(192)]
    assert [dealt(number, 2) for number in range(126, 136)] == [0, 1, 0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.spark
def test_rows_with_a_stable_order_are_recognized(spark):
    numbers = spark.range(100)

    assert Rows(numbers).is_determinate()
    assert Rows(numbers.where("id > 5")).is_determinate()
    assert not Rows(numbers.repartition(3)).is_determinate()
    assert not Rows(numbers.repartition(3, "id")).is_determinate()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ("id", FIRST_CHUNK_ROWS),
        ("CAST(id AS string)", FIRST_CHUNK_ROWS),
        ("id, repeat('x', 3000000) AS text", 2),
        ("CAST(repeat('x', 20000000) AS binary)", 1),
        (
            "array(id), repeat('x', 3000000) AS text",
            FIRST_CHUNK_ROWS,
        ),  # these do not come as Arrow batches; a chunk ends by its size
    ],
)
def test_the_first_chunks_have_the_size_of_the_first_row(spark, columns, wanted):
    assert Rows(spark.sql(f"SELECT {columns} FROM range(3)")).chunk_rows == wanted


@pytest.mark.spark
def test_no_rows_need_no_careful_chunks(spark):
    assert Rows(spark.sql("SELECT CAST(id AS string) FROM range(0)")).chunk_rows == FIRST_CHUNK_ROWS


@pytest.mark.spark
@pytest.mark.parametrize("name", ["a.b", "a b", "a`b"])
def test_a_column_may_have_any_name(spark, name):
    assert Rows(selected(spark.range(1, 2).toDF(name), [name])).kinds == "q"


@pytest.mark.spark
def test_rows_that_are_made_at_the_same_time_leave_the_session_as_it_was(spark):
    before = spark.conf.get(SIZE_KEY)

    with ThreadPoolExecutor(8) as pool:
        made = [pool.submit(Rows, spark.range(10), chunk_rows) for chunk_rows in range(100, 108)]

    assert [future.result().chunk_rows for future in made] == list(range(100, 108))
    assert spark.conf.get(SIZE_KEY) == before
