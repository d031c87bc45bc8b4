"""gemini-cli by each of its three ways to log in: the same denial, whitelist and redaction."""

import json

from stage import Stage, at_least, check, contains, inner, lacks, tool_outputs
from terminal import Terminal

CASES = []

# What a way calls, by the model.
PATHS = {
    "api-key": "/v1beta/models/{}:streamGenerateContent",
    "vertex": "/v1beta1/publishers/google/models/{}:streamGenerateContent",
    "code-assist": "/v1internal:streamGenerateContent",
}


def each_way(function):
    """One case for each way."""
    for way in PATHS:
        name = f"{function.__name__.replace('_', ' ')} ({way})"
        CASES.append((name, lambda way=way: function(way)))
    return function


def model_calls(stage):
    """What the mock saw beside what Code Assist is asked at its start."""
    return [it for it in stage.seen() if "enerateContent" in it["path"]]


@each_way
def gemini_cli_is_answered(way):
    with Stage(way=way) as stage:
        run = stage.asks_gemini('Use read_file {"file_path":"alpha.txt"}')
        contains(run.stdout, "contents of alpha", run)
        calls = model_calls(stage)
        check([it["path"] for it in calls], [PATHS[way].format("gemini-2.5-flash")] * 2, run)
        check(tool_outputs(calls[1]), ["contents of alpha\n"], run)


@each_way
def gemini_cli_shows_a_denial_once(way):
    with Stage(BeforeModel="deny.sh", way=way) as stage:
        run = stage.asks_gemini("Say hello")
        check(run.stdout.strip(), "No models today.", run)
        check(model_calls(stage), [], run)
        check(stage.hook_runs(), 1, run)


@each_way
def gemini_cli_is_left_with_the_tools_of_a_whitelist(way):
    with Stage(BeforeToolSelection="whitelist.sh", way=way) as stage:
        run = stage.asks_gemini("Say hello")
        check(run.stdout.strip(), "You said: Say hello", run)
        (request,) = model_calls(stage)
        declared = [it["name"] for tool in inner(request)["tools"] for it in tool["functionDeclarations"]]
        check(sorted(declared), ["glob", "read_file"], run)


@each_way
def gemini_cli_shows_a_redacted_stream(way):
    with Stage(AfterModel="redact.py", way=way) as stage:
        run = stage.asks_gemini("My card is 4111 1111")
        check(run.stdout.strip(), "You said: My card is #### ####", run)
        at_least(stage.hook_runs(), 3, run)


@each_way
def gemini_cli_reads_what_a_policy_masks(way):
    with Stage(settings={"policies": [{"policy": "redact", "detect": ["email"]}]}, way=way) as stage:
        run = stage.asks_gemini("I am jo@example.com and so on")
        check(run.stdout.strip(), "You said: I am [REDACTED:email] and so on", run)
        (request,) = model_calls(stage)
        lacks(json.dumps(inner(request)["contents"]), "jo@example.com", run)


@each_way
def gemini_cli_is_given_another_model(way):
    with Stage(BeforeModel="swap_model.sh", way=way) as stage:
        run = stage.asks_gemini("Say hello")
        check(run.stdout.strip(), "You said: Say hello", run)
        (request,) = model_calls(stage)
        contains(request["path"] + request["body"].get("model", ""), "gemini-2.5-flash-lite", run)


@each_way
def gemini_cli_is_one_session_with_its_events(way):
    recorded = ["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent"]
    with Stage(recorded=recorded, way=way) as stage:
        run = stage.asks_gemini('Use read_file {"file_path":"alpha.txt"}')
        check([it["hook_event_name"] for it in stage.events()], recorded, run)
        (session,) = stage.sessions()
        check(session["source"], "code_assist" if way == "code-assist" else "history", run)
        if way == "code-assist":
            check({it["body"]["request"]["session_id"] for it in model_calls(stage)}, {session["id"]}, run)


@each_way
def gemini_cli_in_its_window_obeys(way):
    policies = [{"policy": "redact", "detect": ["email"]}]
    with Stage(BeforeAgent="no_aurora.sh", settings={"policies": policies}, way=way) as stage:
        with Terminal(stage) as window:
            window.asks("I am jo@example.com", "You said: I am [REDACTED:email]")
            window.asks("Tell me of project aurora", "Project Aurora is not for models.")
            window.asks("prompt 3", "You said: prompt 3")
        requests = json.dumps(model_calls(stage))
        lacks(requests, "project aurora")
        contains(requests, "prompt 3")


@each_way
def gemini_cli_is_pinned_to_its_way(way):
    other = {"api-key": "vertex", "vertex": "code-assist", "code-assist": "api-key"}[way]
    with Stage(way=way) as stage:
        settings = json.loads((stage.home / ".gemini" / "settings.json").read_text())
        settings["security"]["auth"].pop("selectedType")
        (stage.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        stage.way = other
        run = stage.gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.returncode == 0, False, run)
        contains(run.stdout + run.stderr, "enforced", run)
        check(stage.seen(), [], run)
