"""Suite lab: emulated hosts with links of 1 Gbit/s. Each part is measured, judged and kept by itself."""
from compare import links, parameter_server, ranks_a_host, wire

PARTS = {"links": links, "ranks": ranks_a_host, "parameter-server": parameter_server, "wire": wire}
