"""Internal. Stacks of the threads of this process, to find out why they do not end."""

from __future__ import annotations

import sys
import threading
import traceback


def all_stacks() -> str:
    """The stacks of all threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames)


def stack_of_main() -> str:
    """The stack of user code in the main thread."""
    ident = threading.main_thread().ident
    assert ident is not None
    return "".join(traceback.format_stack(sys._current_frames()[ident])).rstrip()
