#!/usr/bin/env python3
"""The bits of f32 sums depend on the values and the number of ranks alone.

    test_bits.py BITS quick|all [unittest options]

`all` tries every setting with every number of ranks, `quick` each with one. BITS prints, on every rank, a hash of its results' bits, on how many nodes, and what went between them.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import on_hosts

BITS, TIER = sys.argv[1:3]
ON_HOSTS = pathlib.Path(on_hosts.__file__)
NO_HOSTS = on_hosts.why_not()
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1", "TUTTI_STALL_SECONDS": "10", "TUTTI_TIMEOUT_SECONDS": "40",
}
LINE = re.compile(r"rank \d+: bits (\w+) on (\d+) nodes, (\d+) bytes between them, (\d+) batches")
SETTINGS = (
    {"TUTTI_REPLAY": "1"},
    {"TUTTI_REPLAY": "0"},
    {"TUTTI_FUSION_BYTES": "0"},
    {"TUTTI_FUSION_BYTES": "16M", "TUTTI_PART_BYTES": "0"},
    {"TUTTI_PART_BYTES": "100K"},
    {"TUTTI_SLICE_BYTES": "5K", "TUTTI_PART_BYTES": "1M", "TUTTI_REPLAY": "1"},
)


class Bits(unittest.TestCase):
    def run_job(self, words, ranks, **env):
        """(bits, nodes, bytes between nodes, batches), which all ranks agree on but for the bytes."""
        done = subprocess.run([*map(str, words)], env={**os.environ, **ENVIRONMENT, **env}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        said = LINE.findall(done.stdout)
        self.assertEqual(len(said), ranks, done.stdout)
        self.assertEqual(len({bits for bits, *_ in said}), 1, done.stdout)
        bits, nodes, _, batches = said[0]
        return bits, int(nodes), sum(int(crossed) for _, _, crossed, _ in said), int(batches)

    def on_one_node(self, ranks, seed=0, **env):
        return self.run_job(["mpirun", "-n", ranks, BITS, seed], ranks, **env)

    def on_hosts(self, layout, seed=0, **env):
        words = [word for pair in {**ENVIRONMENT, **env}.items() for word in ("--env", "=".join(pair))]
        return self.run_job([ON_HOSTS, *words, layout, BITS, seed], sum(on_hosts.ranks_of(layout)))

    def test_neither_order_nor_settings_change_them_on_one_node(self):
        for i, ranks in enumerate((2, 3, 5, 8)):
            bits, nodes, crossed, _ = self.on_one_node(ranks)
            self.assertEqual((nodes, crossed), (1, 0))
            self.assertEqual(self.on_one_node(ranks, seed=1)[0], bits, f"{ranks} ranks, another order")
            for env in SETTINGS if TIER == "all" else SETTINGS[i::4]:
                self.assertEqual(self.on_one_node(ranks, **env)[0], bits, f"{ranks} ranks, {env}")

    def test_the_settings_do_what_they_say(self):
        batches = {name: self.on_one_node(2, **env)[3] for name, env in {
            "default": {}, "unfused": {"TUTTI_FUSION_BYTES": "0"}, "cut": {"TUTTI_PART_BYTES": "100K"}}.items()}
        self.assertGreater(batches["unfused"], batches["default"])
        self.assertGreater(batches["cut"], batches["default"])

    def test_other_ranks_give_other_bits(self):
        self.assertNotEqual(self.on_one_node(2)[0], self.on_one_node(3)[0])

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_the_placement_of_eight_ranks_does_not_change_them(self):
        bits = self.on_one_node(8)[0]
        for layout, count in (("2x4", 2), ("4x2", 4), ("8x1", 8)):
            there, nodes, crossed, _ = self.on_hosts(layout, seed=count)
            self.assertEqual(nodes, count, layout)
            self.assertGreater(crossed, 0, layout)
            self.assertEqual(there, bits, layout)

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_between_hosts_neither_order_nor_settings_change_them(self):
        for layout in ("2x1", "2+1", "1+2+1"):
            bits = self.on_hosts(layout)[0]
            self.assertEqual(self.on_hosts(layout, seed=1)[0], bits, layout)
            for env in SETTINGS if TIER == "all" else SETTINGS[4:]:
                self.assertEqual(self.on_hosts(layout, **env)[0], bits, f"{layout}, {env}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
