"""How does the time of a commit grow with the state, and how long does it take to restore one?"""

import pickle
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import report
from pystorm_spark.checkpoint.commit_log import CommitLog
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.slot_side import SlotCheckpoint
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.state import KeyValueState
from pystorm_spark.topology.durable import TaskKey

SIZES = (10**3, 10**4, 10**5, 10**6)
QUICK_SIZES = SIZES[:2]
CHANGES = 1000
COMMITS = 15
RESTORES = 5
FLAT, RESTORE_BAR = 2.0, 3.0
TASK = TaskKey("count", 0)


def method(sizes):
    return (
        f"{CHANGES} changed keys a commit, {COMMITS} commits at each size, to a local folder with fsync. *Restore* "
        f"reads, checks and unpacks {sizes[-1]:,} keys (text to int); `pickle.load` reads the same dict, in turn, the "
        f"best of {RESTORES}."
    )


def measure(quick=False):
    sizes = QUICK_SIZES if quick else SIZES
    found = {size: _commit_ms(size) for size in sizes}
    growth = found[sizes[-1]] / found[sizes[0]]
    rows = [[f"{size:,} keys", f"{found[size]:.1f} ms"] for size in sizes]
    curve = report.Table(["state", "commit"], [*rows, ["largest to smallest", f"{growth:.2f} ({FLAT:g} is flat)"]])
    restore, load = _restore_secs(sizes[-1])
    judged = report.verdict(restore / load < RESTORE_BAR, f"< {RESTORE_BAR:g}")
    shown = [f"{sizes[-1]:,} keys", f"{load:.2f} s", f"{restore:.2f} s", f"{restore / load:.2f}", judged]
    restored = report.Table(["", "pickle.load", "restore", "ratio", "bar"], [shown])
    chart = report.Chart("ms a commit, by keys of the state", [f"{size:,}" for size in sizes], list(found.values()))
    figures = {"commit_ms": {str(size): ms for size, ms in found.items()}, "restore": restore, "pickle_load": load}
    question = report.first_line(__doc__)
    return report.Result("state_size", question, method(sizes), [curve, restored], figures, [chart])


class _Kept:
    """One state with its checkpoint, committed as in a slot."""

    def __init__(self, folder):
        self._files = PosixFiles(Path(folder) / "state")
        self._log = CommitLog(CheckpointStore(self._files, "bench"), "bench", [[TASK]])
        self._side = SlotCheckpoint(self._files, 0, self._log.assignment(0), ValueCodec())
        self.state = KeyValueState(ValueCodec())

    def commit(self):
        section = self.state.prepare_commit()
        txid = self._log.last.txid + 1
        written = self._side.write(txid, {TASK: section}, {}, is_full=False)
        self._log.append(txid, [written], {"count": 1})
        self._side.settle()
        self.state.accept_prepared()

    def merge(self):
        self._side.merge()

    def restored(self):
        log = CommitLog(CheckpointStore(self._files, "bench"), "bench", [[TASK]])
        side = SlotCheckpoint(self._files, 0, log.assignment(0), ValueCodec())
        state = KeyValueState(ValueCodec())
        state.restore(side.sections([TASK])[TASK])
        return state


def _filled(folder, size):
    kept = _Kept(folder)
    for number in range(size):
        kept.state.put(f"key-{number:08}", number)
    kept.commit()
    return kept


def _commit_ms(size):
    with tempfile.TemporaryDirectory() as folder:
        kept = _filled(folder, size)
        took = []
        for number in range(COMMITS):
            for key in range(CHANGES):
                kept.state.put(f"key-{key * (size // CHANGES):08}", number)
            began = time.perf_counter()
            kept.commit()
            took.append(time.perf_counter() - began)
            kept.merge()
        return 1000 * statistics.median(took)


def _restore_secs(size):
    with tempfile.TemporaryDirectory() as folder:
        kept = _filled(folder, size)
        plain = Path(folder) / "plain.pickle"
        plain.write_bytes(pickle.dumps(dict(kept.state)))
        restores, loads = [], []
        for _ in range(RESTORES):
            began = time.perf_counter()
            state = kept.restored()
            restores.append(time.perf_counter() - began)
            began = time.perf_counter()
            with open(plain, "rb") as file:
                loaded = pickle.load(file)
            loads.append(time.perf_counter() - began)
            assert len(state) == len(loaded) == size
            del state, loaded
        return min(restores), min(loads)


if __name__ == "__main__":
    report.answer(measure)
