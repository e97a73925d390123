#!/usr/bin/env python3
"""The C API of the built library, used from another language: its symbols, and a store by ctypes.

    test_c_api.py LIBTUTTI
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

HEADERS = pathlib.Path(__file__).resolve().parents[2] / "include/tutti"
LIBRARY = sys.argv.pop(1)


def prototypes():
    """{function of tutti/c.h: (type of its result, [(type, name) of each parameter])}."""
    text = re.sub(r"/\*.*?\*/", "", (HEADERS / "c.h").read_text(), flags=re.DOTALL)
    found = {}
    for result, name, parameters in re.findall(r"TUTTI_EXPORT ([^;(]*?)\b(tutti_\w+)\(([^;]*)\);", text):
        split = [re.fullmatch(r"(.*?)(\w+)", one.strip(), re.DOTALL).groups() for one in parameters.split(",")]
        found[name] = ("".join(result.split()), [("".join(kind.split()), word) for kind, word in split if kind])
    return found


def declared():
    return set(prototypes())


def visible():
    """The symbols that the dynamic linker sees in the library, by their names in C or C++."""
    said = subprocess.run(["nm", "-DC", "--defined-only", LIBRARY], check=True, text=True, stdout=subprocess.PIPE)
    return [line.split(maxsplit=2)[2] for line in said.stdout.splitlines()]


class Key(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("integer", ctypes.c_int64)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char_p), ("has_key", ctypes.c_int), ("key", Key),
                ("ranks", ctypes.POINTER(ctypes.c_int)), ("rank_count", ctypes.c_size_t)]


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("index", ctypes.c_int)]


class Values(ctypes.Structure):
    _fields_ = [("tensors", ctypes.POINTER(ctypes.c_void_p)), ("count", ctypes.c_size_t)]


class Fact(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("origin", ctypes.c_char_p)]


class Facts(ctypes.Structure):
    _fields_ = [("facts", ctypes.POINTER(Fact)), ("count", ctypes.c_size_t)]


F32 = 2
INVALID_ARGUMENT = 1


class CApi(unittest.TestCase):
    def test_every_function_of_the_header_is_in_the_library(self):
        self.assertGreater(len(declared()), 40)
        self.assertEqual(declared() - set(visible()), set())

    def test_nothing_is_visible_but_the_api(self):
        spoken_of = "\n".join(path.read_text() for path in HEADERS.glob("*.h"))
        for symbol in visible():
            if symbol.startswith("tutti_"):
                self.assertIn(symbol, declared())
                continue
            # Symbols in a module's own namespace are no part of the API.
            self.assertNotRegex(symbol, r"^[^(]*tutti::[a-z_]+::")
            found = re.match(r"(?:vtable for |typeinfo (?:name )?for )?tutti::(\w+)", symbol)
            self.assertTrue(found and re.search(rf"\b{found[1]}\b", spoken_of), f"{symbol} is visible")

    def test_programs_are_linked_to_its_name_with_a_version(self):
        said = subprocess.run(["readelf", "-d", LIBRARY], check=True, text=True, stdout=subprocess.PIPE)
        self.assertRegex(said.stdout, r"\(SONAME\).*\[libtutti\.so\.\d+\]")

    def test_a_store_of_one_process_by_ctypes(self):
        lib = ctypes.CDLL(LIBRARY)
        lib.tutti_last_error.restype = ctypes.POINTER(Error)
        store, tensor, pending = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(lib.tutti_store_create(b"device", None, ctypes.byref(store)), 0)
        data = (ctypes.c_float * 3)(1, 2, 3)
        dims = (ctypes.c_int64 * 1)(3)
        self.assertEqual(lib.tutti_tensor_create(data, dims, ctypes.c_size_t(1), F32, Device(0, 0), None, None,
                                                 ctypes.byref(tensor)), 0)
        # The same tensor on two devices: its sum is twice the value.
        tensors = (ctypes.c_void_p * 2)(tensor, tensor)
        both, one = Values(tensors, 2), Values(tensors, 1)
        key = Key(b"weight", 0)
        self.assertEqual(lib.tutti_store_pushpull(store, ctypes.c_size_t(1), ctypes.byref(key), ctypes.byref(both),
                                                  ctypes.byref(one), None, ctypes.byref(pending)), 0)
        self.assertEqual(lib.tutti_pending_wait(pending), 0)
        self.assertEqual(list(data), [2, 4, 6])
        self.assertNotEqual(lib.tutti_store_pull(store, ctypes.c_size_t(1), ctypes.byref(Key(b"none", 0)),
                                                 ctypes.byref(both), None, None), 0)
        error = lib.tutti_last_error().contents
        self.assertEqual((error.has_key, error.key.text), (1, b"none"))
        self.assertIn(b"'none'", error.message)
        facts = ctypes.POINTER(Facts)()
        self.assertEqual(lib.tutti_store_choices(store, ctypes.byref(facts)), 0)
        self.assertEqual(facts.contents.count, 0)
        lib.tutti_facts_destroy(facts)
        for destroy, handle in ((lib.tutti_pending_destroy, pending), (lib.tutti_tensor_destroy, tensor),
                                (lib.tutti_store_destroy, store)):
            destroy(handle)

    def test_the_library_says_how_it_was_built_and_what_options_there_are(self):
        lib = ctypes.CDLL(LIBRARY)
        lib.tutti_version.restype = ctypes.c_char_p
        options, facts, bytes_held = ctypes.c_void_p(), ctypes.POINTER(Facts)(), ctypes.c_uint64()
        self.assertEqual(lib.tutti_build_info(ctypes.byref(facts)), 0)
        self.assertEqual(self.texts(facts)[b"tutti"], (lib.tutti_version(), None))
        lib.tutti_facts_destroy(facts)
        self.assertEqual(lib.tutti_options_create(ctypes.byref(options)), 0)
        self.assertEqual(lib.tutti_options_set(options, b"part_bytes", b"4194304"), 0)
        self.assertEqual(lib.tutti_options_set(options, b"part_bytes", b"a lot"), INVALID_ARGUMENT)
        self.assertEqual(lib.tutti_options_describe(options, ctypes.byref(facts)), 0)
        self.assertEqual(self.texts(facts)[b"TUTTI_PART_BYTES"], (b"4M", None))
        lib.tutti_facts_destroy(facts)
        self.assertEqual(lib.tutti_most_buffer_bytes(options, 2, 1, ctypes.byref(bytes_held)), 0)
        self.assertGreater(bytes_held.value, 1 << 20)
        lib.tutti_options_destroy(options)

    def texts(self, facts):
        """{name: (value, origin)}."""
        self.assertGreater(facts.contents.count, 3)
        return {fact.name: (fact.value, fact.origin) for fact in facts.contents.facts[:facts.contents.count]}


if __name__ == "__main__":
    unittest.main()
