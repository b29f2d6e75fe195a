"""Internal. What all files of a checkpoint have around them: magic, version of the format, checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pystorm_spark.errors import CheckpointError

FORMAT_VERSION = 2  # of all files; other versions, too, end with the checksum
CHECKSUM_BYTES = 16
MAGIC_BYTES = 4
AROUND = MAGIC_BYTES + 1 + CHECKSUM_BYTES


class ForeignError(CheckpointError):
    """A checkpoint is whole, but not for this topology or this version: an older commit of it would be no better."""


def sealed(magic: bytes, pieces: Sequence[bytes]) -> bytes:
    """A file that holds `pieces`."""
    checksum = hashlib.blake2b(digest_size=CHECKSUM_BYTES)
    parts = [magic, bytes([FORMAT_VERSION]), *pieces]
    for part in parts:
        checksum.update(part)
    return b"".join([*parts, checksum.digest()])


def checksum_of(file: bytes) -> bytes:
    """The checksum that a file says it has."""
    return file[-CHECKSUM_BYTES:]


def opened(magic: bytes, file: bytes, path: str) -> memoryview:
    """What was sealed in `file`, which was found at `path`."""
    content = memoryview(file)[:-CHECKSUM_BYTES]
    if len(file) < AROUND:
        raise CheckpointError(f"the checkpoint file {path!r} is damaged: it has {len(file)} bytes only")
    if hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest() != checksum_of(file):
        raise CheckpointError(f"the checkpoint file {path!r} is damaged: its checksum is wrong")
    if content[:MAGIC_BYTES] != magic:
        raise CheckpointError(f"the checkpoint file {path!r} is of another kind than its name says")
    if content[MAGIC_BYTES] != FORMAT_VERSION:
        wrote = "newer" if content[MAGIC_BYTES] > FORMAT_VERSION else "older"
        raise ForeignError(
            f"the checkpoint file {path!r} has format version {content[MAGIC_BYTES]}; this pystorm-spark reads version "
            f"{FORMAT_VERSION}: use the {wrote} one that wrote it"
        )
    return content[MAGIC_BYTES + 1 :]
