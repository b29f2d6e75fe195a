"""Internal. The envelope of every checkpoint file: a magic number and a format version before it, a checksum after."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pystorm_spark.errors import CheckpointError

FORMAT_VERSION = 2  # of all files; every version ends with the checksum
CHECKSUM_BYTES = 16
MAGIC_BYTES = 4
ENVELOPE_BYTES = MAGIC_BYTES + 1 + CHECKSUM_BYTES


class ForeignError(CheckpointError):
    """A checkpoint file is intact, but of another topology or format version. An older commit would not help."""


def sealed(magic: bytes, pieces: Sequence[bytes]) -> bytes:
    """The bytes of a file that holds `pieces`."""
    checksum = hashlib.blake2b(digest_size=CHECKSUM_BYTES)
    content = [magic, bytes([FORMAT_VERSION]), *pieces]
    for piece in content:
        checksum.update(piece)
    return b"".join([*content, checksum.digest()])


def checksum_of(file: bytes) -> bytes:
    """The checksum stored in a file, which may differ from that of its content."""
    return file[-CHECKSUM_BYTES:]


def opened(magic: bytes, file: bytes, path: str) -> memoryview:
    """The content that `sealed` put into `file`, verified; `path` is for error messages."""
    content = memoryview(file)[:-CHECKSUM_BYTES]
    if len(file) < ENVELOPE_BYTES:
        raise CheckpointError(f"the checkpoint file {path!r} is damaged: it has only {len(file)} bytes")
    if hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest() != checksum_of(file):
        raise CheckpointError(f"the checkpoint file {path!r} is damaged: its checksum is wrong")
    if content[:MAGIC_BYTES] != magic:
        raise CheckpointError(f"the checkpoint file {path!r} is damaged: its content does not match its name")
    if content[MAGIC_BYTES] != FORMAT_VERSION:
        wrote = "newer" if content[MAGIC_BYTES] > FORMAT_VERSION else "older"
        raise ForeignError(
            f"the checkpoint file {path!r} has format version {content[MAGIC_BYTES]}; this pystorm-spark reads version "
            f"{FORMAT_VERSION}: use the {wrote} one that wrote it"
        )
    return content[MAGIC_BYTES + 1 :]
