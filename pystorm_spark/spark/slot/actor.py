"""Internal. SlotActor: handles the messages, turns and exchanges of a slot process.

It starts no thread, opens no socket, reads no clock of its own and cannot end the process: `Process` gives it all of
these. So a test can drive it by hand, in simulated time. Other threads than the one that turns the slot may call
`handle` and `stats`; whatever changes the slot is queued for the turning thread.
"""

from __future__ import annotations

import itertools
import random
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, ClassVar, Protocol

import cloudpickle

from pystorm_spark.checkpoint.files import Files
from pystorm_spark.clock import Clock
from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.runtime.components import load_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.runtime.task import IDLE_CALL_SECS
from pystorm_spark.spark.protocol.messages import (
    Activate,
    AskStats,
    Assignment,
    Calm,
    Careful,
    Collect,
    Collected,
    Commit,
    Deactivate,
    Done,
    EndInput,
    Exchanged,
    Failed,
    Frames,
    Full,
    Lease,
    Letter,
    LetterKept,
    Mark,
    Message,
    NotDone,
    PoisonKeys,
    Prepare,
    Quiesce,
    Read,
    Ready,
    Release,
    Reset,
    Resume,
    Stats,
    Stop,
    Stopped,
)
from pystorm_spark.spark.protocol.slot_errors import pack_error
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.slot.announcer import Announcer
from pystorm_spark.spark.slot.exchanges import Exchanges
from pystorm_spark.spark.slot.relief import Relief
from pystorm_spark.spark.slot.rows import RowTasks
from pystorm_spark.spark.slot.state import Background, SlotState

LONGEST_POLL_WAIT_SECS = 0.02
LONGEST_IDLE_SECS = 0.25

Handler = Callable[[Any, Any], None]


class Process(Protocol):
    """What a slot needs of the process that it is in; a simulator can be put in its place."""

    def tell(self, message: Message) -> None:
        """Send a message to the driver."""

    def wake(self) -> None:
        """There is something to do: the thread that turns the slot shall not idle."""

    def stop(self) -> None:
        """Stop turning the slot after the current step."""

    def note_call(self, began: float) -> None:
        """The calling thread is about to call user code, or has returned from it, which is 0."""

    def checkpoint_files(self, place: str, is_handed: bool) -> Files:
        """The files of the checkpoint in `place`, which are handed over to the driver if it `is_handed`."""

    def background(self, name: str) -> Background:
        """An executor that runs calls one after the other, in a thread of that name."""


class SlotActor:
    """One slot."""

    def __init__(self, number: int, process: Process, clock: Clock, rng: random.Random) -> None:
        self.number = number
        self.slot: Slot  # once there `is_loaded`
        self.rows: RowTasks
        self.exchanges: Exchanges
        self.state: SlotState | None = None  # of a slot in a topology with stateful bolts
        self.is_loaded = False  # whether there is a slot
        self.is_starting = True  # loads or opens the components
        self.start_limit = 0.0
        self.call_limit = 0.0  # seconds that a call of user code may take
        self.heard_at = clock.monotonic()  # when the driver said something
        self.tell = process.tell
        self._process = process
        self._now = clock.monotonic
        self._clock = clock
        self.epoch = 0
        self._rng = rng
        self._execute_limit = 0.0
        self._announcer = Announcer(self.tell)
        self._calls: deque[Callable[[], None]] = deque()
        self._letters: dict[int, Future[str | None]] = {}  # that the driver has not yet kept
        self._letter_numbers = itertools.count()
        self._told_frames = False
        self.has_told_full = False  # since a beat told how the slot stands

    # What the driver says.

    def handle(self, message: Message) -> None:
        """Do what a message asks for, at once or in the next step; a `StormError` for one that is not for slots."""
        self.heard_at = self._now()
        handler = self.HANDLERS.get(type(message))
        if handler is None:
            raise StormError(f"slot {self.number} was sent {message.kind!r}, which is no message for a running slot")
        handler(self, message)

    def _on_activate(self, message: Activate) -> None:
        self._later(lambda: self._set_active(True, message.asked))

    def _on_deactivate(self, message: Deactivate) -> None:
        self._later(lambda: self._set_active(False, message.asked))

    def _on_reset(self, message: Reset) -> None:
        self.exchanges.fence(message.epoch)  # at once: what belongs to the old epoch is refused from now on
        self._later(lambda: self._reset(message))

    def _on_exchanged(self, message: Exchanged) -> None:
        self.exchanges.end_job(message.epoch, message.job)

    def _on_release(self, message: Release) -> None:
        self._later(lambda: self.rows.release(message))

    def _on_collect(self, message: Collect) -> None:
        self._later(lambda: self.tell(Collected(message.asked, self.rows.collect())))

    def _on_ask_stats(self, message: AskStats) -> None:
        self.tell(self.stats(message.asked))

    def _on_stop(self, message: Stop) -> None:
        self._process.stop()
        self._process.wake()

    def _on_lease(self, message: Lease) -> None:
        if self.is_loaded:
            self.slot.back_pressure.full = frozenset(message.full)

    def _on_quiesce(self, message: Quiesce) -> None:
        self._later(lambda: self._durable().quiesce(message.txid, message.asked))

    def _on_mark(self, message: Mark) -> None:
        self._later(lambda: self._durable().mark(message.txid, message.asked))

    def _on_prepare(self, message: Prepare) -> None:
        self._later(lambda: self._durable().prepare(message.txid, message.asked))

    def _on_commit(self, message: Commit) -> None:
        self._later(lambda: self._durable().commit(message.txid, message.asked))

    def _on_read(self, message: Read) -> None:
        self._later(lambda: self._durable().read(message.component, message.key, message.asked))

    def _on_resume(self, message: Resume) -> None:
        self._later(lambda: self._durable().resume())

    def _on_letter_kept(self, message: LetterKept) -> None:
        self._letters.pop(message.number).set_result(message.error)

    def _write_letter(self, component: str, line: str) -> None:
        """Have the driver keep a dead letter, and wait until it is durable."""
        number = next(self._letter_numbers)
        kept = self._letters[number] = Future()
        self.tell(Letter(number, component, line))
        error = kept.result()  # without a driver the process ends
        if error is not None:
            raise CheckpointError(error)

    def _on_end_input(self, message: EndInput) -> None:
        self._later(lambda: self._end_input(message))

    def _end_input(self, message: EndInput) -> None:
        why = self.slot.end_input(message.component)
        self.tell(Done(message.asked) if why is None else NotDone(message.asked, why))

    def _durable(self) -> SlotState:
        assert self.state is not None, "commits and reads are asked of topologies with state only"
        return self.state

    def _on_poison_keys(self, message: PoisonKeys) -> None:
        self._announcer.note_poison(message.suspects, message.condemned)
        self._later(self._set_announcer)

    def _set_announcer(self) -> None:
        self._announcer.attach(self.slot)

    def _on_careful(self, message: Careful) -> None:
        self._announcer.is_careful = True
        self._later(self._set_announcer)

    def _on_calm(self, message: Calm) -> None:
        self._announcer.is_careful = False
        self._later(self._calm_down)

    HANDLERS: ClassVar[dict[type[Message], Handler]] = {
        Activate: _on_activate,
        Deactivate: _on_deactivate,
        Reset: _on_reset,
        Exchanged: _on_exchanged,
        Release: _on_release,
        Collect: _on_collect,
        AskStats: _on_ask_stats,
        Stop: _on_stop,
        Lease: _on_lease,
        Quiesce: _on_quiesce,
        Mark: _on_mark,
        Prepare: _on_prepare,
        Commit: _on_commit,
        Read: _on_read,
        Resume: _on_resume,
        LetterKept: _on_letter_kept,
        EndInput: _on_end_input,
        PoisonKeys: _on_poison_keys,
        Careful: _on_careful,
        Calm: _on_calm,
    }

    def _later(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        self._process.wake()

    def _set_active(self, active: bool, asked: int) -> None:
        if active and not self.slot.is_open:
            try:
                self._open()
            except Exception as exc:
                self.fail_start(exc)
                return
        self._process.note_call(self._now())
        self.slot.set_active(active)
        self._process.note_call(0.0)
        self.tell(Done(asked))

    def _reset(self, message: Reset) -> None:
        self.epoch = self._announcer.epoch = message.epoch
        self._told_frames = False
        if self.state is not None:
            self.state.before_reset(message.committed, message.acked)
        self.slot.reset()
        self.exchanges.begin_epoch(message.epoch)
        self.tell(Done(message.asked))

    def _calm_down(self) -> None:
        self._set_announcer()
        self._announcer.say("")

    # Life.

    def begin(self, assignment: Assignment) -> None:
        """Note what the driver has assigned; from now on messages may come."""
        self.epoch = self._announcer.epoch = assignment.epoch
        self.start_limit = assignment.start_secs
        self._announcer.is_careful = assignment.is_careful
        self._announcer.note_poison(assignment.suspects, assignment.condemned)
        self._begin_start()

    def load(self, assignment: Assignment) -> bool:
        """Make the slot, which imports user code; False if that fails, after telling the driver."""
        try:
            self._load(assignment.plan, assignment.checkpoint)
        except BaseException as exc:
            self.fail_start(exc)
            return False
        self.exchanges = Exchanges(self.slot, self.epoch, self.frames_taken)
        return True

    def start(self, opens: bool) -> bool:
        """Open the components if it `opens`; False if that fails, after telling the driver."""
        try:
            if opens:
                self._open()
        except BaseException as exc:
            self.fail_start(exc)
            return False
        self._end_start()
        return True

    def be_ready(self, address: Address) -> None:
        """Tell where Spark tasks find the slot: it may be turned from now on."""
        self._announcer.say("")
        self.tell(Ready(list(address), self.epoch))

    def finish(self) -> None:
        """Close the components, when the slot has made its last step."""
        if self.slot.is_open:
            self.slot.close()
        self.tell(Stopped(**self.standing()))

    def _load(self, pickled: bytes, checkpoint: dict[str, Any] | None) -> None:
        pickled_plan, components, self._execute_limit = cloudpickle.loads(pickled)
        plan = load_plan(pickled_plan, components)
        self.slot = Slot(plan, self.number, components, self._clock, self._rng)
        self._announcer.puts_off = self.slot.commits is None or not self.slot.commits.is_exactly_once
        self.rows = RowTasks(self.slot, self.tell)
        if checkpoint is not None:
            files = self._process.checkpoint_files(checkpoint["place"], checkpoint["is_handed"])
            plain, background = checkpoint["assignment"], self._process.background
            self.state = SlotState(self.slot, self.rows, files, plain, self.tell, background)
        self.slot.on_wake(self._process.wake)
        self.slot.slot_context.write_letter = self._write_letter
        self.slot.before_calls(self._announcer.announce)
        self.is_loaded = True

    def _open(self) -> None:
        """Open the components, which may take as long as a start."""
        self._begin_start()
        self.slot.open(self.state.restored() if self.state is not None else None)
        self._end_start()

    def _begin_start(self) -> None:
        self.is_starting = True
        self.call_limit = self.start_limit
        self._process.note_call(self._now())

    def _end_start(self) -> None:
        self.call_limit = self._execute_limit
        self._process.note_call(0.0)
        self.is_starting = False
        self._announcer.is_starting = False
        self._set_announcer()

    def fail_start(self, exc: BaseException) -> None:
        """Tell why the slot cannot start. Called where `exc` is caught, for the traceback."""
        self.tell(Failed(str(exc), traceback.format_exc(), pack_error(exc)))

    def relief(self) -> Relief | None:
        """Takes the slot over from a thread that a bolt blocks; None if the configuration forbids it."""
        slow_secs = self.slot.plan.conf["topology.execute.slow.secs"]
        return Relief(self.slot, slow_secs) if slow_secs else None

    # Turning.

    def step(self) -> bool:
        """Do what was asked for, then one turn; whether there was any work in it."""
        while self._calls:
            self._process.note_call(self._now())  # commits and rollbacks call user code, too
            try:
                self._calls.popleft()()
            finally:
                self._process.note_call(0.0)
        busy = self._turn()
        if self.slot.slot_context.before is not None:
            self._announcer.look(self.slot, busy)
        if self.state is not None and self.slot.is_open:
            self.state.look()
        if self.slot.outbox.has_frames() and not self._told_frames:
            self._told_frames = True
            self.tell(Frames())
        return busy

    def _turn(self) -> bool:
        began = self._now()
        self._process.note_call(began)
        try:
            busy = self.slot.is_open and self.slot.turn()
        finally:
            self._process.note_call(0.0)
        if busy:
            self.exchanges.note_work(self._now() - began)
        return busy

    def idle_secs(self, idle_turns: int) -> float:
        """How long to idle after so many steps without work, unless something wakes the slot."""
        slot = self.slot
        secs = LONGEST_IDLE_SECS
        if slot.active and slot.spouts:
            wait_secs = slot.plan.conf["topology.sleep.spout.wait.strategy.time.ms"] / 1000
            secs = max(wait_secs, min(wait_secs * 2 ** min(idle_turns // 32, 6), LONGEST_POLL_WAIT_SECS))
        if slot.is_open and slot.is_idling():
            secs = min(secs, IDLE_CALL_SECS * 2 ** min(idle_turns // 64, 3))
        return float(min(secs, max(0.0, slot.next_due() - self._now())))

    # Exchanges.

    def frames_taken(self) -> None:
        """An exchange has emptied the outbox; the next frames are news again."""
        self._told_frames = False

    def took_in(self) -> None:
        """An exchange has brought something."""
        self._process.wake()
        full = self.slot.full_components()
        if full:
            self.tell(Full(full))
            self.has_told_full = True

    # State of the slot, for any thread.

    def running(self, thread: int) -> str | None:
        """The task that is running in a thread, if there is one."""
        return self.slot.running(thread) if self.is_loaded else None

    def stats(self, asked: int | None) -> Stats:
        return Stats(**self.standing(), asked=asked)

    def standing(self) -> dict[str, Any]:
        """The fields of `Standing`: what the tasks have counted so far and their errors, and how much is to be done."""
        if not self.is_loaded:
            return {"tasks": [], "is_at_work": False, "inbox_bytes": 0, "full": []}
        tasks = [
            # A copy of the errors, made at once: tasks go on meanwhile.
            [task.component_id, asdict(task.counted()), [list(vars(error).values()) for error in list(task.errors)]]
            for task in self.slot.tasks.values()
        ]
        slot = self.slot
        inbox = {"inbox_bytes": slot.inbox_bytes(), "full": slot.full_components()}
        return {"tasks": tasks, "is_at_work": slot.is_at_work(), **inbox}
