#!/usr/bin/env python3
"""
ralph_loop_controller.py

Stop hook script that controls Ralph Loop continuation.
Called when Claude attempts to stop - determines whether to continue or exit.
"""

import json
import sys
import os
from pathlib import Path
from datetime import datetime


def load_json_file(path: Path) -> dict:
    """Load JSON file or return empty dict."""
    try:
        with open(path) as f:
            return json.load(f)
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def parse_progress_txt(path: Path) -> dict:
    """Parse progress.txt to extract iteration info."""
    result = {
        "max_iterations": 15,
        "current_iteration": 0,
        "status": "UNKNOWN"
    }

    try:
        content = path.read_text()
        for line in content.split('\n'):
            if 'Max Iterations:' in line:
                result["max_iterations"] = int(line.split(':')[1].strip().split()[0])
            if 'Iteration:' in line and 'Max' not in line:
                result["current_iteration"] = int(line.split(':')[1].strip().split()[0])
            if 'Status:' in line:
                result["status"] = line.split(':')[1].strip()
    except Exception:
        pass

    return result


def get_incomplete_features(feature_list: dict) -> list:
    """Get features that haven't passed yet."""
    features = feature_list.get("features", [])
    return [f for f in features if not f.get("passes", False)]


def update_iteration_count(progress_path: Path, new_iteration: int):
    """Update the iteration count in progress.txt."""
    try:
        content = progress_path.read_text()
        lines = content.split('\n')
        updated_lines = []

        for line in lines:
            if line.startswith('- Iteration:') and 'Max' not in line:
                updated_lines.append(f'- Iteration: {new_iteration}')
            else:
                updated_lines.append(line)

        progress_path.write_text('\n'.join(updated_lines))
    except Exception:
        pass


def main():
    """Main loop controller logic."""
    # Read stdin for hook input (contains session info)
    try:
        stdin_data = json.loads(sys.stdin.read())
    except (json.JSONDecodeError, Exception):
        stdin_data = {}

    # Get ralph loop directory from environment or default
    ralph_loop_dir = os.environ.get(
        'RALPH_LOOP_DIR',
        '.claude/data/ralph-loops/current'
    )
    loop_path = Path(ralph_loop_dir)

    # Load state files
    feature_list = load_json_file(loop_path / 'feature_list.json')
    progress = parse_progress_txt(loop_path / 'progress.txt')

    # Get incomplete features
    incomplete = get_incomplete_features(feature_list)

    # Current state
    current_iter = progress["current_iteration"]
    max_iter = progress["max_iterations"]
    current_status = progress["status"]

    # Decision logic
    if current_status == "COMPLETE" or len(incomplete) == 0:
        # All features complete - allow stop
        output = {
            "decision": None,  # Allow stop
            "status": "COMPLETE",
            "message": f"All {feature_list.get('total_features', 0)} features verified. Loop complete."
        }
        print(json.dumps(output))
        sys.exit(0)

    elif current_iter >= max_iter:
        # Max iterations reached - allow stop with limit status
        output = {
            "decision": None,  # Allow stop
            "status": "REACHED_LIMIT",
            "message": f"Max iterations ({max_iter}) reached. {len(incomplete)} features remaining.",
            "remaining_features": [f["id"] for f in incomplete]
        }
        print(json.dumps(output))
        sys.exit(0)

    else:
        # Continue to next iteration
        next_iter = current_iter + 1
        next_feature = incomplete[0]

        # Update iteration count
        update_iteration_count(loop_path / 'progress.txt', next_iter)

        # Block stopping and provide continuation instructions
        output = {
            "decision": "block",
            "reason": f"""CONTINUATION: Ralph Loop iteration {next_iter}/{max_iter}

NEXT FEATURE (ID {next_feature['id']}): {next_feature['description']}

Steps:
{chr(10).join(next_feature.get('steps', ['No steps defined']))}

Instructions:
1. Read the current state from progress.txt
2. Implement/verify Feature {next_feature['id']}
3. Update feature_list.json: set "passes": true if verified
4. Update progress.txt with results
5. Let the Stop hook handle continuation logic
"""
        }
        print(json.dumps(output))
        sys.exit(0)


if __name__ == '__main__':
    main()
