"""Runs all benchmarks, or those named, each in its own process: `python -m benchmarks word_count spark_latency`."""

import argparse
import subprocess
import sys
import time

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
    "spark_state",
    "dataframe_spout",
    "run_batch",
)
# Run only when named: the others take a quarter of an hour together, and the peers must be installed first.
LONG = ("latency_stages", "spark_slow_bolt", "spark_curves", "scale_model", "spark_peers")
NAMES = (*LOCAL, *SPARK, *LONG)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; default: all but {', '.join(LONG)}"
    )
    report.add_options(parser)
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    options = [f"--{option}" for option in ("write", "quick") if getattr(asked, option)]
    failed = [name for name in asked.names or (*LOCAL, *SPARK) if _ask(name, options)]
    if failed:
        sys.exit(f"these benchmarks failed: {', '.join(failed)}")


def _ask(name, options):
    print(f"## {name}\n", flush=True)
    began = time.monotonic()
    code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=False).returncode
    print(f"{name} took {time.monotonic() - began:.0f} s\n", flush=True)
    return code


# The children of `pending_memory` import this module, too.
if __name__ == "__main__":
    main()
