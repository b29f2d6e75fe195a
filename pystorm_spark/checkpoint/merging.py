"""Internal. Merging parts: which parts are worth merging, and the merge itself."""

from __future__ import annotations

from collections.abc import Sequence

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.part import Part, read_sections, write_part
from pystorm_spark.checkpoint.section import KeyHook, merge_sections, same_bytes

FEWEST = 8  # parts in one merge
LARGEST = 2  # a part is merged if it is at most this many times as large as all newer ones together


def to_merge(parts: Sequence[Part]) -> slice | None:
    """The parts of one slot that are worth merging, as a slice of `parts` (oldest first); None if there are too few.

    A part is merged once all newer parts together are half as large. So every merge writes a change into a file at
    least one and a half times as large as before, which happens a logarithmic number of times. Every part that is not
    merged is larger than all newer ones together, so few remain.
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
    """Write one part that replaces `parts` (oldest first); pass `is_full` if the oldest of them holds whole states.

    `key_of` decides which keys of extension types are equal.
    """
    if not is_full and any(part.is_full for part in parts):
        raise ValueError("a merge that includes a full part must be full; pass is_full=True")
    read = read_sections(files, parts, {task for part in parts for task in part.tasks})
    sections = {task: merge_sections(some, is_full, key_of) for task, some in read.items()}
    part = write_part(files, name, sections, is_full)
    crash_point("merge-written")
    return part
