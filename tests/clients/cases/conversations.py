"""Sessions: all calls of a conversation have one session, and two conversations have two."""

import concurrent.futures
import json
import uuid

from harness import Harness, at_least, check, contains, lacks, prompts

CASES = []

PROMPTS = [f"prompt {it}" for it in range(1, 11)]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


# --- gemini-cli, non-interactive ---


@case
def gemini_cli_keeps_one_session_and_a_result_hidden_over_ten_resumed_prompts():
    tools = {"prompt 2": "secret", "prompt 4": "alpha"}
    hidden = "this result is not for models"
    expected = {"prompt 2": hidden, "prompt 4": "contents of alpha"}
    with Harness(recorded=EVENTS, AfterTool="hide_secret.sh") as harness:
        (harness.project / "secret.txt").write_text("the-secret-word\n")
        sent = [f'Use read_file {{"file_path":"{tools[it]}.txt"}}' if it in tools else it for it in PROMPTS]
        for name, prompt in zip(PROMPTS, sent):
            run = harness.prompt_gemini(prompt, *(["--resume", "latest"] if name != PROMPTS[0] else []))
            contains(run.stdout, expected.get(name, f"You said: {prompt}"), run)
        check_one_session(harness, sent, calls=12)
        check([it["tool_name"] for it in harness.events("BeforeTool")], ["read_file"] * 2)
        results = [it["tool_response"]["llmContent"] for it in harness.events("AfterTool")]
        check(results, ["the-secret-word\n", "contents of alpha\n"])
        harness.restart()  # the next call reaches a gateway without sessions
        for prompt in ["prompt 11", "prompt 12"]:
            run = harness.prompt_gemini(prompt, "--resume", "latest")
            check(run.stdout.strip(), f"You said: {prompt}", run)
        requests = harness.mock_requests()
        check(len(requests), 14, run)
        lacks(json.dumps(requests), "the-secret-word", run)
        for request in requests[2:]:
            contains(json.dumps(request["body"]), hidden, run)


@case
def gemini_cli_with_a_router_call_has_one_session_and_one_turn():
    with Harness(recorded=EVENTS) as harness:
        run = harness.run_gemini("Say hello")  # without a model, the CLI calls its router first
        check(run.stdout.strip(), "You said: Say hello", run)
        methods = [it["path"].rsplit(":", 1)[1] for it in harness.mock_requests()]
        check(methods, ["generateContent", "streamGenerateContent"], run)
        check([it["prompt"] for it in harness.events("BeforeAgent")], ["Say hello"], run)
        check(len(harness.events("SessionStart")), 1, run)
        check(len(harness.sessions()), 1, run)


@case
def gemini_clis_with_equal_first_prompts_get_two_sessions_once_they_differ():
    with Harness(recorded=["BeforeModel", "AfterAgent"]) as harness:
        # Sequentially, because at its start gemini-cli removes session files of others that have just started.
        agents = [str(uuid.uuid4()) for _ in range(2)]
        for agent in agents:
            harness.prompt_gemini("the same", "--session-id", agent)
        for step in ["second", "third"]:
            for index, agent in enumerate(agents):
                harness.prompt_gemini(f"{step} of {index}", "--resume", agent)
        one, other = [
            {it["session_id"] for it in harness.events("BeforeModel") if last_prompt(it).endswith(f" of {agent}")}
            for agent in range(2)
        ]
        check([len(one), len(other), len(one & other)], [1, 1, 0])
        check(len(harness.sessions()), 2)


@case
def a_sub_agent_of_gemini_cli_has_a_separate_session():
    with Harness(recorded=EVENTS) as harness:
        arguments = {"agent_name": "codebase_investigator", "prompt": 'read_file {"file_path":"alpha.txt"}'}
        run = harness.prompt_gemini(f"Use invoke_agent {json.dumps(arguments)}")
        contains(run.stdout, "codebase_investigator", run)
        harness.prompt_gemini("And now", "--resume", "latest")
        of_sub_agent = lambda it: "user objective" in it["llm_request"]["messages"][0]["content"]
        calls = harness.events("BeforeModel")
        check(len([it for it in calls if of_sub_agent(it)]), 3)
        sub = {it["session_id"] for it in calls if of_sub_agent(it)}
        main = {it["session_id"] for it in calls if not of_sub_agent(it)}
        check([len(sub), len(main), len(sub | main), len(calls)], [1, 1, 2, 6])
        check(len(harness.sessions()), 2)
        check([it["tool_name"] for it in harness.events("BeforeTool")], ["invoke_agent", "read_file", "complete_task"])


@case
def gemini_cli_names_its_session_by_path_or_header():
    with Harness(recorded=["BeforeModel"]) as harness:
        harness.prompt_gemini("the same", GOOGLE_GEMINI_BASE_URL=f"{harness.gateway}/s/by-path")
        harness.prompt_gemini("the same", GEMINI_CLI_CUSTOM_HEADERS="x-hookgate-session:by-header")
        check([it["session_id"] for it in harness.events()], ["by-path", "by-header"])
        sessions = {(it["id"], it["source"]) for it in harness.sessions()}
        check(sessions, {("by-path", "path"), ("by-header", "header")})


@case
def callers_with_equal_prompts_have_separate_sessions():
    with Harness(recorded=["BeforeModel"]) as harness:
        sent = json.dumps(["the same", "also the same"])
        runs = [harness.run_program("genai.py", "conversation", "whole", sent, GEMINI_API_KEY=it)
                for it in ["one-key", "another-key"]]
        one, another = [{*it.result["sessions"]} for it in runs]
        check([len(one), len(another), len(one & another)], [1, 1, 0])


@case
def the_python_sdk_works_over_http_2_only():
    with Harness(recorded=["AfterTool"]) as harness:
        sent = json.dumps(['Use lookup {"word":"sun"}'])
        for mode in ["streamed", "whole"]:
            run = harness.run_program("genai.py", "conversation", mode, sent, OVER_HTTP2="1")
            contains(run.result["texts"][0], "sun means sun", run)
            check(run.result["words"], ["sun"], run)
        at_least(len(harness.events("AfterTool")), 1)


@case
def gemini_cli_resumes_from_the_transcript_of_the_gateway():
    with Harness(recorded=["BeforeModel"], settings={"sessions": {"transcripts": "transcripts"}}) as harness:
        harness.prompt_gemini('Use read_file {"file_path":"alpha.txt"}')
        harness.prompt_gemini("prompt 2", "--resume", "latest")
        (transcript,) = {it["transcript_path"] for it in harness.events()}
        check(transcript != "", True)
        run = harness.prompt_gemini("prompt 3", "--session-file", transcript)
        check(run.stdout.strip(), "You said: prompt 3", run)
        received = prompts(harness.mock_requests()[-1])
        check([it for it in received if it in PROMPTS], ["prompt 2", "prompt 3"], run)
        contains(json.dumps(harness.mock_requests()[-1]["body"]["contents"]), '"output": "contents of alpha\\n"', run)


# --- SDKs and frameworks: each with a tool loop, streamed and unary ---


def conversation_case(program, *arguments):
    def run_conversation(mode):
        with Harness(recorded=EVENTS) as harness:
            sent = ['Use lookup {"word":"sun"}' if it == "prompt 4" else it for it in PROMPTS]
            run = harness.run_program(program, *arguments, mode, json.dumps(sent))
            texts = ["sun means sun" if "lookup" in it else f"You said: {it}" for it in sent]
            check(len(run.result["texts"]), 10, run)
            for text, expected in zip(run.result["texts"], texts):
                contains(text, expected, run)
            check(run.result["words"], ["sun"], run)
            session = check_one_session(harness, sent, calls=11)
            check({*run.result.get("sessions", [session])}, {session}, run)
            check([it["tool_input"] for it in harness.events("BeforeTool")], [{"word": "sun"}], run)
            check(len(harness.events("AfterTool")), 1, run)

    for mode in ["streamed", "whole"]:
        name = f"{program.split('.')[0].split('_')[0]} {program.split('.')[1]} keeps one session over ten turns, {mode}"
        CASES.append((name, lambda mode=mode: run_conversation(mode)))


conversation_case("genai.mjs", "conversation")
conversation_case("genai.py", "conversation")
conversation_case("langchain_conversation.py")
conversation_case("litellm_conversation.py")
conversation_case("adk_conversation.py")


@case
def chats_with_an_equal_beginning_get_two_sessions_once_they_differ():
    # Slow answers, so that both chats are open at the same time.
    slow = ["--interval", "200"]
    recorded = ["BeforeModel", "AfterAgent"]
    with Harness(recorded, slow) as harness, concurrent.futures.ThreadPoolExecutor() as pool:
        sent = [["the same", "also the same", *[f"{step} of {it}" for step in range(4)]] for it in ["one", "two"]]
        run = lambda it: harness.run_program("genai.py", "conversation", "streamed", json.dumps(it))
        runs = list(pool.map(run, sent))
        one, other = [{*it.result["sessions"][2:]} for it in runs]
        check([len(one), len(other), len(one & other)], [1, 1, 0])


def check_one_session(harness, sent, calls):
    """Checks that all model calls have one session, with a turn for each sent prompt. Returns its id."""
    check(len(harness.events("BeforeModel")), calls)
    ids = {it["session_id"] for it in harness.events()}
    check(len(ids), 1)
    (session,) = ids
    check([it["prompt"] for it in harness.events("BeforeAgent")], sent)
    check(len(harness.events("SessionStart")), 1)
    check(len(harness.events("AfterAgent")), len(sent))
    sessions = [(it["id"], it["turns"], it["requests"]) for it in harness.sessions()]
    check(sessions, [(session, len(sent), calls)])
    return session


def last_prompt(event):
    return [it["content"] for it in event["llm_request"]["messages"] if it["role"] == "user"][-1]
