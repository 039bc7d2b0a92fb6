#!/usr/bin/env python3
"""Runs the conformance cases against a server that speaks the KServe v2 protocol. See README.md."""

import argparse
import json
import re
import sys
import time

from suite import cases as case_files
from suite import outcome
from suite.server import Server, groups
from suite.steps import Target, run_case

def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", default="127.0.0.1:8000", help="address of the HTTP port")
    parser.add_argument("--grpc", default="127.0.0.1:8001", help="address of the gRPC port")
    parser.add_argument("--metrics", default="127.0.0.1:8002", help="address of the metrics port")
    parser.add_argument("--profile", default="default", help="profile the server was started for (profiles.yaml)")
    parser.add_argument("--launch", metavar="COMMAND", help="start the server for each profile by this template "
                        "with {repo} {http} {grpc} {metrics} {options}, instead of using a running one")
    parser.add_argument("--filter", metavar="PATTERN", help="only cases whose name has this regular expression")
    parser.add_argument("--without", metavar="NEEDS", default="", help="skip cases that need these backends, or a server "
                        "started by these profiles: python,openvino,restricted,…")
    parser.add_argument("--skip-deadly", action="store_true", help="skip cases that are known to end a server")
    parser.add_argument("--as-recorded", action="store_true", help="expect the recorded server's answers, faults too")
    parser.add_argument("--allow-known-faults", action="store_true", help="count the recorded faults apart")
    parser.add_argument("--json", action="store_true", help="one JSON object per case on standard output")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--verbose", action="store_true", help="print passed cases too")
    return parser.parse_args()


class Running:
    """A server that somebody else started."""

    def __init__(self, target):
        self.target = target

    def alive(self, _grace_s=0.0):
        return True


class Report:
    """Prints outcomes as they come and keeps count."""

    def __init__(self, arguments):
        self._arguments = arguments
        self.counts = dict.fromkeys((outcome.PASSED, outcome.FAILED, outcome.KNOWN_FAULT, outcome.SKIPPED), 0)

    def add(self, case, result, notes, seconds=0.0):
        if result == outcome.KNOWN_FAULT and not self._arguments.allow_known_faults:
            result = outcome.FAILED
            notes = ["answered with the known fault"] + notes
        self.counts[result] += 1
        if self._arguments.json:
            print(json.dumps({"case": case.name, "verdict": case.verdict, "outcome": result,
                              "notes": notes, "seconds": round(seconds, 3)}), flush=True)
        elif result == outcome.FAILED or self._arguments.verbose:
            print(f"{result.upper():8} {case.name}", flush=True)
            if result != outcome.PASSED:
                print("".join(f"         {n}\n" for n in notes[:6]), end="", flush=True)

    def close(self):
        """Prints the summary; the exit code."""
        if self._arguments.allow_known_faults:
            print(f"triton-known-faults {self.counts[outcome.KNOWN_FAULT]}")
        print(f"{self.counts[outcome.PASSED]} passed, {self.counts[outcome.FAILED]} failed, "
              f"{self.counts[outcome.SKIPPED]} skipped")
        return 1 if self.counts[outcome.FAILED] or not self.counts[outcome.PASSED] else 0


def _why_skipped(case, arguments, profile):
    without = set(filter(None, arguments.without.split(",")))
    if without & set(case.needs):
        return f"needs {', '.join(case.needs)}"
    if case.profile in without:
        return f"needs profile {case.profile}"
    if case.deadly and arguments.skip_deadly:
        return "would end the server"
    if case.profile != profile:
        return f"needs profile {case.profile}"
    if not arguments.launch and any("files" in s for s in case.steps):
        return "changes the repository's files: needs --launch"
    return None


def _attempt(case, server, arguments):
    """Runs and judges a case; one that depends on timing has three tries, for machines that are busy."""
    for _ in range(3 if case.timing and not case.deadly else 1):
        answers = run_case(case, server.target)
        result, notes = outcome.judge(case, answers, arguments.as_recorded)
        if result != outcome.FAILED:
            break
    return result, notes, answers


def _run_profile(chosen, server, arguments, report):
    """Runs cases; a server of ours that ended is started again."""
    ended = False
    for case in chosen:
        begin = time.monotonic()
        if not server.alive(3.0 if ended else 0.0):
            server.stop()
            server.start()
        try:
            result, notes, answers = _attempt(case, server, arguments)
            ended = case.deadly or any("answers" not in a and ("closed" in a or "unreachable" in a) for a in answers)
        except Exception as error:  # one broken case must not end the run
            result, notes = outcome.FAILED, [f"{type(error).__name__}: {error}"]
        report.add(case, result, notes, time.monotonic() - begin)


def _split(cases, arguments, profile, report):
    chosen = []
    for case in cases:
        reason = _why_skipped(case, arguments, profile)
        if reason:
            report.add(case, outcome.SKIPPED, [reason])
        else:
            chosen.append(case)
    return sorted(chosen, key=lambda c: c.deadly)


def main():
    arguments = _arguments()
    cases = [c for c in case_files.load() if not arguments.filter or re.search(arguments.filter, c.name)]
    if arguments.list:
        for case in cases:
            print(f"{case.name}  [{case.verdict}, {case.profile}{''.join(', ' + n for n in case.needs)}]")
        return 0
    report = Report(arguments)
    if not arguments.launch:
        target = Target(arguments.http, arguments.grpc, arguments.metrics)
        _run_profile(_split(cases, arguments, arguments.profile, report), Running(target), arguments, report)
        target.close()
        return report.close()
    for (profile, needs), members in groups(cases):
        chosen = _split(members, arguments, profile, report)
        if not chosen:
            continue
        try:
            with Server(arguments.launch, profile, needs) as server:
                _run_profile(chosen, server, arguments, report)
        except RuntimeError as error:
            for case in chosen:
                report.add(case, outcome.FAILED, [f"no server: {error}"])
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
