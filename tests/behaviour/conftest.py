"""The `cluster` fixture of the behaviour tests. Every test that takes it runs on every engine.

A parametrized test runs with all its cases on the local engine, but **only with its first case on Spark**. Mark it
`every_case(reason)`, with a reason from `engine.py`, if all its cases must run on Spark, too. A test marked
`local_only(reason)` does not run on Spark at all.
"""

from pathlib import Path

import cloudpickle
import pytest

from tests.behaviour import probes
from tests.behaviour.engine import ENGINES

HERE = Path(__file__).parent


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.spark] * (name != "local")) for name in ENGINES])
def engine(request):
    """The name of the engine that a test runs on."""
    return request.param


@pytest.fixture
def cluster(engine, request):
    with ENGINES[engine](request) as made:
        yield made


@pytest.fixture(autouse=True)
def without_the_test_module(request):
    """Pickle components of the test module by value: slots start faster without an import of the module and pytest."""
    in_slots = request.node.get_closest_marker("spark") is not None
    if in_slots:
        cloudpickle.register_pickle_by_value(request.module)
    yield
    if in_slots:
        cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(autouse=True)
def fresh_journal():
    probes.forget_all()


@pytest.fixture(autouse=True, scope="session")
def nothing_left_behind():
    yield
    probes.remove_all()


def pytest_collection_modifyitems(items, config):
    """Deselect Spark runs of tests marked `local_only`, and of all cases but the first without `every_case`.

    Usually the cases differ only in what the runtime does, and all engines share the runtime. A case on Spark takes
    about a second.
    """
    seen, left_out = set(), set()
    for item in items:
        engine = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
        if engine in (None, "local") or not item.path.is_relative_to(HERE):
            continue
        test = (engine, item.path, item.originalname)
        is_repeated = test in seen and not item.get_closest_marker("every_case")
        if is_repeated or item.get_closest_marker("local_only"):
            left_out.add(item)
        seen.add(test)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
