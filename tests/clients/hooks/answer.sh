#!/bin/sh
# BeforeModel: returns a synthetic answer.
echo run >> "$HOOK_RUNS"
cat <<'END'
{"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_response": {"candidates": [
  {"content": {"role": "model", "parts": ["An answer from the hook."]}, "finishReason": "STOP"}
]}}}
END
