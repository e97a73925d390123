#!/usr/bin/env python3
"""Another meson project builds tutti within itself."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESON_PROJECT = """project('outside', 'c', 'cpp', default_options: ['c_std=c99', 'cpp_std=c++20'])
tutti_dep = dependency('tutti', fallback: 'tutti')
executable('hello', 'hello.cc', dependencies: tutti_dep)
executable('hello_in_c', 'hello_in_c.c', dependencies: tutti_dep)
"""
PROGRAM_IN_C = """#include <tutti/c.h>
int main(void) { return tutti_version()[0] == 0; }
"""


def said(*words):
    """What a command prints; that it fails fails the test, with the last that it said."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


class Project(unittest.TestCase):
    def test_another_meson_project_builds_the_library_and_its_own_programs_and_nothing_else(self):
        with tempfile.TemporaryDirectory(prefix="tutti-subproject-") as top:
            folder = pathlib.Path(top)
            (folder / "subprojects").mkdir()
            (folder / "subprojects/tutti").symlink_to(ROOT)
            (folder / "meson.build").write_text(MESON_PROJECT)
            shutil.copy(ROOT / "examples/hello.cc", folder)
            (folder / "hello_in_c.c").write_text(PROGRAM_IN_C)
            # Without optimisation, for it does next to nothing.
            said("meson", "setup", "--wrap-mode=forcefallback", "--buildtype=plain", folder / "build", folder)
            targets = {t["name"] for t in json.loads(said("meson", "introspect", "--targets", folder / "build"))}
            said("ninja", "-C", folder / "build", "hello", "hello_in_c")
            said(folder / "build/hello_in_c")
        # The library alone: none of tutti's own programs.
        self.assertTrue(targets.isdisjoint({"train", "allreduce_bench", "tutti-info", "test_public_api"}), targets)


if __name__ == "__main__":
    unittest.main()
