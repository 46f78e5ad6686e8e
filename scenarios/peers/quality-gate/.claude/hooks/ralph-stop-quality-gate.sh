#!/bin/bash
# ralph-stop-quality-gate.sh - Quality gate for Stop event
# VERSION: 2.87.0
#
# Triggered by: Stop hook event
# Purpose: Prevent Claude from stopping until VERIFIED_DONE conditions are met
#
# Exit codes:
#   0 = Allow Claude to stop
#   2 = Block stop + send feedback to continue working
#
# Output (stdout JSON):
#   {"decision": "approve", "reason": "All conditions met"}
#   {"decision": "block", "reason": "Specific issues to fix"}

set -euo pipefail

# Configuration
REPO_ROOT="/Users/alfredolopez/Documents/GitHub/multi-agent-ralph-loop"
STATE_DIR="$HOME/.ralph/state"
LOG_DIR="$HOME/.ralph/logs"
mkdir -p "$LOG_DIR"

# Read stdin
INPUT=$(cat)

# CRITICAL: Check stop_hook_active to prevent infinite loops
STOP_HOOK_ACTIVE=$(echo "$INPUT" | jq -r '.stop_hook_active // false')
if [ "$STOP_HOOK_ACTIVE" = "true" ]; then
    # Claude is already continuing from a previous block
    # MUST allow stop to prevent infinite loop
    echo '{"decision": "approve", "reason": "Previous block already active"}'
    exit 0
fi

SESSION_ID=$(echo "$INPUT" | jq -r '.session_id // "unknown"')

# Log the event
echo "[$(date '+%Y-%m-%d %H:%M:%S')] Stop hook fired: session=$SESSION_ID" >> "$LOG_DIR/stop-hook.log"

# Initialize issues
BLOCKING_ISSUES=""

# ============================================
# VERIFIED_DONE CONDITION CHECKS
# ============================================

# Check 1: Is there an active orchestrator/loop session?
ORCHESTRATOR_STATE="$STATE_DIR/${SESSION_ID}/orchestrator.json"
if [ -f "$ORCHESTRATOR_STATE" ]; then
    CURRENT_PHASE=$(jq -r '.phase // "unknown"' "$ORCHESTRATOR_STATE")
    VERIFIED_DONE=$(jq -r '.verified_done // false' "$ORCHESTRATOR_STATE")

    if [ "$VERIFIED_DONE" != "true" ]; then
        BLOCKING_ISSUES+="Orchestrator phase '$CURRENT_PHASE' not complete. "
    fi
fi

# Check 2: Are there pending tasks in the task list?
TASKS_DIR="$STATE_DIR/${SESSION_ID}/tasks"
if [ -d "$TASKS_DIR" ]; then
    PENDING_COUNT=$(find "$TASKS_DIR" -name "*.json" -exec jq -r '.status' {} \; 2>/dev/null | grep -c "pending\|in_progress" || echo "0")
    if [ "$PENDING_COUNT" -gt 0 ]; then
        BLOCKING_ISSUES+="$PENDING_COUNT pending/in-progress tasks. "
    fi
fi

# Check 3: Are there uncommitted changes?
UNCOMMITTED=$(git status --porcelain 2>/dev/null | head -5 || echo "")
if [ -n "$UNCOMMITTED" ]; then
    # This is ADVISORY for loops, BLOCKING for orchestrator
    if [ -f "$ORCHESTRATOR_STATE" ]; then
        BLOCKING_ISSUES+="Uncommitted changes detected. "
    fi
fi

# Check 4: Did the last quality gate pass?
QUALITY_STATE="$STATE_DIR/${SESSION_ID}/quality-gate.json"
if [ -f "$QUALITY_STATE" ]; then
    LAST_RESULT=$(jq -r '.last_result // "unknown"' "$QUALITY_STATE")
    if [ "$LAST_RESULT" = "failed" ]; then
        BLOCKING_ISSUES+="Quality gate failed. Fix issues before stopping. "
    fi
fi

# Check 5: Are there failing tests? (optional, project-specific)
# if command -v npm &>/dev/null && [ -f "package.json" ]; then
#     if ! npm test --quiet 2>/dev/null; then
#         BLOCKING_ISSUES+="Tests failing. "
#     fi
# fi

# ============================================
# DECISION OUTPUT
# ============================================

if [ -n "$BLOCKING_ISSUES" ]; then
    # Block stop with specific feedback
    jq -n --arg reason "$BLOCKING_ISSUES" '{
        decision: "block",
        reason: $reason
    }'
    echo "[$(date '+%Y-%m-%d %H:%M:%S')] Stop BLOCKED: $BLOCKING_ISSUES" >> "$LOG_DIR/stop-hook.log"
    exit 2
else
    # All conditions met, allow stop
    echo '{"decision": "approve", "reason": "All VERIFIED_DONE conditions met"}'
    echo "[$(date '+%Y-%m-%d %H:%M:%S')] Stop APPROVED" >> "$LOG_DIR/stop-hook.log"
    exit 0
fi
