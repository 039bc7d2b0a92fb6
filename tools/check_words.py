"""Words and calls that have no place in the tree, each with what to do instead.

  tools/check_words.py
"""

import os
import re
import sys

import repository
from check_sizes import blank_out

# In every text file: (pattern, why).
EVERYWHERE = [
    (r"\b(TODO|FIXME|XXX|HACK)\b", "finish it, or file it and leave no mark"),
    (r"(?<![\w.$}/-])/(work|root|home/\w+)/", "a path of one machine"),
    (r"-m(arch|tune)=native", "builds run on machines unlike this one: x86-64-v3 and run-time dispatch"),
]
# In C++ outside tests, comments and literals blanked out: (pattern, rooms that may, why).
CALLS = [
    (r"\bstd::(recursive_|shared_|timed_)?mutex\b|\bstd::(lock_guard|unique_lock|scoped_lock|condition_variable\w*)\b",
     {"base"}, "use base::Mutex, base::MutexLock and base::CondVar, whose guards clang checks"),
    (r"\bstd::j?thread\b(?!::)|\bpthread_create\b|\bstd::async\b", {"base"}, "threads come from base"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b", {"base"}, "wait on a condition, a deadline or the event loop"),
    (r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday)\b", {"base"},
     "time comes from base::Clock, so that tests bring their own"),
    (r"\bstd::(mt19937\w*|random_device|default_random_engine)\b|(?<![\w.:>])s?rand\(", {"base"},
     "randomness comes from base"),
    (r"(?<![\w.>])(::|std::)?getenv\(", {"apps"}, "only apps reads the environment"),
    (r"(?<![\w.>:])(::|std::)?(socket|accept4?|connect)\(", {"net"}, "sockets belong to net"),
    (r"(?<![\w.>:])(::)?(fork|vfork|execv\w*|posix_spawnp?|popen)\(|\bstd::system\(", {"proc", "apps"},
     "processes belong to proc"),
    (r"(?<![\w.>])(::|std::)?(abort|_?exit|quick_exit)\(", {"base", "apps"},
     "nothing that a request, a file or a peer does may end the process: return a Status"),
    (r"\bthrow\b(?!\s*\()", set(), "return a Status"),
    (r"(?<![\w.>:])(std::)?(strcpy|strcat|sprintf|gets|strtok|alloca|atoi|atol|atof)\(", set(),
     "unbounded or unchecked; use base's parsing and formatting"),
    (r"\bstd::(cout|cerr|clog)\b|#include\s*<iostream>", {"apps"}, "records go through observe's log"),
]
IN_TESTS = [
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b", "a test waits for a condition, not for time"),
]
TEXT = (".cc", ".h", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".yaml", ".yml", ".in", ".pbtxt", ".proto")
NO_NAMES = re.compile(r"(^|[_/])(utils?|common|helpers?|misc)\.(cc|h|py|sh)$")
TEST_FOLDERS = ("tests/", "conformance/")


def is_test(path):
    return path.endswith(repository.TEST_FILES) or "/testing/" in path or path.startswith(TEST_FOLDERS)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check_text(path, text):
    findings = []
    for pattern, why in EVERYWHERE:
        for match in re.finditer(pattern, text):
            findings.append(f"{path}:{line_of(text, match.start())}: '{match.group(0)}': {why}")
    return findings


def check_cpp(path, text):
    room, code, findings = repository.room_of(path), blank_out(text), []
    if path.startswith("bench/"):
        return findings  # a measuring program stands on its own
    rules = IN_TESTS if is_test(path) else [(p, w) for p, rooms, w in CALLS if room not in rooms]
    for pattern, why in rules:
        for match in re.finditer(pattern, code):
            findings.append(f"{path}:{line_of(code, match.start())}: '{match.group(0).strip()}': {why}")
    if path.endswith(".h") and "#pragma once" not in text:
        findings.append(f"{path}: no #pragma once")
    return findings


def main():
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    findings = []
    for path in repository.files():
        if NO_NAMES.search(path):
            findings.append(f"{path}: the name says nothing about the content")
        if path == os.path.join("tools", "check_words.py"):
            continue
        if not path.endswith(TEXT) and os.path.basename(path) not in ("dev", "run"):
            continue
        text = repository.read(path)
        # Recorded answers and corpora hold what peers said, not what we say.
        if "/recorded/" not in path and "/fuzz_corpus/" not in path:
            findings += check_text(path, text)
        if path.endswith((".cc", ".h")):
            findings += check_cpp(path, text)
    return repository.report("words", findings)


if __name__ == "__main__":
    sys.exit(main())
