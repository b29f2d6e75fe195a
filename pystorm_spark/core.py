"""Internal. The optional compiled core: fast paths in C for functions that are complete in Python, too.

`@compiled` gives a Python function its fast path from `_core.c`; uncommon calls still go through the function.
`@laid_out` gives the compiled core the slot offsets of a class. Both change nothing without the core: when the
installation found no compiler, when the environment sets `PYSTORM_SPARK_PURE=1`, or when the interpreter has no lock.
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
            log.warning("the interpreter runs without its lock (PYTHON_GIL=0), so the compiled core is not used")
    except ModuleNotFoundError:
        pass  # it has not been built
    except ImportError as exc:
        log.warning("the compiled core cannot be loaded and is not used: %s", exc)


def compiled(function: F) -> F:
    """`function` with its fast path in C, if the core is loaded."""
    return _core.compiled(function) if CORE == "compiled" else function


def laid_out(cls: C) -> C:
    """`cls`, after telling the compiled core its slot offsets."""
    return _core.laid_out(cls) if CORE == "compiled" else cls
