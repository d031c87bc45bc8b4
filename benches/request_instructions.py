"""Instructions that a gateway executes for a request of 2 KiB, with and without the live trace, counted by valgrind.

Counts hardly vary, unlike CPU times. Usage: request_instructions.py PATH_OF_HOOKGATE
"""

import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
BODY = json.dumps({"contents": [{"role": "user", "parts": [{"text": "x" * 1900}]}]})
HEADERS = {"content-type": "application/json", "x-goog-api-key": "a-key"}
COUNTED = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
# Requests of two runs. Their difference leaves out the start and the end of the process.
REQUESTS, WARM_UP = 1200, 200

POLICIES = {"policies": [{"policy": "model_allow", "models": ["gemini-*"]}, {"policy": "tool_guard", "deny": ["rm"]}]}
NO_TRACE = {"trace": {"exchanges": 0}}
BOUND = 1.02


@contextlib.contextmanager
def started(log, *command):
    """Runs a server, and yields it with its address."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield process, process.stdout.readline().strip().split(" on http://")[1]
    finally:
        process.kill()
        process.wait()


def instructions(hookgate, config, requests):
    """Instructions of a gateway from its start to its end."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        file = pathlib.Path(folder, "hookgate.yaml")
        file.write_text(json.dumps(config))  # JSON is YAML
        with started(log, *COUNTED, hookgate, "serve", "--config", file) as (process, address):
            with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
                for _ in range(requests):
                    connection.request("POST", PATH, BODY, HEADERS)
                    response = connection.getresponse()
                    response.read()
                    if response.status != 200:
                        sys.exit(f"status {response.status}")
            process.terminate()
            process.wait(120)
        log.seek(0)
        return int(re.search(r"Collected : (\d+)", log.read()).group(1))


def per_request(hookgate, config):
    counts = [instructions(hookgate, config, requests) for requests in (WARM_UP, REQUESTS)]
    return (counts[1] - counts[0]) / (REQUESTS - WARM_UP)


def main(hookgate):
    with started(subprocess.DEVNULL, hookgate, "mock", "--listen", "127.0.0.1:0") as (_, mock):
        base = {"listen": "127.0.0.1:0", "upstreams": {"gemini": {"url": f"http://{mock}"}}}
        for name, more in [("none", {}), ("policies", POLICIES)]:
            traced, untraced = (per_request(hookgate, base | more | trace) for trace in ({}, NO_TRACE))
            print(f"{name}: {traced:,.0f} with the live trace, {untraced:,.0f} without: "
                  f"{traced / untraced:.3f} (bound {BOUND})")


if __name__ == "__main__":
    main(*sys.argv[1:])
