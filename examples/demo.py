"""A word count to look at: runs for some seconds and shows what every component does.

    python examples/demo.py --engine spark --secs 20 --rate 1000

In a terminal one table is refreshed in place, elsewhere a line is printed every two seconds. Ctrl-C ends it early.
"""

import argparse
import heapq
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pystorm_spark import BasicBolt, Bolt, Config, Fields, LocalCluster, SparkCluster, Spout, TopologyBuilder, is_tick

NAME = "word-count"
SENTENCES = (
    "the cow jumped over the moon",
    "an apple a day keeps the doctor away",
    "four score and seven years ago",
    "snow white and the seven dwarfs",
    "the early bird catches the worm",
    "a bird in the hand is worth two in the bush",
    "the quick brown fox jumps over the lazy dog",
)
TOP = 8
REFRESH_SECS, LOG_SECS = 0.25, 2.0


# The topology.


class SentenceSpout(Spout):
    """Emits random sentences forever, `rate` of them a second."""

    outputs = Fields("sentence")

    def __init__(self, rate):
        self.rate = rate

    def open(self, conf, context, collector):
        self.collector = collector
        self.sent = 0
        self.began = time.monotonic()

    def next_tuple(self):
        if self.sent < (time.monotonic() - self.began) * self.rate:
            self.sent += 1
            self.collector.emit([random.choice(SENTENCES)], message_id=self.sent)


class Split(BasicBolt):
    outputs = Fields("word")

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    outputs = Fields("word", "count")

    def prepare(self, conf, context):
        self.counts = Counter()

    def execute(self, tup, collector):
        word = tup["word"]
        self.counts[word] += 1
        collector.emit([word, self.counts[word]])


class Rank(Bolt):
    """Writes the most frequent words to a file at every tick, for another process to read."""

    def __init__(self, path):
        self.path = path

    def component_configuration(self):
        return {Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS: REFRESH_SECS}

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.counts = {}

    def execute(self, tup):
        if is_tick(tup):
            self.write(heapq.nlargest(TOP, self.counts.items(), key=lambda item: item[1]))
        else:
            self.counts[tup["word"]] = tup["count"]
        self.collector.ack(tup)

    def write(self, top):
        # Written aside and renamed: a reader never sees half a file.
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(top))
        new.replace(self.path)


def make_topology(rate, top_path):
    builder = TopologyBuilder()
    builder.set_spout("sentences", SentenceSpout(rate))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), 4).fields_grouping("split", "word")
    builder.set_bolt("rank", Rank(top_path)).global_grouping("count")
    return builder.create_topology()


# What is shown of it.

COLUMNS = {"tasks": 6, "emitted": 13, "executed": 13, "acked": 13, "failed": 8, "complete ms": 13, "pending": 9}


def table(engine, info):
    """The lines of the table, title first."""
    minutes, secs = divmod(int(info.uptime_secs), 60)
    title = f"{info.name} on {engine}   {info.status.lower()}   up {minutes:02}:{secs:02}"
    header = line("component", COLUMNS)
    rows = [line(id_, cells(component, info.pending)) for id_, component in info.components.items()]
    return [title, "", header, "─" * len(header), *rows]


def cells(component, pending):
    counts = [component.tasks, component.emitted, component.executed, component.acked, component.failed]
    shown = [f"{count:,}" for count in counts]
    if component.kind == "spout":
        shown[2] = ""
        shown += [f"{component.complete_latency_ms:,.1f}", f"{pending:,}"]
    return shown


def line(first, cells):
    return f"{first:<11}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, COLUMNS.values(), strict=False))


def bars(top):
    """The most frequent words with a bar for each; always the same number of lines."""
    most = max((count for _, count in top), default=1)
    lines = [f"{word:<12}{'█' * max(1, 40 * count // most):<42}{count:>9,}" for word, count in top]
    return ["", "top words", *lines, *[""] * (TOP - len(top))]


def log_line(info, top):
    sentences, words = info.components["sentences"], info.components["count"]
    return (
        f"{info.uptime_secs:5.1f} s  {sentences.acked:,} sentences acked, {sentences.failed:,} failed, "
        f"{info.pending:,} pending, {sentences.complete_latency_ms:.1f} ms each, {words.executed:,} words; "
        f"top: {', '.join(f'{word} {count:,}' for word, count in top[:3])}"
    )


def summary(info, how):
    sentences, words = info.components["sentences"], info.components["count"].executed
    return (
        f"{how} after {info.uptime_secs:.1f} s: {sentences.acked:,} of {sentences.emitted:,} sentences acked, "
        f"{sentences.failed:,} failed\n{words:,} words counted, {words / info.uptime_secs:,.0f} a second"
    )


class Screen:
    """Draws the table over the previous one, so that only the numbers change."""

    period_secs = REFRESH_SECS
    height = 0

    def __enter__(self):
        sys.stdout.write("\x1b[?25l")  # the cursor would flicker
        return self

    def show(self, engine, info, top):
        # A line that wraps, or a table higher than the screen, would break the way back up.
        columns, rows = shutil.get_terminal_size()
        lines = [line[: columns - 1] for line in [*table(engine, info), *bars(top)][: rows - 2]]
        lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
        back = f"\x1b[{self.height}A" if self.height else ""
        sys.stdout.write(back + "".join(f"\r{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self.height = len(lines)

    show_last = show

    def __exit__(self, *_):
        sys.stdout.write("\x1b[?25h")
        sys.stdout.flush()


class Log:
    """Prints a line now and then, and the table at the end."""

    period_secs = LOG_SECS

    def __enter__(self):
        print("Ctrl-C ends it", flush=True)
        return self

    def show(self, engine, info, top):
        print(log_line(info, top), flush=True)

    def show_last(self, engine, info, top):
        print("", *table(engine, info), *bars(top), sep="\n", flush=True)

    def __exit__(self, *_):
        pass


# Running it.


class CtrlC:
    """Notes Ctrl-C and SIGTERM without interrupting anything."""

    pressed = False

    def __enter__(self):
        self.before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def listen(self):
        for number in self.before:
            signal.signal(number, self.press)

    def press(self, *_):
        self.pressed = True

    def __exit__(self, *_):
        for number, handler in self.before.items():
            signal.signal(number, handler)


def read_top(path):
    return json.loads(path.read_text()) if path.exists() else []


def watch(cluster, top_path, secs, ctrl_c):
    """Show the topology until the time is over or Ctrl-C is pressed; returns its last status."""
    engine = type(cluster).__name__
    began = shown = time.monotonic()
    with Screen() if sys.stdout.isatty() else Log() as view:
        while not ctrl_c.pressed and time.monotonic() < began + secs:
            time.sleep(0.05)
            if time.monotonic() >= shown + view.period_secs:
                shown = time.monotonic()
                view.show(engine, cluster.topology_info(NAME), read_top(top_path))
        info = cluster.topology_info(NAME)
        view.show_last(engine, info, read_top(top_path))
    return info


ENGINES = {"spark": SparkCluster, "local": LocalCluster}


def run(engine, secs, rate):
    if engine == "spark":
        print("starting Spark, which takes some seconds", flush=True)
    with tempfile.TemporaryDirectory() as folder, CtrlC() as ctrl_c, ENGINES[engine]() as cluster:
        top_path = Path(folder, "top.json")
        cluster.submit_topology(NAME, None, make_topology(rate, top_path))
        ctrl_c.listen()  # only now: an engine may set its own handler when it starts
        info = watch(cluster, top_path, secs, ctrl_c)
        print(f"\n{summary(info, 'interrupted' if ctrl_c.pressed else 'done')}", flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A word count that shows what it does.")
    parser.add_argument("--engine", choices=ENGINES, default="spark", help="where to run (default: %(default)s)")
    parser.add_argument("--secs", type=float, default=20, help="how long to run (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=1000, help="sentences a second (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        run(options.engine, options.secs, options.rate)
    except KeyboardInterrupt:
        print("interrupted before the topology ran")


if __name__ == "__main__":
    main()
