"""A GPU that fails or hangs, a rank that dies while the GPU copies, and no GPU at all: each is an error on every rank
that names what is wrong, and the store can be destroyed. The GPU is the stand-in of test/unit/cuda.

    test_gpu_trouble.py GPU_TROUBLE FOLDER_OF_THE_STANDINS
"""
import os
import pathlib
import sys
import unittest

from jobs import Job, mpirun

PROGRAM, STANDINS = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2]
SLOW = "h2d=2e9 d2h=2e9 h2d_delay=1e-3"


def job(how, ranks=3, standins=True, **env):
    # Meson may have put the stand-ins' folder there already.
    others = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path not in ("", STANDINS)]
    env["LD_LIBRARY_PATH"] = ":".join([*others, *([STANDINS] if standins else [])])
    # Otherwise mpirun ends the others with the first.
    return Job(mpirun(ranks, "--enable-recovery", PROGRAM, how), limit=60, limit_when_wrong=20, **env)


def job_over_nccl(how, **env):
    """Three ranks with a GPU each, which NCCL connects."""
    return job(how, **{"GPU_TROUBLE_OWN": "1", "STANDIN_GPU": "devices=8", **env})


class GpuTrouble(unittest.TestCase):
    def check_all_caught(self, run, ranks, pattern):
        """Each of the ranks caught one error of this kind, and destroyed its store."""
        for rank in ranks:
            self.assertEqual(len(run.lines(f"^rank {rank} caught {pattern}")), 1, str(run))
            self.assertEqual(len(run.lines(f"^rank {rank} destroyed its store")), 1, str(run))

    def test_an_error_of_the_device_ends_the_store_and_names_rank_key_and_error(self):
        run = job("sum", GPU_TROUBLE="cuMemcpyDtoHAsync#5=late:700")
        self.check_all_caught(run, [1], "internal: .*rank 1 failed: gpu.0.: .*CUDA_ERROR_ILLEGAL_ADDRESS")
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1.*CUDA_ERROR_ILLEGAL_ADDRESS")
        self.assertTrue(run.lines("rank 1 .*CUDA_ERROR_ILLEGAL_ADDRESS.*'weight'"), str(run))

    def test_a_call_that_the_driver_refuses_ends_the_store_and_names_it(self):
        run = job("sum", GPU_TROUBLE="cuMemcpyHtoDAsync#3=2")
        self.check_all_caught(run, [1], "internal: .*cuMemcpyHtoDAsync failed: CUDA_ERROR_OUT_OF_MEMORY")
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1.*cuMemcpyHtoDAsync")

    def test_a_copy_that_hangs_is_an_error_at_the_time_limit(self):
        run = job("sum", GPU_TROUBLE="cuMemcpyDtoHAsync#5=hang", TUTTI_TIMEOUT_SECONDS="3", GPU_TROUBLE_STAYS="6")
        self.check_all_caught(run, [1], "internal: .*rank 1 failed: the GPU has finished neither a copy .* within 3")
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1.*the GPU has finished neither a copy")

    def test_a_rank_that_is_killed_while_the_GPU_copies_is_named_by_the_others(self):
        run = job("kill", STANDIN_GPU=SLOW)
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1")

    def test_an_error_that_strikes_NCCL_ends_the_store_and_names_rank_and_error(self):
        run = job_over_nccl("sum", GPU_TROUBLE="ncclSend#9=late:6")
        self.check_all_caught(run, [1], "internal: .*rank 1 failed: gpu.1.: .*remote process exited.*'weight'")
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1.*remote process exited.*'weight'")

    def test_a_launch_of_NCCL_that_hangs_is_an_error_at_the_time_limit(self):
        run = job_over_nccl("sum", GPU_TROUBLE="ncclSend#9=hang", TUTTI_TIMEOUT_SECONDS="3", GPU_TROUBLE_STAYS="6")
        self.check_all_caught(run, [0, 1, 2], "(internal|peer_lost): .*the GPU has finished neither a copy .* within 3"
                              ".*over NCCL between ranks 0, 1, 2")

    def test_a_store_ends_though_NCCL_does_not_abort_what_hangs(self):
        run = job_over_nccl("sum", GPU_TROUBLE="ncclSend#9=late:6 ncclCommAbort#1=hang", GPU_TROUBLE_STAYS="6")
        self.check_all_caught(run, [1], "internal: .*rank 1 failed: .*remote process exited")
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1")
        self.assertTrue(run.lines("rank 1.*the store keeps those that it shares"), str(run))

    def test_a_rank_that_is_killed_in_a_launch_is_named_by_the_others(self):
        run = job_over_nccl("kill", STANDIN_GPU="devices=8 nccl=2e8")
        self.check_all_caught(run, [0, 2], "peer_lost: .*rank 1")

    def test_memory_that_cannot_be_pinned_is_told_and_used_all_the_same(self):
        run = job("sum", GPU_TROUBLE="cuMemHostRegister#0=801")
        self.assertTrue(run.lines("stay unpinned"), str(run))
        self.assertEqual(len(run.lines("saw no error")), 3, str(run))

    def test_without_a_driver_the_call_says_so(self):
        run = job("claim", standins=False)
        self.check_all_caught(run, [0, 1, 2], "unsupported: .*driver")

    def test_without_a_device_the_call_says_so(self):
        run = job("claim", STANDIN_GPU="devices=0")
        self.check_all_caught(run, [0, 1, 2], "unsupported: .*device")

    def test_a_device_that_is_not_there_is_named(self):
        run = job("claim", TUTTI_GPU="5")
        self.check_all_caught(run, [0, 1, 2], r"invalid_argument: .*gpu\(5\)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
