"""A `pystorm` split bolt over Storm's multilang protocol, pumped by a loop that counts what it emits."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.peers import serve
from benchmarks.reference_loop import SENTENCES, WORDS

PENDING = 100  # Storm's topology.shellbolt.max.pending
BOLT = """
from pystorm import Bolt

class Split(Bolt):
    def process(self, tup):
        for word in tup.values[0].split():
            self.emit([word])

Split().run()
"""
END = b"\nend\n"
CONTEXT = {
    "task->component": {"1": "spout", "2": "split"},
    "taskid": 2,
    "componentid": "split",
    "stream->target->grouping": {},
    "streams": ["default"],
    "stream->outputfields": {"default": ["word"]},
    "source->stream->grouping": {"spout": {"default": {"type": "SHUFFLE"}}},
    "source->stream->fields": {"spout": {"default": ["sentence"]}},
}


class Pump:
    """Feeds the bolt's standard input, never more than `PENDING` sentences ahead of its acks."""

    def __init__(self, process, pid_folder):
        self._process = process
        self._numbers = itertools.count(1)
        self._rest = b""
        self._send({"conf": {}, "pidDir": pid_folder, "context": CONTEXT})
        self._take(1)  # its process id

    def _send(self, *messages):
        self._process.stdin.write(b"".join(json.dumps(message).encode() + END for message in messages))
        self._process.stdin.flush()

    def _take(self, messages):
        """Read a number of messages. They are counted, not decoded, because only the bolt is measured."""
        while messages > 0:
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise RuntimeError(f"the bolt has ended with code {self._process.wait()}")
            self._rest += chunk
            messages -= self._rest.count(END)
            self._rest = self._rest[self._rest.rfind(END) + len(END) :] if END in self._rest else self._rest
        self._over = -messages

    def _feed(self, sentences):
        numbers = itertools.islice(self._numbers, sentences)
        self._send(
            *(
                {
                    "id": str(n),
                    "comp": "spout",
                    "stream": "default",
                    "task": 1,
                    "tuple": [SENTENCES[n % len(SENTENCES)]],
                }
                for n in numbers
            )
        )

    def run(self, secs):
        """Pump for `secs`, in halves, so that the bolt always has something to read."""
        half = PENDING // 2
        began = time.monotonic()
        self._feed(PENDING)
        fed, taken, over = PENDING, 0, 0
        while time.monotonic() - began < secs:
            self._take(half * (WORDS + 1) - over)  # a sentence is answered by its words and an ack
            over = self._over
            taken += half
            self._feed(half)
            fed += half
        self._take((fed - taken) * (WORDS + 1) - over)
        return {"words": fed * WORDS, "secs": time.monotonic() - began}


def main():
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-c", BOLT]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        serve(Pump(process, folder).run)
        process.stdin.close()
        process.wait(10)


if __name__ == "__main__":
    main()
