"""Workers train to the same weights, bit for bit, on one host and on several with as many each.

    test_training.py TRAIN [unittest options]
"""
import sys
import unittest

from layouts import main, possible, run_in

TRAIN = [sys.argv[1], "--kv-store", "dist_sync_mpi", "--network", "lenet", "--epochs", "2"]


class Training(unittest.TestCase):
    def weights(self, layout):
        # The number of threads is the same everywhere, because the sums of layers depend on it.
        job = run_in(layout, *TRAIN, OMP_NUM_THREADS="1")
        hashes = [line.split()[-1] for line in job.lines("weights sha256")]
        self.assertEqual(len(hashes), 4, job)
        self.assertEqual(len(set(hashes)), 1, job)
        steps = job.lines("bytes reduced")
        self.assertEqual(len(steps), 1, job)
        self.assertNotIn("was expected", steps[0])
        return hashes[0]

    def test_the_weights_do_not_depend_on_where_the_workers_are(self):
        layouts = possible(["2x2", "4x1"])
        on_one_host = self.weights("4")
        for layout in layouts:
            with self.subTest(layout=layout):
                self.assertEqual(self.weights(layout), on_one_host)


if __name__ == "__main__":
    main(sys.argv[2:])
