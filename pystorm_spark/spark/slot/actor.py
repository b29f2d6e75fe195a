"""Internal. SlotActor: what a slot process does with its messages, its turns and its exchanges.

It has no thread, no socket, no clock of its own and no way to end the process: the process around it, `slot_process`,
lends it these. So a test can drive it by hand, in simulated time. `handle` and `stats` may be called beside the thread
that turns the slot; whatever changes the slot is queued for that thread.
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
from pystorm_spark.spark.protocol.slot_errors import pack_error
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.slot.announcer import Announcer
from pystorm_spark.spark.slot.exchanges import Exchanges
from pystorm_spark.spark.slot.relief import Relief
from pystorm_spark.spark.slot.rows import RowTasks
from pystorm_spark.spark.slot.state import Background, SlotState

LONGEST_REST_SECS = 0.02
LONGEST_IDLE_SECS = 0.25

Handler = Callable[[Any, dict[str, Any]], None]


class Process(Protocol):
    """What a slot needs of the process that it is in; a simulator can be put in its place."""

    def tell(self, kind: str, **content: Any) -> None:
        """Send a message to the driver."""

    def wake(self) -> None:
        """There is something to do: the thread that turns the slot shall not rest."""

    def stop(self) -> None:
        """Have the slot turned no more, after what it is at."""

    def note_call(self, began: float) -> None:
        """The calling thread is about to call user code, or has returned from it, which is 0."""

    def checkpoint_files(self, place: str, is_handed: bool) -> Files:
        """The files of the checkpoint in `place`, which are handed over to the driver if it `is_handed`."""

    def background(self, name: str) -> Background:
        """What runs calls one after the other, in a thread of that name."""


class SlotActor:
    """One slot: what it is told, what it does, and what it tells."""

    def __init__(self, number: int, process: Process, clock: Clock, rng: random.Random) -> None:
        self.number = number
        self.epoch = 0
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
        self._rng = rng
        self._execute_limit = 0.0
        self._announcer = Announcer(self._tell_in_epoch)
        self._calls: deque[Callable[[], None]] = deque()
        self._letters: dict[int, Future[str | None]] = {}  # that the driver has not yet kept
        self._letter_numbers = itertools.count()
        self._told_frames = False
        self.has_told_full = False  # since a beat told how the slot stands

    # What the driver says.

    def handle(self, message: dict[str, Any]) -> None:
        """Do what a message asks for, at once or in the next step; one of an unknown kind raises a `StormError`."""
        self.heard_at = self._now()
        handler = self._HANDLERS.get(message["kind"])
        if handler is None:
            raise StormError(
                f"slot {self.number} was sent a message of the kind {message['kind']!r}, "
                f"but it knows only {sorted(self._HANDLERS)}"
            )
        handler(self, message)

    def _on_activate(self, message: dict[str, Any]) -> None:
        self._later(lambda: self._set_active(True, message["asked"]))

    def _on_deactivate(self, message: dict[str, Any]) -> None:
        self._later(lambda: self._set_active(False, message["asked"]))

    def _on_reset(self, message: dict[str, Any]) -> None:
        epoch = message["epoch"]
        self.exchanges.fence(epoch)  # at once: what belongs to the old epoch is refused from now on
        self._later(lambda: self._reset(epoch, message["committed"], message["acked"], message["asked"]))

    def _on_exchanged(self, message: dict[str, Any]) -> None:
        self.exchanges.end_job(message["epoch"], message["job"])

    def _on_release(self, message: dict[str, Any]) -> None:
        rows = self.rows
        self._later(lambda: rows.release(message["task"], message["batch"], message["round"], message["parts"]))

    def _on_collect(self, message: dict[str, Any]) -> None:
        self._later(lambda: self.tell("done", asked=message["asked"], rows=self.rows.collect()))

    def _on_stats(self, message: dict[str, Any]) -> None:
        self.tell("stats", asked=message["asked"], **self.stats())

    def _on_stop(self, message: dict[str, Any]) -> None:
        self._process.stop()
        self._process.wake()

    def _on_lease(self, message: dict[str, Any]) -> None:
        if self.is_loaded:
            self.slot.back_pressure.full = frozenset(message["full"])

    def _on_commit_step(self, message: dict[str, Any]) -> None:
        """One step of a commit: a method of `SlotState` of the same name."""
        assert self.state is not None
        step = getattr(self.state, message["kind"])
        self._later(lambda: step(message["txid"], message["asked"]))

    def _on_resume(self, message: dict[str, Any]) -> None:
        assert self.state is not None
        self._later(self.state.resume)

    def _write_letter(self, component: str, line: str) -> None:
        """Have the driver keep a dead letter, and wait until it is durable."""
        number = next(self._letter_numbers)
        kept = self._letters[number] = Future()
        self.tell("letter", number=number, component=component, line=line)
        error = kept.result()  # without a driver the process ends
        if error is not None:
            raise CheckpointError(error)

    def _on_lettered(self, message: dict[str, Any]) -> None:
        self._letters.pop(message["number"]).set_result(message["error"])

    def _on_end_of_input(self, message: dict[str, Any]) -> None:
        component, asked = message["component"], message["asked"]
        self._later(lambda: self.tell("done", asked=asked, failed=self.slot.end_input(component)))

    def _on_read(self, message: dict[str, Any]) -> None:
        assert self.state is not None
        state = self.state
        self._later(lambda: state.read(message["component"], message["key"], message["asked"]))

    def _on_poison(self, message: dict[str, Any]) -> None:
        """What has ended the process of a slot is not to be executed again."""
        self._announcer.note_poison(message["suspects"], message["condemned"])
        self._later(self._set_announcer)

    def _set_announcer(self) -> None:
        self._announcer.attach(self.slot)

    def _on_careful(self, message: dict[str, Any]) -> None:
        """A slot has died before, maybe this one as another process: tell from now on what is about to be done."""
        self._announcer.is_careful = True
        self._later(self._set_announcer)

    def _on_calm(self, message: dict[str, Any]) -> None:
        """The slot has lived through a batch: it need not tell any more what it is about to do."""
        self._announcer.is_careful = False
        self._later(self._calm_down)

    _HANDLERS: ClassVar[dict[str, Handler]] = {
        "activate": _on_activate,
        "deactivate": _on_deactivate,
        "reset": _on_reset,
        "exchanged": _on_exchanged,
        "release": _on_release,
        "collect": _on_collect,
        "stats": _on_stats,
        "stop": _on_stop,
        "lease": _on_lease,
        "rest": _on_commit_step,
        "mark": _on_commit_step,
        "prepare": _on_commit_step,
        "commit": _on_commit_step,
        "resume": _on_resume,
        "lettered": _on_lettered,
        "end_input": _on_end_of_input,
        "read": _on_read,
        "poison": _on_poison,
        "careful": _on_careful,
        "calm": _on_calm,
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
        self.tell("done", asked=asked)

    def _reset(self, epoch: int, committed: int, acked: list[Any] | None, asked: int) -> None:
        self.epoch = epoch
        self._told_frames = False
        if self.state is not None:
            self.state.before_reset(committed, acked)
        self.slot.reset()
        self.exchanges.open(epoch)
        self.tell("done", asked=asked)

    def _tell_in_epoch(self, kind: str, **content: Any) -> None:
        """What is announced is known by its epoch: slots that end together are not heard of at the same time."""
        self.tell(kind, epoch=self.epoch, **content)

    def _calm_down(self) -> None:
        self._set_announcer()
        self._announcer.say("")

    # Life.

    def begin(self, assignment: dict[str, Any]) -> None:
        """Note what the driver has assigned; from now on messages may come."""
        self.epoch = assignment["epoch"]
        self.start_limit = assignment["start_secs"]
        self._announcer.is_careful = assignment["careful"]
        self._announcer.note_poison(**assignment["poison"])
        self._begin_start()

    def load(self, assignment: dict[str, Any]) -> bool:
        """Make the slot; False if that fails, which is told. What user code imports is imported here."""
        try:
            self._load(assignment["plan"], assignment["checkpoint"])
        except BaseException as exc:
            self.fail_start(exc)
            return False
        self.exchanges = Exchanges(self.slot, self.epoch, self.frames_taken)
        return True

    def start(self, opens: bool) -> bool:
        """Open the components if it `opens`; False if that fails, which is told."""
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
        self.tell("ready", address=list(address), epoch=self.epoch)

    def finish(self) -> None:
        """Close the components, when the slot has made its last step."""
        if self.slot.is_open:
            self.slot.close()
        self.tell("stopped", **self.stats())

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
        self.tell("failed", error=str(exc), traceback=traceback.format_exc(), cause=pack_error(exc))

    def relief(self) -> Relief | None:
        """What takes the slot over from threads that its bolts hold up, if it is to be."""
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
            self.tell("frames")
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

    def rest_secs(self, idle_turns: int) -> float:
        """How long to rest after so many steps without work, if nothing wakes the slot."""
        slot = self.slot
        secs = LONGEST_IDLE_SECS
        if slot.active and slot.spouts:
            wait_secs = slot.plan.conf["topology.sleep.spout.wait.strategy.time.ms"] / 1000
            secs = max(wait_secs, min(wait_secs * 2 ** min(idle_turns // 32, 6), LONGEST_REST_SECS))
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
            self.tell("full", full=full)
            self.has_told_full = True

    # What others want to know.

    def running(self, thread: int) -> str | None:
        """The task that is running in a thread, if there is one."""
        return self.slot.running(thread) if self.is_loaded else None

    def stats(self) -> dict[str, Any]:
        """What the tasks have counted so far, and their errors."""
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
