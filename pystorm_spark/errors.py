"""The errors of pystorm-spark, one tree:

StormError
├── InvalidTopologyError      the topology cannot be built: a name, a grouping, a number is wrong
├── InvalidConfigError        a configuration value has the wrong type or is out of range
├── EmitError                 an emit that does not fit what was declared, or a settled anchor
├── SerializationError        a value or a component cannot be turned into bytes, or bytes are damaged
├── SlotLostError             a slot died more often than `topology.slot.max.restarts` allows
├── CheckpointError           a checkpoint is damaged, foreign, locked or cannot be written
├── UnknownFieldError         a tuple or a stream has no such field; also a KeyError
├── UnknownIdError            a topology has no such component, stream or task; also a KeyError
├── NotAliveError             no running topology has that name
├── AlreadyAliveError         a running topology has that name already
└── FailedException           raised by users in a basic bolt: fail the input, quietly
    └── ReportedFailedException   the same, and report the error
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable


class StormError(Exception):
    """The root of all errors that pystorm-spark raises on purpose."""


class InvalidTopologyError(StormError):
    """The topology cannot be built: a name, a grouping or a number is wrong."""


class InvalidConfigError(StormError):
    """A configuration value has the wrong type or is out of range."""


class EmitError(StormError):
    """An emit does not fit what was declared, or is anchored to a settled tuple."""


class SerializationError(StormError):
    """A value or a component cannot be turned into bytes, or bytes are damaged."""


class SlotLostError(StormError):
    """A slot died more often than `topology.slot.max.restarts` allows."""


class CheckpointError(StormError):
    """A checkpoint is damaged, foreign, locked or cannot be written."""


class UnknownFieldError(StormError, KeyError):
    """A tuple or a stream has no field of that name."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class UnknownIdError(StormError, KeyError):
    """A topology has no component, stream or task of that id."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class NotAliveError(StormError):
    """No running topology has that name."""


class AlreadyAliveError(StormError):
    """A running topology has that name already."""


class FailedException(StormError):  # noqa: N818 - Storm's name
    """Raised by users in a basic bolt: fail the input tuple, quietly."""


class ReportedFailedException(FailedException):
    """Raised by users in a basic bolt: fail the input tuple and report the error."""


def shown(value: object, spell: Callable[[object], str] = repr) -> str:
    """`repr` or `str` of a user's value, for logs and messages: it never raises."""
    try:
        return spell(value)
    except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
        return f"<{type(value).__name__} whose {spell.__name__} raises {type(exc).__name__}>"


def in_words(error: BaseException) -> str:
    """The type and the text of an exception that user code has raised."""
    return f"{type(error).__name__}: {shown(error, str)}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of an error message: the nearest of `known` names, and all of them."""
    names = sorted(known)
    if not names:
        return "there is none"
    near = difflib.get_close_matches(str(name), names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"{guess}known: {shown}"
