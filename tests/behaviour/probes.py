"""Probes: components that write down what happens to them, for the tests to read.

Tasks run copies of a component, so what they see goes into one journal of this process, and what a test feeds comes
out of a mailbox. An engine with other processes has to carry `note` and `feed` there, and nothing else.
"""

from collections import defaultdict, deque

from pystorm_spark import BasicBolt, Bolt, Spout

_journal = defaultdict(list)
_mailboxes = defaultdict(deque)


def note(topic, entry):
    _journal[topic].append(entry)


def noted(topic):
    return list(_journal[topic])


def attempt(topic, call):
    """Note what `call` gives or raises."""
    try:
        note(topic, call())
    except Exception as exc:
        note(topic, exc)


def feed(spout_id, values, message_id):
    """Have the `Fed` spout of that id emit `values`."""
    _mailboxes[spout_id].append((values, message_id))


def forget_all():
    _journal.clear()
    _mailboxes.clear()


class Rows(Spout):
    """Emits a row at each call, its number as message id unless `ids` says otherwise; notes "acked" and "failed"."""

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
    """A spout of the rows [0], [1], …"""
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
        mailbox = _mailboxes[self.context.this_component_id]
        if mailbox:
            values, message_id = mailbox.popleft()
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
    """Calls `function(bolt, tup)`, which acks or does not; `bolt.held` is a list for it to keep tuples in."""

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
    """Acks everything; notes the values under its own id, and (task, values) under "<id> by task"."""

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        note(self.context.this_component_id, tup.values)
        note(f"{self.context.this_component_id} by task", (self.context.this_task_id, tup.values))


class Holder(Bolt):
    """Neither acks nor fails until a tuple says "ack" or "fail": then all that it holds, that one last."""

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
