"""The configuration of a topology: a dict with Storm's keys and setters, checked at submit.

    conf = Config()
    conf.set_num_workers(2)
    conf[Config.TOPOLOGY_MAX_SPOUT_PENDING] = 1000

`config_keys.py` lists the keys, their defaults and their types. Any mapping can be used instead of a `Config`. It must
be JSON-serializable, because it is sent to every slot.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import math
import reprlib
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeAlias

from pystorm_spark.errors import InvalidConfigError, did_you_mean
from pystorm_spark.naming import java_names
from pystorm_spark.topology.config_keys import KEYS, Scope

logger = logging.getLogger(__name__)

Conf: TypeAlias = MutableMapping[str, object]

_DEEPEST = 64

# A base of type Any: type checkers then let `Config.TOPOLOGY_…` and Java's names pass, which exist only at run time.
_Constants: Any = type("_Constants", (), {key.constant: key.name for key in KEYS.values()})


@java_names()
class Config(dict[str, object], _Constants):  # type: ignore[misc]
    """A topology's configuration, with Storm's constants (`Config.TOPOLOGY_DEBUG`) and setters.

    As in Java, a setter may also be called on the class with any dict: `Config.set_debug(conf, True)`. Setters do not
    check values; submitting the topology does.
    """

    def set_debug(self: Conf, on: bool) -> None:
        self["topology.debug"] = on

    def set_num_workers(self: Conf, workers: int) -> None:
        self["topology.workers"] = workers

    def set_num_ackers(self: Conf, ackers: int | None) -> None:
        self["topology.acker.executors"] = ackers

    def set_num_event_loggers(self: Conf, event_loggers: int | None) -> None:
        self["topology.eventlogger.executors"] = event_loggers

    def set_message_timeout_secs(self: Conf, secs: float) -> None:
        self["topology.message.timeout.secs"] = secs

    def set_max_task_parallelism(self: Conf, most: int | None) -> None:
        self["topology.max.task.parallelism"] = most

    def set_max_spout_pending(self: Conf, most: int | None) -> None:
        self["topology.max.spout.pending"] = most

    def set_stats_sample_rate(self: Conf, rate: float) -> None:
        self["topology.stats.sample.rate"] = rate

    def register_serialization(self: Conf, cls: type | str, serializer: type | str | None = None) -> None:
        name = class_name(cls)
        _append(self, "topology.kryo.register", name if serializer is None else {name: class_name(serializer)})

    def register_decorator(self: Conf, cls: type | str) -> None:
        _append(self, "topology.kryo.decorators", class_name(cls))

    def set_kryo_factory(self: Conf, cls: type | str) -> None:
        self["topology.kryo.factory"] = class_name(cls)

    def set_skip_missing_kryo_registrations(self: Conf, skip: bool) -> None:
        self["topology.skip.missing.kryo.registrations"] = skip

    def set_fall_back_on_java_serialization(self: Conf, fall_back: bool) -> None:
        self["topology.fall.back.on.java.serialization"] = fall_back

    def register_metrics_consumer(
        self: Conf, cls: type | str, argument: object = None, parallelism_hint: int | None = None
    ) -> None:
        """Add a metrics consumer, which is given `argument` when it is prepared.

        An int in second place is the parallelism, as in Java. To pass an int as argument, give the parallelism too.
        """
        if parallelism_hint is None and isinstance(argument, int) and not isinstance(argument, bool):
            argument, parallelism_hint = None, argument
        hint = 1 if parallelism_hint is None else parallelism_hint
        entry = {"class": class_name(cls), "argument": argument, "parallelism.hint": hint}
        _append(self, "topology.metrics.consumer.register", entry)

    def register_event_logger(self: Conf, cls: type | str, arguments: Mapping[str, object] | None = None) -> None:
        _append(self, "topology.event.logger.register", {"class": class_name(cls), "arguments": arguments})

    def set_topology_version(self: Conf, version: str) -> None:
        self["topology.version"] = version

    def set_classpath(self: Conf, classpath: str) -> None:
        self["topology.classpath"] = classpath

    def set_environment(self: Conf, environment: Mapping[str, str]) -> None:
        self["topology.environment"] = environment

    def set_topology_worker_max_heap_size(self: Conf, megabytes: float) -> None:
        self["topology.worker.max.heap.size.mb"] = megabytes

    def set_topology_component_worker_constraints(self: Conf, component_id: str, other_id: str) -> None:
        _append(self, "topology.ras.constraints", [component_id, other_id])

    def set_topology_constraints_max_state_search(self: Conf, states: int) -> None:
        self["topology.ras.constraint.max.state.search"] = states

    def set_topology_priority(self: Conf, priority: int) -> None:
        self["topology.priority"] = priority

    def set_topology_strategy(self: Conf, strategy: type | str) -> None:
        self["topology.scheduler.strategy"] = class_name(strategy)


def validate(conf: Mapping[str, object]) -> None:
    """Raise `InvalidConfigError` for the first invalid value; log a warning for a key that seems misspelt."""
    resolve(conf)


def resolve(conf: Mapping[str, object] | None) -> dict[str, object]:
    """A checked deep copy of `conf`: every known key with its value or default, and the unknown keys."""
    resolved = {**{key.name: key.default for key in KEYS.values()}, **_checked({} if conf is None else conf, "")}
    _check_together(resolved, "")
    return resolved


def component_conf(
    topology_conf: Mapping[str, object], own: Mapping[str, object] | None, component_id: str
) -> dict[str, object]:
    """The configuration of a component's tasks: `topology_conf`, overridden by those of its own keys that it may set.

    `topology_conf` must come from `resolve`, which checks it.
    """
    where = f"component {component_id!r}: "
    conf = {key: _json_copy(value, key, where) for key, value in topology_conf.items()}
    checked = _checked({} if own is None else own, where)
    conf.update((key, value) for key, value in checked.items() if _may_set(key, where))
    _check_together(conf, where)
    return conf


def class_name(cls: type | str) -> str:
    """The name under which `load_class` finds `cls`. A name is returned unchanged."""
    if isinstance(cls, str):
        return cls
    if not isinstance(cls, type):
        raise InvalidConfigError(f"{reprlib.repr(cls)} is not a class; give a class or its name 'module:Name'")
    if "<locals>" in cls.__qualname__:
        raise InvalidConfigError(
            f"class {cls.__qualname__!r} of module {cls.__module__!r} is defined inside a function, where no other "
            f"process can find it by name; define it at the top level of a module"
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def load_class(name: str) -> type:
    """The class with that name: "package.module:Outer.Name" or "package.module.Name"."""
    module_name, _, path = name.partition(":") if ":" in name else name.rpartition(".")
    if not module_name or not path:
        raise InvalidConfigError(f"{name!r} does not name a class; write 'package.module:Name'")
    found: object = _import(module_name, name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise InvalidConfigError(f"cannot load {name!r}: no {part!r} there; {did_you_mean(part, _classes(found))}")
        found = getattr(found, part)
    if not isinstance(found, type):
        raise InvalidConfigError(f"{name!r} is {reprlib.repr(found)}, not a class")
    return found


def _import(module_name: str, name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except Exception as exc:
        raise InvalidConfigError(f"cannot load {name!r}: importing {module_name!r} raised {exc!r}") from exc


def _classes(owner: object) -> list[str]:
    return [name for name, member in getattr(owner, "__dict__", {}).items() if isinstance(member, type)]


def _append(conf: Conf, key: str, entry: object) -> None:
    registered = conf.get(key)
    # A new list, because the mapping that `conf` was made from may share the old one.
    conf[key] = [*registered, entry] if isinstance(registered, (list, tuple)) else [entry]


def _checked(conf: Mapping[str, object], where: str) -> dict[str, object]:
    """A copy of `conf` in which each value is valid by itself."""
    if not isinstance(conf, Mapping):
        raise InvalidConfigError(f"{where}the configuration is {reprlib.repr(conf)}, but must be a mapping")
    named = {_json_key(key, "the configuration", where): value for key, value in conf.items()}
    for key, value in named.items():
        _check(key, value, where)
    return {key: _json_copy(value, key, where) for key, value in named.items()}


def _check(key: str, value: object, where: str) -> None:
    if key not in KEYS:
        _warn_if_misspelt(key, where)
    elif not KEYS[key].accepts(value):
        raise InvalidConfigError(f"{where}{key} is {reprlib.repr(value)}, but must be {KEYS[key].expects}")


def _warn_if_misspelt(key: str, where: str) -> None:
    near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.9)
    if near:
        logger.warning("%sthe key %r is unknown and kept; did you mean %r?", where, key, near[0])


def _check_together(conf: Mapping[str, object], where: str) -> None:
    if conf.get("topology.enable.message.timeouts") is False and conf.get("topology.max.spout.pending") is not None:
        raise InvalidConfigError(
            f"{where}topology.max.spout.pending is {conf['topology.max.spout.pending']!r} while "
            f"topology.enable.message.timeouts is False: a lost tuple would stay pending and stall its spout for ever; "
            f"allow timeouts, or set topology.max.spout.pending to null"
        )
    is_exactly_once = conf.get("topology.state.guarantee") == "exactly-once"
    if is_exactly_once and conf.get("topology.enable.message.timeouts") is False:
        raise InvalidConfigError(
            f"{where}topology.state.guarantee is 'exactly-once' while topology.enable.message.timeouts is False: one "
            f"tuple that nobody acks or fails would block all commits for ever; allow timeouts, and set "
            f"topology.message.timeout.secs to more than any tuple takes"
        )
    if is_exactly_once and conf.get("topology.acker.executors") == 0:
        raise InvalidConfigError(
            f"{where}topology.state.guarantee is 'exactly-once' while topology.acker.executors is 0: without acking "
            f"failed tuples are not noticed; set topology.acker.executors to null"
        )


def _may_set(key: str, where: str) -> bool:
    scope = KEYS[key].scope if key in KEYS else Scope.TASK
    if scope is Scope.TOPOLOGY:
        logger.warning("%s%s is ignored: it can be set for the whole topology only", where, key)
    return scope is Scope.TASK


def _json_copy(value: object, path: str, where: str, depth: int = 0) -> object:
    """A copy of `value` in JSON's types. `path` is its place in the configuration, for error messages."""
    if value is None or isinstance(value, bool):
        return value
    if depth > _DEEPEST:
        raise InvalidConfigError(f"{where}{path[:40]}… contains itself, or more than {_DEEPEST} levels")
    if isinstance(value, (str, int, float)):
        return _json_scalar(value, path, where)
    if isinstance(value, (list, tuple)):
        return [_json_copy(item, f"{path}[{index}]", where, depth + 1) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _json_key(key, path, where): _json_copy(item, f"{path}.{key}", where, depth + 1)
            for key, item in value.items()
        }
    raise InvalidConfigError(
        f"{where}{path} is {reprlib.repr(value)} of type {type(value).__name__}, which JSON does not have; "
        f"use strings, numbers, booleans, None, lists and dicts"
    )


def _json_scalar(value: str | int | float, path: str, where: str) -> str | int | float:
    # Of a subclass (an Enum, a NumPy float) only the plain value travels.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if not math.isfinite(value):
        raise InvalidConfigError(f"{where}{path} is {value!r}, which JSON does not have; use a finite number")
    return float.__float__(value)


def _json_key(key: object, path: str, where: str) -> str:
    if not isinstance(key, str):
        raise InvalidConfigError(
            f"{where}{path} has the key {key!r} of type {type(key).__name__}, but keys must be strings"
        )
    return str.__str__(key)
