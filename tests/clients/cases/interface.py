"""The HTTP API against `openapi/hookgate.yaml`: schemathesis generates valid and invalid requests from the document and
validates every response. HTTP/2 under load, by h2load."""

import subprocess

from install import REPO, SCRATCH, python
from harness import Harness, check, contains, fail, write_json

CASES = []


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


SEED = "20261122"  # the same requests in each run, so that a failure is reproducible
EXAMPLES = 10  # per operation and phase

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
]

GUARDS = {
    "policies": [
        {"policy": "tool_guard", "deny": ["rm"]},
        {"policy": "redact"},
        {"policy": "prompt_guard", "deny": ["(?i)project aurora"]},
    ]
}


@case
def agent_endpoints_conform_to_the_openapi_document():
    """Without hooks, requests pass unread, and the model API answers invalid ones."""
    with Harness() as harness:
        check_conformance(harness, harness.gateway, "events", "models")


@case
def agent_endpoints_with_hooks_conform_to_the_openapi_document():
    with Harness(settings=GUARDS, BeforeTool="no_writes.sh") as harness:
        check_conformance(harness, harness.gateway, "events", "models")


@case
def admin_endpoints_conform_to_the_openapi_document():
    with Harness(settings=GUARDS) as harness:
        check_conformance(harness, harness.admin, "admin")


@case
def unauthenticated_admin_requests_conform_to_the_openapi_document():
    (token := SCRATCH / "admin.token").write_text("a-token")
    admin = {"listen": "127.0.0.1:0", "token": {"file": str(token)}}
    with Harness(settings={"admin": admin}) as harness:
        # All of them have the same answer.
        check_conformance(harness, harness.admin, "admin", examples=2, phases="examples,fuzzing")


CONNECTIONS, STREAMS, REQUESTS = 10, 10, 300


@case
def every_request_of_h2load_over_http_2_succeeds_and_runs_its_hook():
    """Each answer is streamed and inspected by policies."""
    with Harness(settings=GUARDS, recorded=["BeforeModel"]) as harness:
        body = harness.home / "request.json"
        write_json(body, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
        load = ["--clients", str(CONNECTIONS), "--max-concurrent-streams", str(STREAMS), "--requests", str(REQUESTS)]
        headers = ["--header", "content-type: application/json", "--header", "x-goog-api-key: a-key"]
        run = harness.run("h2load", *load, "--data", str(body), *headers,
                          f"{harness.gateway}/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
        contains(run.stdout, "Application protocol: h2c", run)
        counts = f"{REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, 0 failed"
        contains(run.stdout, f"requests: {counts}", run)
        contains(run.stdout, f"status codes: {REQUESTS} 2xx", run)
        check(len(harness.mock_requests()), REQUESTS, run)
        check(len(harness.events("BeforeModel")), REQUESTS, run)


def check_conformance(harness, url, *tags, examples=EXAMPLES, phases="examples,coverage,fuzzing,stateful"):
    """Runs schemathesis on the operations with these tags."""
    document = harness.home / "hookgate.yaml.openapi.yaml"
    document.write_text(without_default_responses((REPO / "openapi" / "hookgate.yaml").read_text()))
    # An empty file, because otherwise schemathesis searches the parent folders for one.
    settings = harness.home / "schemathesis.toml"
    settings.write_text("")
    run = subprocess.run(
        [python("interface").parent / "schemathesis", "--config-file", settings, "run", document, "--url", url,
         "--exclude-path", "/calls/stream",  # an endless response
         "--checks", ",".join(CHECKS), "--max-examples", str(examples), "--seed", SEED,
         "--phases", phases,
         "--no-color", "--warnings", "off",
         *(it for tag in tags for it in ("--include-tag", tag))],
        cwd=harness.home, env=harness.environment(), capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        fail(run.stdout[-12000:], run)


def without_default_responses(document):
    """The document without `default`, the errors of the model API: the mock has none that hookgate does not have."""
    kept, depth = [], None
    for line in document.splitlines():
        indent = len(line) - len(line.lstrip())
        if depth is not None and indent <= depth:
            depth = None
        if line.strip() == "default:":
            depth = indent
        if depth is None:
            kept.append(line)
    return "\n".join(kept)
