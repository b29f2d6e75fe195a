"""Who may import whom: the table of CONTRIBUTING.md as data, held against every module of the package."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "pystorm_spark"

BASE = {"errors", "naming"}
MAY_IMPORT = {
    "errors": set(),
    "naming": set(),
    "clock": set(),
    "version": set(),
    "core": {"_core"},
    "metrics": BASE,
    "topology": BASE | {"metrics"},
    "runtime": BASE | {"core", "topology", "metrics", "clock"},
    "checkpoint": BASE | {"topology"},
    "cluster": BASE | {"topology", "metrics"},
    "local": BASE | {"runtime", "checkpoint", "cluster", "topology", "metrics", "clock"},
    "spark": BASE | {"runtime", "checkpoint", "cluster", "state", "topology", "metrics", "clock", "version"},
    "dataframe": BASE | {"spark", "cluster", "topology"},
    "testing": BASE | {"local", "runtime", "cluster", "topology", "metrics", "clock"},
    "state": BASE | {"core", "topology"},
    "repartition": BASE | {"spark", "checkpoint", "runtime", "topology"},
    "aggregators": BASE,
    "windowing": BASE | {"topology", "state", "aggregators"},
}
MAY_IMPORT_ANYTHING = {"__init__"}  # it re-exports the public names

# The rooms of the Spark engine. What stands beside them (`cluster`, `topology`, `run`, …) may import any room.
ROOMS = {
    "errors": set(),
    "protocol": set(),
    "session": {"errors", "protocol"},
    "exchange": {"errors", "protocol", "session"},
    "storage": {"errors", "protocol", "session"},
    # A slot imports `fitting` only where it has a DataFrameSink: that one needs pyspark.
    "slot": {"protocol", "storage.handed_files", "rows.fitting"},
    "driver": {"errors", "protocol", "session", "exchange", "storage"},
    "rows": {"errors", "protocol", "session", "exchange", "storage", "driver", "slot"},
}
# What runs beside an executor, or in Spark's Python workers between two stages, starts without pyspark.
WITHOUT_PYSPARK = ["spark/protocol", "spark/slot", "spark/exchange/visit.py"]

# {library: the one part that may import it}
HOME = {
    "pyspark": "spark",
    "py4j": "spark",
    "numpy": "runtime",
}
AT_HOME_EVERYWHERE = sys.stdlib_module_names | {"pystorm_spark", "cloudpickle", "msgpack"}

# The runtime is pure: what it does depends on what is passed in, so a test can turn it by hand.
KEPT_OUT_OF_RUNTIME = {"asyncio", "multiprocessing", "socket", "subprocess", "tempfile", "threading", "time"}
# It starts no thread, but a user's bolt may emit from a thread of its own.
LET_INTO_RUNTIME = {"threading.Lock", "threading.get_ident"}


def imports(source, package):
    """Full dotted names of all that `source`, a module of `package`, imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            stem = ".".join([*base, node.module] if node.module else base)
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def complaints(source, path):
    """What is wrong with the imports of `source`, which stands at `path` inside the package."""
    part = path.parts[0].removesuffix(".py")
    for name in imports(source, ["pystorm_spark", *path.parent.parts]):
        top, target, *_ = f"{name}.".split(".")
        if top == "pystorm_spark" and not may_import(part, target):
            yield f"{part} may not import {target or 'the root'}"
        if top not in AT_HOME_EVERYWHERE and HOME.get(top) != part:
            yield f"{top} belongs to {HOME.get(top, 'no part of the package')}, not to {part}"
        if part == "spark" and name.startswith("pystorm_spark.spark.") and not may_enter(path.parts[1], name):
            yield f"spark/{path.parts[1]} may not import {name}"
        if top in ("pyspark", "py4j") and is_without_pyspark(path):
            yield f"{path} may not import {top}"
        if part == "runtime" and top in KEPT_OUT_OF_RUNTIME and name not in LET_INTO_RUNTIME:
            yield f"runtime is pure and may not import {name}"


def may_import(part, target):
    return part == target or part in MAY_IMPORT_ANYTHING or target in MAY_IMPORT.get(part, set())


def may_enter(room, name):
    """Whether a module in `room` of the Spark engine may import `name`."""
    room, (target, *rest) = room.removesuffix(".py"), name.split(".")[2:]
    return room not in ROOMS or target == room or bool(ROOMS[room] & {target, ".".join([target, *rest[:1]])})


def is_without_pyspark(path):
    return any(path.is_relative_to(each) for each in WITHOUT_PYSPARK)


def modules():
    return sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=str)
def test_imports_point_down(path):
    found = list(complaints((ROOT / path).read_text(encoding="utf-8"), path))
    assert not found, "; ".join(found)


def test_every_part_of_the_package_has_a_row():
    parts = {path.parts[0].removesuffix(".py") for path in modules()}
    assert parts <= MAY_IMPORT.keys() | MAY_IMPORT_ANYTHING


def test_table_has_no_cycle():
    TopologicalSorter(MAY_IMPORT).prepare()


def test_every_room_of_the_spark_engine_has_a_row():
    rooms = {path.parts[1] for path in modules() if path.parts[0] == "spark" and len(path.parts) > 2}
    assert rooms <= ROOMS.keys()


def test_a_slot_starts_without_pyspark():
    script = """if True:
        import importlib, pkgutil, sys
        from pystorm_spark.spark import exchange, protocol, slot
        for room in (protocol, slot):
            for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
                importlib.import_module(module.name)
        from pystorm_spark.spark.exchange import visit
        print(sorted({"pyspark", "py4j"} & sys.modules.keys()))"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT.parent, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", ["spark", "checkpoint", "runtime"])
def test_the_map_of_a_package_names_every_file_of_it(package):
    told = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    first_cells = " ".join(re.findall(r"^\| (.+?) \|", told, re.MULTILINE))
    paths = {path for path in modules() if path.parts[0] == package and path != Path(package, "__init__.py")}
    files = {path.parent.name if path.stem == "__init__" else path.stem for path in paths}
    assert set(re.findall(r"`(\w+)/?`", first_cells)) <= files <= set(re.findall(r"`(\w+)/?`", told))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/slot.py", "from pystorm_spark.topology.tuple import Tuple"),
        ("runtime/slot.py", "from ..topology import tuple"),
        ("runtime/slot.py", "from .frames import Frame"),
        ("runtime/codec/codec.py", "from ..frames import Frame"),
        ("runtime/slot.py", "from threading import Lock"),
        ("runtime/codec/codec.py", "import msgpack, numpy"),
        ("spark/driver/loop.py", "from pyspark.sql import SparkSession"),
        ("spark/driver/loop.py", "import threading, time"),
        ("__init__.py", "from pystorm_spark.spark.cluster import SparkCluster"),
    ],
)
def test_import_that_points_down_is_let_through(path, source):
    assert list(complaints(source, Path(path))) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("topology/tuple.py", "from pystorm_spark.runtime.slot import Slot", "topology may not import runtime"),
        ("topology/tuple.py", "import pystorm_spark.runtime.slot", "topology may not import runtime"),
        ("topology/tuple.py", "from ..runtime import slot", "topology may not import runtime"),
        ("topology/tuple.py", "from .. import runtime", "topology may not import runtime"),
        ("topology/tuple.py", "def f():\n    from ..local import LocalCluster", "topology may not import local"),
        ("cluster/cluster.py", "from ..local import LocalCluster", "cluster may not import local"),
        ("windowing/bolt.py", "from pystorm_spark.runtime.slot import Slot", "windowing may not import runtime"),
        ("runtime/slot.py", "import pystorm_spark", "runtime may not import the root"),
        ("runtime/slot.py", "from pystorm_spark import Bolt", "runtime may not import Bolt"),
        ("runtime/slot.py", "import time", "runtime is pure and may not import time"),
        ("runtime/slot.py", "from threading import Thread", "runtime is pure and may not import threading.Thread"),
        ("runtime/slot.py", "from pyspark import RDD", "pyspark belongs to spark, not to runtime"),
        ("__init__.py", "import pyspark", "pyspark belongs to spark, not to __init__"),
        ("spark/driver/loop.py", "import requests", "requests belongs to no part of the package, not to spark"),
    ],
)
def test_import_that_points_up_is_caught(path, source, complaint):
    assert list(complaints(source, Path(path))) == [complaint]
