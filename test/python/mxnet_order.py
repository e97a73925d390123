"""The order in which an MXNet program's gradients are exchanged; on every rank of an MPI job, of two at least."""
import collections
import json
import os
import pathlib
import tempfile
import time
import unittest
from unittest import mock

import mxnet as mx

import tutti
import tutti.mxnet

LAYERS = range(16)
ROUNDS = range(10)


class Order(unittest.TestCase):
    def setUp(self):
        self.kv = mx.kv.create("dist_sync_mpi")
        self.gradients = [mx.nd.ones(1000) for _ in LAYERS]

    def step(self, layers, pause=0):
        for i in layers:
            time.sleep(pause)
            self.kv.pushpull(i, self.gradients[i], priority=-i)
        for gradient in self.gradients:
            gradient.wait_to_read()

    def messages(self):
        return self.kv._store.counters().control_messages

    def test_gradients_that_begin_to_come_one_by_one_are_exchanged_as_they_come(self):
        for _ in range(20):
            self.step(LAYERS)
        before = self.messages()
        for _ in range(20):
            self.step(reversed(LAYERS), 0.002)
        self.kv.barrier()
        # Each array was reported, because the order is new. Other arrays are exchanged in the order of the first steps.
        self.assertGreater(self.messages() - before, len(LAYERS))


class Urgent(unittest.TestCase):
    """Calls that wait while a long one moves. MXNet's engine starts them as they are made, for their arrays are ready
    and there is time between them: their order is the store's own."""

    def exchange(self, kv, number):
        long = mx.nd.ones(1 << 24)
        urgent, patient = mx.nd.ones(1000), mx.nd.ones(1000)
        mx.nd.waitall()
        kv.barrier()
        kv.pushpull(f"long {number}", long, priority=9)
        kv.pushpull(f"patient {number}", patient, priority=-1)
        time.sleep(0.003)
        kv.pushpull(f"urgent {number}", urgent, priority=1)
        mx.nd.waitall()

    def recorded(self):
        """[{key: (when it was called on this rank, when it began to move)}], by rank."""
        others = tutti.create("dist_sync_mpi")
        with tempfile.TemporaryDirectory() as folder:
            path = others.broadcast_object(f"{folder}/trace.json")
            # Each tensor travels by itself, as soon as the ranks have it.
            with mock.patch.dict(os.environ, TUTTI_TIMELINE=path, TUTTI_FUSION_BYTES="0", TUTTI_REPLAY="0"):
                kv = mx.kv.create("dist_sync_mpi")
            for number in ROUNDS:
                self.exchange(kv, number)
            kv._store.close()
            trace = next(pathlib.Path(path).parent.glob("trace*.json"), None)  # rank 0's has all ranks
            events = json.loads(others.broadcast_object(trace and trace.read_text(encoding="utf-8")))
        rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
                if event["name"] == "thread_name"}
        times = collections.defaultdict(lambda: collections.defaultdict(dict))
        for event in events:
            kind = "call" if event.get("cat") == "call" else event["name"]
            if kind in ("call", "move"):
                of_key = times[event["pid"]][rows[event["pid"], event["tid"]].split("'")[1]]
                of_key[kind] = min(event["ts"], of_key.get(kind, event["ts"]))
        return [times[pid] for pid in sorted(times)]

    def test_of_calls_that_wait_those_of_higher_priority_go_first(self):
        """The ranks report them in the order of the calls. So without priorities the first is never overtaken, and with
        them whenever both are reported while the long one moves."""
        ranks = self.recorded()
        overtaken = []
        for number in ROUNDS:
            pairs = [(rank[f"patient {number}"], rank[f"urgent {number}"]) for rank in ranks]
            if all(patient["call"] < urgent["call"] and urgent["move"] < patient["move"] for patient, urgent in pairs):
                overtaken.append(number)
        self.assertTrue(overtaken)


if __name__ == "__main__":
    unittest.main()
