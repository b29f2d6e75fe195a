"""A store on a small disk that fills up and turns read-only. Run as a script, which mounts the disk."""

import sys
from pathlib import Path

from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.manifest import Manifest
from pystorm_spark.checkpoint.part import read_part, write_part
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError
from pystorm_spark.topology.durable import TaskKey
from tests.disks import fill, mount

TASK = TaskKey("count", 0)
SMALL, TOO_LARGE = bytes(8), bytes(200_000)


def commit(store, files, txid, section=SMALL):
    part = write_part(files, f"p{txid}", {TASK: section}, is_full=True)
    store.publish(Manifest("words", txid, (part,)))


def refused(store, files, reason, section=SMALL):
    """A commit that fails for `reason`, leaves nothing behind, and does no harm to the one before."""
    before, problem = sorted(files.names()), "it went through"
    try:
        commit(store, files, store.last.txid + 1, section)
    except CheckpointError as error:
        problem = str(error)
    assert reason in problem, problem
    assert sorted(files.names()) == before
    found = CheckpointStore(files, "words").last
    assert found == store.last
    assert read_part(files, found.parts[0], {TASK}) == {TASK: SMALL}


def main(folder):
    mount(folder, "-t", "tmpfs", "-o", "size=128k,mode=700", "tmpfs")
    files = PosixFiles(folder)
    store = CheckpointStore(files, "words")
    store.clean()
    commit(store, files, 1)
    refused(store, files, "No space left", TOO_LARGE)
    fill(folder / "ballast")
    refused(store, files, "No space left")
    (folder / "ballast").unlink()
    commit(store, files, 2)
    mount(folder, "-o", "remount,ro")
    refused(store, files, "Read-only file system")
    mount(folder, "-o", "remount,rw")
    commit(store, files, 3)
    assert CheckpointStore(files, "words").last == store.last


if __name__ == "__main__":
    main(Path(sys.argv[1]))
