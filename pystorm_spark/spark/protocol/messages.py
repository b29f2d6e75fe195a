"""Internal. Every message that the driver, the slots and Spark tasks send one another, grouped by direction.

A message is a frozen dataclass. On a connection it is a msgpack map: its fields, and `kind`, the name of its class in
snake case. `message.to_plain()` makes the map, `Connection.send` packs it. `Connection.receive` unpacks a map, and the
`Direction` in which it travelled makes the message again:

    connection.send(Mark(txid=7, asked=3).to_plain())
    message = DRIVER_TO_SLOT.read(connection.receive())

`read` raises a `MessageError` for a kind of another direction and for missing or surplus fields. Each receiver has one
table from message class to handler, which covers exactly the messages of its directions; tests compare the two.

| direction | receiver's table |
|---|---|
| `TO_DRIVER_FIRST` | `driver/control.py`, `Control` |
| `SLOT_TO_DRIVER` | `driver/reception.py`, `Reception` |
| `TO_SLOT_FIRST` | `slot/process.py`, `SlotProcess` |
| `DRIVER_TO_SLOT` | `slot/actor.py`, `SlotActor` |
| `TASK_TO_SLOT` | `slot/exchanges.py`, `Answering` |
| `SLOT_TO_TASK` | the Spark task that asked: each request has one kind of answer |

Contents of files, and the driver's answers to `FileRequest`, are no messages: see `storage/handed_files.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from pystorm_spark.errors import StormError


class MessageError(StormError):
    """A message is not one that may travel in its direction, or its fields are not those of its kind."""


@dataclass(frozen=True, slots=True)
class Message:
    """What all messages share."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def to_plain(self) -> dict[str, Any]:
        """The message as msgpack can pack it."""
        plain: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            plain[field.name] = getattr(self, field.name)
        return plain


class Direction:
    """The messages that travel in one direction."""

    def __init__(self, route: str, *classes: type[Message]) -> None:
        self.route = route
        self.classes = frozenset(classes)
        self._by_kind = {message_class.kind: message_class for message_class in classes}
        self._names = {each.kind: frozenset(field.name for field in fields(each)) for each in classes}

    def read(self, plain: Any) -> Message:
        """The message that `plain` is; raises a `MessageError` if it is none of this direction."""
        if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
            raise MessageError(f"a message {self.route} must be a map with a text as its 'kind', not {_shown(plain)}")
        content = dict(plain)
        kind = content.pop("kind")
        message_class = self._by_kind.get(kind)
        if message_class is None:
            raise MessageError(f"a message {self.route} has the unknown kind {kind!r}; known are {self.kinds()}")
        names = self._names[kind]
        if content.keys() != names:
            missing, surplus = sorted(names - content.keys()), sorted(map(str, content.keys() - names))
            raise MessageError(
                f"the fields of a message {kind!r} {self.route} must be {sorted(names)}: "
                f"{missing} are missing, {surplus} are surplus"
            )
        return message_class(**content)

    def kinds(self) -> list[str]:
        return sorted(self._by_kind)


def _shown(plain: Any) -> str:
    return f"{type(plain).__name__} {plain!r:.100}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(Message):
    """A message to slots that each of them answers, by an `Answer` with the same number."""

    asked: int = 0  # the number of the question, set when it is asked


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """A slot's answer to a question."""

    asked: int


# The first message on a connection to the driver.


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """A slot's process has started. The fields stay the same in all versions, so that a mismatch can be reported."""

    slot: int
    pid: int
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class FileRequest(Message):
    """A slot asks for an operation on a file of the checkpoint; what follows on this connection belongs to it."""

    slot: int
    operation: str  # write, read, size, names or remove
    arguments: list[Any]


TO_DRIVER_FIRST = Direction("that opens a connection to the driver", Hello, FileRequest)

# The driver's answer to a hello.


@dataclass(frozen=True, slots=True)
class Assignment(Message):
    """What a slot that starts needs to know."""

    plan: bytes  # cloudpickle of (plan, components, timeout of an execute)
    start_secs: float  # how long loading and opening may take
    is_careful: bool  # it announces all calls of user code
    suspects: list[str]  # as in `PoisonKeys`
    condemned: list[str]
    checkpoint: dict[str, Any] | None  # as `Checkpoint.assignment` makes it
    epoch: int
    opens: bool  # it opens its components at once


@dataclass(frozen=True, slots=True)
class Refused(Message):
    """The slot cannot take part, and its process shall end."""


TO_SLOT_FIRST = Direction("that answers a slot's hello", Assignment, Refused)

# Driver → slot: spouts and epochs.


@dataclass(frozen=True, slots=True)
class Activate(Asking):
    """Have spouts emit; open the components if they are not open."""


@dataclass(frozen=True, slots=True)
class Deactivate(Asking):
    """Have spouts pause."""


@dataclass(frozen=True, slots=True)
class Reset(Asking):
    """Begin an epoch: roll back to the last commit, drop frames in flight, fail pending roots."""

    epoch: int
    committed: int  # the transaction id of the last commit
    acked: list[Any] | None  # what is acked by it, if another slot is started


@dataclass(frozen=True, slots=True)
class Exchanged(Message):
    """A job has ended: its answers need not be kept."""

    epoch: int
    job: int


@dataclass(frozen=True, slots=True)
class Lease(Message):
    """The driver lives; some slot has more frames for these components than it can take."""

    full: list[str]


@dataclass(frozen=True, slots=True)
class Stop(Message):
    """Close the components and end."""


# Driver → slot: commits. `SlotState` does each of them.


@dataclass(frozen=True, slots=True)
class Quiesce(Asking):
    """Begin nothing new; answered when nothing is in flight."""

    txid: int


@dataclass(frozen=True, slots=True)
class Mark(Asking):
    """All that is complete now belongs to the commit."""

    txid: int


@dataclass(frozen=True, slots=True)
class Prepare(Asking):
    """Write what has changed; answered by `Prepared` or `Unwritten`."""

    txid: int


@dataclass(frozen=True, slots=True)
class Commit(Asking):
    """The commit is durable."""

    txid: int


@dataclass(frozen=True, slots=True)
class Read(Asking):
    """Read the committed state of a component, for a packed key or for all; answered by `Found`."""

    component: str
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Resume(Message):
    """The commit that was begun is not made: timers and ticks that wait for it go on."""


# Driver → slot: what components ask for, and are told.


@dataclass(frozen=True, slots=True)
class LetterKept(Message):
    """A dead letter is durable, or cannot be kept."""

    number: int
    error: str | None


@dataclass(frozen=True, slots=True)
class EndInput(Asking):
    """Tell the tasks of a component that all input has come."""

    component: str


# Driver → slot: rows of DataFrames.


@dataclass(frozen=True, slots=True)
class Release(Message):
    """Emit the rows of a batch that Spark tasks have brought."""

    task: int
    batch: int
    round: int
    parts: list[Any]  # [partition, attempt, number of chunks]


@dataclass(frozen=True, slots=True)
class Collect(Asking):
    """Set apart the rows that bolts have collected; answered by `Collected`."""


# Driver → slot: statistics and tuples that end processes.


@dataclass(frozen=True, slots=True)
class AskStats(Message):
    """Send `Stats` with this number now."""

    asked: int


@dataclass(frozen=True, slots=True)
class PoisonKeys(Message):
    """Tuples that have ended a process: suspects are executed last, condemned ones never."""

    suspects: list[str]
    condemned: list[str]


@dataclass(frozen=True, slots=True)
class Careful(Message):
    """Announce each call of user code from now on."""


@dataclass(frozen=True, slots=True)
class Calm(Message):
    """Announce calls of user code no more."""


DRIVER_TO_SLOT = Direction(
    "from the driver to a slot",
    *(Activate, Deactivate, Reset, Exchanged, Lease, Stop),
    *(Quiesce, Mark, Prepare, Commit, Read, Resume),
    *(LetterKept, EndInput),
    *(Release, Collect),
    *(AskStats, PoisonKeys, Careful, Calm),
)

# Slot → driver: its life.


@dataclass(frozen=True, slots=True)
class Beat(Message):
    """The slot lives, and has no news."""


@dataclass(frozen=True, slots=True)
class Standing(Message):
    """How a slot stands; several messages carry it."""

    tasks: list[Any]  # [component, counts, errors] of each task
    is_at_work: bool
    inbox_bytes: int
    full: list[str]  # components with more frames here than their share


@dataclass(frozen=True, slots=True)
class Stats(Standing):
    """Its counts; `asked` is None in those that it sends by itself."""

    asked: int | None


@dataclass(frozen=True, slots=True)
class Full(Message):
    """It has more frames for these components than it can take."""

    full: list[str]


@dataclass(frozen=True, slots=True)
class Ready(Message):
    """It has started; Spark tasks reach it at the address."""

    address: list[Any]
    epoch: int


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """It cannot start."""

    error: str
    traceback: str
    cause: list[Any]  # as `pack_error` makes it


@dataclass(frozen=True, slots=True)
class Crashed(Standing):
    """User code or the engine has raised what ends the process."""

    reason: str
    cause: list[Any]  # as `pack_error` makes it


@dataclass(frozen=True, slots=True)
class Hung(Standing):
    """A call of user code has taken too long, which ends the process."""

    secs: float
    stacks: str
    where: str


@dataclass(frozen=True, slots=True)
class Stopped(Standing):
    """It has closed its components, and ends."""


# Slot → driver: work.


@dataclass(frozen=True, slots=True)
class Frames(Message):
    """It has frames for other slots."""


@dataclass(frozen=True, slots=True)
class Uncommitted(Message):
    """It has something to commit; urgent when its spouts will soon reach their pending limit."""

    is_urgent: bool


@dataclass(frozen=True, slots=True)
class Broken(Message):
    """A root has failed whose tree cannot be undone alone: all slots must roll back."""


@dataclass(frozen=True, slots=True)
class Settled(Message):
    """A task has settled all rows of a round."""

    task: int
    round: int
    dead: int  # rows that became dead letters


@dataclass(frozen=True, slots=True)
class Letter(Message):
    """A component gives something up, and waits until that is written down."""

    number: int
    component: str
    line: str


@dataclass(frozen=True, slots=True)
class Doing(Message):
    """It is about to call user code, or, with an empty text, announces calls no more."""

    what: str
    key: str  # of the tuple, see `Announcer`
    thread: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Outlived(Message):
    """It has executed a suspect, and lives."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Print(Message):
    """A line that user code has printed."""

    level: int
    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Log(Message):
    """A record that was logged."""

    level: int
    text: str


# Slot → driver: answers.


@dataclass(frozen=True, slots=True)
class Done(Answer):
    """Done."""


@dataclass(frozen=True, slots=True)
class NotDone(Answer):
    """User code has raised."""

    why: str


@dataclass(frozen=True, slots=True)
class Prepared(Answer):
    """Its part of a commit is written."""

    written: Any  # `Written.to_plain()`
    schemas: dict[str, int]
    letters: list[dict[str, Any]]
    rows: dict[int, int]  # {task: rows set apart}


@dataclass(frozen=True, slots=True)
class Unwritten(Answer):
    """The checkpoint's place refuses its part: the commit is tried again."""

    why: str


@dataclass(frozen=True, slots=True)
class Found(Answer):
    """What was read of a state; None if `size` bytes are too many for one message."""

    size: int
    found: bytes | None


@dataclass(frozen=True, slots=True)
class Collected(Answer):
    """How many rows are set apart."""

    rows: dict[int, int]  # {task: rows}


ANSWERS: tuple[type[Answer], ...] = (Done, NotDone, Prepared, Unwritten, Found, Collected)

SLOT_TO_DRIVER = Direction(
    "from a slot to the driver",
    *(Beat, Stats, Full, Ready, Failed, Crashed, Hung, Stopped),
    *(Frames, Uncommitted, Broken, Settled, Letter, Doing, Outlived, Print, Log),
    *ANSWERS,
)

# Spark task → slot.


@dataclass(frozen=True, slots=True)
class Exchange(Message):
    """Take parcels in, and hand out what is ready; the answer is `Parcels`."""

    epoch: int
    job: int
    number: int  # of the exchange in its chain
    is_last: bool
    parcels: list[bytes]


@dataclass(frozen=True, slots=True)
class Feed(Message):
    """Take a chunk of rows in for a spout; the answer is `Fed`."""

    task: int
    round: int
    partition: int
    attempt: int
    number: int  # of the chunk
    chunk: list[Any]


@dataclass(frozen=True, slots=True)
class Fetch(Message):
    """Hand out a chunk of rows that a task keeps; the answer is `Fetched`."""

    task: int
    key: int  # the round of a spout, or the transaction of a bolt
    number: int  # of the chunk


TASK_TO_SLOT = Direction("from a Spark task to a slot", Exchange, Feed, Fetch)

# Slot → Spark task.


@dataclass(frozen=True, slots=True)
class Parcels(Message):
    """What a slot has for other slots: [slot, parcel] each."""

    status: str  # ok, missed, refused or lost
    parcels: list[Any]


@dataclass(frozen=True, slots=True)
class Fed(Message):
    """Whether rows were taken in."""

    is_taken: bool


@dataclass(frozen=True, slots=True)
class Fetched(Message):
    """A chunk of rows; none after the last chunk. `is_there` is false if the task keeps them no more."""

    is_there: bool
    rows: int
    data: bytes


SLOT_TO_TASK = Direction("from a slot to a Spark task", Parcels, Fed, Fetched)
