"""Keys are the program's, and a program may take them from anywhere: whatever they hold, errors and log lines name
them, stay one line each, and get to their reason; see contract.py."""

import numpy as np

import tutti
from contract_fixture import Contract, make_store, stderr_to

LONGEST_ERROR, LONGEST_LINE, LONGEST_KEY = 1000, 2000, 1024

#: Each key, and the way in which errors show it, or a part of that. A key that is not UTF-8 is a str that cannot be
#: encoded.
KEYS = {"\n[error] forged": r"'\n[error] forged'", "\x1b[31mred": r"'\x1b[31mred'",
        "w\0 without an end": r"'w\x00 without an end'", "w' and rank 7's": r"'w\' and rank 7\'s'",
        "k" * LONGEST_KEY: "...kkkk", "\n" * LONGEST_KEY: r"\n...\n",
        "turned \u202e around\u2028": r"'turned \u202e around\u2028'"}


def has_control_characters(text):
    return any(ord(character) < 0x20 or ord(character) == 0x7f for character in text)


class HostileKeys(Contract):
    def unlike(self, kv):
        """An array whose shape on the last rank differs from that on the others."""
        return np.zeros((3, 2) if kv.rank == kv.num_workers - 1 else (2, 3), np.float32)

    def told(self, kind, texts, kv, key, *arrays):
        error = self.refused(kind, texts, kv.pushpull, key, *arrays, key=key[0] if isinstance(key, list) else key)
        self.assertFalse(has_control_characters(str(error)), str(error))
        self.assertLess(len(str(error).encode()), LONGEST_ERROR)

    def test_an_error_is_one_short_line_that_has_its_reason_whatever_its_key_holds(self):
        kv, flat = self.store(log_level="off"), np.zeros(6, np.float32)
        array, other = self.unlike(kv), np.zeros(6, np.float32)
        for key, shown in KEYS.items():
            if kv.num_workers > 1:
                self.told(tutti.MismatchError, [shown, "shapes differ"], kv, key, array)
            self.told(tutti.InvalidArgumentError, [shown, "same dtype and shape"], kv, key, array, flat)
            self.told(tutti.DuplicateKeyError, [shown, "twice in one call"], kv, [key, key], [flat, other])
        with self.assertRaisesRegex(UnicodeError, "surrogates"):
            kv.pushpull("not UTF-8: \udcff", flat)
        self.assert_alive(kv)

    def test_each_failure_that_nobody_waited_for_is_one_line_of_the_log_whatever_its_key_holds(self):
        lines = []
        with stderr_to(lines):
            with make_store(log_level="warning") as kv:
                ranks, array = kv.num_workers, self.unlike(kv)
                for key in KEYS if ranks > 1 else ():
                    kv.pushpull(key, array)
                self.assert_alive(kv)
        if ranks == 1:
            return
        told = [[line for line in lines if shown in line] for shown in KEYS.values()]
        self.assertEqual([len(lines) for lines in told], [1] * len(KEYS), lines)
        for line, in told:
            self.assertIn("failed and nobody waited", line)
            self.assertIn("shapes differ", line)
            self.assertLess(len(line.encode()), LONGEST_LINE)
        for line in lines:
            self.assertFalse(has_control_characters(line), line)
            self.assertIn("tutti[rank", line)
