#!/usr/bin/env python3
"""The check that no two types of the library have one name."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))

import type_names


class TypeNames(unittest.TestCase):
    def problems(self, files, allowed=()):
        """The problems that the check finds in these sources. `files`: {name: text}."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(type_names.problems_of(root, allowed))

    def test_two_types_of_one_name_are_named_with_their_places(self):
        for other in ("class Place {", "struct alignas(64) Place final : Base {", "enum class Place : std::uint8_t {",
                      "template <typename T>\nstruct Place {", "using Place = int;",
                      "class Place\n    : public Base {", "class TUTTI_EXPORT Place {"):
            with self.subTest(other):
                [problem] = self.problems({"lib/shm/place.h": "\nstruct Place {\n};\n",
                                           "coordinator/plan.cc": f"{other}\n"})
                self.assertEqual(problem, "Place is the name of 2 types: rename all but one: "
                                          "lib/shm/place.h:2, coordinator/plan.cc:1")

    def test_a_public_type_has_its_name_alone(self):
        [problem] = self.problems({"include/tutti/key.h": "class Key {\n", "lib/ps/key.cc": "struct Key {\n"})
        self.assertTrue(problem.startswith("Key is the name of 2 types"))

    def test_types_within_a_class_have_its_name_in_front(self):
        self.assertEqual(self.problems({"lib/a.h": "struct A {\n  struct Place {\n  };\n};\n",
                                        "lib/b.h": "struct Place {\n};\n",
                                        "lib/c.cc": "struct A::Place {\n};\nenum class A::Place {\n};\n"}), [])

    def test_declarations_and_specialisations_define_nothing(self):
        self.assertEqual(self.problems({"lib/a.h": "struct Place {\n};\ntemplate <typename T>\nstruct Bits {\n};\n",
                                        "lib/b.h": "struct Place;\nclass Place;\nstruct Bits<int> {\n};\n"}), [])

    def test_a_type_may_be_called_without_its_namespace_or_class(self):
        self.assertEqual(self.problems({"lib/a.h": "struct Place {\n};\n",
                                        "lib/b.cc": "using Place = a::Place;\n"}), [])

    def test_a_stub_stands_for_the_source_in_whose_place_it_is(self):
        self.assertEqual(self.problems({"lib/gpu/gpu.h": "struct Gpu {\n", "lib/gpu/absent.cc": "struct Gpu {};\n",
                                        "lib/gpu/gpu_absent.cc": "struct Gpu {};\n"}), [])

    def test_an_exception_is_listed_with_its_reason_and_no_longer_than_it_is_needed(self):
        twice = {"lib/a.h": "struct Place {\n", "lib/b.h": "struct Place {\n"}
        self.assertEqual(self.problems(twice, {"Place": "it must be so"}), [])
        [problem] = self.problems({"lib/a.h": "struct Place {\n"}, {"Place": "it must be so"})
        self.assertIn("take Place out of ALLOWED", problem)


if __name__ == "__main__":
    unittest.main()
