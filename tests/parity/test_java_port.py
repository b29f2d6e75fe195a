"""A topology translated from Java word by word: all names, orders of arguments and overrides are Java's."""

import pytest

from pystorm_spark import (
    BaseBasicBolt,
    BaseRichBolt,
    BaseRichSpout,
    BaseTickTupleAwareRichBolt,
    Config,
    CustomStreamGrouping,
    Fields,
    LocalCluster,
    NotAliveError,
    TaskHook,
    TopologyBuilder,
    Values,
)

TOLD = []


class SentenceSpout(BaseRichSpout):
    def __init__(self, *sentences):
        self.sentences = list(sentences)

    def open(self, conf, context, collector):
        self.collector = collector
        self.index = 0

    def nextTuple(self):
        if self.index < len(self.sentences):
            self.collector.emit("sentences", Values(self.sentences[self.index]), self.index)
            self.index += 1

    def ack(self, msgId):  # noqa: N803
        TOLD.append(("acked", msgId))

    def fail(self, msgId):  # noqa: N803
        TOLD.append(("failed", msgId))

    def declareOutputFields(self, declarer):
        declarer.declareStream("sentences", Fields("sentence"))


class SplitBolt(BaseRichBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.logger = context.getComponentTasks("log").pop()

    def execute(self, tup):
        for word in tup.getStringByField("sentence").split():
            self.collector.emit(tup, Values(word))
        self.collector.emitDirect(self.logger, "log", tup, Values(tup.getSourceComponent()))
        if tup.getString(0):
            self.collector.ack(tup)
        else:
            self.collector.fail(tup)

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))
        declarer.declareStream("log", True, Fields("line"))


class CountBolt(BaseTickTupleAwareRichBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.counts = {}
        context.addTaskHook(AckHook())

    def process(self, tup):
        word = tup.getString(0)
        self.counts[word] = self.counts.get(word, 0) + 1
        self.collector.ack(tup)

    def onTickTuple(self, tup):
        for word, count in sorted(self.counts.items()):
            self.collector.emit(Values(word, count))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word", "count"))

    def getComponentConfiguration(self):
        return {Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS: 10}


class AckHook(TaskHook):
    def boltAck(self, info):
        TOLD.append(("counted", info.tuple.getString(0)))


class PrintBolt(BaseBasicBolt):
    def execute(self, tup, collector):
        TOLD.append((tup.getString(0), tup.getInteger(1)))


class LogBolt(BaseBasicBolt):
    def execute(self, tup, collector):
        TOLD.append(("log", tup.getValue(0)))


class LastGrouping(CustomStreamGrouping):
    def prepare(self, context, stream, targetTasks):  # noqa: N803
        self.last = targetTasks[-1]

    def chooseTasks(self, taskId, values):  # noqa: N803
        return [self.last]


def topology(*sentences):
    builder = TopologyBuilder()
    builder.setSpout("spout", SentenceSpout(*sentences), 1)
    builder.setBolt("split", SplitBolt(), 2).shuffleGrouping("spout", "sentences")
    builder.setBolt("count", CountBolt(), 3).fieldsGrouping("split", "default", Fields("word")).setNumTasks(3)
    builder.setBolt("print", PrintBolt(), 2).customGrouping("count", LastGrouping())
    builder.setBolt("log", LogBolt()).directGrouping("split", "log")
    return builder.createTopology()


@pytest.fixture
def cluster():
    TOLD.clear()
    cluster = LocalCluster(simulated_time=True)
    yield cluster
    cluster.close()


def submit(cluster, *sentences):
    conf = Config()
    conf.setMaxSpoutPending(10)
    conf.setMessageTimeoutSecs(30)
    cluster.submitTopology("word-count", conf, topology(*sentences))
    cluster.waitForIdle()


def test_words_are_counted_and_sentences_acked(cluster):
    submit(cluster, "storm spark storm")
    assert sorted(TOLD) == [
        ("acked", 0),
        ("counted", "spark"),
        ("counted", "storm"),
        ("counted", "storm"),
        ("log", "spout"),
    ]


def test_a_failed_sentence_reaches_fail(cluster):
    submit(cluster, "storm", "")
    assert ("failed", 1) in TOLD


def test_a_tick_prints_the_counts(cluster):
    submit(cluster, "storm spark storm")
    TOLD.clear()
    cluster.advanceClusterTime(10)
    assert sorted(TOLD) == [("spark", 1), ("storm", 2)]


def test_the_status_has_javas_names(cluster):
    submit(cluster, "storm")
    for info in (cluster.getTopologyInfo("word-count"), cluster.getTopologyInfoByName("word-count")):
        assert (info.getStatus(), info.getComponents()["count"].getAcked(), info.uptimeSecs) == ("ACTIVE", 1, 0)


def test_a_topology_is_deactivated_and_killed_by_javas_names(cluster):
    submit(cluster, "storm")
    cluster.deactivate("word-count")
    assert cluster.getTopologyInfo("word-count").getStatus() == "INACTIVE"
    cluster.killTopology("word-count")
    with pytest.raises(NotAliveError):
        cluster.getTopologyInfo("word-count")


def test_the_handle_has_javas_name_for_waiting(cluster):
    handle = cluster.submitTopology("word-count", None, topology())
    assert handle.awaitTermination(0) is False
    cluster.killTopology("word-count")
    assert handle.awaitTermination(0) is True
