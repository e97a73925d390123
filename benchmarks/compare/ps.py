"""Suite ps: the parameter server, on one machine and over links."""
from compare import ps_hosts, ps_node

PARTS = {"one-host": ps_node, "beside": ps_hosts.Beside, "apart": ps_hosts.Apart}
