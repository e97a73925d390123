"""Promises of the package to a process that is in no MPI job. Run by the Python that the package is installed for."""
import functools
import os
import pathlib
import pickle
import pydoc
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import tutti
from package_fixture import Beside, Foreign
from tutti import errors


def said(program, **options):
    """Runs a Python program, and returns what it prints. If the program fails, the test fails."""
    done = subprocess.run([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=60, **options)
    if done.returncode != 0:
        raise AssertionError(f"ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Package(unittest.TestCase):
    def test_every_public_name_says_what_it_is_for(self):
        everything = [getattr(tutti, name) for name in tutti.__all__]
        for kind in (tutti.KVStore, tutti.Pending):
            everything += [getattr(kind, name) for name in vars(kind) if name[0] != "_"]
        for what in everything:
            self.assertTrue(what.__doc__, what)

    def test_its_help_begins_with_the_functions(self):
        text = pydoc.render_doc(tutti, renderer=pydoc.plaintext)
        self.assertLess(text.index("tutti.create(type, ...)"), text.index("CLASSES"))
        named = set(re.findall(r"\bkv\.(\w+)", tutti.__doc__))
        self.assertEqual({name for name in named if not hasattr(tutti.KVStore, name)}, set())
        self.assertLess({"pushpull", "broadcast", "barrier", "rank"}, named)

    def test_importing_it_starts_no_thread_and_no_mpi(self):
        # numpy's linear algebra may have threads of its own.
        program = ("import ctypes, os, numpy; before = len(os.listdir('/proc/self/task'))\n"
                   "import tutti; print(len(os.listdir('/proc/self/task')) - before, tutti.__version__)\n"
                   "flag = ctypes.c_int(); ctypes.CDLL('libmpi.so.40').MPI_Initialized(ctypes.byref(flag))\n"
                   "print(flag.value)")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "TUTTI_"))}
        self.assertEqual(said(program, env=env), f"0 {tutti.__version__}\n0\n")

    def test_warnings_go_to_stderr_unless_logging_has_a_handler(self):
        program = "import logging, sys, tutti\n%s\ntutti.create('local', timeline='t.json').close()"
        self.assertRegex(said(program % ""), r" tutti(\[rank \d+\])? warning: .*records no timeline.*\n$")
        configured = said(program % "logging.basicConfig(format='%(name)s+%(levelname)s+%(message)s')")
        self.assertRegex(configured, r"^tutti\+WARNING\+.*records no timeline.*\n$")
        silent = said(program % "logging.getLogger('tutti').addHandler(logging.NullHandler())")
        self.assertEqual(silent, "")

    def test_it_can_be_imported_again_after_it_was_removed(self):
        program = ("import sys, numpy, tutti\nbefore = tutti.create('local')\n"
                   "for name in [n for n in sys.modules if n.split('.')[0] == 'tutti']: del sys.modules[name]\n"
                   "import tutti\n"
                   "for kv in before, tutti.create('local'):\n"
                   "    array = numpy.ones(2)\n    kv.pushpull('k', array).wait()\n"
                   "    print(array, kv.allgather_object(3), end=' ')\n"
                   "try: tutti.create('none')\nexcept tutti.InvalidArgumentError: print('raised')")
        self.assertEqual(said(program), "[1. 1.] [3] [1. 1.] [3] raised\n")

    def test_importing_it_imports_little_more_than_numpy(self):
        program = ("import sys, numpy; before = set(sys.modules)\nimport tutti\n"
                   "print(*sorted(name for name in set(sys.modules) - before if name.split('.')[0] != 'tutti'\n"
                   "              and name not in sys.builtin_module_names))\n"
                   "print(len([name for name in sys.modules if name.split('.')[0] == 'tutti']))")
        others, ours = said(program).splitlines()
        self.assertEqual(others, "__future__")  # no torch, MXNet, asyncio or inspect
        self.assertLessEqual(int(ours), 10)


class Local(unittest.TestCase):
    def setUp(self):
        self.kv = tutti.create("Local")
        self.addCleanup(self.kv.close)

    def test_it_is_a_store_of_one_process(self):
        self.assertEqual((self.kv.type, self.kv.rank, self.kv.num_workers), ("local", 0, 1))
        self.assertEqual((self.kv.local_rank, self.kv.local_size, self.kv.nodes), (0, 1, 1))
        self.assertEqual(self.kv.choices(), [])

    def test_values_are_kept_under_keys(self):
        self.kv.init([3, 5], [np.ones(4, np.float32), np.ones((2, 2))])
        self.kv.push(3, [np.full(4, 2, np.float32), np.full(4, 3, np.float32)]).wait()
        outs = np.zeros(4, np.float32), np.zeros(4, np.float32)
        self.kv.pull(3, list(outs)).wait()
        for out in outs:
            np.testing.assert_array_equal(out, np.full(4, 5))
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "key 3"):
            self.kv.init(3, np.ones(4, np.float32))

    def test_the_result_of_a_pushpull_goes_to_out_and_its_inputs_stay_as_they_are(self):
        ins, result = [np.full(2, 1.0), np.full(2, 2.0)], np.zeros(2)
        self.kv.pushpull("w", ins, out=result).wait()
        self.assertEqual([list(array) for array in (*ins, result)], [[1, 1], [2, 2], [3, 3]])

    def test_check_finite_refuses_a_nan_and_an_infinity(self):
        with tutti.create("local", check_finite=True) as kv:
            for wrong in (np.nan, np.inf, -np.inf):
                with self.assertRaisesRegex(tutti.InvalidArgumentError, "check_finite"):
                    kv.pushpull("w", np.array([1, wrong]))

    def test_keys_are_integers_of_any_kind_or_strings_but_not_both(self):
        self.kv.init(np.int32(7), np.ones(1))
        out = np.zeros(1)
        self.kv.pull(7, out).wait()
        self.assertEqual(out[0], 1)
        with self.assertRaises(tutti.InvalidArgumentError):
            self.kv.init("seven", np.ones(1))
        with self.assertRaisesRegex(tutti.InvalidArgumentError, f"key {2**63} is out of range"):
            self.kv.init(2**63, np.ones(1))

    def test_an_optimizer_updates_its_values(self):
        values = [np.zeros(2, np.float32), np.zeros(2, np.float32)]
        self.kv.init(["weight", "bias"], values)
        self.kv.set_optimizer("sgd", learning_rate=0.5, factors={"bias": (4, 1)})
        self.kv.push(["weight", "bias"], [np.ones(2, np.float32)] * 2).wait()
        self.kv.pull(["weight", "bias"], values).wait()
        self.assertEqual([value[0] for value in values], [-0.5, -2])
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "did you mean 'momentum'"):
            self.kv.set_optimizer("sgd", momentun=0.9)
        with self.assertRaisesRegex(TypeError, "an optimizer is a str"):
            self.kv.set_optimizer(object())

    def test_optimizer_states_go_through_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "states"
            self.kv.init("weight", np.zeros(1))
            self.kv.set_optimizer("adam", learning_rate=0.5)
            self.kv.push("weight", np.ones(1)).wait()
            self.kv.save_optimizer_states(file, dump_optimizer=True)
            outs = [np.zeros(1), np.zeros(1)]
            with tutti.create("local") as other:
                self.kv.pull("weight", outs[0]).wait()
                other.init("weight", outs[0])
                other.load_optimizer_states(file)
                for kv, out in zip((self.kv, other), outs):
                    kv.push("weight", np.full(1, -2.0)).wait()
                    kv.pull("weight", out).wait()
            self.assertEqual(outs[0][0], outs[1][0])

    def test_a_closed_one_raises_in_every_method_that_exchanges(self):
        self.kv.close()
        for method, *args in (("barrier",), ("broadcast_object", 1), ("allgather_object", 1), ("fingerprint", []),
                              ("pushpull", "k", np.ones(1)), ("pull", "k", "no array")):
            with self.assertRaisesRegex(tutti.AbortedError, "of a store that is closed"):
                getattr(self.kv, method)(*args)

    def test_two_threads_use_one_store(self):
        def add(key):
            for turn in range(200):
                both = [np.full(10, turn + key), np.full(10, key)]
                self.kv.pushpull(key, both).wait()
                for array in both:
                    np.testing.assert_array_equal(array, np.full(10, turn + 2 * key))
        with Beside(lambda: add(1)):
            add(2)
        self.assertEqual(self.kv.counters().tensors_reduced, 400)

    def test_a_callback_that_nobody_would_await_is_refused(self):
        async def callback(_):
            pass

        class Callable:
            async def __call__(self, _):
                pass
        pending = self.kv.pushpull(1, np.ones(1))
        for one in (callback, functools.partial(callback, 1), Callable(), Callable().__call__):
            with self.assertRaisesRegex(TypeError, "async def.*await pending"):
                pending.then(one)

    def test_it_says_what_it_is(self):
        self.assertEqual(repr(self.kv), "<tutti.KVStore local, rank 0 of 1>")
        self.kv.close()
        self.assertEqual(repr(self.kv), "<tutti.KVStore local, rank 0 of 1, closed>")


class ForeignArrays(unittest.TestCase):
    def setUp(self):
        self.kv = tutti.create("local")
        self.addCleanup(self.kv.close)

    def reduce(self, *arrays):
        self.kv.pushpull(1, list(arrays)).wait()

    def test_they_are_used_in_place(self):
        arrays = [np.full(4, i) for i in (1, 2)]
        self.reduce(*map(Foreign, arrays))
        for array in arrays:
            np.testing.assert_array_equal(array, np.full(4, 3))

    def test_a_tensor_that_requires_grad_is_refused_and_a_detached_one_is_not(self):
        tensor = Foreign(np.ones(4))
        tensor.requires_grad = True
        for call in (lambda: self.reduce(tensor), lambda: self.kv.init(2, tensor)):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, "this Foreign requires grad.*tensor.detach()"):
                call()
        tensor.requires_grad = False
        self.reduce(tensor)

    def test_an_array_of_jax_is_read_but_never_written(self):
        array, out = type("ArrayImpl", (Foreign,), {"__module__": "jaxlib._jax"})(np.ones(4)), np.zeros(4)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "arrays of jax never change.*numpy.empty_like"):
            self.reduce(array)
        self.kv.pushpull(1, array, out).wait()
        np.testing.assert_array_equal(out, np.ones(4))


class Create(unittest.TestCase):
    def test_an_unknown_type_is_an_error_that_lists_those_there_are(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "nonsense.*dist_sync_mpi"):
            tutti.create("nonsense")

    def test_its_documentation_names_all_types(self):
        with self.assertRaises(tutti.InvalidArgumentError) as raised:
            tutti.create("nonsense")
        types = re.search(r"\(known: (.*)\)", str(raised.exception))[1].split(", ")
        self.assertIn("dist_device_async", types)
        words = re.findall(r"\w+", tutti.create.__doc__.partition("\n\n")[0])
        self.assertEqual([kind for kind in types if kind not in words], [])

    def test_options_are_checked_and_times_are_seconds(self):
        with tutti.create("local", key_timeout=2.5, fusion_bytes=0, log_level="error", replay=False):
            pass
        for text, options in {"key_timeout is a number of seconds, not str": {"key_timeout": "5"},
                              "fusion_bytes is a number of bytes.*not float": {"fusion_bytes": 0.5},
                              "replay is True or False, not int": {"replay": 1},
                              "unexpected keyword argument 'fusion'": {"fusion": 1}}.items():
            with self.assertRaisesRegex(TypeError, text):
                tutti.create("local", **options)
        with tutti.create("local", key_timeout=np.float32(2), fusion_bytes=np.int64(0)):
            pass
        for number in (-1, 2**64):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, f"part_bytes is {number}; it takes a number of by"):
                tutti.create("local", part_bytes=number)
        for seconds in (0, -1, 1e300, float("nan")):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, "key_timeout.* it takes .*seconds"):
                tutti.create("local", key_timeout=seconds)
        with self.assertRaisesRegex(TypeError, "timeline is a str or a path, not int"):
            tutti.create("local", timeline=1)
        with tutti.create("local", timeline=pathlib.Path("timeline.json")):
            pass

    def test_a_store_is_made_by_create_alone(self):
        with self.assertRaises(TypeError):
            tutti.KVStore()


class Errors(unittest.TestCase):
    def test_errors_are_exceptions_like_others(self):
        for kind in tutti.Error.__subclasses__():
            error = kind("text", key="k", ranks=[1, 2])
            for one in (error, pickle.loads(pickle.dumps(error))):
                self.assertEqual((type(one), str(one), one.key, one.ranks), (kind, "text", "k", (1, 2)))
                self.assertIsInstance(one.code, tutti.ErrorCode)
        self.assertEqual((tutti.Error().key, tutti.Error().ranks, tutti.Error("x").code), (None, (), None))
        self.assertEqual(repr(tutti.MismatchError("differs", key="w", ranks=[1, 2])),
                         "MismatchError('differs', key='w', ranks=(1, 2))")
        self.assertEqual(repr(tutti.Error("text")), "Error('text')")

    def test_the_librarys_words_become_those_of_python_but_not_in_quotes(self):
        self.assertEqual(errors.in_words_of_python("the job's key 'f32' has f32 (3) and bf16, Options::ranks 'i8'"),
                         "the job's key 'f32' has float32 (3) and bfloat16, ranks 'i8'")


class Exit(unittest.TestCase):
    def test_a_store_that_is_used_when_the_interpreter_ends_says_that_it_is_closed(self):
        program = ("import numpy, tutti\nclass Owner:\n"
                   "    def __init__(self):\n        self.kv, self.array = tutti.create('local'), numpy.ones(1)\n"
                   "        self.itself = self\n"
                   "    def __del__(self):\n"
                   "        for call in lambda: self.kv.pushpull('k', self.array), self.kv.barrier:\n"
                   "            try: call()\n"
                   "            except Exception as error: print(type(error).__name__, error)\n"
                   "owner = Owner()")
        for line, method in zip(said(program).splitlines(), ("pushpull", "barrier"), strict=True):
            self.assertRegex(line, f"^AbortedError {method} of a store that is closed")

    def test_the_interpreter_ends_though_a_store_is_open_and_a_call_was_never_waited_for(self):
        said("import tutti, numpy\nkv = tutti.create('local')\npending = kv.pushpull(1, numpy.ones(5))\n")

    def test_no_thread_starts_before_a_callback_is_given(self):
        program = ("import sys, threading, tutti, numpy\nkv = tutti.create('local')\n"
                   "pending = kv.pushpull(1, numpy.ones(5)); pending.wait()\n"
                   "print(threading.active_count(), 'asyncio' in sys.modules)\n"
                   "pending.then(id); assert threading.active_count() == 2")
        self.assertEqual(said(program).splitlines()[:1], ["1 False"])

    def test_callbacks_of_calls_that_are_done_run_before_the_end(self):
        program = ("import tutti, numpy, time\nkv = tutti.create('local')\n"
                   "kv.pushpull(1, numpy.ones(5)).then(lambda _: time.sleep(0.1))\n"
                   "for i in range(100): kv.pushpull(1, numpy.ones(5)).then(lambda error, i=i: print(i, error))")
        self.assertEqual(said(program), "".join(f"{i} None\n" for i in range(100)))

    def test_a_child_ends_that_was_forked_while_threads_of_its_parent_waited_for_the_interpreter(self):
        said("import os, sys, threading, tutti, numpy\nkv = tutti.create('local')\n"
             "def work(key):\n  while busy: kv.pushpull(key, numpy.ones(5)).wait()\n"
             "busy = [threading.Thread(target=work, args=(key,)) for key in range(3)]\n"
             "for thread in list(busy): thread.start()\n"
             "for _ in range(30):\n  child = os.fork()\n  if child == 0: sys.exit(0)\n"
             "  assert os.waitpid(child, 0)[1] == 0\n"
             "busy.clear()")

    def test_a_callback_that_never_ends_does_not_hold_up_the_end(self):
        said("import threading, tutti, numpy\nkv = tutti.create('local')\n"
             "kv.pushpull(1, numpy.ones(5)).then(lambda _: threading.Event().wait())\n")


if __name__ == "__main__":
    unittest.main()
