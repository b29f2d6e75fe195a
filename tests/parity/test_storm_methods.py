"""Every public method of Storm's API is here under its own name, or a reason is written down.

`storm_methods.json` lists the methods of Storm's classes, without those of java.lang.Object. Overloads count as one
method: the tests of a method cover its forms.
"""

import json
from pathlib import Path

import pytest

import pystorm_spark
from pystorm_spark import windowing

STORM = json.loads(Path(__file__).with_name("storm_methods.json").read_text(encoding="utf-8"))

# {Storm's class: ours}, where the names differ.
OURS = {
    "LambdaBiConsumerBolt": "LambdaBolt",
    "LambdaConsumerBolt": "LambdaBolt",
    "ITaskHook": "TaskHook",
    "IWorkerHook": "WorkerHook",
    "IMetric": "Metric",
    "IReducer": "Reducer",
    "IMetricsConsumer": "MetricsConsumer",
}

LIST = "Values is a Python list: "
SHARED_MEMORY = "a hint for Storm's scheduler about memory that tasks share; Python processes share none"

# {Storm's class: {method: why it is not here}}
EXCLUDED = {
    "Tuple": {"getContext": "a tuple does not hold the context of its task; the bolt is given it in prepare"},
    "Fields": {"iterator": "fields can be iterated"},
    "Values": {
        "addAll": f"{LIST}extend",
        "contains": f"{LIST}in",
        "indexOf": f"{LIST}index",
        "isEmpty": f"{LIST}not values",
        "iterator": f"{LIST}it can be iterated",
        "set": f"{LIST}values[index] = value",
        "subList": f"{LIST}values[start:end]",
        "toArray": f"{LIST}list(values)",
    },
    "MessageId": {
        "generateId": "ids are drawn by the engine",
        "serialize": "for Storm's own wire format",
        "deserialize": "for Storm's own wire format",
    },
    "TopologyBuilder": {"setStateSpout": "does nothing in Storm either"},
    "SpoutDeclarer": {"addSharedMemory": SHARED_MEMORY},
    "BoltDeclarer": {"addSharedMemory": SHARED_MEMORY},
    "TopologyContext": {
        "getComponentCommon": "a Thrift structure; raw_topology.components[id] tells the same",
        "doSanityCheck": "arity is always checked",
        "getCodeDir": "no code is unpacked to a directory",
        "getPIDDir": "there is no supervisor that would end child processes",
        "getResource": "a worker hook has no context to put resources into; modules are shared by a slot's tasks",
        "getAssignmentId": "names a host of Storm's scheduler; there is none",
        "getTaskToNodePort": "names hosts and ports of Storm's workers; slots have none",
        "getNodeToHost": "names hosts of Storm's workers; slots have none",
        "registerMetricSet": "takes a class of a Java library; register the metrics one by one",
        "getBlobToLastKnownVersion": "there is no blob store",
        "setSubscribedState": "throws in Storm too",
        "setAllSubscribedState": "throws in Storm too",
    },
    "LocalCluster": {
        "submitTopologyWithOpts": "submit_topology(..., active=False) has the one option that matters",
        "uploadNewCredentials": "there are no credentials",
        "killTopologyWithOpts": "kill_topology(name, wait_secs)",
        "getTopologyConf": "topology_info(name).conf",
        "getTopology": "the caller of submit_topology has it",
        "getClusterInfo": "list_topologies()",
        "getTopologySummaries": "list_topologies()",
        "getTopologySummaryByName": "topology_info(name)",
        "getTopologySummaryById": "topologies are asked for by name",
        "getClusterState": "there is no ZooKeeper",
        "getTrackedId": "there are no tracked topologies; wait_until_idle does what they are for",
    },
}


def ours(storm_class):
    name = OURS.get(storm_class, storm_class)
    return getattr(pystorm_spark if hasattr(pystorm_spark, name) else windowing, name)


@pytest.mark.parametrize("storm_class", STORM)
def test_every_method_exists_or_has_a_reason(storm_class):
    methods = {name for name in STORM[storm_class] if callable(getattr(ours(storm_class), name, None))}
    missing = set(STORM[storm_class]) - methods - EXCLUDED.get(storm_class, {}).keys()
    assert not missing


@pytest.mark.parametrize("storm_class", EXCLUDED)
def test_no_excluded_method_exists(storm_class):
    assert [name for name in EXCLUDED[storm_class] if hasattr(ours(storm_class), name)] == []


@pytest.mark.parametrize("storm_class", EXCLUDED)
def test_every_excluded_method_is_one_of_storms(storm_class):
    assert EXCLUDED[storm_class].keys() <= set(STORM[storm_class])


def test_no_method_is_listed_twice():
    assert [name for name, methods in STORM.items() if len(set(methods)) != len(methods)] == []
