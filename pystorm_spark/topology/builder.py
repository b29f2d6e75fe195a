"""TopologyBuilder: collects components and subscriptions; `create_topology` checks everything at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeGuard

from pystorm_spark.errors import InvalidTopologyError, StormError, did_you_mean
from pystorm_spark.naming import java_names
from pystorm_spark.topology.component import Bolt, LambdaBolt, LambdaSpout, Spout, takes
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.declarer import BoltDeclarer, ComponentDeclarer, OutputFieldsDeclarer, SpoutDeclarer
from pystorm_spark.topology.fields import Fields, FieldsLike, Stream
from pystorm_spark.topology.graph import ComponentSpec, Topology
from pystorm_spark.topology.grouping import CustomGrouping, FieldsGrouping, Grouping, PartialKeyGrouping
from pystorm_spark.topology.hooks import WorkerHook
from pystorm_spark.topology.tuple import GlobalStreamId

log = logging.getLogger(__name__)

MAX_TASKS = 10_000  # of one component; each is an instance in some process


@java_names()
class TopologyBuilder:
    """Wires spouts and bolts into a topology.

    >>> builder = TopologyBuilder()
    >>> _ = builder.set_spout("numbers", LambdaSpout(lambda: 1))
    >>> _ = builder.set_bolt("show", LambdaBolt(print), 2).shuffle_grouping("numbers")
    >>> print(builder.create_topology().describe())
    spout numbers (LambdaSpout) x1
      emits default: lambda
    bolt show (LambdaBolt) x2
      reads numbers/default by shuffle
    """

    def __init__(self) -> None:
        self._declared: list[tuple[Any, Any, Any, ComponentDeclarer]] = []  # id, component, parallelism, declarer
        self._worker_hooks: list[WorkerHook] = []
        self._conf: dict[str, Any] = {}

    def set_spout(
        self, spout_id: str, spout: Spout | Callable[[], Any], parallelism: int | None = None
    ) -> SpoutDeclarer:
        """Add a spout; a plain function becomes a `LambdaSpout`."""
        declarer = SpoutDeclarer()
        component = LambdaSpout(spout) if _is_function(spout) else spout
        self._declared.append((spout_id, component, parallelism, declarer))
        return declarer

    def set_bolt(
        self, bolt_id: str, bolt: Bolt | Callable[..., Any], parallelism: int | FieldsLike | None = None, *fields: Any
    ) -> BoltDeclarer:
        """Add a bolt; a plain function of `(tup, collector)` or `(tup)` becomes a `LambdaBolt` with output `fields`."""
        declarer = BoltDeclarer()
        component: Any = bolt
        if _is_function(bolt):
            # Java's form without a parallelism: (id, function, field, ...)
            if isinstance(parallelism, (str, Fields, list, tuple)):
                fields, parallelism = (parallelism, *fields), None
            component = LambdaBolt(bolt, fields[0] if len(fields) == 1 else fields)
        elif fields:
            declarer.problems.append(f"declares its own output fields; set_bolt cannot give it {list(fields)}")
        self._declared.append((bolt_id, component, parallelism, declarer))
        return declarer

    def add_worker_hook(self, hook: WorkerHook) -> None:
        """Have `hook` called in every slot when it starts and when it ends."""
        self._worker_hooks.append(hook)

    def add_configurations(self, conf: Mapping[str, Any]) -> None:
        """Configuration that the topology brings along: above the defaults, and below what it is submitted with."""
        resolve(conf)  # which checks it
        self._conf.update(conf)

    def create_topology(self) -> Topology:
        """The frozen topology, or an `InvalidTopologyError` that lists everything that is wrong with it."""
        problems: list[str] = []
        specs: dict[str, ComponentSpec] = {}
        for id_, component, parallelism, declarer in self._declared:
            problem = _id_problem(id_) or _kind_problem(id_, component, declarer)
            if problem is None and id_ in specs:
                problem = f"{specs[id_].kind} {id_!r} is already declared; component ids must differ"
            if problem is not None:
                problems.append(problem)
                continue
            problems += [f"bolt {id_!r} {problem}" for problem in declarer.problems]
            try:
                specs[id_] = _spec(id_, component, parallelism, declarer)
            except InvalidTopologyError as exc:
                problems.append(str(exc))
        topology = Topology(specs, tuple(self._worker_hooks), dict(self._conf))
        if not any(isinstance(declarer, SpoutDeclarer) for _, _, _, declarer in self._declared):
            problems.append("a topology needs at least one spout; add one with set_spout")
        problems += _structure_problems(topology, {entry[0] for entry in self._declared if isinstance(entry[0], str)})
        if problems:
            raise InvalidTopologyError("\n".join(problems))
        _warn_of_cycles(topology)
        return topology


def _is_function(candidate: Any) -> TypeGuard[Callable[..., Any]]:
    return callable(candidate) and not isinstance(candidate, (Spout, Bolt, type))


def _id_problem(id_: Any) -> str | None:
    if not isinstance(id_, str) or not id_:
        return f"a component id must be a non-empty string, got {id_!r}"
    if id_.startswith("__"):
        return f"component id {id_!r} is reserved: ids that start with '__' belong to the system"
    return None


def _kind_problem(id_: str, component: Any, declarer: ComponentDeclarer) -> str | None:
    expected, name = (Spout, "Spout") if isinstance(declarer, SpoutDeclarer) else (Bolt, "Bolt")
    if isinstance(component, expected):
        return _function_problem(id_, component)
    if isinstance(component, type) and issubclass(component, expected):
        return f"{id_!r} is the class {component.__name__}; give an instance: {component.__name__}()"
    return f"{id_!r} must be an instance of {name}, got {component!r} of type {type(component).__name__}"


def _function_problem(id_: str, component: Spout | Bolt) -> str | None:
    if isinstance(component, LambdaSpout) and not takes(component.supplier, 0):
        return f"the function of spout {id_!r} must take no argument, got {component.supplier!r}"
    if isinstance(component, LambdaBolt) and not takes(component.function, 1) and not takes(component.function, 2):
        return f"the function of bolt {id_!r} must take (tup) or (tup, collector), got {component.function!r}"
    return None


def _check_parallelism(id_: str, parallelism: Any, conf: Mapping[str, Any]) -> None:
    tasks, most = conf.get("topology.tasks"), conf.get("topology.max.task.parallelism")
    for what, value in (("parallelism", parallelism), ("number of tasks", tasks), ("maximum of tasks", most)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TASKS:
            raise InvalidTopologyError(
                f"the {what} of {id_!r} must be a whole number from 1 to {MAX_TASKS}, got {value!r}"
            )


def _spec(id_: str, component: Any, parallelism: int | None, declarer: ComponentDeclarer) -> ComponentSpec:
    runnable = component.as_bolt() if isinstance(component, Bolt) else component
    own_conf = _asked(id_, "component_configuration", runnable.component_configuration)
    if own_conf is not None and not isinstance(own_conf, Mapping):
        raise InvalidTopologyError(f"component_configuration of {id_!r} must give a mapping or None, got {own_conf!r}")
    conf = {**(own_conf or {}), **declarer.conf}
    _check_parallelism(id_, parallelism, conf)
    _asked(id_, "the configuration", lambda: runnable._configured(conf))
    outputs = OutputFieldsDeclarer()
    _asked(id_, "declare_output_fields", lambda: runnable.declare_output_fields(outputs))
    return ComponentSpec(
        id_,
        runnable,
        parallelism or 1,
        conf,
        dict(outputs.streams),
        dict(getattr(declarer, "inputs", {})),
        dict(declarer.resources),
    )


def _asked(id_: str, method: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StormError as exc:
        raise InvalidTopologyError(f"{method} of {id_!r}: {exc}") from exc
    except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
        raise InvalidTopologyError(f"{method} of {id_!r} raised {type(exc).__name__}: {exc}") from exc


def _structure_problems(topology: Topology, declared_ids: set[str]) -> Iterator[str]:
    for hook in topology.worker_hooks:
        if isinstance(hook, type) or not (hasattr(hook, "start") and hasattr(hook, "shutdown")):
            yield f"a worker hook must be an object with start(conf) and shutdown(), got {hook!r}"
    for spec in topology.components.values():
        for stream_id in spec.outputs:
            if stream_id.startswith("__"):
                yield f"stream {stream_id!r} of {spec.id!r} is reserved: ids that start with '__' belong to the system"
        if spec.kind == "bolt" and not spec.inputs:
            yield f"bolt {spec.id!r} has no inputs; subscribe it, for example with .shuffle_grouping(component_id)"
    for source, spec, grouping in topology.subscriptions():
        if source.component_id in topology.components:
            problem = _subscription_problem(topology.components[source.component_id], source, spec, grouping)
        elif source.component_id in declared_ids:
            problem = None  # its own problem is told already
        else:
            problem = (
                f"bolt {spec.id!r} subscribes to component {source.component_id!r}, which does not exist; "
                f"{did_you_mean(source.component_id, topology.components)}"
            )
        if problem:
            yield problem


def _subscription_problem(
    upstream: ComponentSpec, source: GlobalStreamId, spec: ComponentSpec, grouping: Grouping
) -> str | None:
    stream = upstream.outputs.get(source.stream_id)
    if stream is None:
        return (
            f"bolt {spec.id!r} subscribes to stream {source.stream_id!r} of {upstream.id!r}, which is not declared; "
            f"{did_you_mean(source.stream_id, upstream.outputs)}"
        )
    if isinstance(grouping, (FieldsGrouping, PartialKeyGrouping)):
        return _fields_problem(upstream, source, spec, grouping.fields, stream)
    if isinstance(grouping, CustomGrouping) and not _can_choose(grouping.chooser):
        return (
            f"the custom grouping of bolt {spec.id!r} must be an instance of CustomStreamGrouping, or have its prepare "
            f"and choose_tasks, got {grouping.chooser!r}"
        )
    if not isinstance(grouping, Grouping):
        return f"bolt {spec.id!r} subscribes to {upstream.id!r} by {grouping!r}, which is no grouping"
    return None


def _can_choose(chooser: Any) -> bool:
    chooses = hasattr(chooser, "choose_tasks") or hasattr(chooser, "chooseTasks")
    return chooses and hasattr(chooser, "prepare") and not isinstance(chooser, type)


def _fields_problem(
    upstream: ComponentSpec, source: GlobalStreamId, spec: ComponentSpec, fields: Fields, stream: Stream
) -> str | None:
    for name in fields:
        if name not in stream.fields:
            return (
                f"bolt {spec.id!r} groups on field {name!r}, but stream {source.stream_id!r} of {upstream.id!r} "
                f"declares {stream.fields.to_list()}; {did_you_mean(name, stream.fields)}"
            )
    return None


def _warn_of_cycles(topology: Topology) -> None:
    sources = {id_: {source.component_id for source in spec.inputs} for id_, spec in topology.components.items()}
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as exc:
        log.warning("the topology has a cycle: %s; tuples may go round for ever", " → ".join(exc.args[1]))
