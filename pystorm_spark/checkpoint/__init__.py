"""Internal. Durable state on disk: what a commit writes, and how it is found again.

| file | what it is |
|---|---|
| `store` | `CheckpointStore`: the commits of one topology, and what they no longer need |
| `commit_log` | `CommitLog`: the commits of one run, made of what its slots have written |
| `slot_side` | `SlotCheckpoint`: what one slot reads from a checkpoint and writes to it |
| `manifest` | `Manifest`: one commit, the list of the parts that make up the state |
| `part` | `Part`: one file with the state, or the changes of the state, of some tasks |
| `section` | the state of one task inside a part, and how older and newer ones are merged |
| `keying` | `Keying`: what a manifest says about which task a key belongs to |
| `merging` | which parts are worth merging, and doing it |
| `envelope` | what all files have around them: magic, version, checksum |
| `files` | `Files`: where the files are; `PosixFiles` for a folder of this machine |
| `memory` | `MemoryFiles`: the files of a checkpoint that ends with its process |
| `lock` | `CheckpointLock`: one checkpoint has one driver |
| `dead_letters` | `DeadLetters`: messages that were given up, one JSON object a line |
| `crash_points` | every durable step by name, for tests that crash there |

A commit is durable when its manifest has been renamed: parts come before it, removals after it.
"""
