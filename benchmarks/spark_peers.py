"""How many words a second are counted on Spark, all acked, compared with the alternatives?"""

from contextlib import ExitStack
from dataclasses import asdict

from benchmarks import report, spark_word_count
from benchmarks.meter import Spread
from benchmarks.peers import Jars, MissingPeerError, Peer, Venv
from benchmarks.spark_word_count import QUICK, RDD, WHOLE

STORM_2, STORM_1 = "Java Storm, 2/2/2 executors", "Java Storm, 1/1/1 executors"
STREAMING, MULTILANG = "`applyInPandasWithState`", "`pystorm` split over multilang"
BYTEWAX, PYFLINK = "bytewax, 2 processes", "PyFlink, keyed state"
BARS = {STORM_2: 0.8, STORM_1: None, RDD: 1, BYTEWAX: 2, STREAMING: 4, MULTILANG: 8, PYFLINK: None}
LATENCIES = {"mean_ms": "mean", "p50_ms": "p50", "p99_ms": "p99"}
SHARED = ".bench-venv"
# {peer: its environment, its program, its arguments}
PROGRAMS = {
    STORM_2: (Jars(), "storm_count", "2"),
    STORM_1: (Jars(), "storm_count", "1"),
    BYTEWAX: (Venv(f"{SHARED}-bytewax", ("bytewax",)), "bytewax_count"),
    STREAMING: (Venv(SHARED, ("pandas", "pyarrow")), "streaming_state"),
    MULTILANG: (Venv(SHARED, ("pystorm",)), "multilang_split"),
    PYFLINK: (Venv(f"{SHARED}-pyflink", ("apache-flink",)), "pyflink_count"),
}


def method(plan):
    return (
        f"{spark_word_count.method(plan)} Storm runs in a `LocalCluster`, all tuples acked, with the fastest settings "
        "found on two cores, for one executor of each component and for two: one acker, `topology.max.spout.pending` "
        "1000, batches of one, no load-aware messaging. Structured Streaming splits in the JVM and counts in Python, "
        "with the settings of the engine. The multilang bolt only splits. bytewax and PyFlink split and count, without "
        "snapshots. The mean latency of the engine is that of `topology_info`, over all rounds until then."
    )


def measure(quick=False):
    plan = QUICK if quick else WHOLE
    with ExitStack() as stack:
        others, missing = started(stack, plan.secs)
        rounds, environment = spark_word_count.in_turn(plan, others)
    table, figures = spark_word_count.compared(rounds, BARS)
    rows = [[name, f"missing: {why}", "", bar(name)] for name, why in missing.items()]
    latencies, latency_figures = complete_latencies(rounds)
    tables = [report.Table(table.columns, [*table.rows, *rows]), latencies]
    figures |= {"latency_ms": latency_figures, "missing": missing}
    return report.Result("spark_peers", report.first_line(__doc__), method(plan), tables, figures, (), environment)


def bar(name):
    return f"≥ {BARS[name]:g}" if BARS[name] else ""


def complete_latencies(rounds):
    """Return (the table, the figures) of the peers that track their tuples."""
    found = {name: _latencies(name, rounds) for name, answer in rounds[0].items() if "mean_ms" in answer}
    rows = [
        [name, *(report.fine_millis(each[key]) if key in each else "" for key in LATENCIES)]
        for name, each in found.items()
    ]
    figures = {name: {key: asdict(spread) for key, spread in each.items()} for name, each in found.items()}
    return report.Table(["complete latency at saturation", *LATENCIES.values()], rows), figures


def _latencies(name, rounds):
    return {key: Spread.of([each[name][key] for each in rounds]) for key in LATENCIES if key in rounds[0][name]}


def started(stack, secs):
    """Start peers: ({name: peer}, {name: why it is missing}); each has answered once, and ends with the stack."""
    found, missing = {}, {}
    for name, program in PROGRAMS.items():
        try:
            peer = Peer(*program)
            stack.callback(peer.close)
            spark_word_count.heard(name, peer.ask(secs))
            found[name] = peer
        except MissingPeerError as exc:
            missing[name] = str(exc)
    return found, missing


if __name__ == "__main__":
    report.answer(measure)
