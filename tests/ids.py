"""Names of parametrized tests: the same in every process, so that tests can be dealt over several."""

import re


def shown(value):
    """A parameter as Python shows it, without where it is in memory, and sets in one order."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({', '.join(sorted(map(shown, value)))})"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
