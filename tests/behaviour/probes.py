"""Probes: components that record what happens to them, for the tests to read.

Tasks run copies of a component, in this process or in others. So a task writes its records to a file, and takes the
rows that a test feeds from a folder. An environment variable, which the processes of Spark inherit, names the folder.
"""

import contextlib
import os
import pickle
import shutil
import struct
import tempfile
import threading
from collections import defaultdict, deque
from pathlib import Path

import cloudpickle

from pystorm_spark import BasicBolt, Bolt, Spout

_VARIABLE = f"PYSTORM_SPARK_PROBES_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"  # slots inherit it
_FOLDER = Path(os.environ.setdefault(_VARIABLE, f"{tempfile.gettempdir()}/probes-{os.getpid()}"))
_LENGTH = struct.Struct("!Q")


class Journal:
    """The entries of all processes in the order of their writes; each entry is one append to the same file."""

    def __init__(self, path):
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._read = 0  # bytes
        self._entries = defaultdict(list)
        self._lock = threading.Lock()

    def note(self, topic, entry):
        try:
            data = pickle.dumps((topic, entry))
        except Exception:  # of a class that is defined inside a test
            data = cloudpickle.dumps((topic, entry))
        os.write(self._file, _LENGTH.pack(len(data)) + data)

    def noted(self, topic):
        with self._lock:
            self._catch_up()
            return list(self._entries[topic])

    def _catch_up(self):
        data = os.pread(self._file, os.fstat(self._file).st_size - self._read, self._read)
        at = 0
        while at + _LENGTH.size <= len(data):
            end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                break  # the last entry is still being written
            topic, entry = pickle.loads(memoryview(data)[at + _LENGTH.size : end])
            self._entries[topic].append(entry)
            at = end
        self._read += at

    def close(self):
        os.close(self._file)


_journals = {}  # {process id: journal}: a forked process opens a journal of its own


def journal():
    if os.getpid() not in _journals:
        _journals[os.getpid()] = Journal(_FOLDER / "journal")
    return _journals[os.getpid()]


def note(topic, entry):
    journal().note(topic, entry)


def noted(topic):
    return journal().noted(topic)


def attempt(topic, call):
    """Note the result of `call`, or its exception."""
    try:
        note(topic, call())
    except Exception as exc:
        note(topic, exc)


def feed(spout_id, values, message_id):
    """Have the `Fed` spout of that id emit `values`."""
    mailbox = _mailbox(spout_id)
    mailbox.mkdir(exist_ok=True)
    number = _fed[spout_id] = _fed[spout_id] + 1
    letter = mailbox / f"{number:06}"
    letter.with_suffix(".new").write_bytes(cloudpickle.dumps((values, message_id)))
    letter.with_suffix(".new").rename(letter)


_fed = defaultdict(int)  # {spout id: rows fed so far}


def take_fed(spout_id):
    """Take the oldest fed row that no task has taken; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(_mailbox(spout_id))):
            taken = _mailbox(spout_id) / f"{name}.{os.getpid()}"
            if name.isdigit():
                with contextlib.suppress(FileNotFoundError):  # another task has taken it
                    os.rename(_mailbox(spout_id) / name, taken)
                    return pickle.loads(taken.read_bytes())
    return None


def all_taken():
    """Whether all fed rows have been taken."""
    return not any(letter.name.isdigit() for letter in _FOLDER.glob("fed-*/*"))


def _mailbox(spout_id):
    return _FOLDER / f"fed-{spout_id}"


def forget_all():
    """Start with an empty folder."""
    for known in _journals.values():
        known.close()
    _journals.clear()
    _fed.clear()
    remove_all()
    _FOLDER.mkdir()


def remove_all():
    shutil.rmtree(_FOLDER, ignore_errors=True)


class Rows(Spout):
    """Emits a row at each call; its message id is its number, or from `ids`. Notes "acked" and "failed"."""

    def __init__(self, rows, fields=("value",), ids=None):
        self.rows = list(rows)
        self.outputs = list(fields)
        self.ids = range(len(self.rows)) if ids is None else ids

    def open(self, conf, context, collector):
        self.context = context
        self.collector = collector
        self.left = deque(zip(self.rows, self.ids, strict=True))

    def next_tuple(self):
        if self.left:
            values, message_id = self.left.popleft()
            self.collector.emit(values, message_id=message_id)

    def ack(self, message_id):
        note("acked", message_id)

    def fail(self, message_id):
        note("failed", message_id)


def numbers(count):
    """Make a spout of the rows [0], [1], …"""
    return Rows([[number] for number in range(count)])


class Replaying(Rows):
    """Emits a failed row again."""

    def fail(self, message_id):
        super().fail(message_id)
        self.left.append((self.rows[message_id], message_id))


class Fed(Rows):
    """Emits what the test feeds it; notes "acked by <id>" and "failed by <id>"."""

    def __init__(self, fields=("value",)):
        super().__init__((), fields)

    def next_tuple(self):
        fed = take_fed(self.context.this_component_id)
        if fed is not None:
            values, message_id = fed
            self.collector.emit(values, message_id=message_id)

    def ack(self, message_id):
        note(f"acked by {self.context.this_component_id}", message_id)

    def fail(self, message_id):
        note(f"failed by {self.context.this_component_id}", message_id)


class Starts(Spout):
    """Calls `function(spout)` once, at its first `next_tuple`; notes "acked" and "failed"."""

    def __init__(self, function, outputs=("value",)):
        self.function = function
        self.outputs = outputs

    def open(self, conf, context, collector):
        self.context = context
        self.collector = collector
        self.started = False

    def next_tuple(self):
        if not self.started:
            self.started = True
            self.function(self)

    def ack(self, message_id):
        note("acked", message_id)

    def fail(self, message_id):
        note("failed", message_id)


class Does(Bolt):
    """Calls `function(bolt, tup)`, which may ack `tup`, or keep it in the list `bolt.held`."""

    def __init__(self, function, outputs=None):
        self.function = function
        self.outputs = outputs

    def prepare(self, conf, context, collector):
        self.context = context
        self.collector = collector
        self.held = []

    def execute(self, tup):
        self.function(self, tup)


class Sink(BasicBolt):
    """Acks every tuple; notes the values under its own id, and (task, values) under "<id> by task"."""

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        note(self.context.this_component_id, tup.values)
        note(f"{self.context.this_component_id} by task", (self.context.this_task_id, tup.values))


class Holder(Bolt):
    """Holds every tuple until the value "ack" or "fail" comes, then acks or fails all of them, the last one too."""

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.held = []

    def execute(self, tup):
        self.held.append(tup)
        settle = {"ack": self.collector.ack, "fail": self.collector.fail}.get(tup[0])
        if settle:
            for held in self.held:
                settle(held)
            self.held.clear()


def acks(bolt, tup):
    bolt.collector.ack(tup)


def fails(bolt, tup):
    bolt.collector.fail(tup)


def holds(bolt, tup):
    bolt.held.append(tup)


def passes_on(bolt, tup):
    bolt.collector.emit(tup.values, anchors=tup)
    bolt.collector.ack(tup)
