"""Internal. The compiled core, where it is there: short ways in C for functions that are all there in Python, too.

`@compiled` gives a Python function its short way, out of `_core.c`; calls that are not common still go through the
function. `@laid_out` tells the compiled core where the slots of a class are. Both change nothing where it is missing
because no compiler was found at the installation, where the environment says `PYSTORM_SPARK_PURE=1`, or where the
interpreter runs without its lock.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

log = logging.getLogger(__name__)

CORE = "pure"
if os.environ.get("PYSTORM_SPARK_PURE", "0") in ("", "0"):
    try:
        import pystorm_spark._core as _core

        if getattr(sys, "_is_gil_enabled", lambda: True)():
            CORE = "compiled"
        else:
            log.warning("the interpreter runs without its lock (PYTHON_GIL=0), so Python alone runs, without the core")
    except ModuleNotFoundError:
        pass  # it has not been built
    except ImportError as exc:
        log.warning("the compiled core cannot be loaded, so Python alone runs: %s", exc)


def compiled(function: F) -> F:
    """`function` with its short way in C."""
    return _core.compiled(function) if CORE == "compiled" else function


def laid_out(cls: C) -> C:
    """`cls`, whose slots the compiled core may then read and write."""
    return _core.laid_out(cls) if CORE == "compiled" else cls
