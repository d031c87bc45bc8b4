"""One model call, or a few: what agents see of a gateway whose hooks say something."""

import concurrent.futures
import json

from stage import Stage, at_least, check, contains, fail, hookgate, prompts, tool_outputs, tool_responses, write_json

CASES = []


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


# --- gemini-cli ---


@case
def gemini_cli_gets_a_plain_answer():
    with Stage() as stage:
        run = stage.gemini("Say hello")  # no model named, so the CLI asks its router first
        check(run.stdout.strip(), "You said: Say hello", run)
        methods = [it["path"].rsplit(":", 1)[1] for it in stage.seen()]
        check(methods, ["generateContent", "streamGenerateContent"], run)


@case
def gemini_cli_runs_a_tool():
    with Stage() as stage:
        run = stage.gemini('Use read_file {"file_path":"alpha.txt"}', "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        contains(run.stdout, "contents of alpha", run)
        requests = stage.seen()
        check(len(requests), 2, run)
        check(tool_outputs(requests[1]), ["contents of alpha\n"], run)


@case
def gemini_cli_runs_tools_in_parallel():
    with Stage() as stage:
        prompt = 'read_file {"file_path":"alpha.txt"} and read_file {"file_path":"beta.txt"}'
        run = stage.gemini(prompt, "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        requests = stage.seen()
        check(len(requests), 2, run)
        check(tool_outputs(requests[1]), ["contents of alpha\n", "contents of beta\n"], run)


@case
def gemini_cli_hands_its_tool_calls_to_the_gateway():
    with Stage(BeforeTool="refuse_alpha.sh") as stage:
        forward = f"{hookgate()} forward --url {stage.gate}"
        settings = {"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": forward}]}]}}
        write_json(stage.project / ".gemini" / "settings.json", settings)
        run = stage.gemini('Use read_file {"file_path":"alpha.txt"}', "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        requests = stage.seen()
        check(len(requests), 2, run)
        contains(json.dumps(requests[1]["body"]), "Tool execution blocked: alpha is nobody's business", run)


@case
def gemini_cli_is_given_another_model():
    with Stage(BeforeModel="swap_model.sh") as stage:
        run = stage.gemini("Say hello", "-m", "gemini-2.5-pro")
        check(run.stdout.strip(), "You said: Say hello", run)
        paths = [it["path"] for it in stage.seen()]
        check(paths, ["/v1beta/models/gemini-2.5-flash-lite:streamGenerateContent"], run)


@case
def gemini_cli_is_left_with_the_tools_of_a_whitelist():
    with Stage(BeforeToolSelection="whitelist.sh") as stage:
        run = stage.gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "You said: Say hello", run)
        (request,) = stage.seen()
        body = request["body"]
        declared = [it["name"] for tool in body["tools"] for it in tool["functionDeclarations"]]
        check(sorted(declared), ["glob", "read_file"], run)
        check(body["toolConfig"], {"functionCallingConfig": {"mode": "AUTO"}}, run)


@case
def gemini_cli_shows_a_synthetic_answer_once():
    with Stage(BeforeModel="answer.sh") as stage:
        run = stage.gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "An answer from the hook.", run)
        check(run.returncode, 0, run)
        check(stage.seen(), [], run)
        check(stage.hook_runs(), 1, run)


@case
def gemini_cli_shows_a_denial_once():
    with Stage(BeforeModel="deny.sh") as stage:
        run = stage.gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "No models today.", run)
        check(run.returncode, 0, run)
        check(stage.seen(), [], run)
        check(stage.hook_runs(), 1, run)


@case
def gemini_cli_shows_a_redacted_stream():
    with Stage(AfterModel="redact.py") as stage:
        run = stage.gemini("My card is 4111 1111", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "You said: My card is #### ####", run)
        at_least(stage.hook_runs(), 3, run)


@case
def gemini_cli_reads_what_a_policy_masks_in_a_stream():
    with Stage(settings={"policies": [{"policy": "redact", "detect": ["email"]}]}) as stage:
        run = stage.gemini("I am jo@example.com and so on", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "You said: I am [REDACTED:email] and so on", run)
        (request,) = stage.seen()
        check("jo@example.com" in json.dumps(request["body"]["contents"][-1]), False, run)
    answers = {"policy": "redact", "detect": ["email"], "on": ["answer"]}
    with Stage(settings={"policies": [answers]}) as stage:
        run = stage.gemini("I am jo@example.com and so on", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "You said: I am [REDACTED:email] and so on", run)
        contains(json.dumps(stage.seen()[0]["body"]), "jo@example.com", run)


@case
def gemini_cli_learns_of_a_call_that_a_policy_refuses():
    rule = {"tool": "read_file", "argument": "/file_path", "not_matches": "alpha"}
    guard = {"policy": "tool_guard", "deny": ["run_shell_command"], "rules": [rule]}
    with Stage(settings={"policies": [guard]}) as stage:
        run = stage.gemini('Use read_file {"file_path":"alpha.txt"}', "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        contains(run.stdout, "Tool execution blocked: The tool `read_file` may not", run)
        request, told = stage.seen()
        contains(json.dumps(tool_responses(told)), "Tool execution blocked: The tool `read_file` may not", run)
        declared = [it["name"] for tool in request["body"]["tools"] for it in tool["functionDeclarations"]]
        check("run_shell_command" in declared, False, run)


@case
def gemini_cli_does_not_retry_a_denial_that_is_an_error():
    with Stage(settings={"denials": "error"}, BeforeModel="deny.sh") as stage:
        run = stage.gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.returncode, 1, run)
        check(run.stdout.strip(), "", run)
        contains(run.stderr, "No models today.", run)
        check(stage.seen(), [], run)
        check(stage.hook_runs(), 1, run)


# --- the SDKs: each case once in JavaScript and once in Python ---


def sdk_case(function):
    for language in ["js", "python"]:
        name = f"{language} sdk {function.__name__.replace('_', ' ')}"
        CASES.append((name, lambda language=language: function(language)))
    return function


@sdk_case
def gets_an_answer_whole_and_streamed(language):
    with Stage() as stage:
        whole = stage.sdk(language, "whole")
        check(whole.result, {"texts": ["You said: turn 1"], "chunks": 1}, whole)
        streamed = stage.sdk(language, "stream")
        check(streamed.result, {"texts": ["You said: turn 1"], "chunks": 3}, streamed)


@sdk_case
def chats_over_three_turns(language):
    with Stage() as stage:
        run = stage.sdk(language, "chat")
        check(run.result["texts"], [f"You said: turn {it}" for it in [1, 2, 3]], run)
        histories = [it["body"]["contents"] for it in stage.seen()]
        check(len(histories), 3, run)
        for before, after in zip(histories, histories[1:]):
            check(after[: len(before)], before, run)
        check(prompts(stage.seen()[2]), ["turn 1", "turn 2", "turn 3"], run)


@sdk_case
def goes_on_after_a_denied_turn(language):
    with Stage(BeforeModel="deny_turn_2.py") as stage:
        run = stage.sdk(language, "chat")
        check(run.result["texts"], ["You said: turn 1", "No second turn.", "You said: turn 3"], run)
        requests = stage.seen()
        check(len(requests), 2, run)
        check(prompts(requests[1]), ["turn 1", "turn 3"], run)


@sdk_case
def is_denied_by_a_message(language):
    with Stage(BeforeModel="deny.sh") as stage:
        for mode in ["whole", "stream"]:
            run = stage.sdk(language, mode)
            check(run.result, {"texts": ["No models today."], "chunks": 1}, run)
        check(stage.seen(), [], run)


@sdk_case
def is_denied_by_an_error(language):
    with Stage(settings={"denials": "error"}, BeforeModel="deny.sh") as stage:
        for mode in ["whole", "stream"]:
            run = stage.sdk(language, mode)
            check(run.result.get("status"), 403, run)
            contains(run.result["message"], "No models today.", run)
        check(stage.seen(), [], run)
        check(stage.hook_runs(), 2, run)


@sdk_case
def is_kept_waiting_by_a_hook_of_20_seconds(language):
    with Stage(BeforeModel="slow.sh") as stage, concurrent.futures.ThreadPoolExecutor() as pool:
        raw = pool.submit(stage.raw_stream)
        run = stage.sdk(language, "stream")
        check(run.result, {"texts": ["You said: turn 1"], "chunks": 3}, run)
        waited, body = raw.result()
        if waited > 15:
            fail(f"the status came after {waited:.0f} s", run)
        check(body[:2], b"\r\n", run)
        check(body.lstrip()[:6], b"data: ", run)
        check(len(stage.seen()), 2, run)
        check(stage.hook_runs(), 2, run)
