"""The same hooks in gemini-cli itself and in the gateway: the model hears the same."""

import json

from stage import Stage, check, write_json

CASES = []

WRITE = 'Use write_file {"file_path":"out.txt","content":"hello"}'
READ = 'Use read_file {"file_path":"alpha.txt"}'


def parity_case(event, script, prompt, calls):
    def hears_the_same():
        with Stage() as stage:
            hooks = {"hooks": {event: [{"hooks": [stage.hook(script)]}]}}
            write_json(stage.project / ".gemini" / "settings.json", hooks)
            run = stage.asks_gemini(prompt)
            native = [contents(it) for it in stage.seen()]
            check(len(native), calls, run)
        with Stage(**{event: script}) as stage:
            run = stage.asks_gemini(prompt)
            check([contents(it) for it in stage.seen()], native, run)

    CASES.append((f"a model hears the same of {script} on {event} in gemini-cli and in the gateway", hears_the_same))


parity_case("BeforeTool", "no_writes.sh", WRITE, calls=2)
parity_case("BeforeTool", "stop_writes.sh", WRITE, calls=1)
parity_case("AfterTool", "hide_secret.sh", 'Use write_file {"file_path":"out.txt","content":"the-secret-word"}', calls=2)
parity_case("AfterTool", "scanned.sh", READ, calls=2)
parity_case("BeforeAgent", "this_turn.sh", "Say hello", calls=1)
parity_case("BeforeAgent", "no_aurora.sh", "Tell me of project aurora", calls=0)
parity_case("AfterAgent", "say_please.sh", "Say hello", calls=2)


def contents(request):
    """What the model reads, without what differs from run to run."""
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
