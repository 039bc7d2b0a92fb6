"""Compares an answer with what was recorded, or with what a case says is right.

What is compared: status or code; media type and content codings of good answers; bodies by structure, numbers of FP32
tensors as float32. What is not: texts of errors beyond the fragments a case names, the order of outputs, times.
"""

import math
import re
import struct

_FLOATS = ("FP16", "BF16", "FP32", "FP64")


def _float32(value):
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _same_number(want, got, datatype):
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, int) and isinstance(got, int):
        return want == got
    if datatype is not None and datatype not in _FLOATS:
        return False
    if datatype == "FP32":
        want, got = _float32(float(want)), _float32(float(got))
    return want == got or (math.isnan(want) and math.isnan(got))


class Comparison:
    """Collects differences. Options: ignore (path patterns, * for one part), subset (path patterns under which more
    keys than wanted are good), optional_defaults (paths under which unknown keys are good when they hold a default),
    tolerance (absolute, for floating-point tensors)."""

    def __init__(self, ignore=(), subset=(), optional_defaults=(), tolerance=0.0):
        self._ignore = [self._pattern(p) for p in ignore]
        self._subset = [self._pattern(p) for p in subset]
        self._defaults = [self._pattern(p) for p in optional_defaults]
        self._tolerance = tolerance
        self.differences = []

    @staticmethod
    def _pattern(path):
        parts = ["[^/]*" if p == "*" else ".*" if p == "**" else re.escape(p) for p in path.split("/")]
        return re.compile("/".join(parts))

    @staticmethod
    def _matches(patterns, path):
        return any(p.fullmatch(path) for p in patterns)

    def _note(self, path, want, got):
        self.differences.append(f"{path or 'answer'}: wanted {_short(want)}, got {_short(got)}")

    def values(self, want, got, path="", datatype=None):
        """Compares two values of any kind."""
        if self._matches(self._ignore, path):
            return
        if isinstance(want, dict) and set(want) == {"any"}:
            self._any(want["any"], got, path, datatype)
        elif isinstance(want, dict) and isinstance(got, dict):
            self._mappings(want, got, path, datatype)
        elif isinstance(want, list) and isinstance(got, list):
            if len(want) != len(got):
                self._note(path, want, got)
                return
            for index, pair in enumerate(zip(want, got)):
                self.values(*pair, f"{path}/{index}", datatype)
        elif isinstance(want, (int, float)) and isinstance(got, (int, float)):
            near = datatype in _FLOATS and abs(want - got) <= self._tolerance
            if not near and not _same_number(want, got, datatype):
                self._note(path, want, got)
        elif type(want) is not type(got) or want != got:
            self._note(path, want, got)

    def _any(self, choices, got, path, datatype):
        for choice in choices:
            trial = Comparison()
            trial._ignore, trial._subset, trial._defaults = self._ignore, self._subset, self._defaults
            trial.values(choice, got, path, datatype)
            if not trial.differences:
                return
        self._note(path, {"any": choices}, got)

    def _mappings(self, want, got, path, datatype):
        if isinstance(got.get("datatype"), str):
            datatype = got["datatype"]
        for key, value in want.items():
            inner = f"{path}/{key}" if path else key
            if self._matches(self._ignore, inner):
                continue
            if key not in got:
                self._note(inner, value, "nothing")
            else:
                self.values(value, got[key], inner, datatype)
        for key in got.keys() - want.keys():
            inner = f"{path}/{key}" if path else key
            if self._matches(self._subset, path) or self._matches(self._ignore, inner):
                continue
            if self._matches(self._defaults, path) and got[key] in (0, False, "", [], {}, "0", None):
                continue
            self._note(inner, "nothing", got[key])


def prune(value, ignore, path=""):
    """The value without what a comparison with these ignore patterns would not look at."""
    patterns = [Comparison._pattern(p) for p in ignore]

    def walk(inner, place):
        if isinstance(inner, dict):
            named = [(k, v, f"{place}/{k}" if place else k) for k, v in inner.items()]
            return {k: walk(v, p) for k, v, p in named if not any(x.fullmatch(p) for x in patterns)}
        if isinstance(inner, list):
            return [walk(v, f"{place}/{i}") for i, v in enumerate(inner)]
        return inner

    return walk(value, path)


def _short(value):
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _error_text(answer):
    """The text of an error answer, None if the answer is none."""
    if "status" in answer:
        body = answer.get("body", {}).get("json")
        if isinstance(body, dict) and isinstance(body.get("error"), str):
            return body["error"]
        return None
    if "code" in answer and answer["code"] != "OK":
        return answer.get("details", "")
    return answer.get("error")


def _texts(answer):
    text = _error_text(answer)
    return text if text is not None else repr(answer)


def compare_answer(step, want, got):
    """Differences between the recorded answer of a step and the one that came."""
    notes = []
    for fragment in _listed(step.get("fragment")):
        if fragment not in _texts(got):
            notes.append(f"text: wanted the fragment {fragment!r} in {_short(_texts(got))}")
    return notes + _by_kind(step, want, got)


def _listed(value):
    return [] if value is None else value if isinstance(value, list) else [value]


def _by_kind(step, want, got):
    if "parallel" in step:
        notes = _each(step["parallel"], want["parallel"], got.get("parallel", []))
        if want.get("finished") != got.get("finished"):
            notes.append(f"finished: wanted {want.get('finished')}, got {got.get('finished')}")
        return notes
    if "change" in step:
        notes = _each(step["change"]["steps"], want["steps"], got.get("steps", []))
        return notes + _structural(step, want["change"], got.get("change"), "change")
    if "until" in step:
        return compare_answer(step["until"]["step"], want, got)
    if "wire" in step:
        return _wires(step, want, got)
    if "stream" in step:
        return _streams(step, want, got)
    if _error_text(want) is not None:
        return _errors(want, got)
    return _structural(step, want, got, "")


def _each(steps, want, got):
    notes = []
    for index, step in enumerate(steps):
        answer = got[index] if index < len(got) else {}
        notes += [f"[{index}] {n}" for n in compare_answer(step, want[index], answer)]
    return notes


def _structural(step, want, got, path):
    comparison = Comparison(
        step.get("ignore", ()), step.get("subset", ()), step.get("optional_defaults", ()), step.get("tolerance", 0.0)
    )
    comparison.values(want, got, path)
    return comparison.differences


def _errors(want, got):
    """Errors are compared by status or code, and by being an error with a text."""
    notes = []
    for key in ("status", "code"):
        if want.get(key) != got.get(key):
            notes.append(f"{key}: wanted {want.get(key)}, got {got.get(key)} ({_short(_texts(got))})")
    if not notes and _error_text(want) and not _error_text(got):
        notes.append(f"body: wanted an error text, got {_short(got)}")
    if not notes and "accept-encoding" in want.get("headers", {}):
        if "accept-encoding" not in got["headers"]:
            notes.append("headers: wanted Accept-Encoding")
    return notes


def _wires(step, want, got):
    notes = []
    if len(want["answers"]) != len(got.get("answers", [])):
        return [f"answers: wanted {len(want['answers'])}, got {_short(got)}"]
    for index, pair in enumerate(zip(want["answers"], got["answers"])):
        notes += [f"[{index}] {n}" for n in _by_kind(_plain(step), *pair)]
    if step["wire"].get("closes") and want.get("closed") != got.get("closed"):
        notes.append(f"closed: wanted {want.get('closed')}, got {got.get('closed')}")
    return notes


def _plain(step):
    return {k: v for k, v in step.items() if k in ("ignore", "subset", "optional_defaults", "tolerance")}


def _streams(step, want, got):
    if want["code"] != got.get("code") or len(want["messages"]) != len(got["messages"]):
        return [f"stream: wanted {_short(want)}, got {_short(got)}"]
    notes = []
    for index, (one, other) in enumerate(zip(want["messages"], got["messages"])):
        if "error" in one:
            if "error" not in other:
                notes.append(f"[{index}] wanted an error, got {_short(other)}")
            one, other = one.get("response", {}), other.get("response", {})
        notes += [f"[{index}] {n}" for n in _structural(step, one, other, "")]
    return notes


def compare_right(want, got):
    """Differences between a partial description of the right answer and the one that came: what it names must match."""
    want = dict(want) if isinstance(want, dict) else want
    fragments = _listed(want.pop("fragment", None)) if isinstance(want, dict) else []
    notes = [f"text: wanted the fragment {f!r}" for f in fragments if f not in _texts(got)]
    comparison = Comparison(subset=["**", ""])
    comparison.values(want, got)
    return notes + comparison.differences
