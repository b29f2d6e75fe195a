"""Two streams joined in a window, as in storm-starter's JoinBoltExample, and a full join, which keeps the rest."""

from pystorm_spark import BasicBolt, LocalCluster, TopologyBuilder
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import Duration, JoinBolt

GENDERS = [[0, "male"], [1, "female"], [2, "male"]]
AGES = [[3, 23], [2, 22], [1, 21]]


class Show(BasicBolt):
    def execute(self, tup, collector):
        print(tup.source_component, *tup.values)


def build(genders, ages):
    builder = TopologyBuilder()
    builder.set_spout("genders", genders)
    builder.set_spout("ages", ages)
    inner = JoinBolt("genders", "id").join("ages", "id", "genders").select("genders:id, age, gender")
    full = JoinBolt("genders", "id").full_join("ages", "id", "genders").select("id, age, gender")
    for name, join in (("inner", inner), ("full", full)):
        join.with_tumbling_window(Duration.seconds(10))
        builder.set_bolt(name, join).fields_grouping("genders", ["id"]).fields_grouping("ages", ["id"])
        builder.set_bolt(f"show-{name}", Show()).shuffle_grouping(name)
    return builder.create_topology()


def main():
    genders, ages = FeederSpout(["id", "gender"]), FeederSpout(["id", "age"])
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("join", None, build(genders, ages))
        for row in GENDERS:
            genders.feed(row, message_id=row[0])
        for row in AGES:
            ages.feed(row, message_id=row[0])
        cluster.advance_time(10)


if __name__ == "__main__":
    main()
