"""Internal. HadoopFiles: the files of a checkpoint wherever Hadoop reaches, for the driver."""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.checkpoint.files import ABOVE, OURS, step
from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder


class HadoopFiles:
    """What `PosixFiles` is, in a folder that Hadoop reaches, which is made if it is missing."""

    def __init__(self, folder: HadoopFolder) -> None:
        self._folder = folder
        folder.make()
        folder.refuse_strangers()
        folder.refuse_strangers_above(ABOVE)

    def write(self, name: str, data: bytes) -> None:
        with self._folder.told(name, "cannot be written"), self._folder.local_file() as local:
            local.write_bytes(data)
            self.put(local, name)

    def put(self, local: Path, name: str) -> None:
        """Write what a local file holds."""
        temporary = f"{self._checked(name)}.{secrets.token_hex(4)}.tmp"
        if not self._folder.has():  # Hadoop would make it anew, without what was in it
            raise CheckpointError(f"the checkpoint {self.path(name)!r} cannot be written: its folder is gone")
        try:
            self._folder.put(local, temporary)
            crash_point(step(name, "written"))
            if not self._is_renamed(temporary, name):
                raise CheckpointError(f"the checkpoint {self.path(name)!r} cannot be written: it was not renamed")
        except BaseException:
            with suppress(CheckpointError):
                self._folder.remove(temporary)
            raise
        crash_point(step(name, "renamed"))

    def read(self, name: str) -> bytes:
        with self._folder.told(name, "cannot be read"), self._folder.local_file() as local:
            self.get(name, local)
            return local.read_bytes()

    def get(self, name: str, local: Path) -> None:
        """Read into a local file."""
        self._folder.refuse_strangers(self._checked(name))
        self._folder.get(name, local)

    def size(self, name: str) -> int:
        return self._folder.size(self._checked(name))

    def names(self) -> list[str]:
        return [name for name in self._folder.names() if OURS.fullmatch(name)]

    def remove(self, name: str) -> None:
        self._folder.remove(self._checked(name))
        crash_point("file-removed")

    def path(self, name: str) -> str:
        return self._folder.path(name)

    def local_file(self) -> AbstractContextManager[Path]:
        """A local file to write from, or to read into."""
        return self._folder.local_file()

    def _checked(self, name: str) -> str:
        if not OURS.fullmatch(name):
            raise CheckpointError(f"{name!r} is no name of a checkpoint's file, in {self.path('')!r}")
        return name

    def _is_renamed(self, temporary: str, name: str) -> bool:
        if self._folder.rename(temporary, name):
            return True
        # HDFS and S3A do not replace a file. Only a manifest whose commit has failed is ever written again.
        self._folder.remove(name)
        return self._folder.rename(temporary, name)
