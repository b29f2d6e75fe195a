"""A topology on a small disk that fills up and turns read-only. Run as a script, which mounts the disk."""

import sys
from pathlib import Path

from pystorm_spark import LocalCluster
from tests.disks import fill, mount
from tests.state.components import EXACTLY_ONCE, Source, counting


def main(folder):
    disk = folder / "words"  # the lock is elsewhere: what is open cannot be made read-only
    disk.mkdir()
    mount(disk, "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs")
    source, ballast = Source(), disk / "ballast"
    problems = (
        (lambda: fill(ballast), ballast.unlink),
        (lambda: mount(disk, "-o", "remount,ro"), lambda: mount(disk, "-o", "remount,rw")),
    )
    with LocalCluster(simulated_time=True, checkpoint=folder) as cluster:
        cluster.submit_topology("words", EXACTLY_ONCE, counting(source))
        for number, (begin, end) in enumerate(problems):
            source.add("a")
            cluster.advance_time(2)
            before = 2 * number + 1
            assert cluster.read_state("words", "count") == {"a": before}
            begin()
            source.add("a")
            cluster.advance_time(5)
            assert cluster.read_state("words", "count") == {"a": before}
            assert len(source.acked) == before
            end()
            cluster.advance_time(5)
            assert cluster.read_state("words", "count") == {"a": before + 1}
    with LocalCluster(simulated_time=True, checkpoint=folder) as cluster:
        cluster.submit_topology("words", EXACTLY_ONCE, counting(source))
        assert cluster.read_state("words", "count") == {"a": 4}
    assert (source.acked, source.failed) == ([0, 1, 2, 3], [])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
