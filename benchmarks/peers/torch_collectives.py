#!/usr/bin/env python3
"""Times torch.distributed's collectives over tutti and over Gloo, turn by turn in one process; options are
allreduce_bench's.

    mpirun -n 4 torch_collectives.py --bytes 65536,1048576 --json rows.json

The bytes are those of the tensor that a rank has whole: the input of a reduce_scatter, the output of an allgather. All
turns begin behind a barrier that is neither library's.
"""
import functools
import sys

import torch
import torch.distributed as dist

import racing
from meeting_place import MeetingPlace
from torch_groups import groups

#: Numbers below this one. float32 holds every sum of theirs.
LARGEST = 1 << 10


class Collective:
    """One collective on tensors of one size, in one group. Subclasses say how it is called and what must come out."""

    def __init__(self, count, meeting, group):
        self.meeting, self.group = meeting, group
        self.rank, self.ranks = meeting.rank, meeting.ranks
        self.share = max(1, count // self.ranks)
        self.count = self.share * self.ranks
        self.barrier, self.largest = meeting.barrier, meeting.largest
        self.endless = (torch.arange(self.count + LARGEST) % LARGEST).float()
        self.ins, self.outs = self.buffers()

    def numbers(self, rank, turn, count):
        return self.endless[(rank * 7 + turn * 13) % LARGEST:][:count]

    def whole(self, turn, rank=None):
        return self.numbers(self.rank if rank is None else rank, turn, self.count)

    def part(self, turn, rank=None):
        return self.numbers(self.rank if rank is None else rank, turn, self.share)

    def sums(self, turn):
        return sum(self.whole(turn, rank) for rank in range(self.ranks))

    def parts(self, turn):
        return torch.cat([self.part(turn, rank) for rank in range(self.ranks)])

    def buffers(self):
        return torch.empty(self.count), torch.empty(self.count)

    def fill(self, turn):
        self.ins.copy_(self.whole(turn) if self.ins.numel() == self.count else self.part(turn))
        self.outs.zero_()

    def wrong(self, turn):
        expected = self.expected(turn)
        return 0 if expected is None else int((self.outs != expected).sum())


class Allreduce(Collective):
    def exchange(self):
        dist.all_reduce(self.outs, group=self.group)

    def fill(self, turn):
        self.outs.copy_(self.whole(turn))

    def expected(self, turn):
        return self.sums(turn)


class Reduce(Allreduce):
    def exchange(self):
        dist.reduce(self.outs, 0, group=self.group)

    def expected(self, turn):
        return self.sums(turn) if self.rank == 0 else None


class Broadcast(Allreduce):
    def exchange(self):
        dist.broadcast(self.outs, 0, group=self.group)

    def expected(self, turn):
        return self.whole(turn, 0)


class Allgather(Collective):
    def buffers(self):
        return torch.empty(self.share), torch.empty(self.count)

    def exchange(self):
        dist.all_gather_into_tensor(self.outs, self.ins, group=self.group)

    def expected(self, turn):
        return self.parts(turn)


class ReduceScatter(Collective):
    def buffers(self):
        return torch.empty(self.count), torch.empty(self.share)

    def exchange(self):
        dist.reduce_scatter_tensor(self.outs, self.ins, group=self.group)

    def expected(self, turn):
        return self.sums(turn)[self.rank * self.share:][:self.share]


class AllToAll(Collective):
    def exchange(self):
        dist.all_to_all_single(self.outs, self.ins, group=self.group)

    def expected(self, turn):
        mine = slice(self.rank * self.share, (self.rank + 1) * self.share)
        return torch.cat([self.whole(turn, rank)[mine] for rank in range(self.ranks)])


class Gather(Allgather):
    def exchange(self):
        rows = list(self.outs.view(self.ranks, -1)) if self.rank == 0 else None
        dist.gather(self.ins, rows, 0, group=self.group)

    def expected(self, turn):
        return self.parts(turn) if self.rank == 0 else None


class Scatter(ReduceScatter):
    def exchange(self):
        rows = list(self.ins.view(self.ranks, -1)) if self.rank == 0 else None
        dist.scatter(self.outs, rows, 0, group=self.group)

    def expected(self, turn):
        return self.whole(turn, 0)[self.rank * self.share:][:self.share]


class Pairs(Collective):
    """Each rank sends to the next one."""

    def exchange(self):
        sent = dist.isend(self.ins, (self.rank + 1) % self.ranks, group=self.group)
        dist.recv(self.outs, (self.rank - 1) % self.ranks, group=self.group)
        sent.wait()

    def expected(self, turn):
        return self.whole(turn, (self.rank - 1) % self.ranks)


OPS = {"allreduce": Allreduce, "broadcast": Broadcast, "allgather": Allgather, "reduce_scatter": ReduceScatter,
       "reduce": Reduce, "gather": Gather, "scatter": Scatter, "all_to_all": AllToAll, "send": Pairs}


def fitting(op, given, meeting, lanes):
    """The lanes whose library has this collective, on all ranks."""
    found = {}
    for impl, group in lanes.items():
        try:
            OPS[op](meeting.ranks, meeting, group).exchange()
            failed = 0
        except (RuntimeError, ValueError) as error:
            failed = 1
            if meeting.rank == 0:
                print(f"# {impl} has no {op}: {str(error).splitlines()[0]}")
        if not meeting.largest([failed])[0]:
            found[impl] = group
    return found


def rows_of(op, size, given, meeting, lanes):
    make = functools.partial(OPS[op], size // 4, meeting)
    races = [racing.Race(make(group), given.rest) for group in lanes.values()]
    for impl, race, times in zip(lanes, races, racing.take_turns(races, given)):
        wrong = meeting.sum(race.wrong)
        row = racing.row({"impl": impl, "version": f"torch {torch.__version__}"}, size, meeting.ranks, times, wrong)
        yield {**row, "op": op}


def main():
    options = racing.parser(__doc__)
    options.add_argument("--ops", default=",".join(OPS), type=lambda text: text.split(","),
                         help="which collectives: " + ", ".join(OPS))
    given = options.parse_args()
    meeting, rows = MeetingPlace(), []
    with groups() as lanes:
        for op in given.ops:
            there = fitting(op, given, meeting, lanes)
            for size in given.bytes:
                rows += rows_of(op, size, given, meeting, there)
    return racing.finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
