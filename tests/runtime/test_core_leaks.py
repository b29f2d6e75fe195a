"""No function of the compiled core leaks a reference or drops one too many, on success or on error."""

import gc
import sys
from array import array
from functools import partial
from operator import sub

import pytest

from pystorm_spark.core import CORE
from pystorm_spark.runtime.acker import AckEntry
from pystorm_spark.runtime.router import Port
from pystorm_spark.runtime.trees import ROLLED_BACK, UNTRACKED, Branch, Root
from pystorm_spark.topology.tuple import SETTLED, Tuple

from .scenes import RAISING, SCENES, Scenes, made_wrongly
from .twins import compiled_functions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.core,
    pytest.mark.skipif(CORE != "compiled", reason="the compiled core does not run"),
]
ROUNDS = 3
CLEAR_CACHES = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
UNPACKED = {"fill", "rows"}  # Python itself leaks a dict where `zip(*columns, strict=True)` gets no iterable
CALLS = 30  # successful calls in a round
LASTING = [None, True, False, SETTLED, UNTRACKED, ROLLED_BACK, Tuple, Root, Branch, AckEntry]


def changed(objects, call):
    """Measure how a call changes the references to some objects, and all references, or else the blocks of memory.

    A leak or loss shows in every round, noise does not: the result is the smallest change in one direction.
    """
    total = getattr(sys, "gettotalrefcount", sys.getallocatedblocks)
    before, after, least, most = (array("q", [sign * sys.maxsize] * (1 + len(objects))) for sign in (1, 1, 1, -1))
    call()
    for _ in range(ROUNDS):
        _count(before, objects, total)
        call()
        _count(after, objects, total)
        least = array("q", map(min, least, map(sub, after, before)))
        most = array("q", map(max, most, map(sub, after, before)))
    names = ["all", *map(repr, objects)]
    return {name: (less, more) for name, less, more in zip(names, least, most, strict=True) if less > 0 or more < 0}


def _count(counts, objects, total):
    """Write the numbers of references into `counts`, without new memory."""
    gc.collect()
    CLEAR_CACHES()  # caches of attributes keep names alive
    for index, each in enumerate(objects, 1):
        counts[index] = sys.getrefcount(each)
    counts[0] = total()


def make_calls(scenes, scene):
    for _ in range(CALLS):
        call = getattr(scenes, scene)()
        try:
            call.make()
        except Exception:
            assert scene in RAISING
        scenes.tidy()
    may_be = is_iterable if scene in UNPACKED else lambda wrong: True
    for _ in made_wrongly(scenes, scene, may_be):
        pass


def is_iterable(wrong):
    return hasattr(wrong, "__iter__")


@pytest.mark.parametrize("scene", SCENES)
def test_calls_leak_no_references(scene, caplog):
    caplog.set_level("CRITICAL")
    scenes = Scenes()
    lasting = [*LASTING, *getattr(scenes, scene)().objects, scenes.source, scenes.first, scenes.origin]
    scenes.tidy()
    assert not changed(lasting, partial(make_calls, scenes, scene))


def refuse_all():
    """Pass functions and classes to the core that it must refuse."""
    from pystorm_spark import _core

    wrong = [3, refuse_all, type("Port", (), {"__module__": Port.__module__, "__slots__": ("other", "append")}), Scenes]
    for take in (_core.compiled, _core.laid_out):
        for each in wrong:
            with pytest.raises((TypeError, AttributeError)):
                take(each)


def load_all():
    from pystorm_spark import _core

    for _, _, function in compiled_functions():
        wrapped = _core.compiled(function.__wrapped__)
        assert (wrapped.__name__, wrapped.__doc__) == (function.__name__, function.__doc__)
        assert wrapped.__reduce__() == function.__qualname__
    for cls in (Tuple, Root, Port):
        assert _core.laid_out(cls) is cls


@pytest.mark.parametrize("use", [refuse_all, load_all])
def test_decorators_leak_no_references(use):
    assert not changed([Tuple, Root, Port], use)
