"""Internal. Components as bytes: every task runs its own copy of the component that the user built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cloudpickle

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.topology.grouping import CustomGrouping


def load_component(id_: str, pickled: bytes) -> Any:
    """A fresh instance of a component."""
    try:
        return cloudpickle.loads(pickled)
    except ModuleNotFoundError as exc:
        raise SerializationError(
            f"component {id_!r} needs the module {exc.name!r}, which this process cannot import; install it there, or "
            "ship it with Spark"
        ) from exc
    except Exception as exc:
        raise SerializationError(f"component {id_!r} cannot be unpickled: {type(exc).__name__}: {exc}") from exc


def load_plan(pickled: bytes, components: Mapping[str, bytes]) -> Plan:
    """A plan from its bytes. If it cannot be loaded, the error names the component at fault."""
    try:
        plan: Plan = cloudpickle.loads(pickled)
        return plan
    except Exception as exc:
        for id_, component in components.items():
            load_component(id_, component)
        raise SerializationError(f"the topology cannot be unpickled: {type(exc).__name__}: {exc}") from exc


def pickle_components(plan: Plan) -> dict[str, bytes]:
    """Every component as bytes. The error of one that cannot be pickled names it and the attribute at fault."""
    for source, spec, grouping in plan.topology.subscriptions():
        if isinstance(grouping, CustomGrouping):
            _pickled(f"custom grouping of {spec.id!r} on {source.component_id!r}", grouping.chooser)
    return {id_: _pickled(f"component {id_!r}", spec.component) for id_, spec in plan.specs.items()}


def _pickled(what: str, component: Any) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(component)
        return pickled
    except Exception as exc:
        attribute = _unpicklable_attribute(component)
        at = f" because of its attribute {attribute!r}" if attribute else ""
        raise SerializationError(f"{what} cannot be pickled{at}: {exc}; create it in open or prepare instead") from exc


def _unpicklable_attribute(component: Any) -> str | None:
    attributes: dict[str, Any] = getattr(getattr(component, "wrapped", component), "__dict__", {})
    for name, value in attributes.items():
        try:
            cloudpickle.dumps(value)
        except Exception:
            return name
    return None
