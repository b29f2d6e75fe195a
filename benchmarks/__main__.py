"""Asks every question, or those named, each in its own process: `python -m benchmarks word_count spark_latency`."""

import argparse
import subprocess
import sys

from benchmarks import report

LOCAL = (
    "const_spout_only",
    "const_spout_null_bolt",
    "const_spout_id_bolt_null_bolt",
    "word_count",
    "yahoo",
    "top_k",
    "join",
    "cost_per_tuple",
    "hot_path",
    "cores",
    "pending_memory",
    "stateful_word_count",
    "state_size",
)
SPARK = (
    "spark_word_count",
    "spark_latency",
    "spark_exchange",
    "spark_recovery",
    "spark_slow_bolt",
    "spark_curves",
    "dataframe_spout",
    "run_batch",
)
NAMES = (*LOCAL, *SPARK)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; default: all")
    report.add_options(parser)
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options = [f"--{option}" for option in ("write", "quick") if getattr(asked, option)]
    failed = [name for name in asked.names or NAMES if _ask(name, options)]
    if failed:
        sys.exit(f"no answer from {', '.join(failed)}")


def _ask(name, options):
    print(f"## {name}\n", flush=True)
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=False).returncode


# The children of `pending_memory` import this module, too.
if __name__ == "__main__":
    main()
