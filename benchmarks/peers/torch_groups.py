"""torch.distributed's groups over all ranks, one for each library that is measured, and their turns."""
import contextlib
import time

import torch.distributed as dist

import racing
import tutti.torch  # pylint: disable=unused-import  # it registers the backend


@contextlib.contextmanager
def groups():
    """{"tutti": its group, "gloo": its group}."""
    dist.init_process_group("tutti")
    try:
        yield {"tutti": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    finally:
        dist.destroy_process_group()


def take_turns(races, given):
    """Takes the turns of one size, each race one at a time. Which goes first changes from turn to turn."""
    def turns(count):
        for number in range(count):
            for race in races if number % 2 else races[::-1]:
                race.take()
    turns(given.warmup)
    for race in races:
        race.times = []
    start, done = time.perf_counter(), 0
    while done < racing.MOST:
        turns(given.least)
        done += given.least
        if races[0].contestant.largest([time.perf_counter() - start])[0] >= given.seconds:
            break
    return [sorted(race.contestant.largest(race.times)) for race in races]
