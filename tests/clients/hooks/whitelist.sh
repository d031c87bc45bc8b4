#!/bin/sh
# BeforeToolSelection: allows two tools.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeToolSelection", "toolConfig": {"allowedFunctionNames": ["read_file", "glob"]}}}'
