"""Random walks over slots whose wire loses, repeats and reorders frames, compared with a model of the tuple trees.

Every tracked root is acked or failed exactly once. It is acked only after all tuples of its tree, and failed only for
a reason. The slots count and XOR; the model knows every tuple.
"""

from __future__ import annotations

from threading import Lock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pystorm_spark.errors import EmitError, SerializationError
from pystorm_spark.runtime.trees import UNTRACKED
from pystorm_spark.topology.tuple import SETTLED

from .slots import TIMEOUT_SECS, web_mesh


class Emission:
    """One emit: its anchors, and for each target the copies that arrived there."""

    def __init__(self, label, targets, anchors=()):
        self.label = label
        self.copies = {target: [] for target in targets}
        self.roots = frozenset().union(*(anchor.roots for anchor in anchors))
        for anchor in anchors:
            anchor.children.append(self)

    def is_done(self):
        """Whether every target has fully processed the emission; one copy of a repeated frame is enough."""
        return all(any(copy.is_done() for copy in copies) for copies in self.copies.values())

    def has_failed(self):
        return any(copy.has_failed() for copies in self.copies.values() for copy in copies)


class RootEmission(Emission):
    """A tracked emit of a spout."""

    def __init__(self, label, targets, now):
        super().__init__(label, targets)
        self.roots = frozenset({self})
        self.emitted_at = now
        self.told = []


class Copy:
    """A tuple that arrived at a bolt."""

    def __init__(self, emission, bolt, tup):
        self.roots = emission.roots
        self.bolt = bolt
        self.tup = tup
        self.state = "held"
        self.children = []

    def is_done(self):
        return self.state == "acked" and all(child.is_done() for child in self.children)

    def has_failed(self):
        return self.state == "failed" or any(child.has_failed() for child in self.children)


PICK = st.integers(0, 99)  # an index, modulo the number of choices
PICKS = st.lists(PICK, min_size=1, max_size=3)


class SlotMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(2, 3), spouts=st.integers(1, 3), bolts=st.integers(2, 4), safe=st.booleans())
    def build(self, slots, spouts, bolts, safe):
        self.mesh = web_mesh(slots, spouts, bolts)
        self.wire_is_safe = safe
        self.spouts = [self.mesh.spout(index=index) for index in range(spouts)]
        self.bolts = [self.mesh.bolt(index=index) for index in range(bolts)]
        self.emissions = []
        self.roots = []
        self.copies = {}  # {tuple: its copy}
        self.settled = []

    # Actions of spouts and bolts.

    @rule(spout=PICK, receivers=PICKS, arrives=st.booleans())
    def emit_tracked(self, spout, receivers, arrives):
        targets = self.pick_tasks(receivers)
        root = RootEmission(len(self.emissions), targets, self.mesh.clock.now)
        self.pick(self.spouts, spout).emit(root.label, *targets, message_id=root.label)
        self.emissions.append(root)
        self.roots.append(root)
        if arrives:
            self.calm_down()

    @rule(source=PICK, receivers=PICKS)
    def emit_untracked(self, source, receivers):
        self.emit(self.pick([*self.spouts, *self.bolts], source), self.pick_tasks(receivers))

    @precondition(lambda self: self.held())
    @rule(first=PICK, receivers=PICKS, arrives=st.booleans())
    def emit_anchored(self, first, receivers, arrives):
        anchor = self.pick(self.held(), first)
        self.emit(anchor.bolt, self.pick_tasks(receivers), [anchor])
        if arrives:
            self.calm_down()

    @precondition(lambda self: len(self.held()) > 1)
    @rule(first=PICK, more=PICKS, receivers=PICKS, arrives=st.booleans())
    def emit_anchored_to_several(self, first, more, receivers, arrives):
        anchors = self.pick_anchors(first, more)
        self.emit(anchors[0].bolt, self.pick_tasks(receivers), anchors)
        if arrives:
            self.calm_down()

    @precondition(lambda self: self.held())
    @rule(first=PICK, more=PICKS)
    def emit_what_cannot_be_packed(self, first, more):
        anchors = self.pick_anchors(first, more)
        tasks = [bolt.task_id for bolt in self.bolts]
        with pytest.raises(SerializationError, match="'bolt' emits on stream 'default' in field 'label'"):
            anchors[0].bolt.emit(Lock(), *tasks, anchors=[anchor.tup for anchor in anchors])

    @precondition(lambda self: self.held())
    @rule(which=PICK)
    def ack(self, which):
        self.close(self.pick(self.held(), which), "acked")

    @precondition(lambda self: self.held())
    @rule(which=PICK)
    def fail(self, which):
        self.close(self.pick(self.held(), which), "failed")

    @precondition(lambda self: self.settled)
    @rule(which=PICK, verb=st.sampled_from(["ack", "fail", "reset_timeout"]))
    def use_what_is_settled(self, which, verb):
        copy = self.pick(self.settled, which)
        getattr(copy.bolt.collector, verb)(copy.tup)
        with pytest.raises(EmitError, match="already acked or failed"):
            copy.bolt.emit("late", self.bolts[0].task_id, anchors=copy.tup)

    @precondition(lambda self: self.held())
    @rule(which=PICK, resets=st.booleans())
    def look_at_a_held_tuple(self, which, resets):
        copy = self.pick(self.held(), which)
        assert len(copy.tup.message_id.anchors) == len(copy.roots)
        if resets:
            copy.bolt.collector.reset_timeout(copy.tup)

    # Actions of slots, wire and clock.

    @rule(which=PICK)
    def turn(self, which):
        self.mesh.turn(which % len(self.mesh.slots))
        self.look()

    @precondition(lambda self: self.mesh.wire)
    @rule(which=PICK)
    def carry(self, which):
        self.mesh.move(which % len(self.mesh.wire))

    @precondition(lambda self: self.mesh.wire and not self.wire_is_safe)
    @rule(which=PICK)
    def lose(self, which):
        self.mesh.wire.pop(which % len(self.mesh.wire))

    @precondition(lambda self: self.mesh.wire and not self.wire_is_safe)
    @rule(which=PICK)
    def repeat(self, which):
        self.mesh.carry(self.pick(self.mesh.wire, which))

    @rule(secs=st.integers(1, TIMEOUT_SECS))
    def wait(self, secs):
        self.mesh.clock.now += secs

    @rule()
    def calm_down(self):
        """Once all frames have arrived, and none was lost, every root with a known outcome has been reported."""
        self.mesh.settle()
        self.look()
        if self.wire_is_safe:
            assert not [root.label for root in self.roots if not root.told and (root.is_done() or root.has_failed())]

    @rule()
    def finish_all(self):
        while self.held():
            for copy in self.held():
                self.close(copy, "acked")
            self.calm_down()

    # The invariants.

    @invariant()
    def pending_roots_are_those_without_an_outcome(self):
        pending = sum(task.counted().pending for slot in self.mesh.slots for task in slot.spouts)
        assert pending == sum(not root.told for root in self.roots)

    @invariant()
    def only_pending_roots_have_entries(self):
        for slot in self.mesh.slots:
            for task in slot.spouts:
                assert set(task._left.values()) <= set(task.pending)
                assert len(task._ledger) == len(task._left)

    @invariant()
    def parts_count_their_open_tuples(self):
        for slot in self.mesh.slots:
            counted = self.mesh.open_by_part(slot)
            for part in {*counted, *map(slot.outbox.branches.get, slot.outbox.branches)} - {UNTRACKED}:
                assert part.unsettled == counted[part] > 0

    def teardown(self):
        self.calm_down()
        for _ in range(2):
            self.mesh.advance(TIMEOUT_SECS)
            self.look()
        assert all(len(root.told) == 1 for root in self.roots)
        assert not self.mesh.leftovers()

    # Steps that rules share.

    def pick(self, things, which):
        return things[which % len(things)]

    def pick_tasks(self, picks):
        return list(dict.fromkeys(self.pick(self.bolts, which).task_id for which in picks))

    def pick_anchors(self, first, more):
        """Pick one held tuple and more of the same bolt, possibly the same one twice."""
        anchor = self.pick(self.held(), first)
        others = [copy for copy in self.held() if copy.bolt is anchor.bolt]
        return [anchor, *(self.pick(others, which) for which in more)]

    def held(self):
        return [copy for copy in self.copies.values() if copy.state == "held"]

    def emit(self, source, targets, anchors=()):
        emission = Emission(len(self.emissions), targets, anchors)
        self.emissions.append(emission)
        if not anchors:
            source.emit(emission.label, *targets)
            return
        tuples = [anchor.tup for anchor in anchors]
        source.emit(emission.label, *targets, anchors=tuples if len(tuples) > 1 else tuples[0])

    def close(self, copy, state):
        copy.state = state
        copy.bolt.held.remove(copy.tup)
        self.settled.append(copy)
        getattr(copy.bolt.collector, {"acked": "ack", "failed": "fail"}[state])(copy.tup)
        assert copy.tup._tree is SETTLED

    def look(self):
        """Record the tuples that have arrived at bolts, and the acks and fails of the spouts."""
        for bolt in self.bolts:
            for tup in bolt.held:
                if tup not in self.copies:
                    emission = self.emissions[tup["label"]]
                    self.copies[tup] = Copy(emission, bolt, tup)
                    emission.copies[bolt.task_id].append(self.copies[tup])
        for spout in self.spouts:
            for verb, label in spout.told:
                self.check_outcome(self.emissions[label], verb)
            spout.told.clear()

    def check_outcome(self, root, verb):
        root.told.append(verb)
        if verb == "ack":
            assert root.is_done()
        else:
            assert root.has_failed() or self.mesh.clock.now - root.emitted_at >= TIMEOUT_SECS


TestSlotMachine = SlotMachine.TestCase
TestSlotMachine.settings = settings(max_examples=80, stateful_step_count=50)
