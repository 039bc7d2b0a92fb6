#!/usr/bin/env python3
"""Records the answers of a live server for the cases. Each case runs twice; answers that differ are told and not kept."""

import argparse
import json
import re
import struct
import sys

from suite import cases as case_files
from suite import gauges
from suite.compare import compare_answer, prune
from suite.server import Server, groups
from suite.steps import run_case


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launch", metavar="COMMAND", required=True, help="template, as in run.py")
    parser.add_argument("--filter", metavar="PATTERN", default="", help="only cases whose name has this expression")
    parser.add_argument("--all", action="store_true", help="record again what is recorded already")
    parser.add_argument("--once", action="store_true", help="run each case once only, for a first look")
    return parser.parse_args()


class Recorder:
    """Answers by area, and the cases that had to be left out."""

    def __init__(self, once):
        self._once = once
        self.answers = {}
        self.unstable = []

    def record(self, case, server):
        """Runs a case (twice, unless it ends the server) and keeps the answers when they agree."""
        first = run_case(case, server.target)
        second = first if self._once or case.deadly else run_case(case, server.target)
        if not server.alive(5.0 if '"closed": true' in json.dumps(first) else 0.0):
            server.stop()
            server.start()
            if not case.deadly:
                self.unstable.append((case.name, ["the server ended: the case is deadly"]))
                return
        elif case.deadly:
            self.unstable.append((case.name, ["the server lives on: the case is not deadly"]))
            return
        notes = [n for s, a, b in zip(case.steps, first, second) for n in compare_answer(s, a, b)]
        if (notes and not case.varies) or "unreachable" in repr(first):
            self.unstable.append((case.name, notes or ["unreachable"]))
            return
        kept = [prune(answer, step.get("ignore", ())) for step, answer in zip(case.steps, first)]
        self.answers.setdefault(case.area, {})[case.name] = server.without_paths(kept)

    def write(self, server):
        for area, answers in self.answers.items():
            merged = {**case_files.read_recorded(area), **answers}
            order = [c.name for c in case_files.load() if c.area == area]
            case_files.write_recorded(area, server, {n: merged[n] for n in order if n in merged})


def _identity(target):
    value = gauges.get(target.http, "/v2").body.decode()
    found = re.search(r'"name":"([^"]*)","version":"([^"]*)"', value)
    return f"{found[1]} {found[2]}" if found else "unknown"


def _record_group(recorder, chosen, launch, profile, needs):
    with Server(launch, profile, needs) as server:
        name = _identity(server.target)
        for case in chosen:
            print(case.name, flush=True)
            try:
                recorder.record(case, server)
            except (ValueError, TypeError, KeyError, struct.error) as error:
                recorder.unstable.append((case.name, [f"{type(error).__name__}: {error}"]))
    recorder.write(name)


def main():
    arguments = _arguments()
    wanted = [
        c for c in case_files.load()
        if re.search(arguments.filter, c.name) and (arguments.all or c.recorded is None)
    ]
    (case_files.ROOT / "recorded").mkdir(exist_ok=True)
    recorder = Recorder(arguments.once)
    for (profile, needs), members in groups(wanted):
        _record_group(recorder, members, arguments.launch, profile, needs)
    for name, notes in recorder.unstable:
        print(f"NOT RECORDED {name}: {'; '.join(notes[:3])}")
    print(f"{sum(map(len, recorder.answers.values()))} recorded, {len(recorder.unstable)} not")
    return 1 if recorder.unstable else 0


if __name__ == "__main__":
    sys.exit(main())
