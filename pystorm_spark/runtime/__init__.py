"""Internal. What a slot does with its frames: pure, which is to say no pyspark, socket, file or wall clock.

The way of a tuple:

| step | where | what happens |
|---|---|---|
| 1 | `spout_task` | `poll` calls `next_tuple` while pending < max; `emit` makes a `Root` |
| 2 | `router` | stream + values → the ports of the target tasks, by the groupings of the `plan` |
| 3 | `bolt_task` | a target in the same slot: the tuple joins its queue, its tree counts one more (`trees`) |
| 4 | `frames` | a target elsewhere: the tuple joins a buffer that becomes a frame (`codec`), along a 64-bit edge id |
| 5 | `slot` | `deliver(frames)`, `turn()`, `take() -> frames`; an engine carries the frames from slot to slot |
| 6 | `bolt_task` | `execute`; emits go through 2-4 again; `ack` closes the tuple's place in its tree |
| 7 | `trees` | a part of a tree that has drained sends home one XOR of all its edges |
| 8 | `acker` | `AckLedger`, in the slot of the spout task: the tree is complete when the XOR is zero |
| 9 | `spout_task` | `ack(msg_id)` or `fail(msg_id)`; pending shrinks: the circle is closed |
"""
