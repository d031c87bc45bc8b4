"""gemini-cli with each of its three logins: the same denial, whitelist and redaction."""

import json

from harness import Harness, at_least, check, contains, without_envelope, lacks, tool_outputs
from terminal import GeminiWindow

CASES = []

EMAIL = {"policy": "redact", "detect": ["email"]}
# Path of a model call for each login.
PATHS = {
    "api-key": "/v1beta/models/{}:streamGenerateContent",
    "vertex": "/v1beta1/publishers/google/models/{}:streamGenerateContent",
    "code-assist": "/v1internal:streamGenerateContent",
}


def each_login(function):
    """Registers a case for each login."""
    for login in PATHS:
        name = f"{function.__name__.replace('_', ' ')} ({login})"
        CASES.append((name, lambda login=login: function(login)))
    return function


def model_calls(harness):
    """Model calls that the mock received, without the calls that Code Assist makes at its start."""
    return [it for it in harness.mock_requests() if "enerateContent" in it["path"]]


@each_login
def gemini_cli_uses_a_replaced_model_whitelisted_tools_and_a_redacted_stream(login):
    hooks = {"BeforeModel": "swap_model.sh", "BeforeToolSelection": "whitelist.sh", "AfterModel": "redact.py"}
    with Harness(settings={"policies": [EMAIL]}, mock=["--chunks", "9"], login=login, **hooks) as harness:
        run = harness.prompt_gemini("My card is 4111 1111, I am jo@example.com and so on")
        check(run.stdout.strip(), "You said: My card is #### ####, I am [REDACTED:email] and so on", run)
        (request,) = model_calls(harness)
        contains(request["path"] + request["body"].get("model", ""), "gemini-2.5-flash-lite", run)
        body = without_envelope(request)
        declared = [it["name"] for tool in body["tools"] for it in tool["functionDeclarations"]]
        check(sorted(declared), ["glob", "read_file"], run)
        check(body["toolConfig"], {"functionCallingConfig": {"mode": "AUTO"}}, run)
        lacks(json.dumps(body["contents"]), "jo@example.com", run)
        contains(json.dumps(body["contents"]), "4111 1111", run)
        at_least(harness.hook_runs(), 3, run)


@each_login
def gemini_cli_shows_a_denial_once(login):
    with Harness(BeforeModel="deny.sh", login=login) as harness:
        run = harness.prompt_gemini("Say hello")
        check(run.stdout.strip(), "No models today.", run)
        check(model_calls(harness), [], run)
        check(harness.hook_runs(), 1, run)


@each_login
def gemini_cli_gets_an_answer_after_a_tool_call_in_one_session_with_its_events(login):
    recorded = ["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent"]
    with Harness(recorded=recorded, login=login) as harness:
        run = harness.prompt_gemini('Use read_file {"file_path":"alpha.txt"}')
        contains(run.stdout, "contents of alpha", run)
        calls = model_calls(harness)
        check([it["path"] for it in calls], [PATHS[login].format("gemini-2.5-flash")] * 2, run)
        check(tool_outputs(calls[1]), ["contents of alpha\n"], run)
        check([it["hook_event_name"] for it in harness.events()], recorded, run)
        (session,) = harness.sessions()
        check(session["source"], "code_assist" if login == "code-assist" else "history", run)
        if login == "code-assist":
            check({it["body"]["request"]["session_id"] for it in calls}, {session["id"]}, run)


@each_login
def gemini_cli_shows_denials_and_redaction_in_its_window(login):
    with Harness(BeforeAgent="no_aurora.sh", settings={"policies": [EMAIL]}, login=login) as harness:
        with GeminiWindow(harness) as window:
            window.send_and_wait("I am jo@example.com", "You said: I am [REDACTED:email]")
            window.send_and_wait("Tell me of project aurora", "Project Aurora is not for models.")
            window.send_and_wait("prompt 3", "You said: prompt 3")
        requests = json.dumps(model_calls(harness))
        lacks(requests, "project aurora")
        contains(requests, "prompt 3")


@each_login
def gemini_cli_refuses_another_login_than_the_enforced_one(login):
    other = {"api-key": "vertex", "vertex": "code-assist", "code-assist": "api-key"}[login]
    with Harness(login=login) as harness:
        settings = json.loads((harness.home / ".gemini" / "settings.json").read_text())
        settings["security"]["auth"].pop("selectedType")
        (harness.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        harness.login = other
        run = harness.run_gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.returncode == 0, False, run)
        contains(run.stdout + run.stderr, "enforced", run)
        check(harness.mock_requests(), [], run)
