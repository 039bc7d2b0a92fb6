"""Runs every stage that must hold before a change lands and closes with one line that counts.

  ./dev test                  all stages
  ./dev test --quick          gates, build, unit tests: a minute or two once built
  ./dev test --only NAME...   only these stages (and what they need built)
  ./dev test --list           the stages

A stage's output goes to build/test-logs/NAME.log; of one that fails the end is shown. A stage whose build
failed is not run and counts as failed. Tests that skip (no GPU, no such CPU) are counted and named.
"""

import argparse
import dataclasses
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "test-logs")
# Rooms with threads of their own: their tests run under ThreadSanitizer.
THREADED = "base|observe|proc|net|batching|engines|host|serve|apps"
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:suppressions={ROOT}/tools/tsan.supp",
}


@dataclasses.dataclass
class Stage:
    name: str
    about: str
    command: list
    limit_s: int
    needs: tuple = ()
    requires: str = ""            # a path without which the stage does not exist yet
    quick: bool = False
    environment: dict = dataclasses.field(default_factory=dict)


def build(preset, *targets):
    command = ["tools/build.sh", "--no-install", "--preset", preset]
    for target in targets:
        command += ["--target", target]
    return command


def ctest(preset, *options):
    # Two at a time: tests that measure nothing may share the machine.
    return ["ctest", "--test-dir", f"build/{preset}", "--output-on-failure", "--no-tests=error",
            "-j", str(os.cpu_count() or 2), *options]


def stages():
    python = os.environ.get("STOKER_PYTHON", "/usr/bin/python3")
    # ThreadSanitizer of clang 14 cannot map its shadow on kernels with much address randomisation.
    fixed = ["setarch", "--addr-no-randomize"] if can_fix_addresses() else []
    return [
        Stage("check", "gates that need no compiler", ["tools/check.sh"], 120, quick=True),
        Stage("gates", "the gates catch what they are for", ["/usr/bin/python3", "-B", "tools/gates_test.py"], 120,
              quick=True),
        Stage("build", "gcc, -Wall -Wextra -Werror", build("test"), 1800, quick=True),
        Stage("unit", "unit tests", ctest("test"), 900, ("build",), quick=True),
        Stage("headers", "each public header compiles alone", build("test", "check_headers"), 600, ("build",)),
        Stage("asan-build", "clang, lock annotations, address + undefined, fuzz targets", build("asan"), 1800),
        Stage("asan", "unit tests under the address and undefined behaviour sanitizers", ctest("asan"), 1200,
              ("asan-build",), environment=SANITIZER_ENVIRONMENT),
        Stage("fuzz", "each fuzz target for a while, from its seeds",
              ["tools/fuzz.sh", "--no-build", "--all", "--seconds", "15"], 1200, ("asan-build",)),
        Stage("tidy", "clang-tidy", ["/usr/bin/python3", "-B", "tools/check_tidy.py", "build/asan"], 1200,
              ("asan-build",)),
        Stage("tsan-build", "clang, thread sanitizer", build("tsan"), 1800),
        Stage("tsan", "unit tests of the threaded rooms under the thread sanitizer",
              fixed + ctest("tsan", "-R", f"^({THREADED})"), 1200, ("tsan-build",), environment=SANITIZER_ENVIRONMENT),
        Stage("instructions", "instruction counts of the hot paths stay in their budgets",
              [python, "-B", "tools/check_instructions.py", "build/test"], 600, ("build",),
              requires="bench/instructions.json"),
        Stage("install", "cmake --install puts down what a package holds",
              ["tools/install_test.sh", "build/test"], 120, ("build",)),
        Stage("black-box", "the running server, through real clients",
              [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests",
               f"--junitxml={LOGS}/black-box.xml"], 1200, ("build",), requires="tests",
              environment={"STOKER_BINARY": f"{ROOT}/build/test/bin/stoker"}),
        Stage("conformance", "recorded answers of the real Triton",
              ["tools/conformance.sh", "build/test"], 900, ("build",), requires="conformance/run.py"),
        Stage("demo", "./dev demo --check", ["./dev", "demo", "--check"], 1200, requires="tools/demo.py"),
    ]


def can_fix_addresses():
    try:
        return subprocess.run(["setarch", "--addr-no-randomize", "true"], capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False


def run(stage):
    """(exit code or None when out of time, seconds)."""
    environment = dict(os.environ, **stage.environment)
    xml = os.path.join(LOGS, stage.name + "-xml")
    shutil.rmtree(xml, ignore_errors=True)
    os.makedirs(xml)
    environment["GTEST_OUTPUT"] = f"xml:{xml}/"
    started = time.monotonic()
    with open(os.path.join(LOGS, stage.name + ".log"), "w", encoding="utf-8") as log:
        with subprocess.Popen(stage.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, env=environment, start_new_session=True) as process:
            try:
                code = process.wait(timeout=stage.limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # Whatever a stage left running goes with it.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
    return code, time.monotonic() - started


def count(stage):
    """(passed, failed, names of skipped) of a stage's tests, from the XML that GoogleTest and pytest write."""
    passed = failed = 0
    skipped = []
    for path in glob.glob(f"{LOGS}/{stage.name}-xml/*.xml") + glob.glob(f"{LOGS}/{stage.name}.xml"):
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except ElementTree.ParseError:
            continue  # the test died while writing: its exit code tells
        for case in cases:
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None:
                reason = (case.find("skipped").get("message") or "").strip().split("\n")[-1]
                skipped.append(f"{case.get('classname')}.{case.get('name')} {reason}".strip())
            elif case.get("status") != "notrun":
                passed += 1
    if not passed + failed + len(skipped):
        # The suite writes no XML, but closes with such a line.
        with open(os.path.join(LOGS, stage.name + ".log"), encoding="utf-8", errors="replace") as log:
            for match in re.finditer(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", log.read(), re.M):
                passed, failed = int(match.group(1)), int(match.group(2))
                skipped = [""] * int(match.group(3))
    return passed, failed, skipped


def tail(stage, lines=60):
    with open(os.path.join(LOGS, stage.name + ".log"), encoding="utf-8", errors="replace") as log:
        text = log.read().split("\n")
    return "\n".join("    " + line for line in text[-lines:])


def choose(options, everything):
    known = {stage.name: stage for stage in everything}
    for name in options.only:
        if name not in known:
            sys.exit(f"test: no stage '{name}'; there are: {' '.join(known)}")
    wanted = set(options.only)
    for name in options.only:
        wanted.update(known[name].needs)
    if options.only:
        return [stage for stage in everything if stage.name in wanted]
    return [stage for stage in everything if not options.quick or stage.quick]


def run_all(chosen):
    """Runs the stages in order; returns rows (stage, verdict, seconds, passed, failed, skipped)."""
    rows, broken = [], set()
    for stage in chosen:
        if stage.requires and not os.path.exists(os.path.join(ROOT, stage.requires)):
            rows.append((stage, "absent", 0.0, 0, 0, []))
            continue
        stopped = [name for name in stage.needs if name in broken]
        if stopped:
            print(f"test: {stage.name}: not run, since {stopped[0]} failed", flush=True)
            rows.append((stage, "NOT RUN", 0.0, 0, 0, []))
            broken.add(stage.name)
            continue
        print(f"test: {stage.name}: {stage.about} …", flush=True)
        code, seconds = run(stage)
        passed, failed, skipped = count(stage)
        verdict = "ok" if code == 0 and not failed else "OUT OF TIME" if code is None else "FAILED"
        print(f"test: {stage.name}: {verdict} in {seconds:.1f} s", flush=True)
        if verdict != "ok":
            broken.add(stage.name)
            print(tail(stage), flush=True)
        rows.append((stage, verdict, seconds, passed, failed, skipped))
    return rows


def close(rows, started, install_seconds):
    print(f"\n{'stage':14} {'result':12} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    passed = failed = 0
    skipped = []
    for stage, verdict, seconds, stage_passed, stage_failed, stage_skipped in rows:
        print(f"{stage.name:14} {verdict:12} {seconds:8.1f} {stage_passed:7} {stage_failed:7} {len(stage_skipped):8}")
        if verdict == "absent":
            continue
        # A stage is a test of its own; its failure is not counted twice when its tests already tell it.
        passed += stage_passed + (verdict == "ok")
        failed += stage_failed + (verdict != "ok" and not stage_failed)
        skipped += [f"{stage.name}: {name}" for name in stage_skipped]
    for name in skipped:
        if not name.endswith(": "):
            print(f"skipped: {name}")
    print(f"total {time.monotonic() - started + install_seconds:.0f} s, of which installing {install_seconds} s; "
          f"logs in build/test-logs")
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(prog="./dev test", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to the unit tests")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these stages")
    parser.add_argument("--list", action="store_true", help="print the stages")
    parser.add_argument("--install-seconds", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    everything = stages()
    if options.list:
        for stage in everything:
            print(f"{stage.name:14} {stage.about}")
        return 0
    chosen = choose(options, everything)
    os.makedirs(LOGS, exist_ok=True)
    for old in glob.glob(f"{LOGS}/*.xml"):
        os.unlink(old)
    started = time.monotonic()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    return close(run_all(chosen), started, options.install_seconds)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("test: interrupted")
