"""Objects above 2 GiB. A rank holds one object and its pickle; every rank of an MPI job runs it.

    mpirun -n 2 python package_large.py
"""
import tutti

GIB = 1 << 30
SIZE = 2 * GIB + 12_345

with tutti.create("dist_sync_mpi") as kv:
    root = kv.num_workers - 1
    mine = bytes(SIZE) + b"end" if kv.rank == root else None
    got = kv.broadcast_object(mine, root)
    assert len(got) == SIZE + 3 and got.endswith(b"\0end")
    del got
    everyones = kv.allgather_object(mine)
    assert [each is None for each in everyones] == [rank != root for rank in range(kv.num_workers)]
    assert len(everyones[root]) == SIZE + 3 and everyones[root].endswith(b"\0end")
    print(f"worker {kv.rank}: well", flush=True)
