#!/usr/bin/env python3
"""The steps of a user outside the tree: to install tutti, to compile and link programs, and to run the programs of the
pages.

    test_install.py BUILD_FOLDER
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop())
HELLO = ROOT / "examples/hello.cc"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
#: The compiler for each kind of source.
COMPILE = {".cc": ["g++", "-std=c++20", *WARNINGS], ".c": ["gcc", "-std=c99", "-pedantic", *WARNINGS]}
#: The pages that show complete programs in each language.
PAGES = {".cc": ("README.md", "lib/MPI.md"), ".c": ("bindings/c/README.md",)}
LANGUAGES = {".cc": "CXX", ".c": "C"}
CMAKE_PROJECT = """cmake_minimum_required(VERSION 3.20)
project(outside {language})
find_package(tutti 0.1 REQUIRED)
add_executable(hello {source})
target_link_libraries(hello PRIVATE tutti::tutti)
"""


def said(*words, **options):
    """Runs a command, and returns what it prints. If the command fails, the test fails and shows the output."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=60, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def complete_programs(text, mark):
    """The blocks of a markdown text with this mark that have a main function."""
    blocks = re.findall(rf"^```{mark}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if re.search(r"\bmain\(", block)]


def flags_for_mpi(source):
    """The words that compile and link a program which calls MPI itself."""
    if "<mpi.h>" not in source.read_text():
        return []
    includes, libraries = (said("mpic++", f"--showme:{kind}").split() for kind in ("incdirs", "libdirs"))
    return [*(word for folder in includes for word in ("-isystem", folder)), *(f"-L{folder}" for folder in libraries),
            *(f"-l{name}" for name in said("mpic++", "--showme:libs").split())]


class Outside(unittest.TestCase):
    """Installs below a folder of which meson was not told, as packages are made and moved."""

    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="tutti-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        said("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.top / "moved")
        built = {o["name"]: o["value"] for o in json.loads(said("meson", "introspect", BUILD, "--buildoptions"))}
        cls.prefix = cls.top / "moved" / built["prefix"].lstrip("/")
        cls.libdir = cls.prefix / built["libdir"]
        # No setting of this machine may take the place of the test's own.
        cls.env = {name: value for name, value in os.environ.items()
                   if name not in ("LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH", "CMAKE_PREFIX_PATH")}
        cls.env["PKG_CONFIG_PATH"] = str(cls.libdir / "pkgconfig")

    def folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.top))

    def say(self, *words, **options):
        return said(*words, env=self.env, **options)

    def compile(self, source):
        """Compiles and links as README says, by pkg-config."""
        program = self.folder() / source.stem
        flags = self.say("pkg-config", "--cflags", "--libs", "tutti").split()
        where = self.say("pkg-config", "--variable=libdir", "tutti").strip()
        self.say(*COMPILE[source.suffix], source, *flags, *flags_for_mpi(source), f"-Wl,-rpath,{where}", "-o", program)
        return program

    def pasted(self, name):
        """The complete programs on the pages in the language of this file name, each as a file."""
        mark = {".cc": "cpp", ".c": "c"}[pathlib.Path(name).suffix]
        for page in PAGES[pathlib.Path(name).suffix]:
            programs = complete_programs((ROOT / page).read_text(), mark)
            self.assertTrue(programs, f"{page} shows no complete program: no ```{mark} block has a main function")
            for text in programs:
                source = self.folder() / name
                source.write_text(text)
                yield source

    def expect_two_ranks(self, program):
        lines = self.say("mpirun", "-n", "2", program)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2", lines)


class Library(Outside):
    def test_every_public_header_is_installed_and_compiles_in_an_empty_project(self):
        installed = self.prefix / "include"
        names = sorted(str(path.relative_to(installed)) for path in installed.rglob("*.h"))
        self.assertEqual(names, sorted(str(path.relative_to(ROOT / "include"))
                                       for path in (ROOT / "include").rglob("*.h")))
        for file, headers in (("all.cc", names), ("all.c", ["tutti/c.h"])):
            source = self.folder() / file
            source.write_text("".join(f"#include <{name}>\n" for name in headers) + "int main(void) { return 0; }\n")
            self.say(*COMPILE[source.suffix], "-fsyntax-only", "-I", installed, source)

    def test_users_of_pkg_config_need_no_package_beside_tutti(self):
        self.assertEqual(self.say("pkg-config", "--print-requires", "--print-requires-private", "tutti"), "")
        self.assertEqual(self.say("pkg-config", "--cflags", "--libs", "tutti").split(),
                         [f"-I{self.libdir}/pkgconfig/{self.up()}/include", f"-L{self.where()}", "-ltutti"])

    def up(self):
        return os.path.relpath(self.prefix, self.libdir / "pkgconfig")

    def where(self):
        return self.say("pkg-config", "--variable=libdir", "tutti").strip()

    def test_the_installed_programs_find_the_library(self):
        if not (self.prefix / "bin/tutti-info").exists():
            self.skipTest("built without benchmarks")
        self.assertIn("build type", self.say(self.prefix / "bin/tutti-info"))

    def test_the_installed_script_that_draws_curves_says_the_version(self):
        script = self.prefix / "share/tutti/examples/plot_curves.py"
        if not script.exists():
            self.skipTest("built without examples")
        known = re.search("version: '(.*)'", (ROOT / "meson.build").read_text())[1]
        self.assertEqual(self.say(sys.executable, script, "--version"), f"tutti {known}\n")


class Programs(Outside):
    def by_cmake(self, source):
        folder = self.folder()
        (folder / "CMakeLists.txt").write_text(
            CMAKE_PROJECT.format(language=LANGUAGES[source.suffix], source=source))
        self.say("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.say("cmake", "--build", folder / "build")
        return folder / "build/hello"

    def test_a_program_is_built_by_pkg_config_and_runs_on_two_ranks(self):
        self.expect_two_ranks(self.compile(HELLO))

    def test_a_program_is_built_by_cmake_and_runs_on_two_ranks(self):
        self.expect_two_ranks(self.by_cmake(HELLO))

    def test_a_project_in_c_alone_is_built_by_cmake_and_runs_on_two_ranks(self):
        for source in self.pasted("pasted.c"):
            self.expect_two_ranks(self.by_cmake(source))

    def test_cmake_finds_it_whatever_the_folder_of_libraries_is_called(self):
        found = [path.relative_to(self.prefix) for path in self.prefix.rglob("tuttiConfig.cmake")]
        self.assertEqual(found, [pathlib.Path("share/cmake/tutti/tuttiConfig.cmake")])

    def test_cmake_refuses_a_version_with_another_api(self):
        folder = self.folder()
        asked = {"0.1": 1, "0.2": 0, "1.0": 0, "0.0.9": 0}
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(outside NONE)\n" + "".join(
                f"find_package(tutti {version} QUIET)\n"
                f'message(STATUS "{version}: ${{tutti_FOUND}} of ${{tutti_CONSIDERED_VERSIONS}}")\n'
                "unset(tutti_DIR CACHE)\n" for version in asked))
        text = self.say("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        for version, found in asked.items():
            self.assertIn(f"-- {version}: {found} of 0.1.0\n", text)

    def test_the_programs_that_the_pages_show_in_c_and_cpp_compile_and_run_as_pasted(self):
        for name in ("pasted.cc", "pasted.c"):
            for source in self.pasted(name):
                self.expect_two_ranks(self.compile(source))


class Project(unittest.TestCase):
    def test_who_says_nothing_gets_a_release_build(self):
        options = json.loads(said("meson", "introspect", "--buildoptions", ROOT / "meson.build"))
        self.assertEqual([o["value"] for o in options if o["name"] == "buildtype"], ["release"])


if __name__ == "__main__":
    unittest.main()
