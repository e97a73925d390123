#!/usr/bin/env python3
"""Every function of tutti/c.h is called with a null pointer for each of its pointers in turn.

    test_c_nulls.py LIBTUTTI
"""
import ctypes
import sys
import unittest

from test_c_api import INVALID_ARGUMENT, LIBRARY, Device, Error, Key, Values, prototypes

#: {function: the parameters that may be null}.
MAY_BE_NULL = {
    "tutti_options_describe": ("options",), "tutti_most_buffer_bytes": ("options",), "tutti_store_create": ("options",),
    "tutti_tensor_create": ("release", "context"), "tutti_tensor_dims": ("rank",), "tutti_store_join": ("last",),
    "tutti_pending_then": ("context",), "tutti_tensor_set_stream": ("stream",), "tutti_pending_wait_on": ("stream",),
    **{f"tutti_store_{call}": ("options", "pending")
       for call in ("pushpull", "broadcast", "reduce_scatter", "allgather", "all_to_all", "push", "pull")},
    "tutti_store_allreduce": ("options",), "tutti_store_bind": ("options",), "tutti_store_send": ("pending",),
    "tutti_store_recv": ("source", "pending"), "tutti_bound_start": ("pending",)}
#: A parameter whose error says in other words that it is null.
MEMORY = ("tutti_tensor_create", "data")
#: Functions that return a number instead of a code.
NUMBERS = {"tutti_store_rank", "tutti_store_num_workers", "tutti_store_local_rank", "tutti_store_local_size",
           "tutti_store_nodes", "tutti_tensor_dtype", "tutti_pending_done"}
NO_ANSWER = {"size_t": 0, "constchar*": b"", "void*": None, "constint64_t*": None, "tutti_device": (-1, -1)}
RESULTS = {"int": ctypes.c_int, "size_t": ctypes.c_size_t, "constchar*": ctypes.c_char_p, "void*": ctypes.c_void_p,
           "constint64_t*": ctypes.c_void_p, "tutti_device": Device, "void": None,
           "consttutti_error*": ctypes.POINTER(Error)}
RESULT_POINTERS = ("tutti_store**", "tutti_options**", "tutti_tensor**", "tutti_pending**", "tutti_bound**",
                   "tutti_facts**", "size_t*", "int*", "uint64_t*", "tutti_counters*")
UNTOUCHED = b"\xab" * 256


class Optimizer(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("parameters", ctypes.c_void_p), ("parameter_count", ctypes.c_size_t),
                ("factors", ctypes.c_void_p), ("factor_count", ctypes.c_size_t)]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda context, error: None)


def pointers():
    return [(function, name) for function, (_, parameters) in prototypes().items()
            for kind, name in parameters if "*" in kind or kind in ("tutti_release", "tutti_callback")]


def may_be_null(function, name):
    return name in MAY_BE_NULL.get(function, ())


class Nulls(unittest.TestCase):
    def setUp(self):
        self.lib = ctypes.CDLL(LIBRARY)
        for function, (result, _) in prototypes().items():
            getattr(self.lib, function).restype = RESULTS[result]
        self.memory = (ctypes.c_float * 4)(1, 2, 3, 4)
        self.dims = (ctypes.c_int64 * 1)(4)
        self.keys = (Key * 1)(Key(b"weight", 0))
        store, options, tensor, pending, bound = (ctypes.c_void_p() for _ in range(5))
        self.assertEqual(self.lib.tutti_store_create(b"device", None, ctypes.byref(store)), 0)
        self.assertEqual(self.lib.tutti_options_create(ctypes.byref(options)), 0)
        self.assertEqual(self.lib.tutti_tensor_create(self.memory, self.dims, ctypes.c_size_t(1), 2, Device(0, 0), None,
                                                      None, ctypes.byref(tensor)), 0)
        self.tensors = (ctypes.c_void_p * 1)(tensor)
        self.values = (Values * 1)(Values(self.tensors, 1))
        one = ctypes.c_size_t(1)
        self.assertEqual(self.lib.tutti_store_pushpull(store, one, self.keys, self.values, self.values, None,
                                                       ctypes.byref(pending)), 0)
        self.assertEqual(self.lib.tutti_store_bind(store, one, self.keys, self.values, self.values, None,
                                                   ctypes.byref(bound)), 0)
        self.handles = {"store": store, "options": options, "tensor": tensor, "pending": pending, "bound": bound}

    def tearDown(self):
        for kind, handle in self.handles.items():
            getattr(self.lib, f"tutti_{kind}_destroy")(handle)

    def good(self, kind, name):
        """An argument that the function takes."""
        numbers = {"size_t": ctypes.c_size_t, "int": ctypes.c_int, "double": ctypes.c_double}
        if kind in numbers:
            return numbers[kind]({"dtype": 2, "root_rank": 0}.get(name, 0 if (kind, name) == ("int", "rank") else 1))
        named = {"consttutti_key*": self.keys, "consttutti_values*": self.values, "constint64_t*": self.dims,
                 "consttutti_tensor*const*": self.tensors, "constchar*": b"device", "tutti_device": Device(0, 0),
                 "tutti_callback": CALLBACK, "tutti_release": None, "void*": self.memory,
                 "consttutti_call_options*": (ctypes.c_int * 2)(0, 0),
                 "tutti_key": self.keys[0], "constsize_t*": (ctypes.c_size_t * 1)(4),
                 "consttutti_optimizer*": ctypes.byref(Optimizer(b"sgd", None, 0, None, 0))}
        if kind in named:
            return named[kind]
        return self.handles[kind.removeprefix("const").removeprefix("tutti_").removesuffix("*")]

    def call(self, function, null):
        """Calls the function. Returns (its result, the results that it has not written)."""
        results, arguments = [], []
        for kind, name in prototypes()[function][1]:
            if name == null:
                arguments.append(None)
            elif kind in RESULT_POINTERS:
                results.append(ctypes.create_string_buffer(UNTOUCHED, len(UNTOUCHED)))
                arguments.append(results[-1])
            else:
                arguments.append(self.good(kind, name))
        return getattr(self.lib, function)(*arguments), all(result.raw == UNTOUCHED for result in results)

    def said(self):
        return self.lib.tutti_last_error().contents.message.decode()

    def test_a_null_pointer_is_an_error_that_names_it_and_no_result_is_written(self):
        for function, name in pointers():
            if may_be_null(function, name) or function.endswith("_destroy"):
                continue
            with self.subTest(function=function, null=name):
                # The error before, which would otherwise do.
                self.lib.tutti_store_create(b"none such", None, ctypes.byref(ctypes.c_void_p()))
                answer, untouched = self.call(function, name)
                if function in NUMBERS:
                    self.assertEqual(answer, -1)
                elif prototypes()[function][0] in NO_ANSWER:
                    is_device = isinstance(answer, Device)
                    self.assertEqual((answer.kind, answer.index) if is_device else answer,
                                     NO_ANSWER[prototypes()[function][0]])
                else:
                    self.assertEqual(answer, INVALID_ARGUMENT)
                self.assertTrue(untouched)
                words = "has no memory" if (function, name) == MEMORY else f"{function}: {name} is a null pointer"
                self.assertIn(words, self.said())
                self.assertEqual(self.lib.tutti_last_error().contents.code, INVALID_ARGUMENT)

    def test_a_null_pointer_where_it_is_allowed_is_no_error(self):
        allowed = [(function, name) for function, names in MAY_BE_NULL.items() for name in names]
        self.assertLess(set(allowed), set(pointers()))
        for function, name in allowed:
            with self.subTest(function=function, null=name):
                self.lib.tutti_store_create(b"none such", None, ctypes.byref(ctypes.c_void_p()))
                self.call(function, name)
                self.assertNotIn("null pointer", self.said())

    def test_what_is_destroyed_may_be_null(self):
        destroyers = [function for function in prototypes() if function.endswith("_destroy")]
        self.assertEqual(len(destroyers), 6)
        for function in destroyers:
            getattr(self.lib, function)(None)

    def test_a_null_pointer_inside_a_list_is_named_with_its_place(self):
        one, two = ctypes.c_size_t(1), ctypes.c_size_t(2)
        empty = (Values * 2)(self.values[0], Values(None, 1))
        holey = (Values * 1)(Values((ctypes.c_void_p * 2)(self.tensors[0], None), 2))
        keys = (Key * 2)(Key(b"a", 0), Key(b"b", 0))
        pushpull = self.lib.tutti_store_pushpull
        self.assertEqual(pushpull(self.handles["store"], two, keys, empty, empty, None, None), INVALID_ARGUMENT)
        self.assertIn("[1].tensors is a null pointer", self.said())
        self.assertEqual(pushpull(self.handles["store"], one, keys, holey, holey, None, None), INVALID_ARGUMENT)
        self.assertIn("[0].tensors[1] is a null pointer", self.said())


if __name__ == "__main__":
    unittest.main()
