"""The rules of no-bypass/nftables.conf in network namespaces: what agents reach with them and without."""

import json
import sys

from namespaces import RULES, Network, isolated, run

# The user of `agent_users`.
AGENT = 10002
# The host, as agents behind its bridge see it, and a host on the other side.
HOST, OUTSIDE = "172.30.0.1", "203.0.113.1"
# What there is to be reached; `True` for what agents may reach.
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


def rules_close_every_other_way():
    isolated(__file__)


CHECKS = {"the rules for nftables close every way but the gateway and DNS": rules_close_every_other_way}

# Serves TCP and UDP on what it is given, and prints a line when it does.
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
# Prints for each address, as this user, whether it is reached.
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
    """On the host: two others behind links, with and without the rules."""
    with Network() as network:
        tried(network)


def tried(network):
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
    every = [True] * 99
    expect("without rules, on the host", reached([], ON_THE_HOST, AGENT), every)
    expect("without rules, behind the bridge", reached(agents, BEHIND_THE_BRIDGE, 0), every)
    run("nft", "--check", "--file", str(RULES))
    for _ in range(2):  # loading them again replaces them
        run("nft", "--file", str(RULES))
    expect("an agent on the host", reached([], ON_THE_HOST, AGENT), ON_THE_HOST.values())
    expect("agents behind the bridge", reached(agents, BEHIND_THE_BRIDGE, 0), BEHIND_THE_BRIDGE.values())
    expect("the gateway's user", reached([], ON_THE_HOST, AGENT - 1), every)
    tables = run("nft", "--json", "list", "tables")
    assert sum("table" in it for it in json.loads(tables)["nftables"]) == 1, tables


def reached(inside, addresses, user):
    return json.loads(run(*inside, sys.executable, "-c", CLIENT, json.dumps(list(addresses)), str(user)))


def expect(who, reached, expected):
    expected = list(expected)[: len(reached)]
    assert reached == expected, f"{who}: reached {reached}, expected {expected}"


if __name__ == "__main__":
    main()
