"""Sums tensors of a framework through tutti's C interface, ordered only by the framework's streams.

    mpirun -n 2 streams.py LIBRARY FRAMEWORK ROUNDS

LIBRARY is libtutti.so; FRAMEWORK is torch, cupy, or driver, which stands for a framework and needs nothing but CUDA's
driver. Each round writes a tensor on a stream that is busy, submits it at once, lets a stream wait for the sum and
reads it there. Nothing waits on the host in between. Prints a line of JSON.
"""
import collections
import ctypes
import importlib
import json
import sys

ELEMENTS = (1, 1000, 300_001, 2_500_000)
KEYS = 16  # a key is used again when its last call is done
F32, GPU = 2, 1


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("index", ctypes.c_int)]


class Key(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("integer", ctypes.c_int64)]


class Values(ctypes.Structure):
    _fields_ = [("tensors", ctypes.POINTER(ctypes.c_void_p)), ("count", ctypes.c_size_t)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char_p)]


class Tutti:
    """The part of tutti/c.h that this program needs."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.tutti_last_error.restype = ctypes.POINTER(Error)
        self.store = ctypes.c_void_p()
        self.call("tutti_store_create", b"dist_sync_mpi", None, ctypes.byref(self.store))
        self.rank = self.library.tutti_store_rank(self.store)
        self.ranks = self.library.tutti_store_num_workers(self.store)

    def call(self, name, *words):
        if getattr(self.library, name)(*words) != 0:
            raise RuntimeError(f"{name}: {self.library.tutti_last_error().contents.message.decode()}")

    def tensor(self, pointer, elements, stream):
        made = ctypes.c_void_p()
        self.call("tutti_tensor_create", ctypes.c_void_p(pointer), (ctypes.c_int64 * 1)(elements),
                  ctypes.c_size_t(1), F32, Device(GPU, 0), None, None, ctypes.byref(made))
        self.call("tutti_tensor_set_stream", made, ctypes.c_void_p(stream))
        return made

    def pushpull(self, key, before, after, elements, stream):
        """Submits pointers. Work that the stream already holds comes first."""
        tensors = [self.tensor(pointer, elements, stream) for pointer in (before, after)]
        values = [Values((ctypes.c_void_p * 1)(tensor), 1) for tensor in tensors]
        pending = ctypes.c_void_p()
        self.call("tutti_store_pushpull", self.store, ctypes.c_size_t(1), ctypes.byref(Key(None, key)),
                  ctypes.byref(values[0]), ctypes.byref(values[1]), None, ctypes.byref(pending))
        for tensor in tensors:
            self.library.tutti_tensor_destroy(tensor)
        return pending

    def wait_on(self, pending, stream):
        self.call("tutti_pending_wait_on", pending, ctypes.c_void_p(stream))

    def finish(self, pending):
        self.call("tutti_pending_wait", pending)
        self.library.tutti_pending_destroy(pending)

    def close(self):
        self.call("tutti_store_close", self.store)
        self.library.tutti_store_destroy(self.store)


class Torch:
    def __init__(self):
        self.torch = importlib.import_module("torch")
        self.version = self.torch.__version__
        self.writer, self.reader = self.torch.cuda.Stream(), self.torch.cuda.Stream()
        make = {size: (self.torch.empty(size, device="cuda"), self.torch.empty(size, device="cuda"))
                for size in ELEMENTS}
        self.pairs, self.bad = make, self.torch.zeros((), dtype=self.torch.int64, device="cuda")
        self.torch.cuda.synchronize()

    def write(self, size, value, busy):
        before, after = self.pairs[size]
        self.writer.wait_stream(self.reader)
        with self.torch.cuda.stream(self.writer):
            if busy:
                self.torch.cuda._sleep(2_000_000)  # pylint: disable=protected-access
            before.fill_(value)
            after.fill_(-1)
        return before.data_ptr(), after.data_ptr(), self.writer.cuda_stream

    def read(self, size, expected):
        with self.torch.cuda.stream(self.reader):
            self.bad += (self.pairs[size][1] != expected).sum()

    def handle(self):
        return self.reader.cuda_stream

    def wrong(self):
        self.torch.cuda.synchronize()
        return int(self.bad)


class Cupy:
    NAP = "extern \"C\" __global__ void nap(long long n) { long long t = clock64(); while (clock64() - t < n) {} }"

    def __init__(self):
        self.cupy = importlib.import_module("cupy")
        self.version = self.cupy.__version__
        self.writer, self.reader = (self.cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self.nap = self.cupy.RawKernel(self.NAP, "nap")
        self.pairs = {size: (self.cupy.empty(size, "float32"), self.cupy.empty(size, "float32")) for size in ELEMENTS}
        self.bad = self.cupy.zeros((), "int64")
        self.cupy.cuda.Device().synchronize()

    def write(self, size, value, busy):
        before, after = self.pairs[size]
        self.writer.wait_event(self.reader.record())
        with self.writer:
            if busy:
                self.nap((1,), (1,), (self.cupy.int64(2_000_000),))
            before.fill(value)
            after.fill(-1)
        return before.data.ptr, after.data.ptr, self.writer.ptr

    def read(self, size, expected):
        with self.reader:
            self.bad += (self.pairs[size][1] != expected).sum()

    def handle(self):
        return self.reader.ptr

    def wrong(self):
        self.cupy.cuda.Device().synchronize()
        return int(self.bad)


class Driver:
    """Writes by copies from memory that nobody changes, and reads by copies that are checked at the end."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        version, context, device = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.writer, self.reader = self.made("cuStreamCreate", 1), self.made("cuStreamCreate", 1)
        self.event = self.made("cuEventCreate", 2)
        self.pairs = {size: [self.made("cuMemAlloc_v2", ctypes.c_size_t(4 * size)) for _ in range(2)]
                      for size in ELEMENTS}
        self.sources, self.found = {}, []

    def call(self, name, *words):
        status = getattr(self.cuda, name)(*words)
        if status != 0:
            raise RuntimeError(f"{name} returns {status}")

    def made(self, name, *words):
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *words)
        return handle

    def host(self, size):
        memory = self.made("cuMemHostAlloc", ctypes.c_size_t(4 * size), 0)
        return ctypes.cast(memory, ctypes.POINTER(ctypes.c_float * size)).contents

    def source(self, size, value):
        if (size, value) not in self.sources:
            self.sources[size, value] = self.host(size)
            self.sources[size, value][:] = [value] * size
        return self.sources[size, value]

    def write(self, size, value, busy):
        before, after = self.pairs[size]
        self.call("cuEventRecord", self.event, self.reader)
        self.call("cuStreamWaitEvent", self.writer, self.event, 0)
        for _ in range(50 if busy else 1):
            self.copy_in(after, self.source(size, -1.0))
        self.copy_in(before, self.source(size, float(value)))
        return before.value, after.value, self.writer.value

    def copy_in(self, to, source):
        self.call("cuMemcpyHtoDAsync_v2", to, source, ctypes.c_size_t(ctypes.sizeof(source)), self.writer)

    def read(self, size, expected):
        result = self.host(size)
        self.call("cuMemcpyDtoHAsync_v2", result, self.pairs[size][1], ctypes.c_size_t(4 * size), self.reader)
        self.found.append((result, expected))

    def handle(self):
        return self.reader.value

    def wrong(self):
        self.call("cuStreamSynchronize", self.reader)
        return sum(value != expected for result, expected in self.found for value in set(result))


FRAMEWORKS = {"torch": Torch, "cupy": Cupy, "driver": Driver}


def exchange(tutti, framework, rounds, sizes):
    under_way = collections.deque()
    for turn in range(rounds):
        if len(under_way) == KEYS:
            tutti.finish(under_way.popleft())
        size, value = sizes[turn % len(sizes)], turn % 7 + tutti.rank
        before, after, stream = framework.write(size, value, busy=turn % 2 == 0)
        under_way.append(tutti.pushpull(turn % KEYS, before, after, size, stream))
        tutti.wait_on(under_way[-1], framework.handle())
        framework.read(size, tutti.ranks * (turn % 7) + tutti.ranks * (tutti.ranks - 1) // 2)
    while under_way:
        tutti.finish(under_way.popleft())


def main(library, name, rounds):
    framework = FRAMEWORKS[name]()
    tutti = Tutti(library)
    # The driver's stand-in for a framework keeps each result on the host.
    exchange(tutti, framework, int(rounds), ELEMENTS if name != "driver" else ELEMENTS[:3])
    wrong = framework.wrong()
    tutti.close()
    print(json.dumps({"part": "streams", "framework": name, "version": framework.version, "rank": tutti.rank,
                      "ranks": tutti.ranks, "rounds": int(rounds), "wrong": wrong}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
