"""The word count in `storm/` on a `LocalCluster` of Java's Storm, all acked, with as many executors of each as asked.

Every question starts a new JVM, because an idle one would still take a tenth of a core.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers import STORM, serve
from benchmarks.reference_loop import SENTENCES

WARM_UP_SECS = 12.0  # the rate still rises until the JVM has had about 20 s of CPU


def measure(executors, secs):
    with tempfile.TemporaryDirectory() as folder:
        sentences = Path(folder, "sentences")
        sentences.write_text("\n".join(SENTENCES))
        argv = [_java(), f"-Djava.io.tmpdir={folder}", "-cp", f"{STORM}/classes:{STORM}/lib/*", "StormCount"]
        argv += [str(sentences), executors, str(WARM_UP_SECS), str(secs)]
        answered = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return json.loads(answered.stdout)


def _java():
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


if __name__ == "__main__":
    serve(lambda secs: measure(sys.argv[1], secs))
