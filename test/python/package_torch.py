"""Promises of the package about torch's tensors; every rank of an MPI job runs all of it, at any number of ranks.

    mpirun -n N python package_torch.py

Run by a Python that has torch, and that the package is installed for.
"""
import gc
import unittest

import torch

import tutti
from package_fixture import Ranks

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16,
          torch.int8, torch.uint8, torch.int32, torch.int64)


class Tensors(Ranks):
    def of(self, value, dtype=torch.float32, shape=(3, 4)):
        return torch.full(shape, value, dtype=dtype)

    def ones_tensor(self, dtype=torch.float32, shape=(3, 4)):
        return self.of(self.rank + 1, dtype, shape)

    def summed(self, *tensors):
        self.kv.pushpull("key", list(tensors)).wait()
        return tensors[0]


class InPlace(Tensors):
    def test_every_dtype_is_summed_in_place_without_a_copy(self):
        for dtype in DTYPES:
            tensor = self.ones_tensor(dtype)
            place = tensor.data_ptr()
            data, name, shape = tutti._core.bytes_of(tensor)
            self.assertEqual((data.ctypes.data, name, shape), (place, str(dtype)[6:], (3, 4)))
            self.summed(tensor)
            self.assertEqual(tensor.data_ptr(), place)
            self.assertTrue(torch.equal(tensor, self.of(self.total, dtype)), tensor)

    def test_all_methods_take_tensors(self):
        tensor = self.ones_tensor()
        self.kv.broadcast("key", tensor, self.last).wait()
        self.assertTrue(torch.equal(tensor, self.of(self.size)))
        shard, whole = torch.zeros(4), torch.zeros(4 * self.size)
        self.kv.reduce_scatter("key", torch.ones(4 * self.size), shard).wait()
        self.kv.allgather("key", shard, whole).wait()
        self.assertTrue(torch.equal(whole, torch.full_like(whole, self.size)))
        out = torch.zeros(3, 4, dtype=torch.bfloat16)
        self.kv.pushpull(["a", "b"], [self.ones_tensor(torch.bfloat16), torch.ones(5)], [out, torch.zeros(5)]).wait()
        self.assertTrue(torch.equal(out, self.of(self.total, torch.bfloat16)))

    def test_several_devices_scalars_and_what_has_no_elements(self):
        both = [self.ones_tensor(), self.ones_tensor()]
        self.summed(*both)
        for tensor in both:
            self.assertTrue(torch.equal(tensor, self.of(2 * self.total)))
        self.assertEqual(self.summed(torch.tensor(self.rank + 1.0)).item(), self.total)
        self.assertEqual(self.summed(torch.zeros(0, 3)).shape, (0, 3))

    def test_rows_of_a_tensor_are_summed_within_it(self):
        tensor = self.ones_tensor()
        self.summed(tensor[1:])
        self.assertTrue(torch.equal(tensor[0], self.of(self.rank + 1, shape=(4,))))
        self.assertTrue(torch.equal(tensor[1:], self.of(self.total, shape=(2, 4))))

    def test_a_model_is_broadcast_and_its_gradients_are_averaged(self):
        torch.manual_seed(self.rank)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        state = model.state_dict()
        self.kv.broadcast(list(state), list(state.values())).wait()
        self.kv.fingerprint(dict(model.named_parameters()))  # they require grad, and are only read
        data = torch.arange(8.0 * self.size).reshape(-1, 4)
        model.eval()
        model(data[2 * self.rank:2 * self.rank + 2]).sum().backward()
        names, gradients = zip(*((name, weight.grad) for name, weight in model.named_parameters()))
        self.kv.pushpull(list(names), list(gradients), op="average").wait()
        whole = torch.nn.Sequential(*model)
        whole.zero_grad(set_to_none=True)
        (whole(data).sum() / self.size).backward()
        for mine, all_of_it in zip(gradients, (weight.grad for weight in whole.parameters())):
            torch.testing.assert_close(mine, all_of_it)

    def test_memory_is_kept_while_its_call_is_in_flight(self):
        out = torch.zeros(100_000)
        pending = self.kv.pushpull("key", self.ones_tensor(shape=(100_000,)), out)  # nobody else has the input
        others = [torch.full((100_000,), -1.0) for _ in range(20)]
        pending.wait()
        self.assertTrue(torch.equal(out, torch.full_like(out, self.total)))
        self.assertEqual(len(others), 20)


    def in_flight(self, shape, dtype, change):
        """Sums tensors. On rank 0, `change` changes them while their call waits for the other ranks."""
        tensor, out = self.ones_tensor(dtype, shape), torch.zeros(shape, dtype=dtype)
        pending = self.kv.pushpull("changed", tensor, out) if self.rank == 0 else None
        others = change(tensor)
        self.kv.barrier()
        (pending or self.kv.pushpull("changed", self.ones_tensor(dtype, shape), out)).wait()
        self.assertEqual(len(others), 20)
        self.assertTrue(torch.equal(out, self.of(self.total, dtype, shape)), out)

    def test_a_tensor_in_flight_is_not_resized_beyond_its_memory(self):
        shape = (100_000,)
        for dtype in (torch.float32, torch.bfloat16):
            def resize(tensor, dtype=dtype):
                if self.rank == 0:
                    with self.assertRaisesRegex(RuntimeError, "not resizable"):
                        tensor.resize_(1_000_000)
                return [torch.full(shape, -1, dtype=dtype) for _ in range(20)]
            self.in_flight(shape, dtype, resize)

    def test_the_memory_of_a_tensor_that_gets_another_is_kept_while_its_call_is_in_flight(self):
        shape = (100_000,)

        def change(tensor):
            tensor.set_(torch.zeros(1))
            return [torch.full(shape, -1.0) for _ in range(20)]

        def change_data(tensor):
            tensor.data = torch.zeros(1)
            return [torch.full(shape, -1.0) for _ in range(20)]
        self.in_flight(shape, torch.float32, change)
        self.in_flight(shape, torch.float32, change_data)


class Allocated(Tensors):
    def test_tensors_in_shared_memory_are_made_from_allocate(self):
        for dtype in (each for each in DTYPES if each is not torch.bfloat16):
            tensor = torch.from_numpy(self.kv.allocate((3, 4), dtype))
            self.assertEqual((tensor.dtype, tensor.shape), (dtype, (3, 4)))
            tensor.fill_(self.rank + 1)
            self.assertTrue(torch.equal(self.summed(tensor), self.of(self.total, dtype)))

    def test_their_memory_outlives_the_array_and_the_store(self):
        with tutti.create("dist_sync_mpi", log_level="error") as kv:
            tensor = torch.from_numpy(kv.allocate(1000))
            kv.pushpull("key", tensor.fill_(1)).wait()
        gc.collect()
        self.assertTrue(torch.equal(tensor, torch.full((1000,), float(self.size))))

    def test_the_name_of_a_dtype_that_there_is_not_is_refused(self):
        for dtype, kind in ((torch.complex64, tutti.InvalidArgumentError), ("bfloat17", TypeError)):
            with self.assertRaises(kind):
                self.kv.allocate(3, dtype)


class Refused(Tensors):
    def refused(self, tensor, text, is_moved=False):
        before = tensor.detach().clone()
        calls = [lambda: self.summed(tensor), lambda: self.kv.pushpull("key", tensor, torch.zeros(tensor.shape))]
        if not is_moved:
            calls.append(lambda: self.kv.broadcast("key", tensor))
        for call in calls:
            with self.assertRaisesRegex(tutti.InvalidArgumentError, text):
                call()
        if tensor.device.type == "cpu" and not tensor.is_sparse:
            self.assertTrue(torch.equal(tensor, before))

    def test_what_autograd_follows_until_it_is_detached(self):
        for tensor in (torch.ones(4, requires_grad=True), torch.nn.Parameter(torch.ones(4)),
                       torch.ones(4, requires_grad=True) * 2):
            self.refused(tensor, r"requires grad.*pass tensor\.detach\(\)")
            self.summed(tensor.detach())
            self.assertEqual(tensor[0].item(), self.size * (2 if tensor.grad_fn else 1))

    def test_what_is_not_contiguous(self):
        for tensor in (self.of(1).T, self.of(1)[:, 1], torch.ones(1).expand(4),
                       torch.ones(1, 2, 3, 3).to(memory_format=torch.channels_last)):
            self.refused(tensor, r"is not contiguous.*tensor\.contiguous\(\)")

    def test_dtypes_devices_and_layouts_that_tutti_does_not_have(self):
        for dtype, advice in ((torch.bool, r"tensor\.to\(torch\.uint8\)"), (torch.int16, r"tensor\.to\(torch\.int32\)"),
                              (torch.complex64, r"torch\.view_as_real\(tensor\)")):
            self.refused(self.of(1, dtype), rf"dtype {dtype} cannot be added.*bfloat16.*{advice}", is_moved=True)
        self.refused(torch.ones(3, device="meta"), r"is on meta.*tensor\.cpu\(\)")
        self.refused(self.of(1).to_sparse(), r"is sparse.*tensor\.to_dense\(\)")

    def test_dtypes_that_cannot_be_added_are_moved(self):
        for dtype in (torch.bool, torch.int16, torch.complex64, torch.complex128):
            tensor = self.of(self.kv.rank, dtype)
            self.kv.broadcast("moved", tensor, self.size - 1).wait()
            self.assertTrue(torch.equal(tensor, self.of(self.size - 1, dtype)))
            wholes = torch.zeros((self.size, *tensor.shape), dtype=dtype)
            self.kv.allgather("gathered", tensor, wholes).wait()
            self.assertTrue(all(torch.equal(whole, tensor) for whole in wholes))

    def test_what_is_the_negative_or_the_conjugate_of_its_memory(self):
        conjugate = torch.full((4,), 1 + 2j).conj()
        self.refused(conjugate, r"tensor\.resolve_conj\(\)")
        with tutti.create("local", check_finite=True, log_level="error") as kv:
            negative = torch._neg_view(torch.ones(4))
            self.assertTrue(negative.is_neg() and negative.is_contiguous())
            for tensor in (negative, conjugate.imag):
                self.refused(tensor, r"is the negative of what its memory holds.*tensor\.resolve_neg\(\)")
                with self.assertRaisesRegex(tutti.InvalidArgumentError, "resolve_neg"):
                    kv.pushpull("key", tensor)
        result = self.summed(torch._neg_view(torch.ones(4)).resolve_neg())
        self.assertTrue(torch.equal(result, torch.full((4,), -1.0 * self.size)))
        self.kv.fingerprint([torch._neg_view(torch.ones(4)), torch.ones(1)])

    def test_what_is_of_torch_but_no_tensor(self):
        for what, name in ((torch.Tensor, "the class Tensor"), (torch.float32, "dtype"), (torch.Size([2]), "int")):
            with self.assertRaisesRegex(TypeError, f"not {name}"):
                self.kv.pushpull("key", what)

    def test_the_first_nan_is_named_in_all_types_of_floats(self):
        with tutti.create("local", check_finite=True) as kv:
            for dtype in DTYPES[:4]:
                with self.assertRaisesRegex(tutti.InvalidArgumentError, r"\[1\] is NaN"):
                    kv.pushpull("key", torch.tensor([1, torch.nan], dtype=dtype))

    def test_the_first_tensor_that_differs_is_named(self):
        state = {"weight": self.of(1, torch.bfloat16), "mask": self.of(1).T}
        self.kv.fingerprint(state)
        if self.size > 1:
            state["weight"][0, 0] += self.rank
            with self.assertRaisesRegex(tutti.MismatchError, "'weight' differs.*bfloat16"):
                self.kv.fingerprint(state)


class Objects(Tensors):
    def test_tensors_are_given_to_other_ranks_as_objects(self):
        got = self.kv.broadcast_object({"state": self.of(self.rank, torch.bfloat16)}, self.last)
        self.assertTrue(torch.equal(got["state"], self.of(self.last, torch.bfloat16)))


if __name__ == "__main__":
    unittest.main()
