"""Splits data over the ranks, and over the devices of a rank."""
import random

import mxnet
from mxnet import gluon


class SplitSampler(gluon.data.sampler.Sampler):
    """Gives the indices of one rank's part of a data set, in a new random order each epoch.

    The parts are equally long and do not overlap. The remainder of the division belongs to no part, so all ranks have
    equally many batches.

    length: the number of elements of the data set.
    num_parts: the number of parts, `kv.num_workers`.
    part_index: the index of this rank's part, `kv.rank`.
    """

    def __init__(self, length, num_parts=1, part_index=0):
        if not 0 <= part_index < num_parts:
            raise ValueError(f"part_index is {part_index}, but it must be at least 0, and less than num_parts, which "
                             f"is {num_parts}")
        if length < num_parts:
            raise ValueError(f"{length} elements cannot be split into {num_parts} parts, because some parts would be "
                             "empty")
        self._length = length // num_parts
        self._start = self._length * part_index

    def __iter__(self):
        indices = list(range(self._start, self._start + self._length))
        random.shuffle(indices)
        return iter(indices)

    def __len__(self):
        return self._length


def split_and_load(data, ctx_list, work_load_list=None, batch_axis=0, even_split=True):
    """Cuts an array along `batch_axis` into one slice for each device, on that device.

    work_load_list: how much each device takes, such as [1, 2]. Without it the devices take equal shares, as with
        MXNet's own function.
    """
    if work_load_list is None:
        return gluon.utils.split_and_load(data, ctx_list, batch_axis, even_split)
    data = data if isinstance(data, mxnet.nd.NDArray) else mxnet.nd.array(data, ctx=ctx_list[0])
    ends = _ends(data.shape[batch_axis], work_load_list, ctx_list)
    return [data.slice_axis(batch_axis, start, end).as_in_context(ctx)
            for start, end, ctx in zip([0, *ends[:-1]], ends, ctx_list)]


def _ends(size, loads, contexts):
    """Returns the end of each device's slice of this many elements."""
    if len(loads) != len(contexts):
        raise ValueError(f"there are {len(loads)} work loads for {len(contexts)} devices; give one for each device")
    if min(loads) <= 0:
        raise ValueError(f"work loads {loads}: each must be above 0")
    ends = [round(size * sum(loads[:i + 1]) / sum(loads)) for i in range(len(loads))]
    for start, end, context in zip([0, *ends[:-1]], ends, contexts):
        if start == end:
            raise ValueError(f"a batch of {size} elements with work loads {loads} leaves device {context} without any "
                             "element")
    return ends
