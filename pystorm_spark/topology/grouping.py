"""Groupings: how a bolt's subscription spreads a stream over the bolt's tasks. The router acts on these values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.tuple import GlobalStreamId

if TYPE_CHECKING:
    from pystorm_spark.topology.context import TopologyContext


@dataclass(frozen=True)
class Grouping:
    """How one subscription spreads a stream over the subscriber's tasks."""

    def __str__(self) -> str:
        return type(self).__name__.removesuffix("Grouping").lower()


@dataclass(frozen=True)
class ShuffleGrouping(Grouping):
    """Even over the tasks that are equally near."""


@dataclass(frozen=True)
class LocalOrShuffleGrouping(Grouping):
    """Even over the tasks in the sender's process, or over all where there are none."""

    def __str__(self) -> str:
        return "local or shuffle"


@dataclass(frozen=True)
class FieldsGrouping(Grouping):
    """Equal values of the fields go to the same task."""

    fields: Fields

    def __str__(self) -> str:
        return f"fields({', '.join(self.fields)})"


@dataclass(frozen=True)
class PartialKeyGrouping(Grouping):
    """Equal values of the fields go to one of two tasks; without fields the first value is the key."""

    fields: Fields = field(default_factory=Fields)

    def __str__(self) -> str:
        return f"partial key({', '.join(self.fields)})"


@dataclass(frozen=True)
class AllGrouping(Grouping):
    """A copy to every task."""


@dataclass(frozen=True)
class GlobalGrouping(Grouping):
    """Everything to the task with the lowest id."""


@dataclass(frozen=True)
class NoneGrouping(Grouping):
    """A task drawn at random for each tuple."""


@dataclass(frozen=True)
class DirectGrouping(Grouping):
    """The sender chooses the task."""


@dataclass(frozen=True)
class CustomGrouping(Grouping):
    """The user's own object chooses the tasks."""

    chooser: Any

    def __str__(self) -> str:
        return f"custom({type(self.chooser).__name__})"


@java_names()
class CustomStreamGrouping:
    """Subclass this to choose target tasks yourself. Each source task uses its own copy."""

    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: list[int]) -> None:
        """Called once, before the first tuple, with the task ids to choose from, ascending."""

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> list[int]:
        """Return the ids of the tasks that get `values`, which task `task_id` emits: any number of them."""
        raise NotImplementedError(f"{type(self).__name__} must define choose_tasks(task_id, values)")
