"""tutti-info: what this tutti is built of, and whether and how a dist_sync_mpi store comes up."""
import json
import os
import sys

import tutti
from tutti import _core
from tutti_scripts.command_line import Parser, is_first_to_say, program, quiet_when_cut_off

MIB = 1 << 20
#: If the user does not ask for a rank, the options of each of these numbers of ranks are shown.
RANKS = (1, 2, 4, 8, 64)


def between_1_and_65536(text):
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1 << 16:
        raise ValueError
    return int(text)


def make_parser():
    parser = Parser(description="Prints how this tutti was built, its options, whether it can create a dist_sync_mpi "
                                "store, the sizes and limits of that store and where they come from, and the memory "
                                "that the store takes. Start it alone, or with mpirun: mpirun -n N tutti-info")
    parser.add_argument("--ranks", type=between_1_and_65536, metavar="N",
                        help="print the memory for a job with this many ranks on each node")
    parser.add_argument("--nodes", type=between_1_and_65536, default=1, metavar="N",
                        help="and with this many nodes (default: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def sizes(given):
    return [given.ranks] if given.ranks else RANKS


def print_facts(title, facts, mark=""):
    print(title)
    for name, value in facts:
        print(f"{'*' if mark and name in os.environ else ' '} {name:<30} {value or '(not set)'}")


def print_memory(given, kv):
    print("\nMemory of a rank (further: 1.4375 KiB a key in flight, and what `allocate` gives)")
    if kv:
        print(f"  {'the buffers of this store':<30} {kv.counters().buffer_bytes / MIB:.2f} MiB")
    for ranks in sizes(given):
        label = f"{given.nodes} node{'s' * (given.nodes > 1)} of {ranks} rank{'s' * (ranks > 1)}"
        most = _core.most_buffer_bytes(ranks, given.nodes)
        print(f"  {label:<30} at most {most / MIB:.2f} MiB, {most * ranks / MIB:.1f} MiB a node")


def print_all(given, kv, trouble):
    print_facts("Build, libraries and machine", _core.build_info())
    print_facts("\nGPUs", _core.gpu_info())
    print_facts("\nOptions (* set in the environment)", _core.options_from_env(), mark="*")
    print("\nStore dist_sync_mpi")
    if kv is None:
        print(f"  does not come up: {trouble}")
    else:
        print(f"  {'processes':<30} {kv.num_workers}\n  {'nodes':<30} {kv.nodes}")
        print("\nTuning                             value, and where it comes from")
        for choice in kv.choices():
            print(f"  {choice.name:<30} {choice.value}  ({choice.origin})")
    print_memory(given, kv)


def store_as_json(kv, trouble):
    if kv is None:
        return {"trouble": str(trouble)}
    return {"processes": kv.num_workers, "nodes": kv.nodes, "buffer_bytes": kv.counters().buffer_bytes,
            "choices": [choice._asdict() for choice in kv.choices()]}


def print_json(given, kv, trouble):
    """One object, whose members the program tutti-info has, too."""
    print(json.dumps({
        "build": dict(_core.build_info()), "gpus": dict(_core.gpu_info()), "options": dict(_core.options_from_env()),
        "store": store_as_json(kv, trouble),
        "memory": [{"ranks_per_node": ranks, "nodes": given.nodes,
                    "most_bytes_a_rank": _core.most_buffer_bytes(ranks, given.nodes)} for ranks in sizes(given)],
    }, indent=1, ensure_ascii=False))


@quiet_when_cut_off
def main():
    given = make_parser().parse_args()
    # The store is made before anything is printed, because it knows the rank.
    kv, trouble = None, None
    try:
        kv = tutti.create("dist_sync_mpi")
    except tutti.Error as error:
        trouble = error
    try:
        if kv is None or kv.rank == 0:
            (print_json if given.json else print_all)(given, kv, trouble)
    except tutti.Error as error:
        if is_first_to_say(str(error)):
            print(f"{program()}: {error}", file=sys.stderr)
        return 2
    return 1 if trouble and not isinstance(trouble, tutti.UnsupportedError) else 0


if __name__ == "__main__":
    sys.exit(main())
