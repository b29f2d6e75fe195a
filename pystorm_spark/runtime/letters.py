"""Internal. Dead letters of components as lines of JSON."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from pystorm_spark.errors import shown


def line_of(letter: Mapping[str, Any], topology: str, time: float) -> str:
    """The line that is kept of `letter`, with what all letters have; what is no JSON in it is `{"repr": text}`."""
    whole = {"id": secrets.token_hex(8), "time": time, "kind": "record", "topology": topology, **letter}
    return json.dumps(_plain(whole), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {"repr": shown(value)}
    return value
