"""Spouts whose trees take no part in commits: `topology.state.guarantee: none` in their own configuration."""

import pytest

from pystorm_spark import DurableSpout, InvalidConfigError, TopologyBuilder
from pystorm_spark.state import StatefulBolt
from tests.behaviour.engine import ONE_PROCESS, advance, chain, run
from tests.behaviour.probes import Fed, Rows, Sink, feed, note, noted

NEVER = {"topology.state.checkpoint.interval.ms": 600_000, "topology.state.guarantee": "exactly-once"}
SOON = {**NEVER, "topology.state.checkpoint.interval.ms": 100}


class Free(Fed):
    def component_configuration(self):
        return {"topology.state.guarantee": "none"}


class Counts(StatefulBolt):
    """Counts; "held" is neither acked nor failed, "bad" fails."""

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.held = []

    def init_state(self, state):
        self.state = state

    def pre_rollback(self):
        note("rollbacks", 1)

    def execute(self, tup):
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        if tup[0] == "held":
            self.held.append(tup)
        elif tup[0] == "bad":
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def topology(*rows):
    builder = TopologyBuilder()
    builder.set_spout("rows", Rows([[row] for row in rows]))
    builder.set_spout("free", Free())
    counts = builder.set_bolt("counts", Counts())
    counts.shuffle_grouping("rows").shuffle_grouping("free")
    return builder.create_topology()


def test_acks_wait_for_no_commit(cluster):
    feed("free", ["free"], 1)
    run(cluster, topology("bound"), NEVER)

    assert (noted("acked by free"), noted("acked")) == ([1], [])


def test_a_failure_rolls_nothing_back(cluster):
    feed("free", ["bad"], 1)
    run(cluster, topology("bound"), NEVER)

    assert (noted("failed by free"), noted("rollbacks")) == ([1], [])


def test_spouts_emit_while_others_wait_for_a_commit(cluster):
    run(cluster, topology("held"), SOON)
    advance(cluster, 1)
    for number in range(3):
        feed("free", ["free"], number)
    advance(cluster, 1)

    assert noted("acked by free") == [0, 1, 2]
    assert noted("acked") == noted("rollbacks") == []


def test_what_they_change_is_in_the_next_commit(cluster):
    feed("free", ["free"], 1)
    run(cluster, topology("bound"), SOON)
    advance(cluster, 1)

    assert cluster.read_state("topology", "counts") == {"free": 1, "bound": 1}


@pytest.mark.local_only(ONE_PROCESS)
def test_a_durable_spout_takes_part(cluster):
    class Log(DurableSpout):
        outputs = ("line",)

        def component_configuration(self):
            return {"topology.state.guarantee": "none"}

    with pytest.raises(InvalidConfigError, match="the position of a DurableSpout is part of commits"):
        cluster.submit_topology("topology", None, chain(Log(), Sink()))


@pytest.mark.local_only(ONE_PROCESS)
def test_a_whole_topology_cannot_do_without(cluster):
    with pytest.raises(InvalidConfigError, match=r"topology\.state\.guarantee is 'none', but must be one of"):
        cluster.submit_topology("topology", {"topology.state.guarantee": "none"}, chain(Rows([]), Sink()))
