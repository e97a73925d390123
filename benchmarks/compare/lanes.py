"""The descriptions that the programs gave of themselves and of their machine."""

NOT_SAID = "not said"


def facts_line(row):
    """A line with the version and with what the program says about yielding, single copies and binding."""
    facts = row["facts"]
    return (f"{row['contest']} ({row['setting']}): {facts.get('MPI', row['version'])}; "
            f"yields when idle: {facts.get('mpi_yield_when_idle', NOT_SAID)}; "
            f"single copy: {facts.get('single copy in a node', NOT_SAID)}; "
            f"processors of rank 0: {facts.get('processors that rank 0 may use', NOT_SAID)}")


def describe(rows):
    """A line for each contest, with the numbers of ranks for which it said the same."""
    said = {}
    for row in rows:
        ranks = said.setdefault(facts_line(row), [])
        if row["ranks"] not in ranks:
            ranks.append(row["ranks"])
    return [f"# {', '.join(map(str, ranks))} ranks, {line}" for line, ranks in said.items()]
