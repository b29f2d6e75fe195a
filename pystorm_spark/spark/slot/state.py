"""Internal. SlotState: a slot's part in commits, and the state that it restores."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.slot_side import Assignment, SlotCheckpoint
from pystorm_spark.errors import CheckpointError, StormError, in_words
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable.commits import Prepared as Changes
from pystorm_spark.runtime.durable.commits import Restored
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.protocol.messages import (
    Answer,
    Broken,
    Done,
    Found,
    Message,
    NotDone,
    Prepared,
    Uncommitted,
    Unwritten,
)
from pystorm_spark.spark.slot.rows import RowTasks

log = logging.getLogger(__name__)

READ_LIMIT = 1 << 30  # bytes of a state in one message

Tell = Callable[[Message], None]


class Background(Protocol):
    """Runs calls one after the other in another thread; a `ThreadPoolExecutor(1)` is one."""

    def submit(self, call: Callable[..., None], /, *args: Any) -> Any: ...


class SlotState:
    """Commits of one slot. All of it is called in the thread that turns the slot; files are written in another one."""

    def __init__(
        self,
        slot: Slot,
        rows: RowTasks,
        files: Files,
        assignment: list[Any],
        tell: Tell,
        background: Callable[[str], Background],
    ) -> None:
        assert slot.commits is not None
        self._slot = slot
        self._rows = rows
        self._commits = slot.commits
        self._tell = tell
        self._side = SlotCheckpoint(files, slot.number, Assignment.from_plain(assignment), ValueCodec())
        self._writer = background("pystorm-commits")
        self._merger = background("pystorm-merges")
        self._prepared = 0  # the commit that was prepared last
        self._committed = 0
        self._told_wanted = False
        self._told_urgent = False
        self._told_broken = False
        self._marking: int | None = None  # the question that is answered when timers' and ticks' emits are done
        self._draining: int | None = None  # the question that is answered when nothing is in flight

    def restored(self) -> Restored:
        """The state that tasks begin with. Also merges parts that earlier, maybe short, runs have left unmerged."""
        side, commits = self._side, self._commits
        self._merger.submit(self._merge)
        return Restored(side.sections(commits.tasks()), side.schemas, side.acked(commits.spouts()))

    def look(self) -> None:
        """After a turn: tell the driver if a commit is wanted or urgent, a root has failed, or all is done."""
        if not self._told_urgent and self._commits.is_urgent():
            self._told_wanted = self._told_urgent = True
            self._tell(Uncommitted(is_urgent=True))
        elif not self._told_wanted and self._commits.is_wanted():
            self._told_wanted = True
            self._tell(Uncommitted(is_urgent=False))
        if not self._told_broken and self._commits.is_broken():
            self._told_broken = True
            self._tell(Broken())
        if self._draining is not None and not self._commits.in_flight() and not self._told_broken:
            asked, self._draining = self._draining, None
            self._tell(Done(asked))
        if self._marking is not None and not self._commits.in_transaction() and not self._told_broken:
            asked, self._marking = self._marking, None
            self._commits.mark()
            self._tell(Done(asked))

    # What the driver asks for.

    def quiesce(self, txid: int, asked: int) -> None:
        """Begin nothing new; done when nothing is in flight."""
        self._slot.quiescing = True
        self._draining = asked
        self.look()

    def mark(self, txid: int, asked: int) -> None:
        """Whatever is complete now belongs to the commit; done when all is that timers and ticks have emitted."""
        self._slot.deferring = True
        self._marking = asked
        self.look()

    def resume(self) -> None:
        """The commit that was begun is not made: what waits for it goes on."""
        self._slot.deferring = False
        self._marking = None

    def prepare(self, txid: int, asked: int) -> None:
        """Take what has changed, and have it written."""
        is_full = self._side.is_full_next
        try:
            changes = self._commits.prepare(txid, is_full)
        except StormError as exc:
            self._tell(NotDone(asked, str(exc)))
            return
        self._prepared = txid
        self._writer.submit(self._write, txid, asked, changes, is_full)

    def _write(self, txid: int, asked: int, changes: Changes, is_full: bool) -> None:
        """Write in a thread of its own, and answer whatever happens: all slots wait for it."""
        self._tell(self._written(txid, asked, changes, is_full))

    def _written(self, txid: int, asked: int, changes: Changes, is_full: bool) -> Answer:
        try:
            written = self._side.write(txid, changes.sections, changes.acked, is_full).to_plain()
            letters = [letter.to_plain() for letter in changes.letters]
            return Prepared(asked, written, changes.schemas, letters, self._rows.prepared(txid))
        except CheckpointError as exc:
            return Unwritten(asked, str(exc))
        except Exception as exc:
            log.exception("slot %d could not write for the commit %d", self._slot.number, txid)
            return NotDone(asked, f"slot {self._slot.number} could not write: {in_words(exc)}")

    def commit(self, txid: int, asked: int | None = None) -> None:
        """The commit is durable."""
        self._committed = txid
        self._side.settle()
        self._slot.quiescing = self._slot.deferring = False
        self._commits.commit(txid)
        self._told_wanted = self._told_urgent = False
        self._merger.submit(self._merge)
        if asked is not None:
            self.look()  # first: where the last commit is asked for, there may be another one to be made
            self._tell(Done(asked))

    def read(self, component: str, key: bytes | None, asked: int) -> None:
        """Answer with what the last commit holds for a key, or for all keys."""
        codec = ValueCodec()
        try:
            wanted = None if key is None else codec.unpack_rows(key, 1)[0][0]
            found = codec.pack([self._commits.read(component, wanted) if self._slot.is_open else {}])
        except Exception as exc:  # of user code: classes say how their objects are packed, and whether they are equal
            self._tell(NotDone(asked, in_words(exc)))
            return
        self._tell(Found(asked, len(found), found if len(found) <= READ_LIMIT else None))

    def before_reset(self, committed: int, acked: list[Any] | None) -> None:
        """The slot is about to roll back to the commit `committed`, of which it may not have heard.

        If another slot is started, `acked` locates the committed ids: a source may give a message that the dead slot
        has not heard acked to a spout here.
        """
        if self._committed < self._prepared <= committed:
            self.commit(committed)
        if acked is not None:
            self._commits.restore_ids(self._side.acked(self._commits.spouts(), Assignment.from_plain(acked)))
        self._told_wanted = self._told_urgent = self._told_broken = False
        self._draining = self._marking = None

    def _merge(self) -> None:
        try:
            self._side.merge()
        except CheckpointError as exc:
            log.warning("parts of the checkpoint are not merged, and stay as they are: %s", exc)
        except Exception:
            log.exception("parts of the checkpoint are not merged, and stay as they are")
