"""Internal. HadoopFolder: a folder on any Hadoop file system (hdfs, s3a, file, …), through the driver's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.errors import SparkError, translated

FOLDER_MODE, FILE_MODE = "700", "600"
OTHERS_WRITE, STICKY = 0o022, 0o1000
ONLY_OURS = (
    "a state may hold pickled values, which are code, so pystorm-spark reads only files that nobody else can write"
)
PERMISSIONS = "fs.capability.paths.permissions"  # object stores lack it, and show all paths as writable by everybody

ONLY_NEW = (
    "fs.option.create.conditional.overwrite"  # of S3A since Hadoop 3.4.2; without it the last of two writers wins
)


def file_uri(path: Path) -> str:
    """The URI of a local path for Spark and Hadoop. They decode no escapes, so it has none."""
    return f"file://{path.absolute()}"


class HadoopFolder:
    """The files of the folder `uri`. Errors are `CheckpointError`s that name the path.

    Large files are copied by the JVM from and to a local file in `spool`: through Py4J they take forty times as long.
    """

    def __init__(self, spark: SparkSession, uri: str, spool: Path | None = None) -> None:
        self.uri = uri.rstrip("/")
        self._spark = spark
        self._spool = spool
        self._hadoop: Any = spark._jvm.org.apache.hadoop  # type: ignore[union-attr]  # there is a JVM
        with self.as_checkpoint_error("", "cannot be used"):
            self._folder = self._hadoop.fs.Path(uri)
            self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def __truediv__(self, name: str) -> HadoopFolder:
        return HadoopFolder(self._spark, self.path(name), self._spool)

    def make(self) -> None:
        """Create the folder, for its owner only, if it is missing."""
        with self.as_checkpoint_error("", "cannot be used"):
            if self._system.exists(self._folder) or self._system.mkdirs(self._folder, self._permission(FOLDER_MODE)):
                return
        raise CheckpointError(f"the checkpoint {self.uri!r} cannot be used: the folder cannot be created")

    def path(self, name: str) -> str:
        return f"{self.uri}/{name}".rstrip("/")

    def local_path(self) -> Path | None:
        """The local path of the folder; None if it is not on the file system of this machine."""
        with self.as_checkpoint_error("", "cannot be used"):
            uri = self._system.makeQualified(self._folder).toUri()
            return Path(uri.getPath()) if uri.getScheme() == "file" else None

    def put(self, local: Path, name: str) -> None:
        """Copy a local file into the folder, replacing `name`. It is as durable as any closed file there."""
        with self.as_checkpoint_error(name, "cannot be written"):
            path = self._path(name)
            self._system.copyFromLocalFile(False, True, self._local(local), path)
            if self._has_owners():
                self._system.setPermission(path, self._permission(FILE_MODE))

    def get(self, name: str, local: Path) -> None:
        """Copy a file to a local one."""
        with self.as_checkpoint_error(name, "cannot be read"):
            self._system.copyToLocalFile(False, self._path(name), self._local(local), True)

    def read(self, name: str) -> bytes:
        """The content of a small file."""
        with self.as_checkpoint_error(name, "cannot be read"):
            stream = self._system.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create(self, name: str, data: bytes, replace: bool) -> bool:
        """Write a small file. Without `replace` it must be new; False if it exists."""
        path = self._path(name)
        with self.as_checkpoint_error(name, "cannot be written"):
            try:
                with translated(kind=SparkError):
                    stream = self._system.create(path, True) if replace else self._new(path)
            except SparkError:
                if replace or not self._system.exists(path):
                    raise
                return False
            try:
                with translated(kind=SparkError), closing(stream):
                    stream.write(bytearray(data))
            except SparkError:
                found = b"" if replace or not self._system.exists(path) else self.read(name)
                if not found:
                    raise
                return (
                    found == data
                )  # S3 checks at close. After a lost answer a retry finds the file: ours if it is equal
            return True

    def rename(self, old: str, new: str) -> bool:
        """Rename a file; False if `new` exists and the file system does not replace files."""
        with self.as_checkpoint_error(new, "cannot be written"):
            try:
                with translated(kind=SparkError):
                    return bool(self._system.rename(self._path(old), self._path(new)))
            except SparkError:  # S3A raises where HDFS returns False
                if not self._system.exists(self._path(new)):
                    raise
                return False

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with self.as_checkpoint_error(name, "cannot be removed"):
            self._system.delete(self._path(name), False)

    def remove_all(self) -> None:
        """Remove the folder and its content if it exists."""
        with self.as_checkpoint_error("", "cannot be removed"):
            self._system.delete(self._folder, True)

    def has(self, name: str = "") -> bool:
        """Whether a file exists; without a name, whether the folder does."""
        with self.as_checkpoint_error(name, "cannot be read"):
            return bool(self._system.exists(self._path(name) if name else self._folder))

    def size(self, name: str) -> int:
        with self.as_checkpoint_error(name, "cannot be read"):
            return int(self._system.getFileStatus(self._path(name)).getLen())

    def names(self, folders: bool = False) -> list[str]:
        """The names of the files, or of the folders; empty if this folder is missing."""
        with self.as_checkpoint_error("", "cannot be read"):
            found = self._system.listStatus(self._folder) if self._system.exists(self._folder) else ()
            return [status.getPath().getName() for status in found if status.isDirectory() == folders]

    def refuse_writable_by_others(self, name: str = "") -> None:
        """Refuse a file, or the folder, that another user could have written, if the file system has owners."""
        with self.as_checkpoint_error(name, "cannot be read"):
            if not self._has_owners():
                return
            status = self._system.getFileStatus(self._path(name) if name else self._folder)
            owner, mode = status.getOwner(), status.getPermission().toShort()
            user = self._hadoop.security.UserGroupInformation.getCurrentUser().getShortUserName()
        if owner != user:
            problem = f"belongs to the user {owner!r}, not to {user!r}"
        elif mode & OTHERS_WRITE:
            problem = f"can be written by others (its mode is {mode:04o})"
        else:
            return
        raise CheckpointError(f"the checkpoint {self.path(name)!r} {problem}: {ONLY_OURS}")

    def refuse_writable_parents(self, levels: int) -> None:
        """Refuse parent folders, up to so many levels, in which another user could have swapped a folder."""
        path = self._folder
        for _ in range(levels):
            with self.as_checkpoint_error("", "cannot be read"):
                path = path.getParent()
                if path is None or not self._has_owners():
                    return
                mode = self._system.getFileStatus(path).getPermission().toShort()
            if mode & OTHERS_WRITE and not mode & STICKY:
                shown = f"the checkpoint {path.toString()!r} can be written by others (its mode is {mode:04o})"
                raise CheckpointError(f"{shown}: {ONLY_OURS}")

    @contextmanager
    def local_file(self) -> Iterator[Path]:
        """A new local file, to copy from or to."""
        with TemporaryDirectory(prefix="pystorm-file-", dir=self._spool) as folder:
            yield Path(folder) / "file"

    @contextmanager
    def as_checkpoint_error(self, name: str, problem: str) -> Iterator[None]:
        """Raise errors of Spark, Py4J and the system as a `CheckpointError` that names the file and `problem`."""
        told = f"the checkpoint {self.path(name)!r} {problem}"
        try:
            with translated(told, CheckpointError):
                yield
        except OSError as exc:  # from the local file, or because the JVM has ended
            raise CheckpointError(f"{told}: {exc}") from exc

    def _new(self, path: Any) -> Any:
        """A stream to a new file; raises if the file exists."""
        if not self._system.hasPathCapability(path, ONLY_NEW):
            return self._system.create(path, False)
        return self._system.createFile(path).overwrite(False).recursive().opt(ONLY_NEW, True).build()

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(self._folder, name)

    def _local(self, path: Path) -> Any:
        return self._hadoop.fs.Path(file_uri(path))

    def _permission(self, mode: str) -> Any:
        return self._hadoop.fs.permission.FsPermission(mode)

    def _has_owners(self) -> bool:
        return bool(self._system.hasPathCapability(self._folder, PERMISSIONS))
