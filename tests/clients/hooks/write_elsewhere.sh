#!/bin/sh
# BeforeTool: replaces the path of files to write.
echo '{"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"file_path": "elsewhere.txt"}}}'
