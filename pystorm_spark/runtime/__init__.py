"""Internal. What a slot does with its frames. Pure: no pyspark, thread, socket, file or wall clock.

The way of a tuple:

| step | where | what happens |
|---|---|---|
| 1 | `spout_task` | `poll` calls `next_tuple` while pending < max; `emit` makes a `Root` |
| 2 | `router` | stream + values → the ports of the target tasks, by the groupings of the `plan` |
| 3 | `bolt_task` | a target in the same slot: the tuple joins its queue, its tree counts one more (`trees`) |
| 4 | `frames` | a target elsewhere: the tuple joins a buffer that becomes a frame (`codec`), along a 64-bit edge id |
| 5 | `slot` | `deliver(frames)`, `turn()`, `take() -> frames`; an engine carries the frames from slot to slot |
| 6 | `bolt_task` | `execute`; emits go through 2-4 again; `ack` settles the tuple: its tree counts one less |
| 7 | `trees` | a subtree that has drained sends home one XOR of all its edges |
| 8 | `acker` | `AckLedger`, in the slot of the spout task: the tree is complete when the XOR is zero |
| 9 | `spout_task` | `ack(msg_id)` or `fail(msg_id)`; a root that times out fails here, too (`rotate`) |

Beside them:

| file | what it is |
|---|---|
| `plan` | the tasks of a topology, their ids and slots |
| `components`, `wiring` | components as bytes; makes the tasks of one slot and connects them |
| `task` | what spout tasks and bolt tasks share |
| `spout_collector`, `bolt_collector` | how a spout and a bolt emit; the hot path |
| `slot_context` | what the tasks of one slot share, and the calls that other threads have posted |
| `arrivals`, `back_pressure` | frames on their way into the queues; which spouts may emit |
| `pending_limit` | how many messages of one spout task may be pending |
| `rotating`, `timers` | buckets that a timer turns; what a slot does every so many seconds |
| `letters` | dead letters of components as lines of JSON |
| `task_timers` | the calls that tasks have asked for at a later time |
| `metrics_bolt`, `worker_hooks` | metrics consumers as bolts; the worker hooks of one slot |
| `codec/` | frames and values as bytes: `codec`, `values`, `extension`, `pickling`, `arrays`, `arrow_rows` |
| `keys/` | hashes of grouping keys: `hashing`, `java_hash` |
| `durable/` | a commit: `commits`, `uncommitted`, `committed_ids`, `committed_rows`, `positions`, `transactions` |
"""
