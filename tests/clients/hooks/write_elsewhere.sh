#!/bin/sh
# BeforeTool: files are written to another place than the model asked for.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"file_path": "elsewhere.txt"}}}'
