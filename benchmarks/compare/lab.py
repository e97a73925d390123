"""Suite lab: emulated hosts with shaped links. Each part is measured, judged and kept by itself."""
from compare import links, ranks_a_host, wire

PARTS = {"links": links, "ranks": ranks_a_host, "wire": wire}
