"""Internal. Values without an extension type: packed by cloudpickle, or refused."""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from typing import Any, ClassVar

import cloudpickle
from msgpack import ExtType

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.extension import Ext, Unpack, extension, type_name

CLASS_BY_VALUE = b"_make_skeleton_"  # cloudpickle's function that rebuilds a class pickled by value
FORBIDDEN = "`topology.fall.back.on.pickle: false` forbids"


class CloudPickling:
    """Pickles values without an extension type. Classes of `__main__` and local classes are pickled by value."""

    def dump(self, value: object) -> ExtType:
        buffer = io.BytesIO()
        try:
            _ValuePickler(buffer).dump(value)
        except Exception as error:
            raise SerializationError(f"a {type_name(type(value))} cannot be pickled: {error}") from error
        return extension(Ext.PICKLE, buffer.getvalue())

    def load(self, unpack: Unpack, data: bytes) -> object:
        return pickle.loads(data)


class NoPickling:
    """Refuses values without an extension type."""

    def dump(self, value: object) -> ExtType:
        raise SerializationError(f"a {type_name(type(value))} travels only by pickle, which {FORBIDDEN}")

    def load(self, unpack: Unpack, data: bytes) -> object:
        raise SerializationError(f"a value arrived by pickle, which {FORBIDDEN}")


def _refuse_file(file: io.TextIOWrapper) -> object:
    raise pickle.PicklingError("an open file belongs to its process")


def _reduce_memoryview(view: memoryview) -> tuple[Callable[..., memoryview], tuple[object, ...]]:
    data = view.tobytes() if view.readonly else bytearray(view.tobytes())
    state = (data, view.format, view.shape)
    _restore_memoryview(*state)  # a format that cannot be restored is refused here, not at the receiver
    return _restore_memoryview, state


def _restore_memoryview(data: bytes | bytearray, form: Any, shape: Any) -> memoryview:
    flat = memoryview(data)
    return flat.cast(form) if len(shape) == 1 else flat.cast(form, shape)


class _ValuePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle, but without its packing of open files as text and of memoryviews as bytes."""

    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap(
        {io.TextIOWrapper: _refuse_file, memoryview: _reduce_memoryview}, cloudpickle.Pickler.dispatch_table
    )
