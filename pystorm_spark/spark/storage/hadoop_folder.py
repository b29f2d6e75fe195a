"""Internal. HadoopFolder: a folder wherever Hadoop reaches (hdfs, s3a, file, …), through the driver's JVM."""

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
ONLY_OURS = "a state may hold pickled values, which are code, so only what nobody else can write is read"
PERMISSIONS = "fs.capability.paths.permissions"  # object stores have none, and show all paths as open to everybody

ONLY_NEW = "fs.option.create.conditional.overwrite"  # S3A's, since Hadoop 3.4.2: without it the last of two wins


def file_uri(path: Path) -> str:
    """What Spark and Hadoop call a path of this machine: they decode nothing in it, so nothing is encoded."""
    return f"file://{path.absolute()}"


class HadoopFolder:
    """The files of one folder that a URI names. What goes wrong is a `CheckpointError` that names the path.

    Bytes go through a local file in `spool` that the JVM copies: through py4j itself they take forty times as long.
    """

    def __init__(self, spark: SparkSession, uri: str, spool: Path | None = None) -> None:
        self.uri = uri.rstrip("/")
        self._spark = spark
        self._spool = spool
        self._hadoop: Any = spark._jvm.org.apache.hadoop  # type: ignore[union-attr]
        with self.told("", "cannot be used"):
            self._folder = self._hadoop.fs.Path(uri)
            self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def __truediv__(self, name: str) -> HadoopFolder:
        return HadoopFolder(self._spark, self.path(name), self._spool)

    def make(self) -> None:
        """Make the folder, for its owner only, if it is missing."""
        with self.told("", "cannot be used"):
            if self._system.exists(self._folder) or self._system.mkdirs(self._folder, self._permission(FOLDER_MODE)):
                return
        raise CheckpointError(f"the checkpoint {self.uri!r} cannot be used: the folder cannot be made")

    def path(self, name: str) -> str:
        return f"{self.uri}/{name}".rstrip("/")

    def local_path(self) -> Path | None:
        """What this machine calls the folder, if it is on its own file system."""
        with self.told("", "cannot be used"):
            uri = self._system.makeQualified(self._folder).toUri()
            return Path(uri.getPath()) if uri.getScheme() == "file" else None

    def put(self, local: Path, name: str) -> None:
        """Copy a local file to here, in place of what may be there. It is durable as far as a closed file is."""
        with self.told(name, "cannot be written"):
            path = self._path(name)
            self._system.copyFromLocalFile(False, True, self._local(local), path)
            if self._has_owners():
                self._system.setPermission(path, self._permission(FILE_MODE))

    def get(self, name: str, local: Path) -> None:
        """Copy a file to a local one."""
        with self.told(name, "cannot be read"):
            self._system.copyToLocalFile(False, self._path(name), self._local(local), True)

    def read(self, name: str) -> bytes:
        """What a small file holds."""
        with self.told(name, "cannot be read"):
            stream = self._system.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create(self, name: str, data: bytes, replace: bool) -> bool:
        """Make a small file; False if it is there and shall not be replaced."""
        path = self._path(name)
        with self.told(name, "cannot be written"):
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
                return found == data  # S3 decides at the end. If its answer was lost, the next one is that it is there
            return True

    def rename(self, old: str, new: str) -> bool:
        """Give a file another name; False if that is taken, where a file is not replaced."""
        with self.told(new, "cannot be written"):
            try:
                with translated(kind=SparkError):
                    return bool(self._system.rename(self._path(old), self._path(new)))
            except SparkError:  # S3A does not say no, as HDFS does
                if not self._system.exists(self._path(new)):
                    raise
                return False

    def remove(self, name: str) -> None:
        """Remove a file, which may be gone already."""
        with self.told(name, "cannot be removed"):
            self._system.delete(self._path(name), False)

    def remove_all(self) -> None:
        """Remove the folder with all that is in it; it may be gone already."""
        with self.told("", "cannot be removed"):
            self._system.delete(self._folder, True)

    def has(self, name: str = "") -> bool:
        """Whether a file is here; without a name, whether the folder itself is."""
        with self.told(name, "cannot be read"):
            return bool(self._system.exists(self._path(name) if name else self._folder))

    def size(self, name: str) -> int:
        with self.told(name, "cannot be read"):
            return int(self._system.getFileStatus(self._path(name)).getLen())

    def names(self, folders: bool = False) -> list[str]:
        """The files that are here, or the folders; none where this folder is missing."""
        with self.told("", "cannot be read"):
            found = self._system.listStatus(self._folder) if self._system.exists(self._folder) else ()
            return [status.getPath().getName() for status in found if status.isDirectory() == folders]

    def refuse_strangers(self, name: str = "") -> None:
        """Refuse what another user could have written, where the file system knows of users."""
        with self.told(name, "cannot be read"):
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

    def refuse_strangers_above(self, levels: int) -> None:
        """Refuse a folder in whose place others could have put theirs, as many levels up."""
        path = self._folder
        for _ in range(levels):
            with self.told("", "cannot be read"):
                path = path.getParent()
                if path is None or not self._has_owners():
                    return
                mode = self._system.getFileStatus(path).getPermission().toShort()
            if mode & OTHERS_WRITE and not mode & STICKY:
                shown = f"the checkpoint {path.toString()!r} can be written by others (its mode is {mode:04o})"
                raise CheckpointError(f"{shown}: {ONLY_OURS}")

    @contextmanager
    def local_file(self) -> Iterator[Path]:
        """A local file of one's own, to copy from or to."""
        with TemporaryDirectory(prefix="pystorm-file-", dir=self._spool) as folder:
            yield Path(folder) / "file"

    @contextmanager
    def told(self, name: str, problem: str) -> Iterator[None]:
        """Raise whatever goes wrong with a file as a `CheckpointError`."""
        told = f"the checkpoint {self.path(name)!r} {problem}"
        try:
            with translated(told, CheckpointError):
                yield
        except OSError as exc:  # of the local file, or because the JVM is gone
            raise CheckpointError(f"{told}: {exc}") from exc

    def _new(self, path: Any) -> Any:
        """A stream into a file that is made only if there is none."""
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
