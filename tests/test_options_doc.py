"""docs/options.md is what the program says of itself."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_options_page_is_up_to_date():
    stoker = os.environ.get("STOKER_BINARY", os.path.join(ROOT, "build", "bin", "stoker"))
    command = [sys.executable, os.path.join(ROOT, "tools", "options_doc.py"), "--check", "--stoker", stoker]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
