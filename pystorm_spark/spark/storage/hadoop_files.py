"""Internal. HadoopFiles: the files of a checkpoint on any file system that Hadoop supports, for the driver."""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.checkpoint.files import OUR_FILES, PARENTS, step
from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder


class HadoopFiles:
    """The same as `PosixFiles`, in a `HadoopFolder`, which is created if it is missing."""

    def __init__(self, folder: HadoopFolder) -> None:
        self._folder = folder
        folder.make()
        folder.refuse_writable_by_others()
        folder.refuse_writable_parents(PARENTS)

    def write(self, name: str, data: bytes) -> None:
        with self._folder.as_checkpoint_error(name, "cannot be written"), self._folder.local_file() as local:
            local.write_bytes(data)
            self.put(local, name)

    def put(self, local: Path, name: str) -> None:
        """Write the content of a local file."""
        temporary = f"{self._checked(name)}.{secrets.token_hex(4)}.tmp"
        if not self._folder.has():  # Hadoop would create a new, empty one
            raise CheckpointError(f"the checkpoint {self.path(name)!r} cannot be written: its folder is missing")
        try:
            self._folder.put(local, temporary)
            crash_point(step(name, "written"))
            if not self._is_renamed(temporary, name):
                raise CheckpointError(f"the checkpoint {self.path(name)!r} cannot be written: the rename failed")
        except BaseException:
            with suppress(CheckpointError):
                self._folder.remove(temporary)
            raise
        crash_point(step(name, "renamed"))

    def read(self, name: str) -> bytes:
        with self._folder.as_checkpoint_error(name, "cannot be read"), self._folder.local_file() as local:
            self.get(name, local)
            return local.read_bytes()

    def get(self, name: str, local: Path) -> None:
        """Read into a local file."""
        self._folder.refuse_writable_by_others(self._checked(name))
        self._folder.get(name, local)

    def size(self, name: str) -> int:
        return self._folder.size(self._checked(name))

    def names(self) -> list[str]:
        return [name for name in self._folder.names() if OUR_FILES.fullmatch(name)]

    def remove(self, name: str) -> None:
        self._folder.remove(self._checked(name))
        crash_point("file-removed")

    def path(self, name: str) -> str:
        return self._folder.path(name)

    def local_file(self) -> AbstractContextManager[Path]:
        """A local file to write from, or to read into."""
        return self._folder.local_file()

    def _checked(self, name: str) -> str:
        if not OUR_FILES.fullmatch(name):
            raise CheckpointError(f"{name!r} is not the name of a checkpoint file, in {self.path('')!r}")
        return name

    def _is_renamed(self, temporary: str, name: str) -> bool:
        if self._folder.rename(temporary, name):
            return True
        # HDFS and S3A do not replace files. Only the manifest of a failed commit is ever written again.
        self._folder.remove(name)
        return self._folder.rename(temporary, name)
