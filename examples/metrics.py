"""Metrics of your own: a bolt registers a counter and a timer, a consumer gets their values once per time bucket.

The cluster's time is simulated, so the ten seconds of a bucket pass at once.
"""

from pystorm_spark import BasicBolt, Config, Fields, LocalCluster, MetricsConsumer, Spout, TopologyBuilder

REQUESTS = (("/", 200, 0.012), ("/cart", 200, 0.040), ("/pay", 503, 2.500), ("/", 200, 0.010), ("/pay", 500, 0.900))


class RequestSpout(Spout):
    outputs = Fields("path", "status", "secs")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(REQUESTS)

    def next_tuple(self):
        if self.left:
            self.collector.emit(list(self.left.pop(0)))


class Watch(BasicBolt):
    def prepare(self, conf, context):
        self.errors = context.register_counter("errors")
        self.response = context.register_timer("response")  # or `with self.response.time(): ...` around your own work

    def execute(self, tup, collector):
        self.response.update(tup["secs"])
        if tup["status"] >= 500:
            self.errors.incr()


class PrintingConsumer(MetricsConsumer):
    def handle_data_points(self, task_info, data_points):
        for point in data_points:
            if point.name.startswith("__"):  # what the engine counts by itself: __emit-count, __execute-latency, ...
                continue
            value = point.value  # of a timer: a dict with count, mean, min, max and percentiles
            shown = f"{value['count']} timed, {value['p50']} s in the middle" if isinstance(value, dict) else value
            print(f"{task_info.timestamp:g} s {task_info.component_id} {point.name}: {shown}")


def main():
    builder = TopologyBuilder()
    builder.set_spout("requests", RequestSpout())
    builder.set_bolt("watch", Watch()).shuffle_grouping("requests")
    conf = Config()
    conf.register_metrics_consumer(PrintingConsumer)
    conf[Config.TOPOLOGY_BUILTIN_METRICS_BUCKET_SIZE_SECS] = 10
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("metrics", conf, builder.create_topology())
        cluster.advance_time(20)


if __name__ == "__main__":
    main()
