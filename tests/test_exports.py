"""The names that a user may import: all that is promised is there, and all that is there is promised."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import pystorm_spark
from pystorm_spark import metrics, testing, topology

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


def with_examples():
    """The modules whose docstrings hold examples; those on Spark need a session, and are run with it."""
    paths = [path.relative_to(ROOT.parent) for path in sorted(ROOT.rglob("*.py")) if ">>>" in path.read_text("utf-8")]
    return [".".join(path.with_suffix("").parts) for path in paths if path.parts[1] != "spark"]


@pytest.mark.parametrize("module", with_examples())
def test_examples_in_docstrings_do_what_they_show(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_there_are_examples():
    assert {"pystorm_spark.topology.builder", "pystorm_spark.topology.fields"} <= set(with_examples())
