"""The rules of no-bypass/nftables.conf in network namespaces: addresses that agents reach with and without them."""

import json
import sys

from namespaces import RULES, Network, isolated, run

# A user of `agent_users`, and one of its subordinate users.
AGENT, SUBORDINATE = 10002, 100001
# The address of the host on its bridge, and a host behind its uplink.
HOST, OUTSIDE = "172.30.0.1", "203.0.113.1"
# Addresses with servers; `True` if agents may reach them.
ON_THE_HOST = {
    ("tcp", "127.0.0.1", 8787): True,
    ("tcp", "::1", 8787): True,
    ("udp", "127.0.0.53", 53): True,
    ("tcp", "127.0.0.53", 53): True,
    ("tcp", "127.0.0.1", 1080): False,
    ("tcp", "::1", 1080): False,
    ("tcp", "127.0.0.1", 8788): False,
    ("udp", "127.0.0.1", 53): False,
    ("tcp", OUTSIDE, 443): False,
    ("tcp", OUTSIDE, 8787): False,
    ("udp", OUTSIDE, 53): False,
}
BEHIND_THE_BRIDGE = {
    ("tcp", HOST, 8787): True,
    ("udp", HOST, 53): True,
    ("tcp", HOST, 8788): False,
    ("tcp", HOST, 1080): False,
    ("tcp", OUTSIDE, 443): False,
    ("tcp", OUTSIDE, 8787): False,
    ("udp", OUTSIDE, 53): False,
    ("tcp", "fd00:30::1", 1080): False,
}


def rules_block_all_other_addresses():
    isolated(__file__)


CHECKS = {"the rules for nftables block all addresses but the gateway and DNS": rules_block_all_other_addresses}

# Listens on the given TCP and UDP addresses, and prints a line when it is ready.
SERVER = """
import json, select, socket, sys
sockets = []
for kind, host, port in json.loads(sys.argv[1]):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    it = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    it.bind((host, port))
    kind == "tcp" and it.listen()
    sockets.append((kind, it))
print("ready", flush=True)
while True:
    for it in select.select([it for _, it in sockets], [], [])[0]:
        if it.type == socket.SOCK_STREAM:
            it.accept()[0].close()
        else:
            it.sendto(b"!", it.recvfrom(9)[1])
"""
# Prints for each address whether this user reaches it.
CLIENT = """
import json, os, socket, sys
os.setuid(int(sys.argv[2]))
def reaches(kind, host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as it:
        it.settimeout(5)
        try:
            it.connect((host, port))
            if kind == "udp":
                it.send(b"?")
                it.recv(9)
        except OSError:
            return False
    return True
print(json.dumps([reaches(*it) for it in json.loads(sys.argv[1])]))
"""


def main():
    """Creates the network: this host, agents behind its bridge, and a host outside."""
    with Network() as network:
        check_rules(network)


def check_rules(network):
    agents = network.host("agents0", HOST, "172.30.0.2")
    outside = network.host("uplink", "203.0.113.254", OUTSIDE)
    run("ip", "-6", "address", "add", "fd00:30::1/64", "dev", "agents0", "nodad")
    run(*agents, "ip", "-6", "address", "add", "fd00:30::2/64", "dev", "eth0", "nodad")
    addresses = {*ON_THE_HOST, *BEHIND_THE_BRIDGE}
    for inside, served in [
        ([], [it for it in addresses if it[1] != OUTSIDE]),
        (outside, [it for it in addresses if it[1] == OUTSIDE]),
    ]:
        network.serve(inside, SERVER, json.dumps(sorted(served)))
    all_reachable = [True] * 99
    expect("without rules, on the host", reachability([], ON_THE_HOST, AGENT), all_reachable)
    expect("without rules, behind the bridge", reachability(agents, BEHIND_THE_BRIDGE, 0), all_reachable)
    run("nft", "--check", "--file", str(RULES))
    for _ in range(2):  # a second load replaces the rules
        run("nft", "--file", str(RULES))
    expect("an agent on the host", reachability([], ON_THE_HOST, AGENT), ON_THE_HOST.values())
    expect("its subordinate user", reachability([], ON_THE_HOST, SUBORDINATE), ON_THE_HOST.values())
    expect("agents behind the bridge", reachability(agents, BEHIND_THE_BRIDGE, 0), BEHIND_THE_BRIDGE.values())
    expect("the gateway's user", reachability([], ON_THE_HOST, AGENT - 1), all_reachable)
    tables = run("nft", "--json", "list", "tables")
    assert sum("table" in it for it in json.loads(tables)["nftables"]) == 1, tables


def reachability(inside, addresses, user):
    return json.loads(run(*inside, sys.executable, "-c", CLIENT, json.dumps(list(addresses)), str(user)))


def expect(description, reached, expected):
    expected = list(expected)[: len(reached)]
    assert reached == expected, f"{description}: reached {reached}, expected {expected}"


if __name__ == "__main__":
    main()
