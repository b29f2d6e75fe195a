"""Running statistics of each player of a game, which can be read while the topology runs.

The state holds one small record for each player; `read_state` gives what the last commit holds, of one or of all.
"""

import time
from dataclasses import dataclass

from pystorm_spark import Fields, LocalCluster, Spout, TopologyBuilder
from pystorm_spark.state import StatefulBolt

GAMES = (("ada", 30), ("grace", 12), ("ada", 10), ("linus", 7), ("grace", 20), ("ada", 20))


@dataclass(frozen=True)
class Statistics:
    games: int = 0
    total: int = 0
    best: int = 0

    def after(self, score):
        return Statistics(self.games + 1, self.total + score, max(self.best, score))


class Games(Spout):
    outputs = Fields("player", "score")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(enumerate(GAMES))

    def next_tuple(self):
        if self.left:
            number, game = self.left.pop(0)
            self.collector.emit(game, message_id=number)


class Update(StatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.players = state

    def execute(self, tup):
        player = tup["player"]
        self.players.put(player, self.players.get(player, Statistics()).after(tup["score"]))
        self.collector.ack(tup)


def main():
    builder = TopologyBuilder()
    builder.set_spout("games", Games())
    builder.set_bolt("statistics", Update(), 2).fields_grouping("games", "player")
    conf = {"topology.state.checkpoint.interval.ms": 100}
    with LocalCluster() as cluster:
        cluster.submit_topology("game", conf, builder.create_topology())
        while cluster.topology_info("game").components["games"].acked < len(GAMES):  # acked is committed
            time.sleep(0.01)
        for player, known in sorted(cluster.read_state("game", "statistics").items()):
            print(f"{player}: {known.games} played, {known.total / known.games:g} points on average")
        print("ada's best:", cluster.read_state("game", "statistics", "ada").best)


if __name__ == "__main__":
    main()
