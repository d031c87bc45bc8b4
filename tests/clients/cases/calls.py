"""Single model calls of gemini-cli and the Google Gen AI SDKs, with hooks and policies that change or deny them.

`logins.py` has further ones of gemini-cli, with each of its logins, and `conversations.py` a plain one.
"""

import concurrent.futures
import json

from harness import Harness, check, contains, fail, hookgate, prompts, tool_outputs, tool_responses, write_json

CASES = []


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


# --- gemini-cli ---


@case
def gemini_cli_runs_tools_in_parallel():
    with Harness() as harness:
        prompt = 'read_file {"file_path":"alpha.txt"} and read_file {"file_path":"beta.txt"}'
        run = harness.run_gemini(prompt, "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        requests = harness.mock_requests()
        check(len(requests), 2, run)
        check(tool_outputs(requests[1]), ["contents of alpha\n", "contents of beta\n"], run)


@case
def a_tool_call_that_gemini_cli_forwards_to_the_gateway_is_denied():
    with Harness(BeforeTool="refuse_alpha.sh") as harness:
        forward = f"{hookgate()} forward --url {harness.gateway}"
        settings = {"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": forward}]}]}}
        write_json(harness.project / ".gemini" / "settings.json", settings)
        run = harness.run_gemini('Use read_file {"file_path":"alpha.txt"}', "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        requests = harness.mock_requests()
        check(len(requests), 2, run)
        contains(json.dumps(requests[1]["body"]), "Tool execution blocked: alpha is private", run)


@case
def gemini_cli_shows_a_synthetic_answer_once():
    with Harness(BeforeModel="answer.sh") as harness:
        run = harness.run_gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "An answer from the hook.", run)
        check(run.returncode, 0, run)
        check(harness.mock_requests(), [], run)
        check(harness.hook_runs(), 1, run)


@case
def a_policy_masks_streams_and_not_requests_of_gemini_cli():
    answers = {"policy": "redact", "detect": ["email"], "on": ["answer"]}
    with Harness(settings={"policies": [answers]}) as harness:
        run = harness.run_gemini("I am jo@example.com and so on", "-m", "gemini-2.5-flash")
        check(run.stdout.strip(), "You said: I am [REDACTED:email] and so on", run)
        contains(json.dumps(harness.mock_requests()[0]["body"]), "jo@example.com", run)


@case
def gemini_cli_receives_the_reason_of_a_tool_call_that_a_policy_denies():
    rule = {"tool": "read_file", "argument": "/file_path", "not_matches": "alpha"}
    guard = {"policy": "tool_guard", "deny": ["run_shell_command"], "rules": [rule]}
    with Harness(settings={"policies": [guard]}) as harness:
        run = harness.run_gemini('Use read_file {"file_path":"alpha.txt"}', "-m", "gemini-2.5-flash")
        check(run.returncode, 0, run)
        contains(run.stdout, "Tool execution blocked: The tool `read_file` may not", run)
        request, second = harness.mock_requests()
        contains(json.dumps(tool_responses(second)), "Tool execution blocked: The tool `read_file` may not", run)
        declared = [it["name"] for tool in request["body"]["tools"] for it in tool["functionDeclarations"]]
        check("run_shell_command" in declared, False, run)


@case
def gemini_cli_does_not_retry_a_denial_that_is_an_error():
    with Harness(settings={"denials": "error"}, BeforeModel="deny.sh") as harness:
        run = harness.run_gemini("Say hello", "-m", "gemini-2.5-flash")
        check(run.returncode, 1, run)
        check(run.stdout.strip(), "", run)
        contains(run.stderr, "No models today.", run)
        check(harness.mock_requests(), [], run)
        check(harness.hook_runs(), 1, run)


# --- the Google Gen AI SDKs: each case in JavaScript and in Python ---


def sdk_case(function):
    for language in ["js", "python"]:
        name = f"{language} sdk {function.__name__.replace('_', ' ')}"
        CASES.append((name, lambda language=language: function(language)))
    return function


@sdk_case
def gets_unary_and_streamed_answers(language):
    with Harness() as harness:
        whole = harness.run_sdk(language, "whole")
        check(whole.result, {"texts": ["You said: turn 1"], "chunks": 1}, whole)
        streamed = harness.run_sdk(language, "stream")
        check(streamed.result, {"texts": ["You said: turn 1"], "chunks": 3}, streamed)


@sdk_case
def chats_over_three_turns(language):
    with Harness() as harness:
        run = harness.run_sdk(language, "chat")
        check(run.result["texts"], [f"You said: turn {it}" for it in [1, 2, 3]], run)
        histories = [it["body"]["contents"] for it in harness.mock_requests()]
        check(len(histories), 3, run)
        for before, after in zip(histories, histories[1:]):
            check(after[: len(before)], before, run)
        check(prompts(harness.mock_requests()[2]), ["turn 1", "turn 2", "turn 3"], run)


@sdk_case
def continues_after_a_denied_turn(language):
    with Harness(BeforeModel="deny_turn_2.py") as harness:
        run = harness.run_sdk(language, "chat")
        check(run.result["texts"], ["You said: turn 1", "No second turn.", "You said: turn 3"], run)
        requests = harness.mock_requests()
        check(len(requests), 2, run)
        check(prompts(requests[1]), ["turn 1", "turn 3"], run)


@sdk_case
def receives_a_denial_as_a_message(language):
    with Harness(BeforeModel="deny.sh") as harness:
        for mode in ["whole", "stream"]:
            run = harness.run_sdk(language, mode)
            check(run.result, {"texts": ["No models today."], "chunks": 1}, run)
        check(harness.mock_requests(), [], run)


@sdk_case
def receives_a_denial_as_an_error(language):
    with Harness(settings={"denials": "error"}, BeforeModel="deny.sh") as harness:
        for mode in ["whole", "stream"]:
            run = harness.run_sdk(language, mode)
            check(run.result.get("status"), 403, run)
            contains(run.result["message"], "No models today.", run)
        check(harness.mock_requests(), [], run)
        check(harness.hook_runs(), 2, run)


@sdk_case
def does_not_time_out_during_a_hook_of_20_seconds(language):
    with Harness(BeforeModel="slow.sh") as harness, concurrent.futures.ThreadPoolExecutor() as pool:
        raw = pool.submit(harness.raw_stream)
        run = harness.run_sdk(language, "stream")
        check(run.result, {"texts": ["You said: turn 1"], "chunks": 3}, run)
        waited, body = raw.result()
        if waited > 15:
            fail(f"the status line was received after {waited:.0f} s", run)
        check(body[:2], b"\r\n", run)
        check(body.lstrip()[:6], b"data: ", run)
        check(len(harness.mock_requests()), 2, run)
        check(harness.hook_runs(), 2, run)
