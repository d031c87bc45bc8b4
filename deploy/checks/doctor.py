"""`hookgate doctor --bypass` behind the rules of no-bypass/nftables.conf, with one open bypass at a time.

The binary is $HOOKGATE, or hookgate in the debug folder of the build. It is not built here.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from namespaces import RULES, Network, isolated, run

# The user of `agent_users`, and where the gateway listens.
AGENT, GATEWAY = 10002, ("127.0.0.1", 8787)
# Hosts of the model APIs, to which the rules block connections.
HOSTS = {
    "generativelanguage.googleapis.com": "203.0.113.11",
    "aiplatform.googleapis.com": "203.0.113.12",
    "cloudcode-pa.googleapis.com": "203.0.113.13",
    "api.anthropic.com": "203.0.113.14",
    "api.openai.com": "203.0.113.15",
    "chatgpt.com": "203.0.113.16",
}
# A relay and a proxy.
RELAY, PROXY = ("203.0.113.20", 9000), ("203.0.113.30", 3128)
# Each login of gemini-cli: its variable and its host.
LOGINS = {
    "API key": ("GOOGLE_GEMINI_BASE_URL", "generativelanguage.googleapis.com"),
    "Vertex AI": ("GOOGLE_VERTEX_BASE_URL", "aiplatform.googleapis.com"),
    "Google login": ("CODE_ASSIST_ENDPOINT", "cloudcode-pa.googleapis.com"),
}


@dataclasses.dataclass
class Bypass:
    """A bypass of the gateway: files of the user, variables, and the address that the rules accept."""

    name: str
    address: tuple
    agent: str
    login: str
    files: dict = dataclasses.field(default_factory=dict)
    variables: dict = dataclasses.field(default_factory=dict)


def url(address):
    return f"http://{address[0]}:{address[1]}"


def bypasses():
    for login, (variable, host) in LOGINS.items():
        agent = {"agent": "gemini-cli", "login": login}
        yield Bypass(f"{login}, environment", RELAY, **agent, variables={variable: url(RELAY)})
        yield Bypass(f"{login}, settings", RELAY, **agent, files={".gemini/.env": f"{variable}={url(RELAY)}\n"})
        yield Bypass(f"{login}, host", (HOSTS[host], 443), **agent)
    yield from other_bypasses()


def other_bypasses():
    claude = {"env": {"ANTHROPIC_BASE_URL": url(RELAY)}}
    codex = f'model_provider = "own"\n[model_providers.own]\nbase_url = "{url(RELAY)}/v1"\n'
    # Any other provider would be a way to an address that is not known.
    opencode = {"enabled_providers": ["own"], "provider": {"own": {"options": {"baseURL": f"{url(RELAY)}/v1"}}}}
    yield Bypass("Claude Code, settings", RELAY, "Claude Code", "Anthropic API",
                 files={".claude/settings.json": json.dumps(claude)})
    yield Bypass("Codex, config", RELAY, "Codex", "API key", files={".codex/config.toml": codex})
    yield Bypass("Codex, ChatGPT", (HOSTS["chatgpt.com"], 443), "Codex", "ChatGPT login",
                 files={".codex/auth.json": "{}"})
    yield Bypass("opencode, config", RELAY, "opencode", "provider own",
                 files={".config/opencode/opencode.json": json.dumps(opencode)})
    yield Bypass("aider, config", RELAY, "aider", "OpenAI API",
                 files={".aider.conf.yml": f"openai-api-base: {url(RELAY)}/v1\n"})
    yield Bypass("OpenAI SDKs, host", (HOSTS["api.openai.com"], 443), "OpenAI SDKs", "OpenAI API",
                 variables={"OPENAI_API_KEY": "k"})
    yield Bypass("proxy", PROXY, "gemini-cli", "API key", variables={"HTTPS_PROXY": url(PROXY)})


def doctor_finds_each_bypass():
    """Runs this file in separate namespaces."""
    build = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", RULES.parents[2] / "target"))
    binary = pathlib.Path(os.environ.get("HOOKGATE", build / "debug" / "hookgate"))
    assert binary.is_file(), f"{binary} is not built"
    isolated(__file__, str(binary.resolve()))


CHECKS = {"doctor finds each of 9 bypasses by gemini-cli and 7 by others, and no closed one": doctor_finds_each_bypass}

# HTTP server that answers every request, including CONNECT, as the port of agents would, and prints
# a line when it is ready.
SERVER = """
import http.server, json, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403 if self.path == "/healthz" else 200)
        self.send_header("x-hookgate-request-id", "a")
        self.end_headers()
    do_CONNECT = do_GET
    def log_message(self, *arguments):
        pass
for address in json.loads(sys.argv[1]):
    server = http.server.ThreadingHTTPServer(tuple(address), Handler)
    threading.Thread(target=server.serve_forever).start()
print("ready", flush=True)
"""


def main():
    with Network() as network, tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        shutil.copy(sys.argv[1], folder / "hookgate")
        (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in HOSTS.items()))
        run("mount", "--bind", folder / "hosts", "/etc/hosts")
        outside = network.host("uplink", "203.0.113.254", "203.0.113.1")
        addresses = [*((it, 443) for it in HOSTS.values()), RELAY, PROXY]
        for address, _ in addresses:
            run(*outside, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        network.serve([], SERVER, json.dumps([GATEWAY]))
        network.serve(outside, SERVER, json.dumps(addresses))
        check_bypasses(folder)


def check_bypasses(folder):
    all_bypasses = list(bypasses())
    combined = Bypass(
        "all", (), "", "",
        files={name: text for it in all_bypasses for name, text in it.files.items()},
        variables={name: text for it in all_bypasses for name, text in it.variables.items()},
    )
    code, report = run_doctor(folder, combined)
    assert code == 1 and report["ways_out"] >= len(all_bypasses), f"without rules: {report}"
    run("nft", "--file", RULES)
    code, report = run_doctor(folder, combined)
    assert (code, report["ways_out"]) == (0, 0), f"with rules: {report}"
    for it in all_bypasses:
        run("nft", "--file", RULES)
        host, port = it.address
        rule = ["ip", "daddr", host, "tcp", "dport", str(port), "accept"]
        run("nft", "insert", "rule", "inet", "hookgate", "agent", *rule)
        code, report = run_doctor(folder, it)
        found = {(way["agent"], way["login"]) for way in report["ways"] if way["verdict"] == "out"}
        assert code == 1 and (it.agent, it.login) in found, f"{it.name}: found {found}"
        reached = {entry["address"] for entry in report["hosts"] if entry["reached"] not in ("closed", "gateway")}
        expected = set(HOSTS) if it.address == PROXY else {host}
        reached = {HOSTS.get(it.rsplit(":", 1)[0], it.rsplit(":", 1)[0]) for it in reached}
        expected = {HOSTS.get(it, it) for it in expected}
        assert reached == expected, f"{it.name}: reached {reached}"


def run_doctor(folder, bypass):
    """Runs doctor as the user of the rules. Returns its exit code and its report."""
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    (home / ".gemini").mkdir(parents=True)
    for name, text in bypass.files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    user = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups"]
    command = [*user, folder / "hookgate", "doctor", "--url", url(GATEWAY), "--bypass", "--json"]
    environment = {"HOME": str(home), **bypass.variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=home, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


if __name__ == "__main__":
    main()
