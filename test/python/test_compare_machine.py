#!/usr/bin/python3
"""benchmarks/compare/machine.py: what figures were measured on."""
import pathlib
import tempfile
import unittest

import comparing  # for the way to the modules
from compare import machine


class Machine(unittest.TestCase):
    def test_what_others_and_the_host_take_is_told_of_the_time_that_has_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("before", "after")]
            for file, line in zip(files, ("cpu  10 20 30 400 40 5 6 7 0 0", "cpu  60 30 50 700 90 15 16 57 0 0")):
                file.write_text(line + "\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
            passed = machine.times(files[0]).since(machine.times(files[1]))
        self.assertEqual((passed.busy, passed.stolen), (100 / 500, 50 / 500))

    def test_a_busy_machine_is_said_so(self):
        facts = dict.fromkeys(("cpu", "cores", "last_level_cache", "memory", "system", "kernel", "commit"), "x")
        self.assertNotIn("something else", machine.text({**facts, "busy_before": 0.049}))
        self.assertIn("before the run: 6.0 % - something else is running", machine.text({**facts, "busy_before": 0.06}))


if __name__ == "__main__":
    unittest.main()
