"""Internal. Errors of slots, packed for the driver with their type, their causes and the user's traceback."""

from __future__ import annotations

import traceback
from typing import Any

import cloudpickle

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.task import user_frames

CAUSES = 10  # of one error, at most


class SlotTraceback(Exception):  # noqa: N818 - where an error comes from, not an error
    """The traceback that an error had in its slot; shown before the error itself."""

    def __str__(self) -> str:
        return f"in a slot:\n{self.args[0]}"


def pack_error(error: BaseException) -> list[Any]:
    """`error` and what caused it, outermost first, as the driver can read them."""
    packed: list[Any] = []
    cause: BaseException | None = error
    while cause is not None and len(packed) < CAUSES:
        text = "".join(traceback.format_exception_only(type(cause), cause)).strip()
        packed.append([_pickled(cause), text, _shown(cause)])
        cause = cause.__cause__
    return packed


def unpack_error(packed: list[Any]) -> BaseException:
    """The error that a slot has packed; its innermost cause has the slot's traceback as its cause."""
    cause: BaseException = SlotTraceback(packed[-1][2])
    for pickled, text, _ in reversed(packed):
        error = _unpickled(pickled) or StormError(text)
        error.__cause__ = cause
        cause = error
    return cause


def _pickled(error: BaseException) -> bytes | None:
    try:
        pickled: bytes = cloudpickle.dumps(error)
    except Exception:  # of user code: only the text of the error travels
        return None
    return pickled


def _unpickled(pickled: bytes | None) -> BaseException | None:
    try:
        error = cloudpickle.loads(pickled) if pickled is not None else None
    except Exception:  # the driver may lack its module
        return None
    return error if isinstance(error, BaseException) else None


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, user_frames(error), chain=False))
