"""ComponentView: what a component is told of itself before anything starts, so that it can refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import Fields, Stream
from pystorm_spark.topology.tuple import GlobalStreamId


@java_names()
@dataclass(frozen=True)
class CheckpointView:
    """What the last commit of a checkpoint says of one component with state."""

    txid: int
    tasks: int
    state_version: int | None = None  # of a bolt
    metadata: Any = None  # the component's `checkpoint_metadata` when it was committed


@java_names()
@dataclass(frozen=True)
class ComponentView:
    """One component of a topology that is being submitted."""

    id: str
    inputs: Mapping[GlobalStreamId, Fields] = field(default_factory=dict)
    outputs: Mapping[str, Stream] = field(default_factory=dict)
    parallelism: int = 1  # the number of its tasks
    checkpoint: CheckpointView | None = None  # None where no commit holds anything of it
