"""Internal. Merging parts: which ones are worth it, and doing it."""

from __future__ import annotations

from collections.abc import Sequence

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.part import Part, read_sections, write_part
from pystorm_spark.checkpoint.section import KeyHook, merge_sections, same_bytes

FEWEST = 8  # parts that are worth merging
LARGEST = 2  # times as large as all that is newer


def to_merge(parts: Sequence[Part]) -> slice | None:
    """Which of the parts of one slot, oldest first, are worth merging: some of the newest, or None.

    A part waits until what came after it is half as large. So each time that a change is written again it comes
    into a file at least one and a half times as large, which happens a logarithmic number of times; and parts that wait
    for more are each larger than all that follows, so there are few.
    """
    start = len(parts)
    newer = 0
    while start > 0 and (newer == 0 or parts[start - 1].size <= LARGEST * newer):
        start -= 1
        newer += parts[start].size
    return slice(start, len(parts)) if len(parts) - start >= FEWEST else None


def merge_parts(
    files: Files,
    name: str,
    parts: Sequence[Part],
    is_full: bool,
    key_of: KeyHook = same_bytes,
) -> Part:
    """Write one part that replaces `parts` (oldest first). It is full if the oldest of them holds whole states.

    `key_of` gives equal keys of extension types the same bytes.
    """
    if not is_full and any(part.is_full for part in parts):
        raise ValueError("a merge that includes a full part must be full; pass is_full=True")
    read = read_sections(files, parts, {task for part in parts for task in part.tasks})
    sections = {task: merge_sections(some, is_full, key_of) for task, some in read.items()}
    part = write_part(files, name, sections, is_full)
    crash_point("merge-written")
    return part
