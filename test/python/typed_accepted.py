"""A program that uses all of the API, which a type checker accepts; see package_types.py. Nobody runs it."""
import pathlib

import numpy as np
import tutti


def exchange(kv: tutti.KVStore, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> tutti.Pending:
    kv.broadcast("weight", array, root_rank=0, priority=1).wait()
    kv.broadcast([1, 2], [array, [array, array]], kv.num_workers - 1).wait(timeout=1)
    kv.pushpull(np.int64(3), array, array, 2, op="average").wait(np.float32(0.5))
    kv.pushpull(["a", "b"], (array, [array]), out=[array, array], op="min")
    kv.pushpull(key=np.arange(2).tolist(), ins=[array, array], outs=None)
    bound: tutti.Bound = kv.bind("bound", array, [array], priority=np.int32(1), op="max")
    started: tutti.Pending = bound.start()
    bound.run()
    print(started.done(), bound.wait(timeout=0.5))
    kv.reduce_scatter("shard", array, array, priority=0, op="max")
    kv.allgather("whole", array, array, 1)
    kv.send(array, np.int64(1), tag=2).wait()
    received: tutti.Received = kv.recv(array)
    kv.recv(array, 0, 2).wait(received.source)
    return kv.pushpull("gradient", array)


def store(kv: tutti.KVStore, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    kv.init(1, array)
    kv.init([2, 3], [array, array])
    kv.push(1, [array, array], 0, op="sum").wait()
    kv.pull(1, array, priority=np.int32(1)).wait()
    kv.row_sparse_pull(1, array, np.arange(2))
    kv.set_optimizer("sgd", learning_rate=0.1, factors={"bias": (1.0, 0.0)})
    kv.save_optimizer_states(pathlib.Path("states"), dump_optimizer=True)
    kv.load_optimizer_states("states")
    kv.set_gradient_compression("fp16")
    kv.set_gradient_compression("2bit", threshold=np.float32(0.5))
    dead: int = kv.num_dead_node()


def ask(kv: tutti.KVStore) -> tuple[str, int, list[str]]:
    numbers: tuple[int, ...] = (kv.rank, kv.Rank, kv.num_workers, kv.local_rank, kv.local_size, kv.nodes, kv.join())
    counters: tutti.Counters = kv.counters()
    names = [choice.name + choice.value + choice.origin for choice in kv.choices()]
    kv.barrier()
    return kv.type, sum(numbers) + counters.bytes_reduced, names


def objects(kv: tutti.KVStore) -> str:
    everyones: list[object] = kv.allgather_object({"rank": kv.rank})
    print(kv.broadcast_object(everyones, root=0))
    kv.allocate(3, np.float64)[:] = 1
    print(kv.allocate(np.int64(3)), kv.allocate((2, np.int32(3))), kv.allocate([2, 3]), kv.allocate(np.ones(3).shape))
    return kv.fingerprint({"weight": kv.allocate(3, "bfloat16")}) + kv.fingerprint([np.ones(3)])


async def wait(pending: tutti.Pending) -> bool:
    pending.then(lambda error: print(error.key if error else None))
    new: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = await pending
    print(new, pending.result(), pending.result(timeout=0.5))
    return pending.done()


def failed(error: tutti.Error) -> tuple[tutti.ErrorCode | None, int | str | None, tuple[int, ...]]:
    return error.code, error.key, error.ranks


def main() -> None:
    array = np.ones(4, np.float32)
    with tutti.create("dist_sync_mpi", ranks=np.arange(2).tolist(), interface="eth0", encrypt=True,
                      user_makes_no_mpi_calls=True, reproducible=True, staleness=2, gpu=0, stall_report_after=1,
                      key_timeout=0.5, heartbeat_timeout=2.5, create_timeout=3, log_level="error",
                      timeline=pathlib.Path("timeline.json"), replay=False, fusion_bytes=0, part_bytes=1,
                      slice_bytes=1, check_finite=True) as kv:
        try:
            exchange(kv, array).wait()
        except (tutti.MismatchError, tutti.DuplicateKeyError, tutti.TimedOutError, tutti.PeerLostError,
                tutti.AbortedError, tutti.InternalError, tutti.InvalidArgumentError, tutti.UnsupportedError) as error:
            print(failed(error), error.code is tutti.ErrorCode.timeout)
        raise tutti.InvalidArgumentError("text", key="weight", ranks=[0])
    kv.close()
    print(tutti.__version__, store(kv, array), ask(kv), objects(kv))
