"""This module says how a series is drawn: a peer has its colour in every plot, and each of its settings has a tone or a
texture of that colour."""
import dataclasses

TUTTI = "tutti"
FAMILIES = {TUTTI: "#c0392b", "Open MPI": "#2c3e50", "hierarchical Open MPI": "#8e44ad", "Intel MPI": "#2980b9",
            "Gloo": "#27ae60",
            "Horovod": "#a0621a", "DDP, Gloo": "#c2419b", "MXNet": "#16a085", "mpi4py": "#d4a017",
            "tutti under MXNet's API": "#e58e26",
            "dist_sync": "#1f4e9e", "dist_async": "#d35400", "dist_sync_mpi": "#6d214f", "local": "#7f8c8d"}
STRANGER = "#555555"
# The settings that stand behind a family's name in a label. Each gives a tone, or a part of the texture.
TONE_OF = {"picked": 1, "shared": 1, "replay": 0, "replay off": 1, "bf16 wire": 0, "fp16 wire": 1, "8 hosts": 0,
           "4 hosts": 1, "2 hosts": 2,
           "one array": 0, "keys of ResNet-50": 1, "0.1 ms": 1, "0 ms": 2,
           "staleness 0": 0, "staleness 2": 1, "no bound": 2,
           "a server each": 0, "1 server": 1, "2 servers": 2, "4 servers": 0}
TEXTURE_OF = {"servers": 1, "apart": 1, "beside the workers": 0, "yielding": 1, "grouped": 2}  # 3 is both
WHITE_IN, BLACK_IN = (0, 0.35, 0.6), (0, 0.35, 0.12, 0.5)  # by tone, and by texture on top of that
LINES = ("-", "--", ":")
MARKERS, HATCHES = ("o", "s", "^", "D"), ("", "////", "....", "xxxx")


@dataclasses.dataclass(frozen=True)
class Look:
    family: str  # its colour
    tone: int = 0
    texture: int = 0

    @property
    def colour(self):
        white, black = WHITE_IN[self.tone], BLACK_IN[self.texture]
        parts = (int(self.family[at:at + 2], 16) for at in (1, 3, 5))
        return "#" + "".join(f"{round((part + (255 - part) * white) * (1 - black)):02x}" for part in parts)

    def line(self):
        """The style of a line. Lines that others are compared with are thick, and lie below the lines that they would
        hide."""
        ours = self.family in (FAMILIES[TUTTI], FAMILIES["dist_sync"])
        return {"color": self.colour, "linestyle": LINES[self.tone], "marker": MARKERS[self.texture],
                "markersize": 5.5 if ours else 3.5,
                "linewidth": 2.8 if ours else 1.3, "zorder": 2 if ours else 3}

    def bar(self):
        return {"color": self.colour, "hatch": HATCHES[self.texture], "edgecolor": "white", "linewidth": 0.5}


def family_of(label):
    """The family's name, or None."""
    return next((name for name in FAMILIES if f"{label}, ".startswith(f"{name}, ")), None)


def wanted(label):
    """The look that this label has in every plot; None if some of its words are not known."""
    family = family_of(label)
    words = label.removeprefix(family or "").split(", ")[1:]
    if family is None or not all(word in TONE_OF or word in TEXTURE_OF for word in words):
        return None
    return Look(FAMILIES[family],
                sum(TONE_OF.get(word, 0) for word in words), sum(TEXTURE_OF.get(word, 0) for word in words))


def of(labels):
    """{label: Look}, no two the same. An unknown label gets a look of its family that no other label has."""
    found = {label: wanted(label) for label in labels}
    for label in (label for label, look in found.items() if look is None):
        colour = FAMILIES.get(family_of(label), STRANGER)
        every = [Look(colour, tone, texture) for texture in range(len(HATCHES)) for tone in range(len(LINES))]
        found[label] = next((look for look in every if look not in found.values()), every[0])
    return found
