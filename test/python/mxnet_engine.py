"""The order in which MXNet's engine runs the calls of a dist_sync_mpi store and all other operations. Every rank runs
it.
"""
import threading
import time
import unittest
from unittest import mock

import mxnet as mx
import numpy as np

import tutti
from mxnet_fixture import PATIENCE, Ranks


class Slow(mx.operator.CustomOp):
    """Holds the array that it reads, and the one that it writes, until it is let go."""

    go = threading.Event()

    def forward(self, is_train, req, in_data, out_data, aux):
        assert self.go.wait(PATIENCE)
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("tutti_slow")
class SlowProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Slow()


def slow(array, **given):
    """A copy of the array, which is ready when Slow.go is set."""
    Slow.go.clear()
    return mx.nd.Custom(array, op_type="tutti_slow", **given)


class Ordered(Ranks):
    def test_a_gradient_is_read_when_it_is_written_and_the_caller_does_not_wait(self):
        array = slow(self.mine())
        self.kv.pushpull("late", array)
        outs = [mx.nd.zeros(3), mx.nd.zeros(3, ctx=mx.cpu(1))]
        self.kv.broadcast("late too", array, out=outs)
        self.assertFalse(Slow.go.is_set())  # and here we are
        Slow.go.set()
        self.same(array, self.total)
        self.same(outs, self.total)

    def test_a_gradient_is_written_when_its_readers_have_read_it(self):
        array = self.mine()
        array.wait_to_read()
        read = slow(array)
        self.kv.pushpull("read", array)
        time.sleep(0.1)  # enough time to write it, if nothing kept the order
        Slow.go.set()
        self.same(read, self.rank + 1)
        self.same(array, self.total)

    def test_outs_are_written_when_their_readers_have_read_them(self):
        out, value = mx.nd.zeros(3), self.mine()
        out.wait_to_read()
        read = slow(out)
        self.kv.pushpull("out", value, out=out)
        value += 100  # this comes after the call, which it no longer concerns
        time.sleep(0.1)
        Slow.go.set()
        self.same(read, 0)
        self.same(out, self.total)
        self.same(value, self.rank + 101)

    def test_a_gradient_that_is_computed_for_long_is_exchanged_whole(self):
        big = mx.nd.ones((800, 800))
        for turn in range(5):
            late = big
            for _ in range(5 * (self.rank % 2) + 1):
                late = mx.nd.dot(late, big) / 800
            late = late * (self.rank + 1)
            self.kv.pushpull(f"long {turn}", late)
            late *= 2
            self.same(late, 2 * self.total)

    def test_an_array_that_has_nothing_to_do_with_a_call_does_not_wait_for_it(self):
        array, other = self.mine(), self.mine()
        if self.rank == 0:
            self.kv.pushpull("unrelated", array)
            for _ in range(20):
                other += 1
                other.asnumpy()
            self.same(other, 21)  # the other ranks come only afterwards
        self.others.barrier()
        if self.rank > 0:
            self.kv.pushpull("unrelated", array)
        self.same(array, self.total)

    def test_unrelated_arrays_are_read_between_many_calls(self):
        arrays = [self.mine((i + 1,)) for i in range(40)]
        unrelated, read = mx.nd.arange(5), 0
        for i, array in enumerate(arrays):
            self.kv.pushpull(f"between {i}", array, priority=-i)
            if (i + self.rank) % 3 == 0:
                unrelated += 1
                read += 1
                self.assertEqual(unrelated.asnumpy()[0], read)
            if i % 10 == 9:
                self.same(arrays[i - 5], self.total)
        for array in arrays:
            self.same(array, self.total)

    def test_ranks_may_call_in_different_orders_with_different_priorities(self):
        arrays = [self.mine((i + 1,)) for i in range(30)]
        for i in np.random.RandomState(self.rank).permutation(len(arrays)):
            self.kv.pushpull(f"order {i}", arrays[i], priority=-int(i) * (self.rank + 1))
        for array in arrays:
            self.same(array, self.total)

    def test_threads_call_at_once(self):
        def work(number):
            for turn in range(20):
                array = self.mine() * (turn + 1)
                self.kv.pushpull(f"thread {number}", array)
                self.same(array, self.total * (turn + 1))
                done[number] += 1
        done = [0] * 4
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(done, [20] * 4)

    def test_arrays_that_the_program_dropped_are_exchanged_still(self):
        for i in range(10):
            self.kv.pushpull(f"dropped {i}", self.mine())
        last = self.mine()
        self.kv.pushpull("dropped 9", last)
        self.same(last, self.total)


class Failed(Ranks):
    def differ(self, key):
        """An array that has another shape on rank 0, so that the call fails."""
        array = mx.nd.ones((3 + (self.rank == 0),))
        self.kv.pushpull(key, array)
        return array

    def test_an_error_is_raised_where_the_array_is_waited_for(self):
        self.skip_alone("nobody disagrees")
        for number, wait in enumerate((lambda a: a.asnumpy(), lambda a: a.wait_to_read(), lambda a: (a + 1).asnumpy(),
                                       lambda a: a.copyto(mx.cpu(1)).wait_to_read(), lambda a: mx.nd.waitall())):
            array = self.differ(f"shapes {number}")
            with self.assertRaisesRegex(tutti.MismatchError, f"shapes {number}") as caught:
                wait(array)
            self.assertIsInstance(caught.exception, mx.MXNetError)
            self.assertEqual((caught.exception.key, caught.exception.ranks),
                             (f"shapes {number}", tuple(range(1, self.size))))

    def test_the_caller_and_unrelated_arrays_get_no_error(self):
        self.skip_alone("nobody disagrees")
        array, other = self.differ("shapes"), self.mine()
        self.kv.pushpull("other", other)
        self.same(other, self.total)
        with self.assertRaises(tutti.MismatchError):
            array.wait_to_read()

    def test_every_out_and_what_is_computed_from_it_gets_the_error(self):
        self.skip_alone("nobody disagrees")
        value, outs = mx.nd.ones((3 + (self.rank == 0),)), [mx.nd.ones((3 + (self.rank == 0),)) for _ in range(2)]
        self.kv.pushpull("outs", value, out=outs)
        computed = mx.nd.concat(*outs, dim=0).sum()
        with self.assertRaisesRegex(tutti.MismatchError, "'outs'"):
            computed.asscalar()
        value.wait_to_read()

    def test_a_key_whose_call_failed_and_its_arrays_may_be_used_again(self):
        self.skip_alone("nobody disagrees")
        for turn in range(3):
            array = self.differ("again")
            with self.assertRaises(tutti.MismatchError):
                array.wait_to_read()
            array[:] = self.rank + 1
            self.same(array, self.rank + 1)
            array = self.mine()
            self.kv.pushpull("again", array)
            self.same(array, self.total)

    def test_an_error_that_nobody_waited_for_is_told_by_the_next_call_of_its_key(self):
        """MXNet also keeps an array's error until somebody waits for the array."""
        self.skip_alone("nobody disagrees")
        self.differ("unseen")
        for turn in range(2):
            array = self.mine()
            self.kv.pushpull("unseen", array)
            if turn == 0:
                with self.assertRaisesRegex(tutti.MismatchError, "'unseen'"):
                    array.wait_to_read()
        self.same(array, self.total)

    def test_a_key_that_some_ranks_never_bring_is_told_where_it_is_waited_for(self):
        self.skip_alone("nobody is missing")
        with mock.patch.dict("os.environ", TUTTI_TIMEOUT_SECONDS="1"):
            kv = mx.kv.create("dist_sync_mpi")
        if self.rank > 0:
            array = self.mine()
            kv.pushpull("missing", array)
            with self.assertRaisesRegex(tutti.TimedOutError, "'missing'.*rank 0"):
                array.wait_to_read()
        self.others.barrier()
        array = self.mine()
        kv.pushpull("there", array)
        self.same(array, self.total)


if __name__ == "__main__":
    unittest.main()
