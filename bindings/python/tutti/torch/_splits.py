"""The shares of an all_to_all_single: rows of the first dimension, one share for each rank."""


def problem_of(side, tensor, splits, size):
    """A text for the user if these split sizes do not fit the tensor; else None. side: 'input' or 'output'."""
    rows = rows_of(tensor)
    if splits and (len(splits) != size or min(splits) < 0 or sum(splits) != rows):
        return (f"all_to_all_single: the {side} has the split sizes {list(splits)}; pass {size} numbers of at least 0, "
                f"one for each rank, that add up to its first dimension, {rows}")
    if not splits and rows % size:
        return (f"all_to_all_single: the {side} has no split sizes, and its first dimension, {rows}, has no {size} "
                "equal parts; pass split sizes")
    return None


def counts_of(tensor, splits, size):
    """The number of elements in the share of each rank."""
    rows = rows_of(tensor)
    of_row = tensor.numel() // rows if rows else 0
    return [split * of_row for split in splits or [rows // size] * size]


def rows_of(tensor):
    return tensor.shape[0] if tensor.dim() else 1
