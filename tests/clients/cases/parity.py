"""Parity of hooks in gemini-cli itself and in the gateway: the model receives the same contents."""

import json

from harness import Harness, check, write_json

CASES = []

WRITE = 'Use write_file {"file_path":"out.txt","content":"hello"}'
WRITE_SECRET = 'Use write_file {"file_path":"out.txt","content":"the-secret-word"}'
READ = 'Use read_file {"file_path":"alpha.txt"}'


def parity_case(event, script, prompt, calls):
    def compare_contents():
        with Harness() as harness:
            hooks = {"hooks": {event: [{"hooks": [harness.hook(script)]}]}}
            write_json(harness.project / ".gemini" / "settings.json", hooks)
            run = harness.prompt_gemini(prompt)
            native = [contents(it) for it in harness.mock_requests()]
            check(len(native), calls, run)
        with Harness(**{event: script}) as harness:
            run = harness.prompt_gemini(prompt)
            check([contents(it) for it in harness.mock_requests()], native, run)

    name = f"a model receives the same contents with {script} on {event} in gemini-cli and in the gateway"
    CASES.append((name, compare_contents))


parity_case("BeforeTool", "no_writes.sh", WRITE, calls=2)
parity_case("BeforeTool", "stop_writes.sh", WRITE, calls=1)
parity_case("AfterTool", "hide_secret.sh", WRITE_SECRET, calls=2)
parity_case("AfterTool", "scanned.sh", READ, calls=2)
parity_case("BeforeAgent", "this_turn.sh", "Say hello", calls=1)
parity_case("BeforeAgent", "no_aurora.sh", "Tell me of project aurora", calls=0)
parity_case("AfterAgent", "say_please.sh", "Say hello", calls=2)


def contents(request):
    """Contents that the model receives, without values that differ in each run."""
    items = []
    for content in request["body"]["contents"]:
        for part in content["parts"]:
            part = {key: value for key, value in part.items() if key != "thoughtSignature"}
            for value in part.values():
                if isinstance(value, dict):
                    value.pop("id", None)
            if part.get("text", "").startswith("<session_context>"):
                part = {"text": "<session_context>"}
            items.append((content["role"], json.dumps(part, sort_keys=True)))
    return items
