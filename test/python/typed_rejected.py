"""A program of which a type checker must reject every marked line, for the reason that the mark gives; see
package_types.py. Nobody runs it.
"""
import numpy as np
import tutti


def main(kv: tutti.KVStore, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]], pending: tutti.Pending) -> None:
    kv.pushpull(0.5, array)  # rejected: arg-type
    kv.pushpull([0.5], [array])  # rejected: list-item
    kv.pushpull("k", array, op="mean")  # rejected: arg-type
    kv.pushpull("k", array, priority="high")  # rejected: arg-type
    kv.pushpull("k")  # rejected: call-arg
    kv.bind("k", array).start(array)  # rejected: call-arg
    kv.pushpull("k", array, root_rank=0)  # rejected: call-arg
    kv.broadcast("k", array, root_rank="0")  # rejected: arg-type
    kv.allocate("3")  # rejected: arg-type
    kv.load_optimizer_states(3)  # rejected: arg-type
    kv.fingerprint(3)  # rejected: arg-type
    kv.all_reduce("k", array)  # rejected: attr-defined
    pending.wait("1")  # rejected: arg-type
    pending.result("1")  # rejected: arg-type
    pending.then(3)  # rejected: arg-type
    print(kv.rank.upper())  # rejected: attr-defined
    tutti.create("local", key_timeout="1")  # rejected: arg-type
    tutti.create("local", fusion=1)  # rejected: call-arg
    tutti.create("local", timeline=3)  # rejected: arg-type
