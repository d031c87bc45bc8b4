#!/bin/sh
# BeforeModel: replaces the model of every call.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": {"model": "gemini-2.5-flash-lite"}}}'
