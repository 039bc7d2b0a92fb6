"""Each gate catches what it is for: builds a small tree with one fault at a time and runs the gate on it.

  tools/gates_test.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(__file__))
ROOMS = """set(STOKER_ROOM_ORDER base net)
set(STOKER_ARROWS_base "")
set(STOKER_ARROWS_net base)
set(STOKER_ARROWS_apps ${STOKER_ROOM_ORDER})
"""
README = "".join(f"## {heading}\n\n" for heading in [
    "What it is for", "Picture", "Public headers", "Who owns what", "Invariants", "Deliberately absent",
    "Decisions that look odd", "How to add one"])


class GatesTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        os.makedirs(os.path.join(self.root, "tools"))
        for name in os.listdir(TOOLS):
            if name.endswith((".py", ".sh")):
                shutil.copy(os.path.join(TOOLS, name), os.path.join(self.root, "tools", name))
        self.write("dev", "case $verb in\n  check) ;;\nesac\n")
        self.write("cmake/rooms.cmake", ROOMS)
        table = subprocess.run([sys.executable, "-B", os.path.join(self.root, "tools/check_arrows.py"), "--table"],
                               capture_output=True, text=True, check=True).stdout
        self.write("ARCHITECTURE.md", f"<!-- rooms: checked by tools/check_arrows.py -->\n{table}<!-- /rooms -->\n")
        for room in ("base", "net"):
            self.write(f"src/{room}/README.md", README)
            self.write(f"src/{room}/CMakeLists.txt", f"room(NAME {room} SOURCES a.cc HEADERS stoker/{room}/a.h)\n")
            self.write(f"src/{room}/a.cc", f"#include <stoker/{room}/a.h>\n")
            self.write(f"src/{room}/include/stoker/{room}/a.h", "#pragma once\n#include <string>\n")

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)

    def gate(self, name):
        done = subprocess.run([sys.executable, "-B", f"tools/check_{name}.py"], cwd=self.root, capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stderr

    def assert_caught(self, name, fragment):
        code, output = self.gate(name)
        self.assertEqual(code, 1, output)
        self.assertIn(fragment, output)

    def test_clean_tree_passes(self):
        for name in ("arrows", "sizes", "dormant", "docs", "words"):
            with self.subTest(gate=name):
                self.assertEqual(self.gate(name), (0, ""))

    def test_arrow_upwards(self):
        self.write("src/base/a.cc", "#include <stoker/net/a.h>\n")
        self.assert_caught("arrows", "base may not include <stoker/net/a.h>")

    def test_list_that_points_up(self):
        self.write("cmake/rooms.cmake", ROOMS.replace('base "")', "base net)"))
        self.assert_caught("arrows", "base -> net does not point down")

    def test_third_party_in_public_header(self):
        self.write("src/net/include/stoker/net/a.h", "#pragma once\n#include <nghttp2/nghttp2.h>\n")
        self.assert_caught("arrows", "hide it in the .cc")

    def test_third_party_in_wrong_room(self):
        self.write("src/base/a.cc", "#include <nghttp2/nghttp2.h>\n")
        self.assert_caught("arrows", "wrapped by net only")

    def test_knot(self):
        names = "bcdefghijkl"
        for here, there in zip(names, names[1:] + names[0]):
            self.write(f"src/net/{here}.h", f'#pragma once\n#include "{there}.h"\n')
        self.assert_caught("arrows", "a knot of 11 units")

    def test_architecture_table(self):
        self.write("ARCHITECTURE.md", "<!-- rooms: checked by tools/check_arrows.py -->\n<!-- /rooms -->\n")
        self.assert_caught("arrows", "table of rooms differs")

    def test_long_function(self):
        body = "  a();\n" * 80
        self.write("src/net/a.cc", f"namespace x {{\nT::T(int a) : a_{{a}}, b_(1) {{\n{body}}}\n}}  // namespace x\n")
        self.assert_caught("sizes", "src/net/a.cc:2: T::T has 82 lines")

    def test_long_function_behind_lookalikes(self):
        body = "  if (x) { y('}', \"{\"); }  // {\n" * 70
        self.write("src/net/a.cc", "const std::map<int, int> kMap = {{1, 2}, {3, 4}};\nenum class E { kA };\n"
                   f"struct S {{\n  int a = 1'000;\n  std::string Name() const {{ return {{}}; }}\n"
                   f"  auto F(std::map<int, int> m = {{}}) const noexcept -> int {{\n{body}  }}\n}};\n")
        self.assert_caught("sizes", "src/net/a.cc:6: F has 72 lines")

    def test_many_parameters(self):
        self.write("src/net/a.cc", "void F(int a, std::map<int, int> b, int c, int d, int e, int f) {}\n"
                   "void G(int a, std::map<int, int> b, std::function<void(int, int)> c, int d, int e) {}\n")
        self.assert_caught("sizes", "src/net/a.cc:1: F takes 6 parameters")
        self.assertNotIn("a.cc:2", self.gate("sizes")[1])

    def test_long_file(self):
        self.write("src/net/a.cc", "\n" * 601)
        self.assert_caught("sizes", "601 lines (at most 600)")

    def test_source_in_no_target(self):
        self.write("src/net/b_test.cc", "\n")
        self.assert_caught("dormant", "src/net/b_test.cc: in no CMake target")

    def test_source_only_in_a_comment(self):
        self.write("src/net/b.cc", "\n")
        self.write("src/net/CMakeLists.txt", "room(NAME net SOURCES a.cc HEADERS stoker/net/a.h)  # b.cc\n")
        self.assert_caught("dormant", "src/net/b.cc: in no CMake target")

    def test_source_in_an_included_list_passes(self):
        self.write("src/net/h2/b.cc", "\n")
        self.write("src/net/h2/sources.cmake", "set(NET_H2 h2/b.cc)\n")
        self.write("src/net/CMakeLists.txt", "include(${CMAKE_CURRENT_SOURCE_DIR}/h2/sources.cmake)\n"
                   "room(NAME net SOURCES a.cc ${NET_H2} HEADERS stoker/net/a.h)\n")
        self.assertEqual(self.gate("dormant"), (0, ""))

    def test_header_in_no_list(self):
        self.write("src/net/include/stoker/net/b.h", "#pragma once\n")
        self.assert_caught("dormant", "in no HEADERS list")

    def test_gate_that_nobody_runs(self):
        self.write("tools/check_nothing_at_all.py", "\n")
        self.assert_caught("dormant", "run by neither")

    def test_path_that_is_gone(self):
        self.write("docs/a.md", "See `src/net/gone.cc` and `gone.h`.\n")
        self.assert_caught("docs", "`src/net/gone.cc` does not exist")
        self.assert_caught("docs", "`gone.h` is no file here")

    def test_verb_that_is_none(self):
        self.write("docs/a.md", "    ./dev dance\n")
        self.assert_caught("docs", "./dev dance is no verb")

    def test_room_without_page(self):
        os.unlink(os.path.join(self.root, "src/net/README.md"))
        self.assert_caught("docs", "src/net/README.md: missing")

    def test_page_names_a_test_that_is_none(self):
        self.write("src/net/README.md", README + "Held by GoneTest.\n")
        self.assert_caught("docs", "GoneTest, which does not exist")

    def test_words(self):
        mark, path, flag = "TO" + "DO", "/ro" + "ot/x", "-march=" + "native"
        self.write("docs/a.md", f"{mark}: see {path} and {flag}\n")
        for word in (mark, path[:6], flag):
            self.assert_caught("words", f"'{word}")

    def test_calls(self):
        for call, room, fragment in [
                ("std::mutex m;", "net", "base::Mutex"), ("std::thread t;", "net", "threads come from base"),
                ("throw 1;", "net", "return a Status"), ("::abort();", "net", "may end the process"),
                ("getenv(name);", "base", "only apps"), ("auto t = std::chrono::steady_clock::now();", "net", "Clock")]:
            with self.subTest(call=call):
                self.write(f"src/{room}/a.cc", f"void F() {{ {call} }}\n")
                self.assert_caught("words", fragment)

    def test_calls_in_comments_and_strings_pass(self):
        self.write("src/net/a.cc", "// std::mutex, throw x;\nconst char* kText = \"throw std::thread\";\n")
        self.assertEqual(self.gate("words"), (0, ""))

    def test_sleeping_test(self):
        self.write("src/net/a_test.cc", "void F() { std::this_thread::sleep_for(d); }\n")
        self.assert_caught("words", "waits for a condition")


if __name__ == "__main__":
    unittest.main()
