"""What every engine can do with topologies, and what it tells about them.

| file | what it is |
|---|---|
| `cluster` | `Cluster`: submit, activate, deactivate, rebalance, kill |
| `running` | `RunningTopology`: one topology from its submit to its end, and its status |
| `info` | `TopologyInfo`: what is told of it |
| `checks` | what is refused before anything is made of it |
"""
