"""clang-tidy (.clang-tidy) over the sources of src/, remembering files that were clean.

  tools/check_tidy.py BUILD           BUILD was configured with clang and is built (build/asan)
  tools/check_tidy.py BUILD FILE...   only these, without the memory

A file is looked at again when it, anything it includes from src/, its compile command or .clang-tidy changed.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

import repository


def includes(path, memo):
    """The files of src/ that a file includes, directly or not, by name (a superset is fine)."""
    if path in memo:
        return memo[path]
    memo[path] = {path}
    try:
        text = repository.read(path)
    except OSError:
        return memo[path]
    room = repository.room_of(path)
    for target in re.findall(r'#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', text):
        candidates = [os.path.join(os.path.dirname(path), target), os.path.join("src", room or "", target)]
        if target.startswith("stoker/"):
            other = target.split("/")[1]
            candidates = [f"src/{other}/include/{target}", f"src/{other}/testing/include/{target}"]
        for candidate in candidates:
            candidate = os.path.normpath(candidate)
            if repository.exists(candidate):
                memo[path] |= includes(candidate, memo)
                break
    return memo[path]


def key(path, command, memo):
    digest = hashlib.sha256((command + repository.read(".clang-tidy")).encode())
    for name in sorted(includes(path, memo)):
        digest.update(name.encode() + repository.read(name).encode())
    return digest.hexdigest()


def tidy(build, path):
    process = subprocess.run(
        ["clang-tidy-14", "-p", build, "--quiet", "--warnings-as-errors=*", path],
        cwd=repository.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    # clang-tidy counts what it left out on stderr; findings are on stdout.
    return process.returncode, process.stdout + (process.stderr if "error:" in process.stderr else "")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    build, only = sys.argv[1], {os.path.normpath(name) for name in sys.argv[2:]}
    with open(os.path.join(repository.ROOT, build, "compile_commands.json"), encoding="utf-8") as text:
        commands = {os.path.relpath(entry["file"], repository.ROOT): entry["command"] for entry in json.load(text)}
    seen_path = os.path.join(repository.ROOT, build, "tidy-clean.json")
    try:
        with open(seen_path, encoding="utf-8") as text:
            clean = set(json.load(text))
    except (OSError, ValueError):
        clean = set()
    memo, work = {}, {}
    for path, command in sorted(commands.items()):
        if not path.startswith("src/") or path.endswith(("_test.cc", "_fuzz.cc")) or (only and path not in only):
            continue
        mark = key(path, command, memo)
        if only or mark not in clean:
            work[path] = mark
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        futures = {pool.submit(tidy, build, path): path for path in work}
        for done in concurrent.futures.as_completed(futures):
            code, output = done.result()
            if code == 0:
                clean.add(work[futures[done]])
            else:
                failures += 1
                print(output, flush=True)
    with open(seen_path, "w", encoding="utf-8") as text:
        json.dump(sorted(clean), text)
    print(f"check_tidy: {len(work)} files looked at, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
