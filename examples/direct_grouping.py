"""Direct grouping: the sender chooses the task that gets a tuple.

`dispatch` gives every job to the worker with the least work so far, by `emit_direct` on a stream declared as direct.
"""

import time

from pystorm_spark import Bolt, Fields, LocalCluster, Spout, TopologyBuilder

JOBS = (("render", 5), ("mail", 1), ("thumbnail", 3), ("backup", 4), ("ping", 1))


class JobSpout(Spout):
    outputs = Fields("job", "cost")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(JOBS)

    def next_tuple(self):
        if self.left:
            job, cost = self.left.pop(0)
            self.collector.emit([job, cost], message_id=job)


class Dispatch(Bolt):
    def declare_output_fields(self, declarer):
        declarer.declare_stream("jobs", True, Fields("job", "cost"))

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.load = dict.fromkeys(context.component_tasks("work"), 0)  # {task id: cost of what it was given}

    def execute(self, tup):
        task = min(self.load, key=self.load.get)
        self.load[task] += tup["cost"]
        self.collector.emit_direct(task, tup.values, anchors=tup, stream="jobs")
        self.collector.ack(tup)


class Work(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.number = context.this_task_index
        self.done = []

    def execute(self, tup):
        self.done.append(tup["job"])
        self.collector.ack(tup)

    def cleanup(self):
        print(f"worker {self.number}: {', '.join(self.done)}")


def main():
    builder = TopologyBuilder()
    builder.set_spout("jobs", JobSpout())
    builder.set_bolt("dispatch", Dispatch()).shuffle_grouping("jobs")
    builder.set_bolt("work", Work(), 2).direct_grouping("dispatch", "jobs")
    with LocalCluster() as cluster:
        cluster.submit_topology("direct", None, builder.create_topology())
        while cluster.topology_info("direct").components["jobs"].acked < len(JOBS):
            time.sleep(0.01)


if __name__ == "__main__":
    main()
