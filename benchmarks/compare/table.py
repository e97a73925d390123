"""Tables for a terminal."""


def grid(columns, lines):
    """A table whose columns are as wide as they need; words are aligned left, figures right."""
    cells = [columns, *lines]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(columns))]
    left = [all(not is_figure(row[i]) for row in lines) for i in range(len(columns))]
    return "\n".join("  ".join(str(cell).ljust(width) if to_left else str(cell).rjust(width)
                               for cell, width, to_left in zip(row, widths, left)).rstrip() for row in cells)


def is_figure(cell):
    return str(cell)[:1].isdigit()


def wrong_line(row):
    """A line about a row whose sums are wrong."""
    at = ", ".join(f"{row[name]} {unit}" for name, unit in (("ranks", "ranks"), ("hosts", "hosts"), ("bytes", "bytes"))
                   if name in row)
    return f"wrong: {row['who']} ({row['setting']}), {at}, round {row['round'] + 1}: {row['wrong']:.0f} elements"


def of_outcome(outcome):
    verdicts = [(v.target, v.what, v.wanted, v.reached, v.verdict, v.detail) for v in outcome.verdicts]
    parts = [outcome.title, *outcome.notes, "", grid(outcome.columns, outcome.lines), "",
             grid(["target", "what", "wanted", "reached", "verdict", "medians (the peer's setting)"], verdicts), ""]
    parts += [wrong_line(row) for row in outcome.rows if row["wrong"]]
    parts += [f"skipped: {who}: {why}" for who, why in outcome.skipped.items()]
    return "\n".join(parts)
