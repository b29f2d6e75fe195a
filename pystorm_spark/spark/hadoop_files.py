"""Internal. HadoopFiles: the files of a checkpoint wherever Hadoop reaches (hdfs, s3a, …), for the driver."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.checkpoint.files import OURS, step
from pystorm_spark.errors import CheckpointError

OWNERS_ONLY = 0o700
OTHERS_WRITE = 0o022
PERMISSIONS = "fs.capability.paths.permissions"  # object stores have none, and show all paths as open to everybody


class HadoopFiles:
    """The files of a checkpoint in a folder that a URI names. A file is as durable as one that was closed is there.

    Bytes go through a local file that the JVM copies: through py4j itself they take forty times as long.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._hadoop: Any = spark._jvm.org.apache.hadoop  # type: ignore[union-attr]
        self._uri = folder.rstrip("/")
        with self._told("", "cannot be used"):
            self._folder = self._hadoop.fs.Path(folder)
            self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())
            if not self._system.exists(self._folder):
                mode = self._hadoop.fs.permission.FsPermission(f"{OWNERS_ONLY:o}")
                self._system.mkdirs(self._folder, mode)
            self._refuse_strangers()

    def write(self, name: str, data: bytes) -> None:
        path, temporary = self._path(name), self._path(f"{name}.{secrets.token_hex(4)}.tmp")
        with self._told(name, "cannot be written"), _local_file() as local:
            local.write_bytes(data)
            try:
                self._system.copyFromLocalFile(False, True, self._local(local), temporary)
                crash_point(step(name, "written"))
                if not self._is_renamed(temporary, path):
                    raise CheckpointError(f"the checkpoint {self.path(name)!r} cannot be written: it was not renamed")
            except BaseException:
                self._system.delete(temporary, False)
                raise
        crash_point(step(name, "renamed"))

    def read(self, name: str) -> bytes:
        path = self._path(name)
        with self._told(name, "cannot be read"), _local_file() as local:
            self._system.copyToLocalFile(False, path, self._local(local), True)
            return local.read_bytes()

    def size(self, name: str) -> int:
        path = self._path(name)
        with self._told(name, "cannot be read"):
            return self._system.getFileStatus(path).getLen()

    def names(self) -> list[str]:
        with self._told("", "cannot be read"):
            names = [status.getPath().getName() for status in self._system.listStatus(self._folder)]
            return [name for name in names if OURS.fullmatch(name)]

    def remove(self, name: str) -> None:
        path = self._path(name)
        with self._told(name, "cannot be removed"):
            self._system.delete(path, False)
        crash_point("file-removed")

    def path(self, name: str) -> str:
        return f"{self._uri}/{name}".rstrip("/")

    def _path(self, name: str) -> Any:
        if not OURS.fullmatch(name):
            raise CheckpointError(f"{name!r} is no name of a checkpoint's file, in {self._uri!r}")
        return self._hadoop.fs.Path(self._folder, name)

    def _local(self, path: Path) -> Any:
        return self._hadoop.fs.Path(path.as_uri())

    def _is_renamed(self, temporary: Any, path: Any) -> bool:
        # HDFS does not replace a file. Only a manifest whose commit has failed is ever written again.
        return self._system.rename(temporary, path) or (
            self._system.delete(path, False) and self._system.rename(temporary, path)
        )

    def _refuse_strangers(self) -> None:
        if not self._system.hasPathCapability(self._folder, PERMISSIONS):
            return
        status = self._system.getFileStatus(self._folder)
        owner, mode = status.getOwner(), status.getPermission().toShort()
        user = self._hadoop.security.UserGroupInformation.getCurrentUser().getShortUserName()
        if owner != user:
            problem = f"belongs to the user {owner!r}, not to {user!r}"
        elif mode & OTHERS_WRITE:
            problem = f"can be written by others (its mode is {mode:04o})"
        else:
            return
        raise CheckpointError(
            f"the checkpoint {self._uri!r} {problem}: a state may hold pickled values, which are code, so only what "
            "nobody else can write is read"
        )

    @contextmanager
    def _told(self, name: str, problem: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as exc:
            reason = exc.java_exception.toString()
            raise CheckpointError(f"the checkpoint {self.path(name)!r} {problem}: {reason}") from exc
        except OSError as exc:  # the local file
            raise CheckpointError(f"the checkpoint {self.path(name)!r} {problem}: {exc}") from exc


@contextmanager
def _local_file() -> Iterator[Path]:
    with TemporaryDirectory(prefix="pystorm-spark-") as folder:
        yield Path(folder) / "file"
