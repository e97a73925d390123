"""Steps that repeat send the coordinator nothing: by the store's counter, and by the kernel's of packets on
its connections between hosts. Without replay the same counters show the messages.

    test_packets.py PACKETS_JOB [unittest options]
"""
import json
import math
import sys
import unittest

from layouts import main, possible, run_in
from on_hosts import ranks_of

PACKETS_JOB = sys.argv[1]
MPI_PORTS = (20000, 20999)  # outside of the ports that the kernel gives to programs
LAYOUTS = ["2x1", "4x1"]


class Packets(unittest.TestCase):
    def rows(self, layout, steps, replay):
        """The counts of each rank, by rank, and the first ranks of the hosts other than rank 0's."""
        job = run_in(layout, PACKETS_JOB, steps, *MPI_PORTS, limit=140, TUTTI_REPLAY=replay,
                     OMPI_MCA_btl_tcp_port_min_v4=str(MPI_PORTS[0]),
                     OMPI_MCA_btl_tcp_port_range_v4=str(MPI_PORTS[1] - MPI_PORTS[0] + 1))
        rows = [json.loads(line.removeprefix("packets ")) for line in job.lines("^packets ")]
        rows.sort(key=lambda row: row["rank"])
        ranks = ranks_of(layout)
        self.assertEqual([row["rank"] for row in rows], list(range(sum(ranks))), job)
        self.assertEqual({row["nodes"] for row in rows}, {len(ranks)}, job)
        for row in rows:
            print(f"{layout}, replay {replay}, {steps} steps: {row}", flush=True)
        # Rank 0 has a link to the first rank of each other host. There are no other links.
        leaders = [sum(ranks[:host]) for host in range(1, len(ranks))]
        links = {0: len(leaders), **dict.fromkeys(leaders, 1)}
        self.assertEqual([row["connections"] for row in rows], [links.get(rank, 0) for rank in range(len(rows))], job)
        return rows, leaders

    def test_repeated_steps_send_no_packet_but_signs_of_life(self):
        for layout in possible(LAYOUTS):
            with self.subTest(layout=layout):
                rows, _ = self.rows(layout, 1000, "1")
                self.assertEqual([row["messages"] for row in rows], [0] * len(rows))
                for row in rows:
                    beats = row["connections"] * (math.floor(row["seconds"]) + 1)  # one a second
                    self.assertLessEqual(row["sent"], beats)
                    self.assertLessEqual(row["received"], beats)
                    # Each is acknowledged.
                    self.assertLessEqual(row["all"], 4 * beats)

    def test_without_replay_the_same_counters_show_the_messages(self):
        steps = 300
        for layout in possible(LAYOUTS):
            with self.subTest(layout=layout):
                rows, leaders = self.rows(layout, steps, "0")
                for row in rows:
                    # A report and a plan for each step.
                    self.assertGreaterEqual(row["messages"], 2 * steps)
                for rank in leaders:
                    packets = rows[rank]["sent"] + rows[rank]["received"]
                    self.assertGreaterEqual(packets, rows[rank]["messages"])
                # The ends of links count the same packets, but for the step that one may be ahead.
                for there, here in (("sent", "received"), ("received", "sent")):
                    counted = sum(rows[rank][there] for rank in leaders)
                    self.assertAlmostEqual(counted, rows[0][here], delta=10 * len(leaders))


if __name__ == "__main__":
    main(sys.argv[2:])
