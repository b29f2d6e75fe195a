"""storm-starter's JoinBoltExample, ported from Java line by line: every name is Java's.

| Java | here |
|---|---|
| `new BaseWindowedBolt.Duration(10, TimeUnit.SECONDS)` | `Duration.seconds(10)` |
| `Utils.sleep(30000)` | simulated time |
"""

from pystorm_spark import BaseBasicBolt, Config, Fields, LocalCluster, TopologyBuilder, Values
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import BaseWindowedBolt, JoinBolt


class PrinterBolt(BaseBasicBolt):
    def execute(self, tuple, collector):  # noqa: A002 - Java's name
        print(tuple.getValues())


def main():
    genderSpout = FeederSpout(Fields("id", "gender"))
    ageSpout = FeederSpout(Fields("id", "age"))

    builder = TopologyBuilder()
    builder.setSpout("genderSpout", genderSpout)
    builder.setSpout("ageSpout", ageSpout)

    # inner join of 'age' and 'gender' records on 'id' field
    joiner = (
        JoinBolt("genderSpout", "id")
        .join("ageSpout", "id", "genderSpout")
        .select("genderSpout:id,ageSpout:id,gender,age")
        .withTumblingWindow(BaseWindowedBolt.Duration.seconds(10))
    )
    builder.setBolt("joiner", joiner).fieldsGrouping("genderSpout", Fields("id")).fieldsGrouping(
        "ageSpout", Fields("id")
    )
    builder.setBolt("printer", PrinterBolt()).shuffleGrouping("joiner")

    conf = Config()
    cluster = LocalCluster(simulated_time=True)
    cluster.submitTopology("join-example", conf, builder.createTopology())
    generateGenderData(genderSpout)
    generateAgeData(ageSpout)
    cluster.advanceClusterTime(30)
    cluster.shutdown()


def generateAgeData(ageSpout):
    for i in range(9, -1, -1):
        ageSpout.feed(Values(i, i + 20), i)


def generateGenderData(genderSpout):
    for i in range(10):
        gender = "male" if i % 2 == 0 else "female"
        genderSpout.feed(Values(i, gender), i)


if __name__ == "__main__":
    main()
