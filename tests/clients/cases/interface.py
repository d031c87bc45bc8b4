"""The interface as `openapi/hookgate.yaml` describes it, tried out by schemathesis: requests made from the document, right
and wrong ones, and every answer held against it."""

import subprocess

from install import REPO, SCRATCH, python
from stage import Stage, fail

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
