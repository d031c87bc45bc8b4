"""Hosts of a network in separate namespaces, which end with the process that created them."""

import os
import pathlib
import shutil
import subprocess
import sys

RULES = pathlib.Path(__file__).resolve().parent.parent / "no-bypass" / "nftables.conf"


def isolated(program, *arguments):
    """Runs a Python program in new network and mount namespaces."""
    missing = [it for it in ["nft", "ip", "unshare", "nsenter", "setpriv"] if not shutil.which(it)]
    assert not missing, f"not installed: {missing} (Debian: nftables, iproute2, util-linux)"
    command = ["unshare", "--net", "--mount", sys.executable, "-B", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


class Network:
    """The host of this namespace, and other hosts behind links."""

    def __enter__(self):
        assert namespace_of("self") != namespace_of(os.getppid()), "not in a separate namespace"
        self.processes = []
        run("ip", "link", "set", "lo", "up")
        run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        return self

    def __exit__(self, *error):
        for it in self.processes:
            it.kill()

    def host(self, link, near, far):
        """Creates a host behind a link. Returns the prefix of commands that run on it."""
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 300"], stdout=subprocess.PIPE)
        self.processes.append(holder)
        holder.stdout.readline()
        assert namespace_of(holder.pid) != namespace_of("self")
        inside = ["nsenter", "--net", "--target", str(holder.pid)]
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "address", "add", f"{near}/24", "dev", link)
        run("ip", "link", "set", link, "up")
        run(*inside, "ip", "address", "add", f"{far}/24", "dev", "eth0")
        run(*inside, "ip", "link", "set", "eth0", "up")
        run(*inside, "ip", "route", "add", "default", "via", near)
        return inside

    def serve(self, inside, program, *arguments):
        """Starts a server, a Python program that prints a line when it is ready."""
        command = [*inside, sys.executable, "-c", program, *arguments]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(server)
        assert server.stdout.readline() == "ready\n", f"cannot serve {arguments}"


def namespace_of(process):
    return os.readlink(f"/proc/{process}/ns/net")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}"
    return done.stdout
