#!/bin/sh
# Should hold the agent until the tests pass, but has a common mistake: `deny` is not a decision that Stop hooks accept.
sh tests.sh > log 2>&1 && exit 0
printf '{"decision": "deny", "reason": "the tests fail: %s"}\n' "$(tail -1 log)"
