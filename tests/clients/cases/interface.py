"""The interface as `openapi/hookgate.yaml` describes it, tried out by schemathesis: requests made from the document, right
and wrong ones, and every answer held against it. And HTTP/2, tried out by h2load."""

import subprocess

from install import REPO, SCRATCH, python
from stage import Stage, check, contains, fail, write_json

CASES = []


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


SEED = "20261122"  # the same requests each time: a failure can be looked at
EXAMPLES = "40"  # per operation and phase

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
def agents_find_what_the_document_says():
    """Passed on unread: whatever the model API says of nonsense is its own."""
    with Stage() as stage:
        holds(stage, stage.gate, "events", "models")


@case
def agents_find_what_the_document_says_where_hooks_look():
    with Stage(settings=GUARDS, BeforeTool="no_writes.sh") as stage:
        holds(stage, stage.gate, "events", "models")


@case
def operators_find_what_the_document_says():
    with Stage(settings=GUARDS) as stage:
        holds(stage, stage.admin, "admin")


@case
def operators_without_the_token_find_what_the_document_says():
    (token := SCRATCH / "admin.token").write_text("a-token")
    admin = {"listen": "127.0.0.1:0", "token": {"file": str(token)}}
    with Stage(settings={"admin": admin}) as stage:
        holds(stage, stage.admin, "admin")


CONNECTIONS, STREAMS, REQUESTS = 10, 10, 1000


@case
def h2load_loads_it_over_http_2():
    """Each answer is streamed and inspected; none is lost, and each request runs its hook."""
    with Stage(settings=GUARDS, recorded=["BeforeModel"]) as stage:
        body = stage.home / "request.json"
        write_json(body, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
        run = stage.run("h2load", "--clients", str(CONNECTIONS), "--max-concurrent-streams", str(STREAMS), "--requests", str(REQUESTS),
                        "--data", str(body), "--header", "content-type: application/json", "--header", "x-goog-api-key: a-key",
                        f"{stage.gate}/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
        contains(run.stdout, "Application protocol: h2c", run)
        contains(run.stdout, f"requests: {REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, 0 failed", run)
        contains(run.stdout, f"status codes: {REQUESTS} 2xx", run)
        check(len(stage.seen()), REQUESTS, run)
        check(len(stage.events("BeforeModel")), REQUESTS, run)


def holds(stage, url, *tags):
    document = stage.home / "hookgate.yaml.openapi.yaml"
    document.write_text(without_upstreams_errors((REPO / "openapi" / "hookgate.yaml").read_text()))
    # A file of its own, else it looks for one in the folders above.
    settings = stage.home / "schemathesis.toml"
    settings.write_text("")
    run = subprocess.run(
        [python("interface").parent / "schemathesis", "--config-file", settings, "run", document, "--url", url,
         "--exclude-path", "/calls/stream",  # it ends with the connection
         "--checks", ",".join(CHECKS), "--max-examples", EXAMPLES, "--seed", SEED, "--no-color", "--warnings", "off",
         *(it for tag in tags for it in ("--include-tag", tag))],
        cwd=stage.home, env=stage.environment(), capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        fail(run.stdout[-12000:], run)


def without_upstreams_errors(document):
    """The document without `default`, which is whatever the model API says: the mock says nothing that hookgate does not."""
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
