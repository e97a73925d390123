"""Words the launcher's report of the threads that its helpers gave to the workers."""


class Shares:
    def __init__(self, workers):
        self.workers, self.by_rank = workers, {}

    def add(self, rank, threads):
        """The report, once, when all workers have come; otherwise None. `threads`: 0 for a worker whose variables were
        left alone.
        """
        is_new = rank not in self.by_rank
        self.by_rank[rank] = threads
        given = sorted(set(self.by_rank.values()) - {0})
        if not is_new or len(self.by_rank) < self.workers or not given:
            return None
        value = str(given[0]) if len(given) == 1 else f"{given[0]} to {given[-1]}"
        return (f"OMP_NUM_THREADS is {value} for each worker, its share of its host's processors; "
                "--env OMP_NUM_THREADS=N chooses another number")
