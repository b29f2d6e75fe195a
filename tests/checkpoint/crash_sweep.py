"""A store that crashes at every point, and at every pair of points. Run as a script, in a process without threads.

It prints the number of points and of crashes. A failure is an error that names the points.
"""

import gc
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import msgpack

from pystorm_spark.checkpoint.crash_points import EXIT_CODE, POINTS, Crashes, arm
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.manifest import Manifest
from pystorm_spark.checkpoint.merging import merge_parts
from pystorm_spark.checkpoint.part import read_sections, write_part
from pystorm_spark.checkpoint.section import merge_sections
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.topology.durable import TaskKey

TASK = TaskKey("count", 0)
LAST = 3  # commits; the parts are merged before the second one


def changes(txid):
    return msgpack.packb(["last", txid, f"word{txid}", txid])


def expected(txid):
    return merge_sections([changes(done) for done in range(1, txid + 1)], is_full=True)


def run(files, told):
    """Continue to the last commit; calls `told(txid)` for each one that is made."""
    store = CheckpointStore(files, "words")
    store.clean()
    while store.last.txid < LAST:
        txid = store.last.txid + 1
        manifest = replace(store.last, txid=txid)
        if txid == 2:
            merged = merge_parts(files, "merged", manifest.parts, is_full=True)
            manifest = replace(manifest, parts=(merged,))
        new = write_part(files, f"p{txid}", {TASK: changes(txid)}, is_full=False)
        acked = (write_part(files, "acked", {TASK: b"ids"}, is_full=True),) if txid == 1 else ()
        store.publish(replace(manifest, parts=(*manifest.parts, new), acked=acked))
        told(txid)


def reached(folder):
    """The points that a run without a crash reaches."""
    recorder = Crashes("", marks="")
    arm(recorder)
    run(PosixFiles(folder), lambda txid: None)
    arm(None)
    return [f"{name}:{hit}" for name, hits in recorder.reached.items() for hit in range(1, hits + 1)]


def crash(folder, point):
    """Run in a process of its own that ends at `point`, and return the last commit it told of."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        arm(Crashes(point, marks=""))
        run(PosixFiles(folder), lambda txid: os.write(writing, bytes([txid])))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == EXIT_CODE, f"it ended with {code}"
    return max(told, default=0)


def check(files, at_least, at_most):
    """The last commit, which must be whole, as are all that are there."""
    last = CheckpointStore(files, "words").last
    names = {*files.names()}
    for name in names:
        if re.fullmatch("manifest-[0-9]+", name):
            assert Manifest.from_bytes(files.read(name), name).file_names() <= names, f"{name} lacks files"
    txid = max(last.txid, 0) if last else 0
    assert at_least <= txid <= at_most, f"the last commit is {txid}, not one of {at_least} to {at_most}"
    if txid:
        assert merge_sections(read_sections(files, last.parts, {TASK})[TASK], is_full=True) == expected(txid)
        assert read_sections(files, last.acked, {TASK}) == ({TASK: [b"ids"]} if txid == 1 else {})
    return txid


def left(folder):
    return sorted(re.sub("-[0-9a-f]{8}.part", ".part", name) for name in os.listdir(folder))


def sweep(folder, before, txid, points, names, crashes):
    """Crash at each of `points`, going on from the folder `before`, and once more if there are `crashes` left.

    A run that follows must end with the files `names`. Returns how often it crashed.
    """
    count = 0
    for point in points:
        copy(before, folder)
        try:
            told = max(crash(folder, point), txid)
            found = check(PosixFiles(folder), told, told + 1)
            after = copy(folder, before.with_name(f"{before.name}-{point}")) if crashes > 1 else None
            next_points = reached(folder)
            check(PosixFiles(folder), LAST, LAST)
            assert left(folder) == names, f"there is {left(folder)} instead of {names}"
            shutil.rmtree(folder)
            count += 1
            if after:
                count += sweep(folder, after, found, next_points, names, crashes - 1)
        except Exception as error:
            raise AssertionError(f"crashed at {point}") from error
    return count


def copy(source, target):
    return shutil.copytree(source, target, copy_function=os.link)  # no file is ever changed


def main(folder):
    os.fsync = lambda _: None  # the system does not crash, only processes do
    gc.disable()  # a fork is quick as long as it changes little memory
    new, whole = folder / "new", folder / "whole"
    new.mkdir(mode=0o700, parents=True)
    points = reached(whole)
    assert {point.partition(":")[0] for point in points} == {*POINTS}, points
    print(len(points), sweep(folder / "crashed", new, 0, points, left(whole), crashes=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
