"""Each method of the package passes on all of its arguments, and returns all results. The tables have a row for each,
over a store that writes down its calls. The tests of C++ try how a real store answers.

    python package_translation.py LIBRARY

LIBRARY is the library of test/unit/bindings/recording_library.cc. scripts/checks/contract.py finds out whether the
tables have all that the headers declare. Run by the Python that the package is installed for.
"""
import asyncio
import ctypes
import inspect
import os
import pathlib
import re
import sys
import threading
import unittest
from unittest import mock

import numpy as np

RECORDING = ctypes.CDLL(sys.argv.pop(), ctypes.RTLD_GLOBAL)  # before the package's own library
RECORDING.recording_take_heard.restype = ctypes.c_char_p
RECORDING.recording_stream.restype = ctypes.c_void_p
RECORDING.recording_most_buffer_bytes.restype = ctypes.c_uint64

import tutti
from package_fixture import PATIENCE, Foreign, as_bfloat16, on_gpu
from tutti import _core

#: {option: (what the program passes, what the library gets)}.
OPTIONS = {
    "ranks": ((2, np.int64(0)), "2+0"), "interface": ("lo", "lo"), "encrypt": (True, "true"),
    "user_makes_no_mpi_calls": (True, "true"), "reproducible": (False, "false"), "staleness": (3, "3"),
    "gpu": (np.int8(1), "1"), "stall_report_after": (0.25, "250"), "key_timeout": (np.float32(2.5), "2500"),
    "heartbeat_timeout": (5, "5000"), "create_timeout": (1e3, "1000000"), "log_level": ("error", "error"),
    "timeline": (pathlib.Path("a/t.json"), "a/t.json"), "replay": (False, "false"), "fusion_bytes": (0, "0"),
    "part_bytes": (np.int64(7000), "7000"), "slice_bytes": (64, "64"),
}

#: {code: (its number, its exception, the exception of Python that it also is)}.
ERRORS = {
    "invalid_argument": (1, tutti.InvalidArgumentError, ValueError),
    "unsupported": (2, tutti.UnsupportedError, NotImplementedError),
    "mismatch": (3, tutti.MismatchError, Exception),
    "duplicate_key": (4, tutti.DuplicateKeyError, Exception),
    "timeout": (5, tutti.TimedOutError, TimeoutError),
    "peer_lost": (6, tutti.PeerLostError, Exception),
    "aborted": (7, tutti.AbortedError, Exception),
    "internal": (8, tutti.InternalError, Exception),
}

#: {the library's dtype: arrays that have it}.
DTYPES = {
    "f16": [np.zeros(2, np.float16)], "bf16": [as_bfloat16(np.zeros(2, np.uint16))],
    "f32": [np.zeros(2, np.float32), Foreign(np.zeros(2, np.float32))], "f64": [np.zeros(2)],
    "i8": [np.zeros(2, np.int8)], "u8": [np.zeros(2, np.uint8)], "i32": [np.zeros(2, np.int32)],
    "i64": [np.zeros(2, np.int64)], "b8": [np.zeros(2, bool)], "b16": [np.zeros(2, np.int16), np.zeros(2, np.uint16)],
    "b32": [np.zeros(2, np.uint32)],
    "b64": [np.zeros(2, np.uint64), np.zeros(2, np.complex64), np.zeros(2, "datetime64[s]")],
    "b128": [np.zeros(2, np.complex128), np.zeros(2, np.longdouble)],
}

OPS = ("sum", "average", "min", "max")
COUNTERS = ("tensors_reduced", "bytes_reduced", "tensors_broadcast", "bytes_broadcast", "tensors_gathered",
            "bytes_gathered", "batches", "control_messages", "bytes_between_nodes", "nodes", "buffer_bytes",
            "allocated_bytes", "allocated_peak_bytes")

#: {property: its value}.
PROPERTIES = {"type": "recording", "rank": 1, "Rank": 1, "num_workers": 3, "size": 3, "local_rank": 0, "local_size": 2,
              "nodes": 5}

#: Methods that exchange more than once, and where they are tested.
ELSEWHERE = {"broadcast_object": "package_objects.py", "allgather_object": "package_objects.py",
             "fingerprint": "package_values.py"}

#: Methods that take elements of any dtype: they add nothing.
MOVING = {"broadcast", "allgather", "all_to_all", "send", "recv", "init", "pull"}
#: The parameters that are arrays.
ARRAYS = {"ins", "outs", "value", "out"}

#: Keys, and the way in which the library shows them.
KEYS = ((7, "7"), (np.int32(-7), "-7"), (2**63 - 1, str(2**63 - 1)), (-2**63, str(-2**63)), ("v", "'v'"), ("", "''"),
        ("7", "'7'"), ("\N{SNOWMAN}", "'\N{SNOWMAN}'"), ("w\0 without an end", r"'w\x00 without an end'"),
        ("w' and rank 7's\n", r"'w\' and rank 7\'s\n'"))

#: The names of a scene's arrays.
LETTERS = "abcdefsr"


def methods(a, b, c, d, e, f, s, r):
    """{method: [(its arguments, what the library hears, what the method returns)]}. a to f are arrays of 6 elements, s
    is of 2, which is a shard of the others, and r has numbers of rows. Taken together, the rows of a method have all
    of its parameters.
    """
    lists, urgent = {"key": ["v", "w"], "ins": [a, [b, c]], "outs": [d, [e, f]]}, {"priority": 5, "op": "average"}
    values, matrix = {"key": ["v", "w"], "value": [a, [b, c]]}, [[0, 1, 0], [1, 2, 3], [2, 3, 1]]
    call, in_place = "pushpull 'v' 'w' in a,b+c out d,e+f root 0", "pushpull 'v' in a out a root 0 priority 0 sum"
    return {
        "pushpull": [(lists | urgent, f"{call} priority 5 average", "done"),
                     ({"key": "v", "ins": a}, in_place, "done"),
                     ({"key": "v", "ins": a, "out": b}, "pushpull 'v' in a out b root 0 priority 0 sum", "done")],
        "allreduce": [(lists | {"op": "max"}, f"{call} priority 0 max", "None"),
                      ({"key": "v", "ins": a}, in_place, "None")],
        "bind": [(lists | urgent, "", f"{call} priority 5 average"), ({"key": "v", "ins": a}, "", in_place)],
        "broadcast": [(values | {"root_rank": 2, "priority": 5},
                       "broadcast 'v' 'w' in -,- out a,b+c root 2 priority 5 sum", "done"),
                      ({"key": "w", "value": a}, "broadcast 'w' in - out a root 0 priority 0 sum", "done")],
        "reduce_scatter": [({"key": "v", "ins": a, "outs": s} | urgent,
                            "reduce_scatter 'v' in a out s root 0 priority 5 average", "done"),
                           ({"key": "w", "ins": a, "outs": s}, "reduce_scatter 'w' in a out s root 0 priority 0 sum",
                            "done")],
        "allgather": [({"key": "v", "ins": s, "outs": a, "priority": 5},
                       "allgather 'v' in s out a root 0 priority 5 sum", "done"),
                      ({"key": "w", "ins": s, "outs": a}, "allgather 'w' in s out a root 0 priority 0 sum", "done")],
        "all_to_all": [({"key": "w", "ins": a, "outs": b, "counts": matrix, "priority": 5},
                        "all_to_all 'w' in a out b 0 1 0 1 2 3 2 3 1 root 0 priority 5 sum", "done"),
                       ({"key": "v", "ins": a, "outs": b, "counts": np.array(matrix)},
                        "all_to_all 'v' in a out b 0 1 0 1 2 3 2 3 1 root 0 priority 0 sum", "done")],
        "send": [({"value": a, "to_rank": 2, "tag": 9}, "send a peer 2 tag 9", "done"),
                 ({"value": a, "to_rank": 0}, "send a peer 0 tag 0", "done")],
        "recv": [({"value": a, "from_rank": 0, "tag": 9}, "recv a peer 0 tag 9", "done from 2"),
                 ({"value": a}, "recv a peer -1 tag 0", "done from 2")],
        "init": [(values, "init 'v' 'w' in a,b+c root 0 priority 0 sum", "None")],
        "push": [(values | urgent, "push 'v' 'w' in a,b+c root 0 priority 5 average", "done"),
                 ({"key": "w", "value": a}, "push 'w' in a root 0 priority 0 sum", "done")],
        "pull": [({"key": ["v", "w"], "out": [a, [b, c]], "priority": 5},
                  "pull 'v' 'w' out a,b+c root 0 priority 5 sum", "done"),
                 ({"key": "w", "out": a}, "pull 'w' out a root 0 priority 0 sum", "done")],
        "row_sparse_pull": [({"key": ["v", "w"], "out": [a, [b, c]], "row_ids": [r, s.astype(int)]},
                             "row_sparse_pull 'v' 'w' out a,b+c rows r rows i64 (2) on cpu(0) root 0 priority 0 sum",
                             "None")],
        "set_optimizer": [({"optimizer": "sgd", "factors": {"v": (2, 3)}, "learning_rate": 0.5, "momentum": 0.25},
                           "set_optimizer sgd is sgd learning_rate=0.5 momentum=0.25 'v': 2 and 3", "None"),
                          ({"optimizer": "adam"}, "set_optimizer adam is adam", "None")],
        "save_optimizer_states": [({"fname": pathlib.Path("x"), "dump_optimizer": True},
                                   "save_optimizer_states x and the optimizer", "None"),
                                  ({"fname": b"y"}, "save_optimizer_states y", "None")],
        "load_optimizer_states": [({"fname": pathlib.Path("x")}, "load_optimizer_states x", "None")],
        "set_gradient_compression": [({"kind": "2bit", "threshold": 0.25}, "set_gradient_compression 2bit 0.25",
                                      "None"),
                                     ({"kind": "1bit"}, "set_gradient_compression 1bit 0.5", "None")],
        "num_dead_node": [({}, "", "4")],
        "barrier": [({}, "barrier", "None")],
        "join": [({}, "join", "2")],
        "allocate": [({"shape": (2, 3), "dtype": "float64"}, "allocate (2, 3) f64", "float64 (2, 3)"),
                     ({"shape": 5}, "allocate (5) f32", "float32 (5,)"),
                     ({"shape": (2, 3), "gpu": 3}, "", "UnsupportedError allocate on gpu(3)")],
        "counters": [({}, "", f"Counters({', '.join(f'{name}={i}' for i, name in enumerate(COUNTERS, start=1))})")],
        "choices": [({}, "", "[Choice(name='part size', value='4M', origin='TUTTI_PART_BYTES'), "
                             "Choice(name='wire', value='fp16', origin='program')]")],
        "close": [({}, "close", "None")],
    }


def heard():
    return RECORDING.recording_take_heard().decode()


def error_with(code, key=None, ranks=()):
    """The arguments of the library's functions that make an error."""
    text = key.encode() if isinstance(key, str) else None
    number = None if key is None or text is not None else ctypes.byref(ctypes.c_int64(key))
    return code, text, number, (ctypes.c_int * len(ranks))(*ranks), ctypes.c_size_t(len(ranks))


class Translation(unittest.TestCase):
    def setUp(self):
        self.kv = self.store()
        self.arrays = [np.zeros(2 if letter == "s" else 6, np.float32) for letter in LETTERS[:-1]]
        self.arrays.append(np.zeros(1, np.int64))
        for letter, array in zip(LETTERS, self.arrays):
            RECORDING.recording_name(ctypes.c_void_p(array.ctypes.data), letter.encode())
        heard()

    def store(self, **options):
        kv = tutti.create("recording", **options)
        self.addCleanup(kv.close)
        return kv

    def open_call(self):
        """A call that is not done."""
        RECORDING.recording_open()
        pending = self.kv.pushpull("v", self.arrays[0])
        heard()
        return pending

    def assert_error(self, error, name="mismatch", key=7, ranks=(1, 2)):
        number, kind, also = ERRORS[name]
        self.assertIs(type(error), kind)
        self.assertIsInstance(error, also)
        self.assertEqual((str(error), error.code, int(error.code), error.key, error.ranks),
                         ("they differ", tutti.ErrorCode[name], number, key, ranks))


class Methods(Translation):
    def shown(self, result):
        if isinstance(result, tutti.Bound):
            result.run()
            return heard()
        if isinstance(result, tutti.Pending):
            source = f" from {result.source}" if isinstance(result, tutti.Received) else ""
            return ("done" if result.done() else "open") + source
        return f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else str(result)

    def outcome(self, method, *args, **named):
        """What the library hears, and what the method returns."""
        try:
            result = getattr(self.kv, method)(*args, **named)
        except tutti.Error as error:
            return heard(), f"{type(error).__name__} {str(error).partition(':')[0]}"
        return heard(), self.shown(result)

    def rows(self):
        for method, rows in methods(*self.arrays).items():
            for arguments, *expected in rows:
                yield method, arguments, tuple(expected)

    def test_each_method_passes_on_its_arguments_and_returns_what_comes_back(self):
        for method, arguments, expected in self.rows():
            if method == "close":
                continue
            with self.subTest(method, arguments=list(arguments)):
                self.assertEqual(self.outcome(method, **arguments), expected)
                positions = [name for name, each in inspect.signature(getattr(self.kv, method)).parameters.items()
                             if each.kind is each.POSITIONAL_OR_KEYWORD]
                given = [name for name in positions if name in arguments]
                if given == positions[:len(given)]:
                    named = {name: value for name, value in arguments.items() if name not in given}
                    self.assertEqual(self.outcome(method, *(arguments[name] for name in given), **named), expected)
        (arguments, *expected), = methods(*self.arrays)["close"]
        self.assertEqual(self.outcome("close", **arguments), tuple(expected))

    def test_each_method_and_each_of_its_parameters_has_a_row(self):
        table = methods(*self.arrays)
        public = {name for name in dir(tutti.KVStore) if not name.startswith("_")}
        self.assertEqual(public, {*table, *PROPERTIES, *ELSEWHERE})
        # Those that no method of the same name calls are for the package alone.
        own = {name.removeprefix("_") for name in vars(_core.Store) if not name.startswith("__")}
        self.assertEqual(own - public, {"allocate_on", "is_closed", "require_open", "leave_block"})
        for method, rows in table.items():
            parameters = [each.name for each in inspect.signature(getattr(self.kv, method)).parameters.values()
                          if each.kind is not each.VAR_KEYWORD]
            given = {name for arguments, *_ in rows for name in arguments}
            self.assertEqual([name for name in parameters if name not in given], [], method)

    def test_each_property_is_the_stores(self):
        self.assertEqual({name: getattr(self.kv, name) for name in PROPERTIES}, PROPERTIES)

    def test_arrays_are_written_if_they_are_outputs_and_only_then(self):
        for method, arguments, (call, result) in self.rows():
            if not set(arguments) & ARRAYS:
                continue
            outputs = re.findall(r" out (\S+)| recv (\w)", f" {call} {result}")
            written = set(re.findall(r"\w", "".join(map("".join, outputs))))
            for letter, array in zip(LETTERS, self.arrays):
                array.flags.writeable = False
                _, outcome = self.outcome(method, **arguments)
                self.assertEqual(outcome.startswith("InvalidArgumentError"), letter in written, f"{letter}: {outcome}")
                array.flags.writeable = True

    def test_methods_that_add_nothing_take_elements_of_any_dtype_and_no_others_do(self):
        whole, shard, rows = np.zeros(6, bool), np.zeros(2, bool), self.arrays[-1]
        for method, ((arguments, *_), *_) in methods(*(whole.copy() for _ in range(6)), shard, rows).items():
            if set(arguments) & ARRAYS:
                _, outcome = self.outcome(method, **arguments)
                is_refused = outcome.startswith("InvalidArgumentError")
                self.assertEqual(is_refused, method not in MOVING, f"{method}: {outcome}")

    def test_all_to_all_refuses_counts_that_are_no_matrix_of_shares(self):
        array = self.arrays[0]
        for counts, text in (([[1, 2, 3]] * 2, r"shape \(2, 3\); pass a matrix of shape \(3, 3\)"),
                             ([[2, 2, -1]] * 3, "a count is -1; a share has 0 elements at least")):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, f"all_to_all of key 'v'.*{text}"):
                self.kv.all_to_all("v", array, array, counts)
        with self.assertRaisesRegex(TypeError, "counts are ints"):
            self.kv.all_to_all("v", array, array, [[0.5] * 3] * 3)
        self.assertEqual(heard(), "")

    def test_the_bytes_of_buffers_are_those_of_so_many_ranks_and_nodes(self):
        for ranks, nodes in ((4, 3), (3, 4)):
            self.assertEqual(_core.most_buffer_bytes(ranks, nodes),
                             RECORDING.recording_most_buffer_bytes(ranks, nodes))


class Values(Translation):
    def test_each_key_is_passed_on(self):
        for key, shown in KEYS:
            kv = self.store()
            heard()
            kv.pushpull(key, self.arrays[0])
            self.assertEqual(heard().partition(" in ")[0], f"pushpull {shown}")

    def test_each_dtype_is_passed_on(self):
        for dtype, arrays in DTYPES.items():
            for array in arrays:
                self.kv.send(array, 2)
                self.assertEqual(heard(), f"send {dtype} (2) on cpu(0) peer 2 tag 0")

    def test_each_operation_is_passed_on(self):
        for op in OPS:
            self.kv.push("v", self.arrays[0], op=op)
            self.assertEqual(heard(), f"push 'v' in a root 0 priority 0 {op}")

    def test_the_shape_of_an_array_and_the_number_of_its_device_are_passed_on(self):
        for shape, shown in (((), "()"), ((0,), "(0)"), ((2, 3, 4), "(2, 3, 4)")):
            self.kv.push("v", [np.zeros(shape, np.int8) for _ in range(2)])
            self.assertEqual(heard().partition(" root")[0], f"push 'v' in i8 {shown} on cpu(0)+i8 {shown} on cpu(1)")
        with self.assertRaisesRegex(tutti.UnsupportedError, r"'v'.*gpu\(0\)"):
            self.kv.push("v", on_gpu(self.arrays[0]))


class Options(Translation):
    def created(self, **options):
        """{option: its value} of a new store, as the library hears them."""
        self.store(**options)
        name, *pairs = heard().removeprefix("create ").split(" ")
        self.assertEqual(name, "recording")
        return dict(pair.split("=") for pair in pairs)

    def test_each_option_is_passed_on_and_changes_no_other(self):
        usual = self.created()
        self.assertEqual(set(usual), set(OPTIONS))
        parameters = set(inspect.signature(tutti.create).parameters) - {"type", "check_finite"}
        self.assertEqual(parameters, set(OPTIONS))
        for option, (value, shown) in OPTIONS.items():
            with self.subTest(option):
                self.assertNotEqual(usual[option], shown)
                self.assertEqual(self.created(**{option: value}), usual | {option: shown})

    def test_an_option_that_is_left_out_is_that_of_the_environment(self):
        usual = self.created()
        with mock.patch.dict(os.environ, {"TUTTI_PART_BYTES": "1M"}):
            self.assertEqual(self.created(), usual | {"part_bytes": str(1 << 20)})
            self.assertEqual(self.created(part_bytes=3), usual | {"part_bytes": "3"})


class Errors(Translation):
    def test_each_code_key_and_list_of_ranks_is_that_of_the_librarys_error(self):
        for name, (number, *_) in ERRORS.items():
            for key, ranks in ((None, ()), (-7, (0,)), ("ä", (1, 2))):
                for call in (self.kv.barrier, lambda: self.kv.send(self.arrays[0], 2)):
                    RECORDING.recording_fail_next(*error_with(number, key, ranks))
                    with self.assertRaises(tutti.Error) as raised:
                        call()
                    self.assert_error(raised.exception, name, key, ranks)
        self.assertEqual({code.name: int(code) for code in tutti.ErrorCode},
                         {name: number for name, (number, *_) in ERRORS.items()})


class Pendings(Translation):
    def failed(self):
        pending = self.open_call()
        RECORDING.recording_fail(*error_with(3, 7, (1, 2)))
        return pending

    def assert_raises(self, call):
        with self.assertRaises(tutti.Error) as raised:
            call()
        self.assert_error(raised.exception)

    def test_wait(self):
        pending = self.open_call()
        self.assertEqual([pending.wait(0), pending.wait(timeout=0.001)], [False, False])
        RECORDING.recording_finish()
        self.assertEqual([pending.wait(), pending.wait(0)], [True, True])
        failed = self.failed()
        for _ in range(2):
            self.assert_raises(failed.wait)

    def test_result(self):
        pending = self.open_call()
        with self.assertRaises(TimeoutError) as raised:
            pending.result(0.001)
        self.assertNotIsInstance(raised.exception, tutti.Error)
        RECORDING.recording_finish()
        self.assertIsNone(pending.result())
        self.assert_raises(self.failed().result)

    def test_done(self):
        pending = self.open_call()
        self.assertEqual((pending.done(), repr(pending)), (False, "<tutti.Pending: in flight>"))
        RECORDING.recording_finish()
        self.assertEqual((pending.done(), repr(pending)), (True, "<tutti.Pending: done>"))
        failed = self.failed()
        self.assertTrue(failed.done())
        self.assert_raises(failed.wait)

    def test_then(self):
        told, end = [], threading.Semaphore(0)

        def callback(error):
            told.append(error)
            end.release()
        for call_over in (RECORDING.recording_finish, lambda: RECORDING.recording_fail(*error_with(3, 7, (1, 2)))):
            self.open_call().then(callback)
            self.assertEqual(told[1:], [])
            call_over()
            self.assertTrue(end.acquire(timeout=PATIENCE))
        self.assertIsNone(told[0])
        self.assert_error(told[1])

    def test_wait_on(self):
        pending = self.open_call()
        RECORDING.recording_issue()
        pending.wait_on(4096)
        self.assertEqual(RECORDING.recording_stream(), 4096)
        RECORDING.recording_finish()

    def test_await(self):
        async def wait_for(pending):
            return await pending
        pending = self.open_call()
        RECORDING.recording_finish()
        self.assertIsNone(asyncio.run(wait_for(pending)))
        self.assert_raises(lambda: asyncio.run(wait_for(self.failed())))


class Bounds(Translation):
    def test_start(self):
        bound = self.kv.bind("v", self.arrays[0], priority=5)
        RECORDING.recording_open()
        pending = bound.start()
        self.assertEqual((heard(), pending.done()), ("pushpull 'v' in a out a root 0 priority 5 sum", False))
        RECORDING.recording_finish()
        self.assertTrue(pending.done())

    def test_wait(self):
        bound = self.kv.bind("v", self.arrays[0])
        self.assertTrue(bound.wait())
        RECORDING.recording_open()
        bound.start()
        self.assertFalse(bound.wait(timeout=0.001))
        RECORDING.recording_fail(*error_with(3, 7, (1, 2)))
        with self.assertRaises(tutti.Error) as raised:
            bound.wait(0)
        self.assert_error(raised.exception)

    def test_run(self):
        bound = self.kv.bind("v", self.arrays[0], self.arrays[1], op="min")
        self.assertIsNone(bound.run())
        self.assertEqual(heard(), "pushpull 'v' in a out b root 0 priority 0 min")
        RECORDING.recording_fail_next(*error_with(3, 7, (1, 2)))
        with self.assertRaises(tutti.Error) as raised:
            bound.run()
        self.assert_error(raised.exception)


class Complete(unittest.TestCase):
    def test_each_method_of_a_pending_and_of_a_bound_call_has_its_test(self):
        for kind, tests in ((tutti.Pending, Pendings), (tutti.Bound, Bounds)):
            methods_of_it = {name for name in vars(kind) if not name.startswith("__")}
            tested = {name.removeprefix("test_") for name in vars(tests) if name.startswith("test_")}
            self.assertEqual(tested - {"await"}, methods_of_it)


if __name__ == "__main__":
    unittest.main()
