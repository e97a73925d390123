#!/usr/bin/env python3
"""Looks at the bytes on the wire: with TUTTI_ENCRYPT=1 neither keys nor values can be seen.

    test_wire.py TUTTI_SERVER STEPS
"""
import contextlib
import socket
import struct
import sys
import threading
import unittest

from processes import Job

SKIPPED = 77
SERVER, STEPS = sys.argv[1:3]
EVERYTHING = 3  # ETH_P_ALL
SO_RCVBUFFORCE = 33  # Python has no name for it
# Exact in f32, and in no other test.
GRADIENT = 1.2001953125
SEEN_IN_THE_CLEAR = (b"pushed-in-the-clear", struct.pack("<f", GRADIENT) * 64)


def listening_socket():
    try:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
    except PermissionError:
        return None
    one.bind(("lo", 0))
    one.settimeout(0.2)
    # Beyond the usual limit, if this process may do that.
    with contextlib.suppress(PermissionError):
        one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    return one


def may_listen():
    one = listening_socket()
    if one is not None:
        one.close()
    return one is not None


class Recording:
    """Records the packets on the loopback interface while it is open."""

    def __init__(self):
        self.socket, self.found, self.over = listening_socket(), set(), False
        self.thread = threading.Thread(target=self._listen)

    def _listen(self):
        # On a busy machine this thread lags behind: once all is over, it reads what the socket still has.
        while True:
            if self.over:
                self.socket.setblocking(False)
            try:
                packet = self.socket.recv(1 << 17)
            except BlockingIOError:
                return
            except TimeoutError:
                continue
            self.found.update(text for text in SEEN_IN_THE_CLEAR if text in packet)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.socket.close()


class Wire(unittest.TestCase):
    def found_with(self, encrypt):
        # Messages that may be sent again do not take the shared memory of the machine.
        job = Job(SERVER, STEPS, servers=2, TUTTI_ENCRYPT=encrypt, PS_RESEND="1", STEPS_KEY="pushed-in-the-clear",
                  STEPS_GRADIENT=str(GRADIENT))
        self.addCleanup(job.close)
        with Recording() as recording:
            servers = [job.start_server(rank) for rank in range(2)]
            for one in job.start_workers("dist_sync", "mixed", 20, 5000) + servers + [job.scheduler]:
                self.assertEqual(one.end(), 0, str(job))
        return recording.found

    def test_keys_and_values_are_on_the_wire_only_where_nobody_asked_for_encryption(self):
        self.assertEqual(self.found_with("1"), set())
        self.assertEqual(self.found_with("0"), set(SEEN_IN_THE_CLEAR))


if __name__ == "__main__":
    if not may_listen():
        print("skipped: it needs the right to listen to a network interface")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
