"""Which processes have ended, for those that wait for others."""

# A process that waits is told of so many ends at most, for orders must find room in the connection.
MOST_TOLD = 256


class Ends:
    def __init__(self, links):
        """`links`: to all processes that are there, as they come and go."""
        self.links = links
        self.ended = []  # the first workers to end, in turn

    def on_waiting(self, link, waits):
        """Its processes wait for others, or wait no more."""
        link.waits = waits
        if waits and self.ended:
            link.tell_ended(self.ended)

    def add(self, worker):
        """Whatever its exit code: those that wait may wait for it."""
        if len(self.ended) == MOST_TOLD:
            return
        self.ended.append(worker)
        for link in self.links:
            if link.waits:
                link.tell_ended(self.told_of(worker))

    def told_of(self, worker):
        """The first end comes with each later one, which may be its consequence. A process that has just begun to wait
        may hear this message before the one that tells it of all ends so far.
        """
        return [worker] if worker is self.ended[0] else [self.ended[0], worker]
