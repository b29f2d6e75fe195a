"""Internal. NumPy's scalars and arrays as extension types."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.extension import Ext, Unpack

if TYPE_CHECKING:
    from pystorm_spark.runtime.codec.values import Lowering


def _numpy() -> Any:
    """NumPy, imported only once a value needs it; untyped, as its stubs are for newer Pythons than ours."""
    return importlib.import_module("numpy")


def lower_numpy(lower: Lowering, value: Any, depth: int) -> object:
    """A NumPy value as an extension type, or pickled if its dtype has no description."""
    np = _numpy()
    kind = type(value)
    if kind in (np.str_, np.bytes_):  # an array, or NumPy's own `str()`, would drop the NULs at their ends
        return lower.extension(Ext.NUMPY_TEXT, str.__str__(value) if kind is np.str_ else bytes(value))
    array = np.asarray(value)
    description = _described(array.dtype)
    if description is None or kind not in (np.ndarray, array.dtype.type):
        return lower.pickled(value)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    code = Ext.NUMPY_ARRAY if kind is np.ndarray else Ext.NUMPY_SCALAR
    return lower.extension(code, [description, list(array.shape), order, array.tobytes(order)])


def restore_array(unpack: Unpack, data: bytes) -> Any:
    """The array of a `NUMPY_ARRAY` or a `NUMPY_SCALAR`."""
    np = _numpy()
    description, shape, order, raw = unpack(data)
    array = np.ndarray(shape, _dtype(description), bytearray(raw), order=order)
    if array.nbytes != len(raw):
        raise SerializationError(f"an array of {array.nbytes} bytes came with {len(raw)}")
    return array


def restore_numpy_text(unpack: Unpack, data: bytes) -> object:
    """The scalar of a `NUMPY_TEXT`."""
    np = _numpy()
    text = unpack(data)
    return np.str_(text) if isinstance(text, str) else np.bytes_(text)


def _described(dtype: Any) -> object:
    """The description from which `_dtype` rebuilds `dtype`: a name, `[base, shape]` or fields; None if impossible."""
    if dtype.hasobject or dtype.metadata:
        return None
    candidates = [dtype.str, dtype.str[0] + dtype.char]  # the second for the twins of one size: long and long long
    if dtype.subdtype is not None:
        candidates = [[_described(dtype.subdtype[0]), list(dtype.subdtype[1])]]
    elif dtype.names is not None:
        candidates = [_described_fields(dtype)]
    for candidate in candidates:
        with suppress(TypeError, ValueError):
            if _is_same_dtype(_dtype(candidate), dtype):
                return candidate
    return None


def _described_fields(dtype: Any) -> dict[str, object]:
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_described(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _dtype(description: Any) -> Any:
    np = _numpy()
    if isinstance(description, str):
        return np.dtype(description)
    if isinstance(description, list):
        base, shape = description
        return np.dtype((_dtype(base), tuple(shape)))
    return np.dtype({**description, "formats": [_dtype(item) for item in description["formats"]]})


def _is_same_dtype(one: Any, other: Any) -> bool:
    return (
        one == other
        and one.type is other.type
        and one.char == other.char
        and one.isalignedstruct == other.isalignedstruct
    )
