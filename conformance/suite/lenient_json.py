"""JSON of the protocol: bare NaN and Infinity are read; recorded files hold them as {"$float": "nan"}."""

import json
import math


def parse(data):
    """Value of JSON bytes, with NaN and Infinity allowed; raises ValueError."""
    return json.loads(data.decode("utf-8"))


def freeze(value):
    """A value that standard JSON can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, dict):
        return {k: freeze(v) for k, v in value.items()}
    if isinstance(value, list):
        return [freeze(v) for v in value]
    return value


def thaw(value):
    """The inverse of freeze."""
    if isinstance(value, dict):
        if set(value) == {"$float"}:
            return float(value["$float"])
        return {k: thaw(v) for k, v in value.items()}
    if isinstance(value, list):
        return [thaw(v) for v in value]
    return value
