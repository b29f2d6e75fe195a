"""Crashes as exceptions, for tests with too many crashes for a process each."""

from contextlib import contextmanager

from pystorm_spark.checkpoint.crash_points import Crashes, arm


class CrashedError(BaseException):
    """Stands for the end of a process."""


class RaisedCrashes(Crashes):
    """Raises where others end the process."""

    is_over = False

    def reach(self, name):
        self.reached[name] += 1
        if (name, self.reached[name]) in self._points:
            self.is_over = True
            raise CrashedError

    def refused_when_over(self, remove):
        """`remove`, which cleans up after an exception, and not after the end of a process."""

        def removed(*args):
            if self.is_over:
                raise CrashedError
            remove(*args)

        return removed

    def points(self):
        """All that were reached."""
        return [f"{name}:{hit}" for name, hits in self.reached.items() for hit in range(1, hits + 1)]


@contextmanager
def crashed_at(point=""):
    """Crash what is done here at `point`, or nowhere; gives the `RaisedCrashes`."""
    crashes = RaisedCrashes(point, marks="")
    arm(crashes)
    try:
        yield crashes
    except CrashedError:
        pass
    finally:
        arm(None)
    assert crashes.is_over == bool(point)
