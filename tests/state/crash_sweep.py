"""A topology that crashes at every durable step, or at every pair of steps. Run as a script, in its own process.

Its arguments are a folder and the number of crashes in a run. It prints the number of steps and of crashes. A row that
is lost, counted twice or out of order is an error that names the steps.
"""

import gc
import logging
import os
import shutil
import sys
from collections import deque
from pathlib import Path

import pystorm_spark.checkpoint.merging as merging
import pystorm_spark.local.commits as local_commits
from pystorm_spark import LocalCluster, Spout, TopologyBuilder
from pystorm_spark.checkpoint.crash_points import EXIT_CODE, POINTS, Crashes, arm
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.state import StatefulBolt

CONF = {"topology.state.guarantee": "exactly-once"}
ROWS = 8  # row n has the key n % 2
AT_ONCE = 3  # rows between two commits
FAILS = 4  # the row that fails when a process executes it for the first time


class Log(Spout):
    """Emits the rows whose numbers are not in its own file; adds the number of each acked row to it."""

    outputs = ("key", "number")

    def __init__(self, file):
        self.file = file

    def open(self, conf, context, collector):
        self.collector = collector
        acked = acked_in(self.file)
        self.left = deque(number for number in range(ROWS) if number not in acked)

    def next_tuple(self):
        if self.left and self.left[0] < len(acked_in(self.file)) + AT_ONCE:
            number = self.left.popleft()
            self.collector.emit([number % 2, number], message_id=number)

    def ack(self, message_id):
        with open(self.file, "a") as file:
            file.write(f"{message_id}\n")

    def fail(self, message_id):
        self.left = deque(sorted([*self.left, message_id]))


class Remember(StatefulBolt):
    """Stores the numbers of each key in the order of their arrival."""

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.has_failed = False

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup["key"], [*self.state.get(tup["key"], []), tup["number"]])
        if tup["number"] == FAILS and not self.has_failed:
            self.has_failed = True
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class AtOnce:
    """Stands for the thread that merges; it always merges at the same point."""

    def __init__(self, *args, **kwargs):
        pass

    def submit(self, call, *args):
        call(*args)

    def shutdown(self):
        pass


def acked_in(file):
    return {int(line) for line in file.read_text().splitlines()} if file.exists() else set()


def run(folder):
    """Continue until all rows are acked."""
    builder = TopologyBuilder()
    builder.set_spout("log", Log(folder / "acked"))
    builder.set_bolt("remember", Remember(), 2).fields_grouping("log", "key")
    with LocalCluster(simulated_time=True, checkpoint=folder) as cluster:
        cluster.submit_topology("log", CONF, builder.create_topology())
        while len(acked_in(folder / "acked")) < ROWS:
            cluster.advance_time(1)
        check(cluster.read_state("log", "remember"))


def check(found):
    """The state is the same as without crashes."""
    for key in (0, 1):
        expected, numbers = list(range(key, ROWS, 2)), found.get(key, [])
        lost = set(expected) - set(numbers)
        duplicated = {number for number in numbers if numbers.count(number) > 1}
        is_reordered = numbers != sorted(numbers)
        problems = f"lost {lost}, duplicated {duplicated}, reordered {is_reordered}"
        assert numbers == expected, f"key {key}: {numbers}; {problems}"


def check_files(folder, restarts):
    """All files are needed, and there are no more of them than without crashes, but for ids that may come again."""
    files = PosixFiles(folder / "log" / "state")
    names = set(files.names())
    store = CheckpointStore(files, "log")
    needed = set().union(*(manifest.file_names() for manifest in store._kept))
    unneeded = {name for name in names - needed if not name.startswith("manifest-")}
    assert len(unneeded) <= 1, f"nobody needs {unneeded}"  # the last merge is for the next commit
    assert len([name for name in names if name.startswith("manifest-")]) == 2
    assert len([name for name in names if name.startswith(("state-", "merged-"))]) <= 6, names
    assert len([name for name in names if name.startswith("acked-")]) <= 2 + restarts, names


def reached(folder):
    """The points that a run without a crash reaches."""
    recorder = Crashes("", marks="")
    arm(recorder)
    run(folder)
    arm(None)
    return [f"{name}:{hit}" for name, hits in recorder.reached.items() for hit in range(1, hits + 1)]


def crash(folder, point):
    """Run in a process of its own that ends at `point`."""
    pid = os.fork()
    if pid == 0:
        arm(Crashes(point, marks=""))
        try:
            run(folder)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == EXIT_CODE, f"it ended with {code}"


def sweep(folder, before, points, crashes, restarts=1):
    """Crash at each of `points`, going on from the folder `before`, and once more if there are `crashes` left.

    Returns how often it crashed.
    """
    count = 0
    for point in points:
        shutil.copytree(before, folder)
        try:
            crash(folder, point)
            after = shutil.copytree(folder, before.with_name(f"{before.name}-{point}")) if crashes > 1 else None
            next_points = reached(folder)
            check_files(folder, restarts)
            shutil.rmtree(folder)
            count += 1
            if after is not None:
                count += sweep(folder, after, next_points, crashes - 1, restarts + 1)
        except Exception as error:
            raise AssertionError(f"crashed at {point}") from error
    return count


def main(folder, crashes):
    os.fsync = lambda _: None  # the system does not crash, only processes do
    merging.FEWEST = 2
    local_commits.ThreadPoolExecutor = AtOnce
    logging.disable(logging.ERROR)
    gc.disable()  # a fork is quick as long as it changes little memory
    new, whole = folder / "new", folder / "whole"
    new.mkdir(mode=0o700, parents=True)
    whole.mkdir(mode=0o700)
    points = reached(whole)
    check_files(whole, restarts=0)
    assert {point.partition(":")[0] for point in points} == {*POINTS}, points
    print(len(points), sweep(folder / "crashed", new, points, crashes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
