"""Loads case files (cases/AREA.yaml) and recorded answers (recorded/AREA.json)."""

import json
import pathlib

import yaml

from . import lenient_json
from .steps import kind_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERDICTS = ("same", "quirk", "fault")
_CASE_KEYS = {
    "name", "verdict", "why", "needs", "profile", "steps", "expected_right", "also", "deadly", "varies",
}


class Case:
    """One case. steps are run in order; expected_right maps step index → partial answer, for faults only."""

    def __init__(self, area, entry, defaults):
        self.area = area
        self.name = f"{area}/{entry['name']}"
        self.verdict = entry.get("verdict", "same")
        self.why = entry.get("why", "")
        self.needs = entry.get("needs", defaults.get("needs", []))
        self.profile = entry.get("profile", defaults.get("profile", "default"))
        self.deadly = entry.get("deadly", False)
        self.varies = entry.get("varies", False)
        self.single = "steps" not in entry
        self.timing = "'parallel'" in repr(entry)
        step = {k: v for k, v in entry.items() if k not in _CASE_KEYS}
        self.steps = [step] if self.single else entry["steps"]
        self.expected_right = self._by_step(entry.get("expected_right"))
        self.also = self._by_step(entry.get("also"))
        self.recorded = None
        self._check(entry)

    def _by_step(self, value):
        if value is None:
            return {}
        return {0: value} if self.single else {int(k): v for k, v in value.items()}

    def _check(self, entry):
        where = f"case '{self.name}'"
        if self.verdict not in VERDICTS:
            raise ValueError(f"{where}: verdict must be one of {VERDICTS}, got '{self.verdict}'")
        if (self.verdict == "fault") != bool(self.expected_right):
            raise ValueError(f"{where}: expected_right belongs to faults, and only to them")
        if not self.single and set(entry) - _CASE_KEYS:
            raise ValueError(f"{where}: {sorted(set(entry) - _CASE_KEYS)} must stand inside a step")
        for step in self.steps:
            try:
                kind_of(step)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error


def load(folder=None):
    """All cases, by area and in file order, with their recorded answers where there are any."""
    cases = []
    for path in sorted((folder or ROOT / "cases").glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        recorded = read_recorded(path.stem)
        for entry in content["cases"]:
            case = Case(path.stem, entry, content)
            case.recorded = recorded.get(case.name)
            cases.append(case)
    names = [c.name for c in cases]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"cases named twice: {', '.join(twice)}")
    return cases


def read_recorded(area):
    path = ROOT / "recorded" / f"{area}.json"
    if not path.exists():
        return {}
    return {name: lenient_json.thaw(v) for name, v in json.loads(path.read_text())["triton"].items()}


def write_recorded(area, server, answers):
    """Writes the recorded answers of an area, one case a line group, so that diffs stay readable."""
    content = {"server": server, "triton": {name: lenient_json.freeze(a) for name, a in answers.items()}}
    lines = [f'{{\n"server": {json.dumps(server)},\n"triton": {{']
    items = [f"{json.dumps(n)}: {json.dumps(a, ensure_ascii=False)}" for n, a in content["triton"].items()]
    path = ROOT / "recorded" / f"{area}.json"
    path.write_text("\n".join(lines) + "\n" + ",\n".join(items) + "\n}}\n")


def profiles():
    """Options a server needs, by profile."""
    return yaml.safe_load((ROOT / "profiles.yaml").read_text())
