"""The names that a user may import: all that is promised is there, and all that is there is promised."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import pystorm_spark
from pystorm_spark import metrics, testing, topology
from pystorm_spark.cluster.running import TopologyHandle
from pystorm_spark.naming import camel_case

ROOT = Path(pystorm_spark.__file__).parent

PROMISED = {
    "pystorm_spark": """
        Spout BaseRichSpout IRichSpout Bolt BaseRichBolt IRichBolt BasicBolt BaseBasicBolt IBasicBolt
        LambdaSpout LambdaBolt TickAwareBolt BaseTickTupleAwareRichBolt SparkCluster StormSubmitter
        Fields Values Stream Tuple MessageId GlobalStreamId is_tick
        OutputCollector SpoutOutputCollector BasicOutputCollector OutputFieldsDeclarer
        TopologyBuilder SpoutDeclarer BoltDeclarer CustomStreamGrouping Topology TopologyContext Config
        TaskHook EmitInfo SpoutAckInfo SpoutFailInfo BoltExecuteInfo BoltAckInfo BoltFailInfo WorkerHook
        LocalCluster TopologyInfo ComponentInfo ErrorInfo
        StormError InvalidTopologyError InvalidConfigError EmitError SerializationError SlotLostError CheckpointError
        NotAliveError AlreadyAliveError FailedException ReportedFailedException UnknownFieldError
        UnknownIdError
    """,
    "pystorm_spark.errors": """
        StormError InvalidTopologyError InvalidConfigError EmitError SerializationError SlotLostError CheckpointError
        NotAliveError AlreadyAliveError FailedException ReportedFailedException
    """,
    "pystorm_spark.testing": """
        complete_topology read_tuples FeederSpout AckFailTracker FixedTupleSpout CaptureBolt
        make_tuple RecordingCollector Emitted ManualClock CrashOn
    """,
    "pystorm_spark.state": "StatefulBolt BaseStatefulBolt IStatefulBolt KeyValueState",
    "pystorm_spark.windowing": """
        WindowedBolt BaseWindowedBolt IWindowedBolt TupleWindow DetachedTuple Count Duration JoinBolt
        Trigger EveryCount EveryDuration CONTINUE FIRE FIRE_AND_PURGE
    """,
    "pystorm_spark.aggregators": "CombinerAggregator Count Sum LongSum Min Max Mean",
    "pystorm_spark.dataframe": "DataFrameSpout DataFrameSink run_batch",
    "pystorm_spark.repartition": "repartition_state",
}

# Storm's names: each is the class itself, so that `isinstance` and `except` mean the same.
ALIASES = {
    "BaseRichSpout": "Spout",
    "IRichSpout": "Spout",
    "BaseRichBolt": "Bolt",
    "IRichBolt": "Bolt",
    "BaseBasicBolt": "BasicBolt",
    "IBasicBolt": "BasicBolt",
    "BaseTickTupleAwareRichBolt": "TickAwareBolt",
}


def pairs(names):
    return [(module, name) for module, listed in names.items() for name in listed.split()]


def found(module_name, name):
    try:
        return getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize(("module", "name"), pairs(PROMISED))
def test_what_is_promised_can_be_imported(module, name):
    assert found(module, name) is not None


@pytest.mark.parametrize("module", [pystorm_spark, topology, metrics, testing], ids=lambda module: module.__name__)
def test_a_list_of_names_is_sorted_and_true(module):
    assert module.__all__ == sorted(set(module.__all__))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_root_names_all_that_is_promised_of_it():
    assert set(PROMISED["pystorm_spark"].split()) <= set(pystorm_spark.__all__)


@pytest.mark.parametrize("package", [topology, metrics], ids=lambda package: package.__name__)
def test_the_root_has_all_that_its_packages_name(package):
    assert set(package.__all__) <= set(pystorm_spark.__all__)
    assert all(getattr(pystorm_spark, name) is getattr(package, name) for name in package.__all__)


def test_nothing_public_of_the_root_is_left_out_of_its_list():
    members = {name: member for name, member in vars(pystorm_spark).items() if not name.startswith("_")}
    public = {name for name, member in members.items() if not inspect.ismodule(member)}
    lazy = {"SparkCluster", "StormSubmitter", "load_state"}  # imported when they are asked for
    assert public | lazy == set(pystorm_spark.__all__) - {"__version__"}


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_class_itself(alias, name):
    assert getattr(pystorm_spark, alias) is getattr(pystorm_spark, name)


# {method: why it does not have its camelCase name}
EXCEPTIONS = {
    "add_note": "Python's, of every exception",
    "with_traceback": "Python's, of every exception",
    "component_configuration": "Java's name is getComponentConfiguration",
    "on_tick": "Java's name is onTickTuple",
    "as_bolt": "for the builder",
    "dead_rows": "for the engine",
    "has_changed": "for the engine",
    "new_shelf": "for the engine",
    "next_tuples": "for the engine",
    "prepare_commit": "for the engine",
    "post_rollback": "for the engine, of a CommittedBolt",
}


def public_modules():
    """All modules that say what of them is public."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "\n__all__ = " in path.read_text("utf-8")]
    parts = [path.relative_to(ROOT.parent).with_suffix("").parts for path in paths]
    return [importlib.import_module(".".join(part for part in names if part != "__init__")) for names in parts]


def public_classes():
    named = {getattr(module, name) for module in public_modules() for name in module.__all__}
    return sorted({*filter(inspect.isclass, named), TopologyHandle}, key=lambda cls: cls.__name__)


def methods(cls):
    members = {name: inspect.getattr_static(cls, name) for name in dir(cls) if not name.startswith("_")}
    return {
        name for name, member in members.items() if callable(member) or isinstance(member, (classmethod, staticmethod))
    }


@pytest.mark.parametrize("cls", public_classes(), ids=lambda cls: cls.__name__)
def test_every_public_method_has_its_camel_case_name(cls):
    found = methods(cls)
    assert {name for name in found - EXCEPTIONS.keys() if camel_case(name) not in found} == set()


def test_every_exception_is_one():
    classes = {cls: methods(cls) for cls in public_classes()}
    lacking = {name for found in classes.values() for name in found if camel_case(name) not in found}
    assert lacking == EXCEPTIONS.keys()


def test_exceptions_that_java_names_otherwise_have_these_names():
    assert {"getComponentConfiguration", "onTickTuple"} <= methods(pystorm_spark.TickAwareBolt)


def with_examples():
    """The modules whose docstrings hold examples; those on Spark need a session, and are run with it."""
    paths = [path.relative_to(ROOT.parent) for path in sorted(ROOT.rglob("*.py")) if ">>>" in path.read_text("utf-8")]
    return [".".join(path.with_suffix("").parts) for path in paths if path.parts[1] != "spark"]


@pytest.mark.parametrize("module", with_examples())
def test_examples_in_docstrings_do_what_they_show(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_there_are_examples():
    assert {"pystorm_spark.topology.builder", "pystorm_spark.topology.fields"} <= set(with_examples())
