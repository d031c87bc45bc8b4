#!/bin/sh
# BeforeModel: replaces the model of every call.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": {"model": "a-small-model"}}}'
