"""compare.py's parts.

A suite (node.py, negotiation.py, training.py, and each part of lab.py) makes contests (contest.py): programs that
are run in turn, each with one or more lanes whose rows look alike. rounds.py runs them, figures.py takes medians
of their rows, targets.py says which target was reached, and table.py, plot.py (as looks.py says) and record.py
show it. Those on emulated hosts (emulated.py) hold rows against what the links allow (cases.py).
"""
