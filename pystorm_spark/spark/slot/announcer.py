"""Internal. Announcer: tells the driver which call of user code comes next, in case it ends the process.

It also knows the tuples that have ended a process before, and keeps the slot from executing condemned ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from threading import get_ident

from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.runtime.slot_context import LATER
from pystorm_spark.runtime.task import Task
from pystorm_spark.runtime.trees import Root
from pystorm_spark.spark.protocol.messages import Doing, Message, Outlived
from pystorm_spark.topology.tuple import Tuple, is_tick

KEY_BYTES = 16
PATIENCE = 3  # a suspect waits for so much of a message timeout
CONDEMNED = "%s has ended the process that executed it again and again, and is not executed (topology.poison.deaths)"


class Announcer:
    """Announces calls of user code: those of a start, and all where a slot `is_careful`, for one has died before.

    Of suspects it announces the execution at all times, and tells when the slot has outlived it. They are put off until
    the slot has nothing else to do: should one end the process again, what has failed with it before is done by then.
    They are executed one at a time, also where bolts have threads of their own: a sound one is outlived then.
    """

    def __init__(self, tell: Callable[[Message], None]) -> None:
        self.epoch = 0  # in which what is announced is executed: slots that end together are not heard of at once
        self.is_careful = False
        self.is_starting = True
        self.puts_off = True  # not where a commit waits for all that is in flight
        self._is_trying = False  # suspects may be executed
        self._put_off_at: float | None = None  # since when one waits
        self._tell = tell
        self._said = ""
        self._codec = ValueCodec()
        self._packing = threading.Lock()
        self._suspects: set[str] = set()
        self._condemned: set[str] = set()
        self._components: set[str] = set()  # of either
        self._executing: dict[int, str] = {}  # {thread: the suspect that it has begun to execute}

    def is_needed(self) -> bool:
        """Whether there is anything to do before the calls of a slot that has started."""
        return bool(self.is_careful or self._suspects or self._condemned)

    def attach(self, slot: Slot) -> None:
        """Have the slot ask before its calls, or execute what was put off if there is nothing to ask for."""
        if self.is_needed():
            slot.before_calls(self.announce)
        else:
            slot.before_calls(None)
            slot.bring_forward()

    def note_poison(self, suspects: Iterable[str], condemned: Iterable[str]) -> None:
        """These tuples have ended a process; the condemned ones often enough."""
        self._condemned, self._suspects = set(condemned), set(suspects)
        self._is_trying, self._put_off_at = False, None
        self._components = {key.rpartition(":")[0] for key in self._condemned | self._suspects}
        for thread, key in list(self._executing.items()):
            if key not in self._suspects:  # nobody may ask when it has been executed
                self._executing.pop(thread, None)

    def announce(self, task: Task, tup: Tuple | None) -> str | None:
        """A component is about to be called, with a tuple or without; why it must not be, if so."""
        key = ""
        if tup is not None and (self.is_careful or task.component_id in self._components):
            key = self._key(task, tup)
        self._note_survival()
        if key in self._condemned:
            return CONDEMNED % key
        if key in self._suspects and self.puts_off and (self._executing or not self._is_trying):
            return LATER
        if key in self._suspects:
            self._executing[get_ident()] = key
        if self.is_careful or self.is_starting or key in self._suspects:
            doing = f"{task.component_id}:{task.task_id}" + (f" on {tup!r}" if tup is not None else "")
            if key or doing != self._said:
                self.say(doing, key)
        return None

    def look(self, slot: Slot, busy: bool) -> None:
        """After a turn: have what was put off executed, if there is nothing else to do or it has waited for long."""
        if not self.is_needed():  # the last suspect was outlived
            self.attach(slot)
        if not slot.slot_context.put_off or self._executing:
            return
        now = slot.clock.monotonic()
        if self._put_off_at is None:
            self._put_off_at = now
        has_waited = now - self._put_off_at > slot.plan.conf["topology.message.timeout.secs"] / PATIENCE
        if has_waited or not (busy or self.is_careful):
            self._is_trying, self._put_off_at = True, None
            slot.bring_forward()

    def say(self, doing: str, key: str = "") -> None:
        """What is being done now; nothing that could end the process if it is empty."""
        self._said = doing
        self._tell(Doing(doing, key, get_ident(), self.epoch))

    def _note_survival(self) -> None:
        outlived = self._executing.pop(get_ident(), None) if self._executing else None
        if outlived in self._suspects:
            self._suspects.discard(outlived)
            self._tell(Outlived(outlived, self.epoch))

    def _key(self, task: Task, tup: Tuple) -> str:
        """What a tuple has in common with its replays in all slots: components, stream and values.

        The message id does not count, because only the slot of the spout knows it and a replay may have another one.
        It counts only where the values cannot be packed: such a tuple stays in the slot of its spout. Empty if that
        cannot be packed, either, and for a tick.
        """
        if is_tick(tup):
            return ""
        packed = self._packed(tup.values)
        if packed is None and isinstance(tup._tree, Root) and tup._tree.message_id is not None:
            packed = self._packed(("message id", tup._tree.message_id))
        if packed is None:
            return ""
        packed += self._codec.pack([task.component_id, tup.source_component, tup.source_stream_id])
        return f"{task.component_id}:{blake2b(packed, digest_size=KEY_BYTES).hexdigest()}"

    def _packed(self, values: Sequence[object]) -> bytes | None:
        try:
            with self._packing:
                return self._codec.pack(values)
        except BaseException:  # of a class that says how its objects are packed: the tuple never leaves this process
            return None
