"""Errors while a store is created: every rank raises, and the next store works; see contract.py."""
import os
import pathlib
import resource
import threading
import time

import numpy as np

import tutti
from contract_fixture import Contract, environment, make_store


def rank_and_size():
    with make_store() as kv:
        return kv.rank, kv.num_workers


class Create(Contract):
    def works(self):
        with make_store() as kv:
            self.assert_alive(kv)

    def test_an_unknown_type_string_is_refused_with_the_nearest_known_one(self):
        self.refused(tutti.InvalidArgumentError, ["'dist_sink_mpi'", "did you mean 'dist_sync_mpi'"],
                     lambda: tutti.create("dist_sink_mpi"))
        self.works()

    def test_a_misspelt_variable_or_value_is_refused_with_what_was_meant(self):
        cases = {("TUTTI_FUSION_BITES", "1000"): ["TUTTI_FUSION_BITES", "did you mean 'TUTTI_FUSION_BYTES'"],
                 ("TUTTI_FUSION_BYTES", "many"): ["TUTTI_FUSION_BYTES='many'", "64K"],
                 ("DMLC_INTERFACE", "nowhere0"): ["'nowhere0'", "lo"]}
        for (variable, value), texts in cases.items():
            with environment(**{variable: value}):
                self.refused(tutti.InvalidArgumentError, texts, make_store)
        self.works()

    def test_options_that_differ_between_ranks_fail_create_on_every_rank_with_ranks_and_values(self):
        rank, ranks = rank_and_size()
        if ranks == 1:
            self.skipTest("alone nobody disagrees")
        replay = os.environ.get("TUTTI_REPLAY", "1") == "0"
        cases = {"fusion_bytes": (1000, "TUTTI_FUSION_BYTES", "1000"), "part_bytes": (2000, "TUTTI_PART_BYTES", "2000"),
                 "slice_bytes": (65536, "TUTTI_SLICE_BYTES", "65536"),
                 "encrypt": (True, "TUTTI_ENCRYPT", "1"),
                 "reproducible": (False, "TUTTI_REPRODUCIBLE", "0"),
                 "replay": (replay, "TUTTI_REPLAY", ""), "key_timeout": (7, "TUTTI_TIMEOUT_SECONDS", "7000 ms")}
        for option, (value, variable, text) in cases.items():
            mine = {option: value} if rank == ranks - 1 else {}
            self.refused(tutti.MismatchError, [variable, f"{text} on rank {ranks - 1}",
                                               "on rank 0" if ranks == 2 else f"on ranks 0-{ranks - 2}"],
                         lambda mine=mine: make_store(**mine))
        self.works()

    def test_who_waits_too_long_for_another_thread_to_create_its_store_is_told_what_it_waits_for(self):
        rank, ranks = rank_and_size()
        if ranks == 1:
            self.skipTest("alone create does not wait")
        if rank != 0:
            time.sleep(0.6)  # the first thread's store waits for this one
            self.works()
            return
        made = []
        other = threading.Thread(target=lambda: made.append(make_store()))
        other.start()
        time.sleep(0.2)
        self.refused(tutti.TimedOutError, ["waited 0.05 s (create_timeout, TUTTI_CREATE_SECONDS) for another thread"],
                     lambda: make_store(create_timeout=0.05))
        other.join()
        self.assert_alive(made[0])
        made[0].close()

    def test_a_world_of_another_size_than_the_launcher_says_is_an_error_never_a_world_of_one(self):
        _, ranks = rank_and_size()
        with environment(OMPI_COMM_WORLD_SIZE=str(ranks + 3)):
            self.refused(tutti.MismatchError,
                         [f"MPI sees {ranks} process", f"OMPI_COMM_WORLD_SIZE={ranks + 3}", "mpirun"], make_store)
        self.works()

    def test_a_world_of_one_that_another_mpis_launcher_started_as_many_is_an_error(self):
        if rank_and_size()[1] > 1:
            self.skipTest("a world of several is none of one")
        for variable, rank in (("PMI_SIZE", "PMI_RANK"), ("SLURM_NTASKS", "PMIX_RANK"),
                               ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"), ("WORLD_SIZE", "RANK"),
                               ("WORLD_SIZE", "OTHER")):
            with environment(OMPI_COMM_WORLD_SIZE="", **{"PMIX_RANK": "", variable: "4", rank: "0"}):
                self.refused(tutti.MismatchError, ["MPI sees 1 process", "started 4", f"{variable}=4",
                                                   "type instead: mpirun -n 4", f"unset {variable}"], make_store)
        self.works()

    def test_a_batch_systems_size_without_its_launchers_rank_leaves_one_process_alone(self):
        if rank_and_size()[1] > 1:
            self.skipTest("a world of several is none of one")
        for variable in ("PMI_SIZE", "SLURM_NTASKS"):
            with environment(OMPI_COMM_WORLD_SIZE="", **{"PMIX_RANK": "", "SLURM_PROCID": "0", variable: "4"}):
                make_store().close()
        self.works()

    def test_a_rank_without_room_for_the_shared_memory_fails_create_on_every_rank(self):
        rank, ranks = rank_and_size()
        before = resource.getrlimit(resource.RLIMIT_AS)
        if rank == ranks - 1:
            taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + (256 << 20), before[1]))
        try:
            self.refused(tutti.InternalError, [f"rank {ranks - 1} could not", "shared memory", "bytes", "ulimit -v"],
                         make_store)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    def test_a_store_is_made_where_one_could_not_be_made_for_want_of_memory(self):
        self.works()

    def test_asking_for_more_shared_memory_than_there_is_says_how_much_there_is(self):
        kv = self.store()
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        self.refused(tutti.InternalError, [str(2 * machine), str(machine)], lambda: kv.allocate(2 * machine, "uint8"))
        self.refused(tutti.InternalError, [str(machine - 8192), "left", "fewer ranks"],
                     lambda: kv.allocate(machine - 8192, "uint8"))
        small = kv.allocate(1000)
        small[:] = 1
        kv.pushpull("small", small).wait()
        self.assert_equal(small, np.full(1000, kv.num_workers))
        self.assert_alive(kv)

    def test_a_timeline_that_would_be_a_device_is_refused_on_every_rank_and_leaves_nothing_there(self):
        self.refused(tutti.InvalidArgumentError,
                     ["rank 0 cannot write its timeline to /dev/full: it is no regular file"],
                     lambda: make_store(timeline="/dev/full"))
        self.assertEqual([rank for rank in (0, 1) if os.path.exists(f"/dev/full.{rank}.part")], [])
        self.works()
