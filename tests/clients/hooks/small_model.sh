#!/bin/sh
# BeforeModel: sends every call to a smaller model.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": {"model": "a-small-model"}}}'
