#!/bin/sh
# BeforeToolSelection: leaves the model two tools.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeToolSelection", "toolConfig": {"allowedFunctionNames": ["read_file", "glob"]}}}'
