"""Begins and ends a default group in one of several ways. Each rank prints what all ranks say about themselves.

    torch_joining.py WAY
"""
import os
import sys

import torch
import torch.distributed as dist


def everyone():
    outputs = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(outputs, torch.tensor([float(dist.get_rank())]))
    print(f"{dist.get_rank()} of {dist.get_world_size()}: {[int(output) for output in outputs]}", flush=True)


def by_mpi():
    import tutti.torch  # pylint: disable=unused-import
    dist.init_process_group("tutti")
    everyone()


def by_devices():
    import tutti.torch  # pylint: disable=unused-import
    dist.init_process_group("cpu:tutti")
    everyone()


def by_environment():
    """Begins the group by environment variables, which count the ranks backwards here."""
    import tutti.torch  # pylint: disable=unused-import
    dist.init_process_group("tutti")
    assert dist.get_rank() == int(os.environ["OMPI_COMM_WORLD_SIZE"]) - 1 - int(os.environ["OMPI_COMM_WORLD_RANK"])
    everyone()
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        tensor = torch.tensor([10.0 * dist.get_rank()])
        dist.broadcast(tensor, 1, group=group)
        assert tensor.item() == 10.0


def stores_made():
    """The stores that are created from now on."""
    from tutti.torch import _joining
    made, create = [], _joining.create

    def recorded(*words):
        made.append(create(*words))
        return made[-1]
    _joining.create = recorded
    return made


def of_gloo():
    """A default group of Gloo. Its ranks are MPI's, too, and the store that told them is closed."""
    import tutti.torch  # pylint: disable=unused-import
    stores = stores_made()
    dist.init_process_group("gloo")
    everyone()
    assert [", closed" in repr(kv) for kv in stores] == [True], stores
    group = dist.new_group(backend="tutti")
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == dist.get_world_size()
    assert [", closed" in repr(kv) for kv in stores] == [True, False], stores


def of_gloo_by_environment():
    """A default group of Gloo by environment variables. tutti does not know MPI's ranks then, and refuses to make a
    group.
    """
    import tutti.torch
    dist.init_process_group("gloo")
    everyone()
    try:
        dist.new_group(backend="tutti")
    except tutti.UnsupportedError as error:
        assert "begin with init_process_group('tutti'), or unset RANK" in str(error), error
        return
    raise AssertionError("it was not refused")


def without_an_import():
    dist.init_process_group("tutti")
    everyone()


def again():
    by_mpi()
    dist.barrier()
    dist.destroy_process_group()
    by_mpi()
    dist.destroy_process_group()


def unwaited():
    """Rank 0 makes a call that no other makes."""
    by_mpi()
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(3), async_op=True)


def main():
    way = sys.argv[1]
    if len(sys.argv) > 2:
        rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
        os.environ.update(RANK=str(size - 1 - rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=sys.argv[2])
    globals()[way]()


if __name__ == "__main__":
    main()
