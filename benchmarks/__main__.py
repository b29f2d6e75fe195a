"""Asks every question, or those named: `python -m benchmarks word_count pending_memory`."""

import argparse
from importlib import import_module

from benchmarks import report

NAMES = (
    "const_spout_null_bolt",
    "const_spout_id_bolt_null_bolt",
    "word_count",
    "cost_per_tuple",
    "hot_path",
    "pending_memory",
)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; default: all")
    report.add_option(parser)
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in asked.names or NAMES:
        report.tell(import_module(f"benchmarks.{name}").measure(), asked.write)


# The children of `pending_memory` import this module, too.
if __name__ == "__main__":
    main()
