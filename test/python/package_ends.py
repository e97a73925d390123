"""Programs that end in many ways. Rank 1 fails, and the other ranks print what they see of that.

    scripts/launch.py --mode mpi --launcher local -n N python package_ends.py HOW
"""
import os
import signal
import sys
import threading
import time

import numpy as np

import tutti


def array():
    return np.ones(4, np.float32)


def outcome(kv):
    """Prints how a call ends that rank 1 never makes: the error, the ranks that it names, and whether it came in time.
    """
    began = time.monotonic()
    try:
        kv.pushpull("never", array()).wait()
    except tutti.Error as error:
        print(type(error).__name__, error.ranks, "in time" if time.monotonic() - began < 5 else "late", flush=True)


def fail(how):
    if how == "raises":
        raise ValueError("what went wrong")
    if how == "exits":
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)


def in_block(how):
    with tutti.create("dist_sync_mpi", log_level="critical") as kv:
        kv.pushpull("all", array()).wait()
        if kv.rank == 1:
            fail(how)
        outcome(kv)


def in_function(how):
    kv = tutti.create("dist_sync_mpi", log_level="critical")
    kv.pushpull("all", array()).wait()
    if kv.rank == 1:
        fail(how)
    outcome(kv)


def with_global(how):
    global kv  # as in scripts that are one long main program
    kv = tutti.create("dist_sync_mpi", log_level="critical")
    kv.pushpull("all", array()).wait()
    if kv.rank == 1:
        fail(how)
    outcome(kv)


def in_wait(_):
    """Ctrl-C while the program waits for a call that never ends."""
    with tutti.create("dist_sync_mpi", log_level="critical") as kv:
        kv.pushpull("all", array()).wait()
        if kv.rank == 1:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            kv.pushpull("never either", array()).wait()
        outcome(kv)


def all_in(place):
    """Every rank waits for a call that never ends, in the program or in a callback, until somebody ends the job."""
    with tutti.create("dist_sync_mpi", log_level="critical") as kv:
        never = kv.pushpull(f"never {kv.rank}", array())

        def wait(_):
            print("waits", flush=True)
            never.wait()
        if place == "wait":
            wait(None)
        kv.pushpull("all", array()).then(wait)
        time.sleep(60)


def in_callback(how):
    """Ctrl-C while a callback waits for a call that never ends."""
    with tutti.create("dist_sync_mpi", log_level="critical") as kv:
        begun = threading.Event()

        def callback(_):
            begun.set()
            kv.pushpull("never either", array()).wait()
        pending = kv.pushpull("all", array())
        if kv.rank == 1:
            pending.then(callback)
            begun.wait(30)
            fail(how)
        pending.wait()
        outcome(kv)


def closing(kv, how):
    """Rank 1 fails when the others have nothing in flight. They print the error of their last call."""
    kv.pushpull("all", array()).wait()
    if kv.rank == 1:
        time.sleep(0.5)
        fail(how)


def in_close(how):
    kv = tutti.create("dist_sync_mpi", log_level="critical")
    closing(kv, how)
    try:
        kv.close()
    except tutti.Error as error:
        print(type(error).__name__, error.ranks, flush=True)
    kv.close()


def before_close(how):
    try:
        with tutti.create("dist_sync_mpi", log_level="critical") as kv:
            closing(kv, how)
            time.sleep(2)
    except tutti.Error as error:
        print(type(error).__name__, error.ranks, flush=True)


def child_first(_):
    """A child of each rank creates a store before the rank does. The child is then the rank."""
    import multiprocessing
    child = multiprocessing.get_context("spawn").Process(target=create_and_sum)
    child.start()
    child.join(60)
    try:
        tutti.create("dist_sync_mpi")
    except tutti.UnsupportedError as error:
        print("parent refused", str(child.pid) in str(error), child.exitcode, flush=True)


def create_and_sum():
    with tutti.create("dist_sync_mpi", create_timeout=20) as kv:
        print("child of", kv.num_workers, kv.allgather_object(kv.rank), flush=True)


def handled(_):
    try:
        in_block("raises")
    except ValueError:
        pass
    time.sleep(6)  # the store is closed long before the program ends


def waited_for_by_nobody(_):
    global kv, pending
    kv = tutti.create("dist_sync_mpi")
    kv.pushpull("all", array()).then(lambda error: print("called back with", error, flush=True))
    pending = kv.pushpull("all too", array())


def unless_left(call):
    """Rank 1 may leave the store before this program ends."""
    try:
        call()
    except tutti.AbortedError:
        pass


def left_by_threads(_):
    """A program that leaves a thread that waits, a thread in a barrier and a callback that waits, all for calls that
    never end.
    """
    global kv
    kv = tutti.create("dist_sync_mpi", log_level="critical")
    kv.pushpull("all", array()).wait()
    if kv.rank == 0:
        never = kv.pushpull("never", array())
        for call in (never.wait, kv.barrier):
            threading.Thread(target=unless_left, args=(call,), daemon=True).start()
        kv.pushpull("all too", array()).then(lambda _: unless_left(never.wait))
    kv.pushpull("at last", array()).wait()
    if kv.rank > 0:
        kv.pushpull("all too", array()).wait()


def forked(when):
    """A child of a process with a store has stores of its own, callbacks included, and ends in order."""
    with tutti.create("dist_sync_mpi") as kv:
        kv.pushpull("all", array()).then(lambda error: None)
        if when == "at rest":
            time.sleep(1)
        child = os.fork()
        if child == 0:
            called = threading.Event()
            tutti.create("local", log_level="error").pushpull("k", array()).then(lambda _: called.set())
            sys.exit(0 if called.wait(30) else 1)
        assert os.waitpid(child, 0)[1] == 0
        kv.barrier()


if __name__ == "__main__":
    place, _, way = sys.argv[1].partition(":")
    globals()[place](way)
