#!/bin/bash
# A loop that sends the same prompt again at every stop until the agent keeps a promise.
# State: .claude/ralph-loop.local.md, front matter and the prompt below it.
set -euo pipefail

state=.claude/ralph-loop.local.md
input=$(cat)
[ -f "$state" ] || exit 0

front() { sed -n '/^---$/,/^---$/p' "$state" | sed -n "s/^$1: *//p" | tr -d '"'; }

owner=$(front session_id)
session=$(jq -r '.session_id // ""' <<<"$input")
if [ -n "$owner" ] && [ "$owner" != "$session" ]; then
  exit 0
fi

iteration=$(front iteration)
most=$(front max_iterations)
promise=$(front completion_promise)
iteration=${iteration:-1}
most=${most:-0}

if [ "$most" -gt 0 ] && [ "$iteration" -ge "$most" ]; then
  echo "Ralph loop: max iterations ($most) reached."
  rm "$state"
  exit 0
fi

transcript=$(jq -r '.transcript_path // ""' <<<"$input")
if [ ! -f "$transcript" ] || ! grep -q '"role":"assistant"' "$transcript"; then
  echo "Ralph loop: no assistant message in the transcript; stopping the loop." >&2
  rm "$state"
  exit 0
fi

last=$(grep '"role":"assistant"' "$transcript" | tail -n 1 |
  jq -r '[.message.content[]? | select(.type == "text") | .text] | join("\n")')
said=$(perl -0777 -ne 'print $1 if m{<promise>\s*(.*?)\s*</promise>}s' <<<"$last")
if [ -n "$promise" ] && [ "$said" = "$promise" ]; then
  echo "Ralph loop: the promise was kept."
  rm "$state"
  exit 0
fi

next=$((iteration + 1))
sed -i "s/^iteration: .*/iteration: $next/" "$state"
prompt=$(awk '/^---$/ { marks++; next } marks >= 2' "$state")
jq -n --arg prompt "$prompt" --arg message "Ralph iteration $next" \
  '{decision: "block", reason: $prompt, systemMessage: $message}'
