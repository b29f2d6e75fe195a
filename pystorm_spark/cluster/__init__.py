"""What every engine can do with topologies, and how it reports their status.

| file | what it is |
|---|---|
| `cluster` | `Cluster`: submit, activate, deactivate, rebalance, kill |
| `running` | `RunningTopology`: one topology from its submit to its end, and its status |
| `info` | `TopologyInfo`: status, counts and errors of a topology |
| `table` | how a `TopologyInfo` prints |
| `checks` | checks of arguments, before anything is started |
"""
