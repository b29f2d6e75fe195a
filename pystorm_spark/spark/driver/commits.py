"""Internal. Checkpoint: the commits of a topology on Spark. Slots write parts, the driver writes manifests.

`checkpoint.store` writes the files. Where slots cannot write, they hand their parts to the driver.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pystorm_spark.checkpoint.commit_log import CommitLog
from pystorm_spark.checkpoint.keying import HASH_KEY, Keying
from pystorm_spark.checkpoint.slot_side import Written
from pystorm_spark.checkpoint.store import OLDER_KEY, CheckpointStore
from pystorm_spark.errors import CheckpointError
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.spark.protocol.messages import Answer, FileRequest, Prepared, Unwritten
from pystorm_spark.spark.protocol.wire import Connection
from pystorm_spark.spark.storage.hadoop_files import HadoopFiles
from pystorm_spark.spark.storage.handed_files import FilesDesk
from pystorm_spark.spark.storage.place import Place
from pystorm_spark.topology.view import CheckpointView

log = logging.getLogger(__name__)

WriteRows = Callable[[int, Mapping[int, Mapping[int, int]]], bool]  # of a commit, {slot: {task: rows}}


class Checkpoint:
    """The commits of one run of a topology."""

    def __init__(self, plan: Plan, place: Place, write_rows: WriteRows) -> None:
        name = plan.conf["topology.name"]
        self.interval_secs: float = plan.conf["topology.state.checkpoint.interval.ms"] / 1000
        self.is_exactly_once: bool = plan.conf["topology.state.guarantee"] == "exactly-once"
        self._place = place
        self._write_rows = write_rows
        place.check_lock()
        self._files = (place / "state").files()
        self._desk = FilesDesk(self._files) if isinstance(self._files, HadoopFiles) else None
        slots = [plan.durable_tasks(slot) for slot in range(plan.slots)]
        store = CheckpointStore(
            self._files,
            name,
            allow_older=plan.conf[OLDER_KEY],
            check_holder=place.check_lock,
            is_fenced=self._desk is not None,  # the system's lock ends with its driver, that of a URI may end before
        )
        keying = Keying(plan.conf[HASH_KEY], plan.keyed_bolts)
        self._log = CommitLog(store, name, slots, keying, plan.committed_spouts, plan.metadata)

    @property
    def txid(self) -> int:
        return self._log.last.txid

    def view(self, component: str) -> CheckpointView | None:
        """What the last commit says of a component with state; None if it says nothing."""
        return self._log.view(component)

    def holds_state(self) -> bool:
        """Whether the last commit has any state."""
        return self._log.holds_state()

    def assignment(self, slot: int) -> dict[str, Any]:
        """What a slot that starts has to know."""
        return {
            "place": str(self._place / "state"),
            "is_handed": self._desk is not None,
            "assignment": self._log.assignment(slot).to_plain(),
        }

    def acked(self) -> list[Any]:
        """The ids that the last commit acks; slots that live on need them when another slot is started anew."""
        return self._log.acked().to_plain()

    def serve(self, connection: Connection, request: FileRequest) -> None:
        """Do an operation on a file for a slot that cannot reach the checkpoint itself."""
        assert self._desk is not None
        self._desk.serve(connection, request)

    def check(self) -> None:
        """Raise a `StormError` if the last commit is no longer there: no other could follow it."""
        self._log.check()

    def begin(self) -> None:
        """Raise a `CheckpointError` while no commit can be begun."""
        self._log.begin()

    def make_commit(self, txid: int, answers: Mapping[int, Answer]) -> bool:
        """Make what every slot has prepared the last commit, or raise a `CheckpointError`; False if rows are lost."""
        self._place.check_lock()
        prepared = self._prepared(answers)
        written = [Written.from_plain(answer.written) for answer in prepared.values()]
        self._check_seen(written)
        letters = [{"time": time.time(), **letter} for answer in prepared.values() for letter in answer.letters]
        if letters:
            self._place.add_letters(txid, letters)
        if not self._write_rows(txid, {slot: answer.rows for slot, answer in prepared.items()}):
            return False
        self._place.check_lock()  # sinks may have taken minutes
        schemas = {name: schema for answer in prepared.values() for name, schema in answer.schemas.items()}
        self._log.append(txid, written, schemas)
        for letter in letters:
            log.error("%(component)s: the message %(message_id)s has failed %(failures)d times and is given up", letter)
        return True

    def _prepared(self, answers: Mapping[int, Answer]) -> dict[int, Prepared]:
        for answer in answers.values():
            if isinstance(answer, Unwritten):
                self.check()
                raise CheckpointError(answer.why)
        return {slot: answer for slot, answer in answers.items() if isinstance(answer, Prepared)}

    def forget(self, slot: int) -> None:
        """Discard the parts that a dead slot has written for a commit that will not be made."""
        if self._desk is not None:
            self._desk.await_end(slot)
        try:
            self._log.forget(slot)
        except CheckpointError as exc:
            log.warning("the parts of dead slot %d could not be removed and stay until the next start: %s", slot, exc)

    def _check_seen(self, written: Iterable[Written]) -> None:
        for part in (part for one in written for part in (*one.parts[-1:], *one.acked)):
            try:
                size = self._files.size(part.name)
            except CheckpointError as exc:
                raise CheckpointError(
                    f"{exc}; a slot has written it, so the checkpoint must be in a folder that the driver and all "
                    "executors share"
                ) from exc
            if size != part.size:
                raise CheckpointError(f"the checkpoint file {self._files.path(part.name)!r} is not what a slot wrote")
