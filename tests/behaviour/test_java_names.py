"""Programs ported from Java without new names: components are defined and called by Java's names."""

import pytest

from pystorm_spark import (
    BaseBasicBolt,
    BaseRichBolt,
    BaseRichSpout,
    BaseTickTupleAwareRichBolt,
    Config,
    CountMetric,
    CustomStreamGrouping,
    Fields,
    IBasicBolt,
    IRichBolt,
    IRichSpout,
    LocalCluster,
    Metric,
    MetricsConsumer,
    Spout,
    TaskHook,
    TopologyBuilder,
    Values,
)
from tests.behaviour.engine import advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Does, Rows, Sink, acks, note, noted, numbers


class JavaSpout(BaseRichSpout):
    def open(self, conf, context, collector):
        self.collector = collector
        self.words = ["storm", "spark"]

    def nextTuple(self):
        if self.words:
            word = self.words.pop()
            self.collector.emit(Values(word), word)

    def ack(self, msgId):  # noqa: N803 - Java's name
        note("acked", msgId)

    def fail(self, msgId):  # noqa: N803 - Java's name
        note("failed", msgId)

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))

    def getComponentConfiguration(self):
        return {"topology.max.spout.pending": 1}


class JavaBolt(BaseRichBolt):
    def prepare(self, topoConf, context, collector):  # noqa: N803 - Java's name
        self.collector = collector
        self.id = context.getThisComponentId()

    def execute(self, tup):
        note(self.id, tup.getStringByField("word") + "!")
        self.collector.emit(tup, Values(tup.getString(0) + "!"))
        self.collector.ack(tup)

    def declareOutputFields(self, declarer):
        declarer.declareStream("default", Fields("word"))


class JavaBasicBolt(BaseBasicBolt):
    def execute(self, tup, collector):
        collector.emit("loud", Values(tup.getValue(0).upper()))

    def declareOutputFields(self, declarer):
        declarer.declareStream("loud", False, Fields("word"))


def test_a_ported_topology_runs(cluster):
    builder = TopologyBuilder()
    builder.setSpout("spout", JavaSpout(), 1)
    builder.setBolt("exclaim", JavaBolt(), 2).setNumTasks(2).fieldsGrouping("spout", Fields("word"))
    builder.setBolt("shout", JavaBasicBolt()).shuffleGrouping("exclaim").setDebug(False)
    builder.setBolt("a", Sink()).globalGrouping("shout", "loud")
    conf = Config()
    conf.setNumWorkers(1)
    conf.setMessageTimeoutSecs(30)
    cluster.submitTopology("topology", conf, builder.createTopology())
    run_until_idle(cluster)

    assert sorted(noted("a")) == [["SPARK!"], ["STORM!"]]
    assert sorted(noted("acked")) == ["spark", "storm"]
    assert cluster.topologyInfo("topology").components["exclaim"].tasks == 2
    cluster.killTopology("topology")
    assert cluster.listTopologies() == []


def test_storms_names_of_the_base_classes_exist():
    assert BaseRichSpout is IRichSpout is Spout
    assert issubclass(IBasicBolt, IRichBolt)
    assert BaseBasicBolt is IBasicBolt
    assert BaseRichBolt is IRichBolt


def test_a_components_own_configuration_under_javas_name_is_used(cluster):
    run(cluster, chain(JavaSpout(), Does(lambda bolt, tup: None)))

    assert component(cluster, "spout").emitted == 1


def test_both_spellings_call_the_same_method():
    spout = JavaSpout()

    assert spout.next_tuple == spout.nextTuple
    assert spout.component_configuration() == spout.getComponentConfiguration() == {"topology.max.spout.pending": 1}


# Overriding across spellings: the definition that is first in the class's method resolution order is used.


class PythonBase(Spout):
    outputs = ("value",)

    def next_tuple(self):
        note("calls", "python base")


class JavaBase(Spout):
    outputs = ("value",)

    def nextTuple(self):
        note("calls", "java base")


def polls(spout):
    for call in (spout.next_tuple, spout.nextTuple):
        call()
    return noted("calls")


def test_a_java_name_overrides_a_python_one():
    class Overrides(PythonBase):
        def nextTuple(self):
            note("calls", "java")

    assert polls(Overrides()) == ["java", "java"]


def test_a_python_name_overrides_a_java_one():
    class Overrides(JavaBase):
        def next_tuple(self):
            note("calls", "python")

    assert polls(Overrides()) == ["python", "python"]


@pytest.mark.parametrize("base", [PythonBase, JavaBase])
@pytest.mark.parametrize("called", ["next_tuple", "nextTuple"])
def test_super_is_reached_under_either_name(base, called):
    class Overrides(base):
        def nextTuple(self):
            note("calls", "override")
            getattr(super(), called)()

    Overrides().next_tuple()

    assert noted("calls") == ["override", f"{'python' if base is PythonBase else 'java'} base"]


def test_a_class_without_overrides_keeps_inherited_methods():
    class Middle(PythonBase):
        def nextTuple(self):
            note("calls", "middle")

    class Leaf(Middle):
        pass

    assert polls(Leaf()) == ["middle", "middle"]


@pytest.mark.parametrize("name", ["next_tuple", "nextTuple"])
@pytest.mark.parametrize("base", [PythonBase, JavaBase])
def test_a_mixin_before_the_base_overrides_it_under_either_name(name, base):
    mixin = type("Mixin", (), {name: lambda self: note("calls", "mixin")})
    mixed = type("Mixed", (mixin, base), {})

    assert polls(mixed()) == ["mixin", "mixin"]


def test_a_mixin_after_the_base_is_overridden():
    class Mixin:
        def nextTuple(self):
            note("calls", "mixin")

    class Mixed(PythonBase, Mixin):
        pass

    assert polls(Mixed()) == ["python base", "python base"]


def test_a_mixin_may_call_super():
    class Mixin:
        def nextTuple(self):
            note("calls", "mixin")
            super().nextTuple()

    class Mixed(Mixin, PythonBase):
        pass

    Mixed().next_tuple()

    assert noted("calls") == ["mixin", "python base"]


def test_the_engine_calls_the_method_nearest_to_the_class(cluster):
    class Counted(Rows):
        def nextTuple(self):
            note("calls", "java")
            super().next_tuple()

    run(cluster, chain(Counted([["a"]]), Sink()))

    assert noted("calls")[0] == "java"
    assert noted("a") == [["a"]]


def test_a_bolt_may_declare_by_either_name(cluster):
    class Python(JavaBolt):
        def declare_output_fields(self, declarer):
            super().declareOutputFields(declarer)
            declarer.declare_stream("extra", ["x"])

    topology = chain(JavaSpout(), Python())

    assert set(topology.components["a"].outputs) == {"default", "extra"}


# Objects that components receive.


def test_a_tuple_answers_to_javas_names(cluster):
    def execute(bolt, tup):
        note("asked", tup.getValues())
        note("asked", (tup.getString(0), tup.getInteger(1), tup.getDouble(2), tup.getBoolean(3), tup.getBinary(4)))
        note("asked", (tup.getLongByField("i"), tup.getValueByField("s"), tup.fieldIndex("d"), tup.size()))
        note(
            "asked", (tup.getFields().toList(), tup.getSourceComponent(), tup.getSourceTask(), tup.getSourceStreamId())
        )
        note("asked", tuple(tup.getSourceGlobalStreamId()))
        note("asked", (len(tup.getMessageId().getAnchors()), tup.contains("s"), tup.select(Fields("b", "s"))))

    run(cluster, chain(Rows([["x", 1, 2.5, True, b"y"]], ["s", "i", "d", "b", "raw"]), Does(execute)))

    assert noted("asked") == [
        ["x", 1, 2.5, True, b"y"],
        ("x", 1, 2.5, True, b"y"),
        (1, "x", 2, 5),
        (["s", "i", "d", "b", "raw"], "spout", 3, "default"),
        ("spout", "default"),
        (1, True, [True, "x"]),
    ]
    assert component(cluster, "a").errors == []


def test_a_bolts_collector_answers_to_javas_names(cluster):
    def execute(bolt, tup):
        bolt.collector.emitDirect(3, "direct", tup, Values("direct"))
        bolt.collector.resetTimeout(tup)
        bolt.collector.reportError(ValueError("reported"))
        bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.setSpout("spout", numbers(1))
    builder.setBolt("a", Does(execute, {"direct": ["value"]})).shuffleGrouping("spout")
    builder.setBolt("b", Sink()).directGrouping("a", "direct")
    run(cluster, builder.createTopology())

    assert noted("b") == [["direct"]]
    assert noted("acked") == [0]
    assert [error.exception for error in component(cluster, "a").errors] == ["ValueError: reported"]


@pytest.mark.parametrize("ackers", [0, 1])
def test_javas_names_do_the_same_with_and_without_ackers(cluster, ackers):
    def execute(bolt, tup):
        bolt.collector.resetTimeout(tup)
        bolt.collector.emitDirect(bolt.context.getComponentTasks("b")[0], tup, Values("direct"))
        bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.setSpout("spout", numbers(1))
    builder.setBolt("a", Does(execute, ["value"])).shuffleGrouping("spout")
    builder.setBolt("b", Sink()).directGrouping("a")
    run(cluster, builder.createTopology(), {"topology.acker.executors": ackers})

    assert component(cluster, "a").errors == []
    assert noted("acked") == [0]


def test_a_spouts_collector_answers_to_javas_names(cluster):
    class Direct(Rows):
        def nextTuple(self):
            if self.left:
                self.left.clear()
                self.collector.emitDirect(2, "default", Values("v"), "id")
                self.collector.reportError(ValueError("reported"))
                note("pending", self.collector.getPendingCount())

    builder = TopologyBuilder()
    builder.setSpout("spout", Direct([["x"]]))
    builder.setBolt("a", Sink()).directGrouping("spout")
    run(cluster, builder.createTopology())

    assert (noted("a"), noted("acked"), noted("pending")) == ([["v"]], ["id"], [1])
    assert len(component(cluster, "spout").errors) == 1


def test_a_basic_collector_answers_to_javas_names(cluster):
    class Direct(BaseBasicBolt):
        def execute(self, tup, collector):
            collector.resetTimeout(tup)
            collector.reportError(ValueError("reported"))
            collector.emitDirect(3, Values("v"))

        def declareOutputFields(self, declarer):
            declarer.declare(True, Fields("value"))

    builder = TopologyBuilder()
    builder.setSpout("spout", numbers(1))
    builder.setBolt("a", Direct()).shuffleGrouping("spout")
    builder.setBolt("b", Sink()).directGrouping("a")
    run(cluster, builder.createTopology())

    assert noted("b") == [["v"]]
    assert len(component(cluster, "a").errors) == 1


def test_a_context_answers_to_javas_names(cluster):
    def asks(bolt, tup):
        context = bolt.context
        note("asked", (context.getThisTaskId(), context.getThisTaskIndex(), context.getThisComponentId()))
        note("asked", (context.getComponentTasks("spout"), context.getComponentId(2), context.getComponentIds()))
        note("asked", (context.getStormId(), context.getConf()["topology.name"], set(context.getThisStreams())))
        note("asked", (context.getThisOutputFields("default"), context.getComponentOutputFields("spout", "default")))
        note("asked", (len(context.getThisSources()), len(context.getThisTargets()), context.getThisInputFields()))
        context.setTaskData("key", 1)
        note("asked", (context.getTaskData("key"), context.getTaskToComponent(), context.getThisWorkerTasks()))
        note("asked", (context.maxTopologyMessageTimeout(), context.getHooks()))

    handle = run(cluster, chain(numbers(1), Does(asks, ["x"])), {"topology.workers": 1})

    assert noted("asked") == [
        (2, 0, "a"),
        ([3], "a", ["a", "spout"]),
        (handle.id, "topology", {"default"}),
        (Fields("x"), Fields("value")),
        (1, 0, {"spout": {"default": ["value"]}}),
        (1, {2: "a", 3: "spout"}, [2, 3]),
        (30, []),
    ]


def test_a_handle_answers_to_javas_names(cluster):
    handle = run(cluster, chain(numbers(1)))

    assert handle.awaitTermination(0) is False


def test_every_grouping_and_setting_answers_to_javas_names():
    class Grouping(CustomStreamGrouping):
        def chooseTasks(self, taskId, values):  # noqa: N803 - Java's name
            return []

    builder = TopologyBuilder()
    builder.setSpout("spout", numbers(1), 2).setMaxSpoutPending(5).setMemoryLoad(128.0).setCPULoad(20.0)
    groupings = {
        "shuffle": lambda bolt: bolt.shuffleGrouping("spout"),
        "local": lambda bolt: bolt.localOrShuffleGrouping("spout", "default"),
        "fields": lambda bolt: bolt.fieldsGrouping("spout", "default", Fields("value")),
        "partial": lambda bolt: bolt.partialKeyGrouping("spout", Fields("value")),
        "all": lambda bolt: bolt.allGrouping("spout"),
        "global": lambda bolt: bolt.globalGrouping("spout"),
        "none": lambda bolt: bolt.noneGrouping("spout"),
        "direct": lambda bolt: bolt.directGrouping("spout"),
        "custom": lambda bolt: bolt.customGrouping("spout", "default", Grouping()),
    }
    for id_, subscribe in groupings.items():
        declarer = subscribe(builder.setBolt(id_, Sink()))
        declarer.addConfiguration("my.own", 1).addConfigurations({"x": 2}).setMaxTaskParallelism(3).addResource(
            "gpu", 1
        )

    topology = builder.createTopology()

    assert len(topology.bolts) == len(groupings)
    assert topology.components["custom"].conf["my.own"] == 1


# The user's other classes.


def test_a_custom_grouping_may_use_javas_name(cluster):
    class Last(CustomStreamGrouping):
        def prepare(self, context, stream, targetTasks):  # noqa: N803 - Java's name
            self.targets = targetTasks
            note("stream", (stream.get_componentId(), stream.get_streamId()))

        def chooseTasks(self, taskId, values):  # noqa: N803 - Java's name
            return [self.targets[-1]]

    builder = TopologyBuilder()
    builder.setSpout("spout", numbers(2))
    builder.setBolt("a", Sink(), 3).customGrouping("spout", Last())
    run(cluster, builder.createTopology())

    assert noted("a by task") == [(4, [0]), (4, [1])]
    assert noted("stream") == [("spout", "default")]


def test_a_hook_may_use_javas_names(cluster):
    class JavaHook(TaskHook):
        def boltExecute(self, info):
            note("hook", ("execute", info.executingTaskId))

        def boltAck(self, info):
            note("hook", ("ack", info.getTuple().getValue(0)))

        def spoutAck(self, info):
            note("hook", ("spout ack", info.messageId, info.getSpoutTaskId()))

    class Hooked(Does):
        def prepare(self, conf, context, collector):
            super().prepare(conf, context, collector)
            context.addTaskHook(JavaHook())

    class HookedSpout(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            context.addTaskHook(JavaHook())

    run(cluster, chain(HookedSpout([["x"]]), Hooked(acks)))

    assert noted("hook") == [("ack", "x"), ("execute", 2), ("spout ack", 0, 3)]


def test_a_tick_aware_bolt_may_use_javas_names(cluster):
    class JavaTicks(BaseTickTupleAwareRichBolt):
        def process(self, tup):
            note("calls", "process")

        def onTickTuple(self, tup):
            note("calls", "tick")

    run(cluster, chain(numbers(1), JavaTicks()), {"topology.tick.tuple.freq.secs": 1})
    advance(cluster, 2)

    assert set(noted("calls")) == {"process", "tick"}


class JavaMetric(Metric):
    def getValueAndReset(self):
        return "java"


class JavaConsumer(MetricsConsumer):
    def handleDataPoints(self, taskInfo, dataPoints):  # noqa: N803 - Java's names
        note("points", [(point.getName(), point.value) for point in dataPoints])


def test_metrics_and_consumers_may_use_javas_names(cluster):
    class Measured(Sink):
        def prepare(self, conf, context):
            context.registerMetric("java", JavaMetric(), 1)
            context.registerMetric("count", CountMetric(), 1).incrBy(2)
            note("found", context.getRegisteredMetricByName("count").getValueAndReset())

    conf = Config()
    conf.registerMetricsConsumer(JavaConsumer, 1)
    run(cluster, chain(numbers(0), Measured()), conf)
    advance(cluster, 2)

    assert noted("found") == [2]
    assert noted("points")[0] == [("java", "java"), ("count", 0)]


def test_a_local_cluster_answers_to_javas_names():
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submitTopology("topology", Config(), chain(numbers(1), Sink()))
        cluster.waitUntilIdle()
        cluster.advanceTime(1)
        cluster.deactivate("topology")
        cluster.rebalance("topology")

        assert noted("acked") == [0]
        assert cluster.topologyInfo("topology").getStatus() == "INACTIVE"
