"""A store with nothing to do costs next to nothing, on one host and on two, replay off and on.

    test_idle.py IDLE_TEST [unittest options]
"""
import itertools
import sys
import unittest

from layouts import each, main, possible, run_in

IDLE_TEST = sys.argv[1]
LAYOUTS = ["2", "4", "2x1", "2x2"]


class Idle(unittest.TestCase):
    def is_cheap(self, layout, replay):
        # No stall report, which would be something that happens.
        job = run_in(layout, IDLE_TEST, TUTTI_REPLAY=replay, TUTTI_STALL_SECONDS="30")
        said = job.lines("% of a core by rank:")
        self.assertEqual(len(said), 3, job)
        nodes = 1 if layout.isdigit() else 2
        for line in said:
            self.assertIn(f"nodes {nodes}, replay {'true' if replay == '1' else 'false'}", line)
            print(f"{layout}: {line}", flush=True)

    def test_waiting_uses_no_more_than_a_hundredth_of_a_core(self):
        # All at once: they wait, and what counts is the time on processors, not the time that passes.
        cases = list(itertools.product(possible(LAYOUTS), ("0", "1")))
        each(self, cases, self.is_cheap, at_once=len(cases))


if __name__ == "__main__":
    main(sys.argv[2:])
