"""Conversations: every call of one is of one session, and two are two."""

import concurrent.futures
import json
import uuid

from stage import Stage, at_least, check, contains, prompts

CASES = []

PROMPTS = [f"prompt {it}" for it in range(1, 11)]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


# --- gemini-cli without a window ---


@case
def gemini_cli_is_one_session_over_ten_prompts_each_resumed():
    with Stage(recorded=EVENTS) as stage:
        said = ['Use read_file {"file_path":"alpha.txt"}' if it == "prompt 4" else it for it in PROMPTS]
        for index, prompt in enumerate(said):
            resumed = ["--resume", "latest"] if index else []
            run = stage.asks_gemini(prompt, *resumed)
            contains(run.stdout, "contents of alpha" if "alpha" in prompt else f"You said: {prompt}", run)
        one_session(stage, said, calls=11)
        check([it["tool_name"] for it in stage.events("BeforeTool")], ["read_file"])
        check([it["tool_response"]["llmContent"] for it in stage.events("AfterTool")], ["contents of alpha\n"])


@case
def gemini_cli_asking_its_router_is_one_session_with_one_turn():
    with Stage(recorded=EVENTS) as stage:
        run = stage.gemini("Say hello")
        check(run.stdout.strip(), "You said: Say hello", run)
        check(len(stage.seen()), 2, run)
        check([it["prompt"] for it in stage.events("BeforeAgent")], ["Say hello"], run)
        check(len(stage.events("SessionStart")), 1, run)
        check(len(stage.sessions()), 1, run)


@case
def two_gemini_clis_with_one_first_prompt_are_two_sessions_as_soon_as_they_differ():
    with Stage(recorded=["BeforeModel", "AfterAgent"]) as stage:
        # In turns: one that starts removes the session files of others that have just started.
        agents = [str(uuid.uuid4()) for _ in range(2)]
        for agent in agents:
            stage.asks_gemini("the same", "--session-id", agent)
        for step in ["second", "third", "fourth", "fifth"]:
            for index, agent in enumerate(agents):
                stage.asks_gemini(f"{step} of {index}", "--resume", agent)
        one, other = [
            {it["session_id"] for it in stage.events("BeforeModel") if last_prompt(it).endswith(f" of {agent}")}
            for agent in range(2)
        ]
        check([len(one), len(other), len(one & other)], [1, 1, 0])
        check(len(stage.sessions()), 2)


@case
def a_sub_agent_of_gemini_cli_is_a_session_of_its_own():
    with Stage(recorded=EVENTS) as stage:
        asked = {"agent_name": "codebase_investigator", "prompt": 'read_file {"file_path":"alpha.txt"}'}
        run = stage.asks_gemini(f"Use invoke_agent {json.dumps(asked)}")
        contains(run.stdout, "codebase_investigator", run)
        stage.asks_gemini("And now", "--resume", "latest")
        of_agent = lambda it: "user objective" in it["llm_request"]["messages"][0]["content"]
        calls = stage.events("BeforeModel")
        check(len([it for it in calls if of_agent(it)]), 3)
        sub = {it["session_id"] for it in calls if of_agent(it)}
        main = {it["session_id"] for it in calls if not of_agent(it)}
        check([len(sub), len(main), len(sub | main), len(calls)], [1, 1, 2, 6])
        check(len(stage.sessions()), 2)
        check([it["tool_name"] for it in stage.events("BeforeTool")], ["invoke_agent", "read_file", "complete_task"])


@case
def gemini_cli_names_its_session_by_path_or_header():
    with Stage(recorded=["BeforeModel"]) as stage:
        stage.asks_gemini("the same", GOOGLE_GEMINI_BASE_URL=f"{stage.gate}/s/by-path")
        stage.asks_gemini("the same", GEMINI_CLI_CUSTOM_HEADERS="x-hookgate-session:by-header")
        check([it["session_id"] for it in stage.events()], ["by-path", "by-header"])
        told = {(it["id"], it["source"]) for it in stage.sessions()}
        check(told, {("by-path", "path"), ("by-header", "header")})


@case
def callers_with_the_same_words_never_share_a_session():
    with Stage(recorded=["BeforeModel"]) as stage:
        said = json.dumps(["the same", "also the same"])
        runs = [stage.program("genai.py", "talk", "whole", said, GEMINI_API_KEY=it) for it in ["one-key", "another-key"]]
        one, another = [{*it.result["sessions"]} for it in runs]
        check([len(one), len(another), len(one & another)], [1, 1, 0])


@case
def the_sdk_for_python_speaks_nothing_but_http_2():
    with Stage(recorded=["AfterTool"]) as stage:
        for way in ["streamed", "whole"]:
            run = stage.program("genai.py", "talk", way, json.dumps(['Use lookup {"word":"sun"}']), OVER_HTTP2="1")
            contains(run.result["texts"][0], "sun means sun", run)
            check(run.result["words"], ["sun"], run)
        at_least(len(stage.events("AfterTool")), 1)


@case
def gemini_cli_goes_on_from_the_transcript_that_the_gateway_keeps():
    with Stage(recorded=["BeforeModel"], settings={"sessions": {"transcripts": "transcripts"}}) as stage:
        stage.asks_gemini('Use read_file {"file_path":"alpha.txt"}')
        stage.asks_gemini("prompt 2", "--resume", "latest")
        (transcript,) = {it["transcript_path"] for it in stage.events()}
        check(transcript != "", True)
        run = stage.asks_gemini("prompt 3", "--session-file", transcript)
        check(run.stdout.strip(), "You said: prompt 3", run)
        said = prompts(stage.seen()[-1])
        check([it for it in said if it in PROMPTS], ["prompt 2", "prompt 3"], run)
        contains(json.dumps(stage.seen()[-1]["body"]["contents"]), '"output": "contents of alpha\\n"', run)


# --- SDKs and frameworks: each with a tool loop, streamed and not ---


def talking_case(program, *mode):
    def runs(way):
        with Stage(recorded=EVENTS) as stage:
            said = ['Use lookup {"word":"sun"}' if it == "prompt 4" else it for it in PROMPTS]
            run = stage.program(program, *mode, way, json.dumps(said))
            texts = ["sun means sun" if "lookup" in it else f"You said: {it}" for it in said]
            check(len(run.result["texts"]), 10, run)
            for seen, wanted in zip(run.result["texts"], texts):
                contains(seen, wanted, run)
            check(run.result["words"], ["sun"], run)
            session = one_session(stage, said, calls=11)
            check({*run.result.get("sessions", [session])}, {session}, run)
            check([it["tool_input"] for it in stage.events("BeforeTool")], [{"word": "sun"}], run)
            check(len(stage.events("AfterTool")), 1, run)

    for way in ["streamed", "whole"]:
        name = f"{program.split('.')[0].split('_')[0]} {program.split('.')[1]} is one session over ten turns, {way}"
        CASES.append((name, lambda way=way: runs(way)))


talking_case("genai.mjs", "talk")
talking_case("genai.py", "talk")
talking_case("langchain_talk.py")
talking_case("litellm_talk.py")
talking_case("adk_talk.py")


@case
def two_chats_with_one_beginning_are_two_sessions_as_soon_as_they_differ():
    # Slow answers, so that both are at it at once.
    slowly = ["--interval", "200"]
    recorded = ["BeforeModel", "AfterAgent"]
    with Stage(recorded, slowly) as stage, concurrent.futures.ThreadPoolExecutor() as pool:
        said = [["the same", "also the same", *[f"{step} of {it}" for step in range(4)]] for it in ["one", "two"]]
        runs = list(pool.map(lambda it: stage.program("genai.py", "talk", "streamed", json.dumps(it)), said))
        one, other = [{*it.result["sessions"][2:]} for it in runs]
        check([len(one), len(other), len(one & other)], [1, 1, 0])


def one_session(stage, said, calls):
    """Checks that all model calls were of one session, with these prompts as its turns; gives its id."""
    asked = stage.events("BeforeModel")
    check(len(asked), calls)
    ids = {it["session_id"] for it in stage.events()}
    check(len(ids), 1)
    (session,) = ids
    check([it["prompt"] for it in stage.events("BeforeAgent")], said)
    check(len(stage.events("SessionStart")), 1)
    check(len(stage.events("AfterAgent")), len(said))
    told = [(it["id"], it["turns"], it["requests"]) for it in stage.sessions()]
    check(told, [(session, len(said), calls)])
    return session


def last_prompt(event):
    return [it["content"] for it in event["llm_request"]["messages"] if it["role"] == "user"][-1]
