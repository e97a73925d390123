"""Float sums have the same bits wherever the ranks are: on one host, or on several with as many ranks as
the sum's binary tree has in a branch. Elsewhere they have the same bits in every run.

    test_bits.py BITS_TEST quick|all [unittest options]

`quick` runs one in five of the combinations of settings, on some of the layouts. STORE_TEST_SEED chooses the values and
the combinations.
"""
import collections
import json
import os
import random
import sys
import unittest

from layouts import main, possible, run_in
from on_hosts import ranks_of

BITS_TEST, TIER = sys.argv[1:3]
SEED = os.environ.get("STORE_TEST_SEED") or str(random.randrange(1 << 31))


def on_one_host(layout):
    return layout.isdigit()


class Bits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"STORE_TEST_SEED={SEED}", flush=True)

    def said(self, layout, size, **env):
        """The output of `size` ranks of a job's stores about their sums."""
        job = run_in(layout, BITS_TEST, limit=120, STORE_TEST_SEED=SEED,
                     STORE_TEST_EVERY="5" if TIER == "quick" else "1", **env)
        rows = [json.loads(line.removeprefix("bits ")) for line in job.lines("^bits ")]
        self.assertEqual(sorted(row["rank"] for row in rows), list(range(size)), job)
        return rows

    def rows(self, layout):
        ranks = [int(layout)] if on_one_host(layout) else ranks_of(layout)
        rows = self.said(layout, sum(ranks))
        self.assertEqual({row["nodes"] for row in rows}, {len(ranks)}, rows)
        self.check_traffic(layout, rows)
        return rows

    def check_traffic(self, layout, rows):
        """Checks that the right number of bytes crossed between hosts, by the store's count and by the kernel's."""
        reduced = rows[0]["reduced"]
        hosts = collections.defaultdict(list)
        for row in rows:
            hosts[row["host"]].append(row)
        if on_one_host(layout):
            self.assertEqual({row["between_nodes"] for row in rows}, {0})
            return
        for of_host in hosts.values():
            said = sum(row["between_nodes"] for row in of_host)
            sent = max(row["sent_by_host"] for row in of_host)
            print(f"{layout}: {of_host[0]['host']} reduced {reduced} bytes; its ranks sent {said} to other "
                  f"hosts, its network device {sent}", flush=True)
            # A host sends at least its share of the sum of one vector, and the part that it reduced for the others.
            self.assertGreaterEqual(said, reduced * (len(hosts) - 1) // len(hosts))
            self.assertGreaterEqual(sent, said)

    def one(self, rows, what):
        """The value that all ranks agree on."""
        values = {row[what] for row in rows}
        self.assertEqual(len(values), 1, f"{what} by rank: {rows}")
        return values.pop()

    def same_as_on_one_host(self, layout):
        rows = self.rows(layout)
        self.assertEqual(self.one(rows, "wide"), self.one(rows, "tree"))
        self.one(rows, "narrow")
        # Another order would show.
        self.assertNotEqual(self.one(rows, "tree"), self.one(rows, "other_tree"))

    def test_on_hosts_that_hold_whole_branches_sums_equal_those_on_one_host(self):
        layouts = ["8", "2x4", "3", "2+1", "5", "4+1"] + ["4x2", "8x1", "3x1", "2+1+1"] * (TIER == "all")
        for layout in possible(layouts):
            with self.subTest(layout=layout):
                self.same_as_on_one_host(layout)

    def test_on_other_hosts_every_run_gives_the_same_sums(self):
        for layout in possible(["3+2"]):
            first, second = self.rows(layout), self.rows(layout)
            for what in ("wide", "narrow"):
                self.assertEqual(self.one(first, what), self.one(second, what))

    def test_a_store_over_some_ranks_sums_as_one_over_all_ranks_of_a_smaller_job(self):
        """The first store lies on two hosts, each of which holds a whole branch."""
        alone = {}
        groups = {"2x2": (0, 1, 3), "5": (1, 3, 4)} | ({"6": (0, 1, 3, 4, 5)} if TIER == "all" else {})
        for layout in possible(list(groups)):
            ranks = groups[layout]
            with self.subTest(layout=layout, ranks=ranks):
                size = len(ranks)
                alone[size] = alone.get(size) or self.said(str(size), size)
                rows = self.said(layout, size, STORE_TEST_RANKS=",".join(map(str, ranks)))
                for what in ("wide", "tree") + ("narrow",) * on_one_host(layout):
                    self.assertEqual(self.one(rows, what), self.one(alone[size], what))
                self.assertEqual(self.one(rows, "wide"), self.one(rows, "tree"))


if __name__ == "__main__":
    main(sys.argv[3:])
