#!/usr/bin/env python3
"""Host files as people write them, and the addresses by which hosts reach the launcher."""
import contextlib
import os
import pathlib
import socket
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from launcher import contact, door, hostfile, hosts, networks, options

LOOPBACK = {"lo": ["127.0.0.1"]}


class HostFile(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile() as file:
            file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
            file.flush()
            try:
                return hostfile.read_hostfile(file.name)
            except options.UsageError as error:
                raise options.UsageError(str(error).replace(file.name, "FILE")) from error

    def test_it_has_names_slots_comments_and_empty_lines(self):
        self.assertEqual(self.read("# ours\na\n\n10.0.0.2 slots=4  # big\n\tb  slots = 2\n"),
                         [("a", None), ("10.0.0.2", 4), ("b", 2)])

    def test_a_count_stands_behind_a_colon_too_and_is_no_part_of_the_name(self):
        self.assertEqual(self.read("h0:2\nroot@h1:3\nh2\n"), [("h0", 2), ("root@h1", 3), ("h2", None)])

    def test_slots_that_are_capped_count_once(self):
        self.assertEqual(self.read("a slots=2 max_slots=8\nb max-slots=3\nc slots_max=4 slots=4\n"),
                         [("a", 2), ("b", 3), ("c", 4)])

    def test_an_ipv6_address_stands_alone_or_in_brackets(self):
        self.assertEqual(self.read("2001:db8::1\n[2001:db8::2]:4\nme@[::1] slots=2\nfe80::1%eth0\n"),
                         [("2001:db8::1", None), ("2001:db8::2", 4), ("me@::1", 2), ("fe80::1%eth0", None)])

    def test_editors_of_any_system_may_have_written_it(self):
        for text in ("\ufeffh0\r\nh1\r\n", "h0\rh1\r", "h0\n\n\n h1", "h0\r\nh1".encode("utf-16"),
                     b"\xfe\xff" + "h0\nh1\n".encode("utf-16-be")):
            self.assertEqual(self.read(text), [("h0", None), ("h1", None)], text)

    def test_a_line_that_cannot_be_read_is_quoted_with_what_to_write(self):
        for text, told in (("a\nb slot=2\n", "FILE:2: cannot read 'b slot=2': write `b slots=2`"),
                           ("h0 4", "write `h0 slots=4`"), ("h0 np=4", "write `h0 slots=4`"),
                           ("h0 4 all.q@h0 UNDEFINED", "write `h0 slots=4`"),
                           ("h0,h1", "one host on each line"), ("h0 h1", "one host on each line"),
                           ("node[01-04]", r"`scontrol show hostnames 'node\[01-04\]'` prints"),
                           ("h0 username=me", "write `me@h0`"),
                           ("h0 port=22", "~/.ssh/config"), ("ssh://h0:22", "~/.ssh/config"),
                           ("a slots=0", "put a # in front"), ("a:0", "put a # in front"),
                           ("a slots=x", "whole number of 1 or more"), ("a slots=2.5", "whole number"),
                           ("a slots=99999999999", "whole number"), ("a:4 slots=4", "more than once"),
                           ("a slots=8 max_slots=4", "8 slots, .* at most 4"),
                           *((odd, "write `HOST`, `HOST:COUNT` or `HOST slots=COUNT`, and `USER@HOST`")
                             for odd in ("h0:", "-oPermitLocalCommand", "a@-b", "u@v@h", "@h0", "a:b:c", "h0:2:3",
                                         '"h0"', "[h0]:4", "a\x1b[31m", "a\udcff", "a\u200b", "workers:", "a\0b"))):
            with self.subTest(text), self.assertRaisesRegex(options.UsageError, told):
                self.read(text)

    def test_a_file_that_is_none_or_names_no_host_is_refused(self):
        for text in ("", "\n# a\n", "\ufeff"):
            with self.assertRaisesRegex(options.UsageError, "FILE: the file names no host"):
                self.read(text)
        for name in ("no-such-file", "h0:2,h1:2"):
            with self.assertRaisesRegex(options.UsageError, f"-H {name}: No such file .*; it takes a file with"):
                hostfile.read_hostfile(name)

    def test_files_are_copied_to_a_host_whatever_its_name_is(self):
        for host, place in (("h0", "h0:/job"), ("me@h0", "me@h0:/job"), ("2001:db8::1", "[2001:db8::1]:/job"),
                            ("me@2001:db8::1", "me@[2001:db8::1]:/job")):
            with mock.patch.object(hosts, "must_find", lambda name, *_: name):
                self.assertEqual(hosts.rsync_words("/here", host, "/job")[-1], place)


class Networks(unittest.TestCase):
    def told(self, known, others, own=(), **routes):
        """The addresses that `others` get of a machine with these addresses. `own`: the hosts that are this machine."""
        def addresses(interface=None):
            return known if interface is None else {interface: known[interface]}
        with mock.patch.object(networks, "addresses", addresses), \
                mock.patch.object(networks, "route_to", routes.get), \
                mock.patch.object(networks, "is_here", lambda host: host in own):
            return networks.reachable(None, others)

    def test_an_unknown_interface_lists_those_there_are(self):
        self.assertIn("127.0.0.1", networks.addresses("lo")["lo"])
        with self.assertRaisesRegex(options.UsageError, "DMLC_INTERFACE=ethX: .* there are lo"):
            networks.addresses("ethX")

    def test_other_hosts_are_told_no_address_that_is_their_own(self):
        self.assertEqual(self.told({**LOOPBACK, "eth0": ["10.0.0.5"]}, ["a"]), ["10.0.0.5"])
        self.assertEqual(self.told(LOOPBACK, []), ["127.0.0.1"])
        self.assertEqual(self.told(LOOPBACK, ["localhost", "me"], own=("localhost", "me")), ["127.0.0.1"])

    def test_a_machine_that_others_cannot_reach_says_so_before_the_job_starts(self):
        with self.assertRaisesRegex(options.UsageError, "^h1 is another host, but this machine has no address"):
            self.told(LOOPBACK, ["localhost", "h1"], own=("localhost",))
        with mock.patch.object(networks, "is_here", return_value=False):
            with self.assertRaisesRegex(options.UsageError, "DMLC_INTERFACE=lo leads only to this machine, but h1 is"):
                networks.reachable("lo", ["h1"])

    def test_the_way_that_leads_to_the_hosts_comes_first_and_ipv6_is_one(self):
        known = {"eth0": ["10.0.0.5", "2001:db8::5"], "eth1": ["10.1.0.5"]}
        self.assertEqual(self.told(known, ["a", "b"], a="10.1.0.5", b="2001:db8::5"),
                         ["10.1.0.5", "2001:db8::5", "10.0.0.5"])
        self.assertEqual(self.told({**LOOPBACK, "eth0": ["2001:db8::5"]}, ["a"]), ["2001:db8::5"])

    def test_a_name_that_only_ssh_knows_or_that_is_none_has_no_route(self):
        for name in ("no-such-host.invalid", "a..b", "me@a..b", "x" * 70):
            self.assertIsNone(networks.route_to(name), name)
        self.assertEqual(networks.route_to("me@127.0.0.1"), "127.0.0.1")
        self.assertTrue(networks.is_here("root@localhost"))

    @unittest.skipUnless(os.path.exists("/proc/net/if_inet6") and socket.has_ipv6, "this kernel has no IPv6")
    def test_a_launcher_is_reached_at_an_ipv6_address(self):
        try:
            listener, place = door.listen_at("::1")
        except options.UsageError as error:
            self.skipTest(str(error))
        with contextlib.closing(listener):
            self.assertRegex(place, r"^\[::1\]:\d+$")
            with self.assertRaises(contact.TurnedAway):  # it got there, and nobody greets it
                listener.settimeout(5)
                with mock.patch.object(contact, "introduce", side_effect=ConnectionResetError):
                    contact.call(place, b"token", b"{}", 5)


if __name__ == "__main__":
    unittest.main()
