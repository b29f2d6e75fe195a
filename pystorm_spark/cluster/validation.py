"""What components say of themselves before anything starts: each may refuse the submit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pystorm_spark.errors import InvalidTopologyError, StormError, in_words
from pystorm_spark.topology.graph import ComponentSpec, Topology
from pystorm_spark.topology.view import CheckpointView, ComponentView


def validate_components(
    topology: Topology,
    confs: Mapping[str, Mapping[str, Any]],
    tasks: Mapping[str, Sequence[int]],
    checkpoint_of: Callable[[str], CheckpointView | None],
) -> None:
    """Call `validate` of each component; its own `StormError` is raised as it is, others as `InvalidTopologyError`."""
    for spec in topology.components.values():
        inputs = {source: _fields(topology, source) for source in spec.inputs}
        view = ComponentView(spec.id, inputs, spec.outputs, len(tasks[spec.id]), checkpoint_of(spec.id))
        _validate(spec, confs[spec.id], view)


def _fields(topology: Topology, source: Any) -> Any:
    return topology.components[source.component_id].outputs[source.stream_id].fields


def _validate(spec: ComponentSpec, conf: Mapping[str, Any], view: ComponentView) -> None:
    try:
        spec.component.validate(conf, view)
    except StormError:
        raise
    except (Exception, SystemExit) as exc:  # of user code: a failure, never an end. Ctrl-C is the user's own
        raise InvalidTopologyError(f"validate of {spec.id!r} raised {in_words(exc)}") from exc
