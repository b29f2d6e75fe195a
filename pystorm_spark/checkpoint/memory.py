"""Internal. MemoryFiles: files in memory, for a checkpoint that ends with its process."""

from __future__ import annotations

from pystorm_spark.errors import CheckpointError


class MemoryFiles:
    """The same as `PosixFiles`, in memory."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def write(self, name: str, data: bytes) -> None:
        self._files[name] = bytes(data)

    def read(self, name: str) -> bytes:
        try:
            return self._files[name]
        except KeyError:
            raise CheckpointError(f"the checkpoint has no file {name!r}") from None

    def size(self, name: str) -> int:
        return len(self.read(name))

    def names(self) -> list[str]:
        return list(self._files)

    def remove(self, name: str) -> None:
        self._files.pop(name, None)

    def path(self, name: str) -> str:
        return f"memory:{name}"
