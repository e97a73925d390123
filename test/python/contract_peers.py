"""send and recv between two ranks; see contract.py."""
import random
import threading

import numpy as np

import tutti
from contract_fixture import DTYPES, Contract, handed, numpy_dtype


def letter(rank, number, count):
    """Bytes that differ by sender, number and place."""
    return np.random.default_rng([rank, number]).integers(0, 256, count, np.uint8)


class Peers(Contract):
    def pair(self, **options):
        """(a store, the next rank, the previous rank). Skips the test if there is only one rank."""
        kv = self.store(**options)
        if kv.num_workers == 1:
            self.skipTest("there is no other rank")
        return kv, (kv.rank + 1) % kv.num_workers, (kv.rank - 1) % kv.num_workers

    def test_each_rank_passes_a_tensor_on_to_the_next_one_in_a_ring(self):
        kv, after, before = self.pair()
        for count in (1, 1000, 70_000, 3_000_000):
            mine, theirs = letter(kv.rank, 0, count), np.zeros(count, np.uint8)
            sent = kv.send(mine, after)
            kv.recv(theirs, before).wait()
            sent.wait()
            self.assert_equal(theirs, letter(before, 0, count))
            self.assert_equal(mine, letter(kv.rank, 0, count))

    def test_elements_of_any_dtype_travel_unchanged_and_so_does_a_tensor_without_any(self):
        kv, after, before = self.pair()
        others = ("bool", "int16", "uint32", "uint64", "complex64", "complex128")
        for dtype in (*DTYPES, *others):
            size = np.dtype(numpy_dtype(dtype)).itemsize
            source, target = letter(kv.rank, 1, 24 * size), np.zeros(24 * size, np.uint8)
            if dtype == "bool":
                source %= 2
            mine = handed(source.view(numpy_dtype(dtype)).reshape(2, 3, 4), dtype)
            sent = kv.send(mine, after, 4)
            kv.recv(handed(target.view(numpy_dtype(dtype)), dtype), before, 4).wait()
            sent.wait()
            expected = letter(before, 1, 24 * size)
            self.assert_equal(target, expected % 2 if dtype == "bool" else expected, dtype)
        nothing = np.zeros((0, 5), np.float32)
        sent = kv.send(nothing, after)
        kv.recv(nothing, before).wait()
        sent.wait()

    def test_sends_with_one_tag_are_received_in_their_order_whatever_the_order_of_other_tags(self):
        kv, after, before = self.pair()
        pendings = [kv.send(letter(kv.rank, 100 * tag + number, 100), after, tag)
                    for tag in range(3) for number in range(20)]
        got = {(tag, number): np.zeros(100, np.uint8) for tag in reversed(range(3)) for number in range(20)}
        pendings += [kv.recv(array, before, tag) for (tag, _), array in got.items()]
        for pending in pendings:
            pending.wait()
        for (tag, number), array in got.items():
            self.assert_equal(array, letter(before, 100 * tag + number, 100))

    def test_a_recv_from_any_rank_says_whose_tensor_it_took(self):
        kv, _, _ = self.pair()
        if kv.rank > 0:
            kv.send(letter(kv.rank, 3, 500), 0, 3).wait()
            return
        sources = []
        for _ in range(1, kv.num_workers):
            theirs = np.zeros(500, np.uint8)
            pending = kv.recv(theirs, tag=3)
            pending.wait()
            self.assert_equal(theirs, letter(pending.source, 3, 500))
            sources.append(pending.source)
        self.assertEqual(sorted(sources), list(range(1, kv.num_workers)))

    def test_two_ranks_that_disagree_about_dtype_or_size_both_get_a_mismatch_and_the_store_lives_on(self):
        kv, _, _ = self.pair()
        six = np.zeros((2, 3), np.float32)

        def passed(other):
            return kv.send(six, 1, 2) if kv.rank == 0 else kv.recv(other, 0, 2)
        if kv.rank < 2:
            for other, said in ((np.zeros(4, np.float32), "4 elements of float32"),
                                (np.zeros(6), "6 elements of float64")):
                self.refused(tutti.MismatchError, ("6 elements of float32", said, "rank 0", "rank 1", "tag 2"), passed,
                             other, ranks=(1,))
            passed(six).wait()
        self.assert_alive(kv)

    def late(self, pending, rank, says):
        self.refused(tutti.TimedOutError, (f"rank {rank} {says}",), lambda: pending, ranks=(rank,))

    def test_a_send_or_recv_that_its_peer_does_not_answer_ends_in_a_timeout_that_names_it(self):
        patient, _, _ = self.pair()
        kv = self.store(key_timeout=1)
        last, array = kv.num_workers - 1, np.zeros(6, np.float32)
        if kv.rank == 0:
            sent, received = kv.send(array, last, 1), kv.recv(array.copy(), last, 2)
            self.late(sent, last, "did not make the recv")
            self.late(received, last, "did not make the send")
        patient.barrier()
        self.assert_alive(kv)

    def test_a_call_whose_counterpart_was_given_up_ends_in_a_timeout_and_the_calls_after_it_meet(self):
        patient, _, _ = self.pair()
        kv = self.store(key_timeout=1)
        last, theirs = kv.num_workers - 1, np.zeros(1000, np.uint8)
        old, new = letter(kv.rank, 1, 1000), letter(kv.rank, 2, 1000)
        if kv.rank == 0:
            for pending in [kv.send(old, last, 1), kv.send(old, last, 2), kv.recv(theirs, last, 3)]:
                self.late(pending, last, "did not make")
        patient.barrier()
        if kv.rank == last:
            self.late(kv.recv(theirs, 0, 1), 0, "gave up the send")
            self.late(kv.recv(theirs, None, 2), 0, "gave up the send")
            # Between nodes a rank hears of a send once it makes a call, which may be too late.
            self.late(kv.send(old, 0, 3), 0, "")
        patient.barrier()
        for tag, source in ((1, 0), (2, None)):
            if kv.rank == 0:
                kv.send(new, last, tag).wait()
            if kv.rank == last:
                kv.recv(theirs, source, tag).wait()
                self.assert_equal(theirs, letter(0, 2, 1000))
        if kv.rank == 0:
            kv.recv(theirs, last, 3).wait()
            self.assert_equal(theirs, letter(last, 2, 1000))
        if kv.rank == last:
            kv.send(new, 0, 3).wait()
        patient.barrier()
        self.assert_alive(kv)

    def test_calls_between_two_ranks_that_have_not_met_are_aborted_when_one_of_them_closes(self):
        kv, _, _ = self.pair()
        last, array = kv.num_workers - 1, np.zeros(6, np.float32)
        if kv.rank == last:
            own = kv.send(array, 0, 8)
            kv.close()
            self.refused(tutti.AbortedError, ("has closed this store",), lambda: own)
            self.refused(tutti.AbortedError, ("closed",), kv.send, array, 0, 8)
            return
        for pending in (kv.send(array, last, 1), kv.recv(array.copy(), last, 2)):
            self.refused(tutti.AbortedError, (f"rank {last} has left the store",), lambda waited=pending: waited)
        if last > 1 and kv.rank < 2:
            (kv.send(array, 1) if kv.rank == 0 else kv.recv(array, 0)).wait()

    def test_a_rank_that_there_is_not_this_rank_itself_and_a_negative_tag_are_refused_at_the_call(self):
        kv = self.store()
        ranks, array = kv.num_workers, np.zeros((2, 3), np.float32)
        for call in (kv.send, kv.recv):
            self.refused(tutti.InvalidArgumentError, (f"rank {ranks}", f"0 to {ranks - 1}"), call, array, ranks)
            self.refused(tutti.InvalidArgumentError, ("this rank itself",), call, array, kv.rank)
            if ranks > 1:
                self.refused(tutti.InvalidArgumentError, ("tag -3",), call, array, (kv.rank + 1) % ranks, -3)
        self.refused(tutti.InvalidArgumentError, ("rank -1",), kv.send, array, -1)
        if ranks == 1:
            self.refused(tutti.InvalidArgumentError, ("no other rank",), kv.recv, array)
        self.assert_alive(kv)

    def test_a_rank_may_wait_for_a_recv_before_it_makes_the_collective_call_that_its_peer_waits_in(self):
        kv, _, _ = self.pair()
        a, b, message = np.zeros(500, np.float32), np.zeros(500, np.float32), np.zeros(1, np.float32)
        for turn in range(40):
            second = kv.pushpull("b", b)
            if turn % 8 == 7 and kv.rank == 0:
                second.wait()
                message[:] = turn
                kv.send(message, 1).wait()
            if turn % 8 == 7 and kv.rank == 1:
                kv.recv(message, 0).wait()
                self.assertEqual(message, turn)
            kv.pushpull("a", a).wait()
            second.wait()

    def test_a_callback_may_send_and_receive(self):
        kv, after, before = self.pair()
        theirs, pendings, called = np.zeros(3000, np.uint8), [], threading.Event()

        def answer(error):
            try:
                if error is None:
                    pendings.extend((kv.send(letter(kv.rank, 1, 3000), after), kv.recv(theirs, before)))
            finally:
                called.set()
        kv.pushpull("sum", np.zeros(1, np.float32)).then(answer)
        called.wait()
        for pending in pendings:
            pending.wait()
        self.assert_equal(theirs, letter(before, 1, 3000))

    def test_sends_and_recvs_at_random_beside_collectives_in_a_random_order_arrive_whole(self):
        kv, _, _ = self.pair()
        shared, own = random.Random(11), random.Random(31 + kv.rank)
        for _ in range(10):
            self.exchange(kv, shared, own)

    def exchange(self, kv, shared, own):
        """Exchanges one round of letters and sums. All ranks draw the same round."""
        keys, calls, got = list(range(12)), [], []
        sums = [np.ones(300, np.float32) for _ in keys]
        own.shuffle(keys)
        for number in range(100):
            sender = shared.randrange(kv.num_workers)
            receiver = (sender + 1 + shared.randrange(kv.num_workers - 1)) % kv.num_workers
            is_any, tag, count = shared.random() < 0.25, shared.randrange(3), shared.choice((0, 1, 100, 5000, 150_000))
            tag = 100 + number if is_any else tag
            if sender == kv.rank:
                calls.append(kv.send(letter(kv.rank, number, count), receiver, tag))
            if receiver == kv.rank:
                got.append((np.zeros(count, np.uint8), sender, number))
                calls.append(kv.recv(got[-1][0], None if is_any else sender, tag))
                got[-1] += (calls[-1],)
            while keys and (number == 99 or own.random() < 0.1):
                key = keys.pop()
                calls.append(kv.pushpull(key, sums[key]))
        own.shuffle(calls)
        for call in calls:
            call.wait()
        for array, sender, number, call in got:
            self.assert_equal(array, letter(sender, number, array.size), f"letter {number} from rank {sender}")
            self.assertEqual(call.source, sender)
        for array in sums:
            self.assert_equal(array, kv.num_workers)
