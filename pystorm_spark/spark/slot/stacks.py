"""Internal. What the threads of this process are doing, for whoever looks why they do not come to an end."""

from __future__ import annotations

import sys
import threading
import traceback


def all_stacks() -> str:
    """What every thread is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames)


def stack_of_main() -> str:
    """What user code is doing in the main thread."""
    ident = threading.main_thread().ident
    assert ident is not None
    return "".join(traceback.format_stack(sys._current_frames()[ident])).rstrip()
