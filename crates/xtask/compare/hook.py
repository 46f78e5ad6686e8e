"""ralph's idle and armed Stop hook as a Python script, for comparison. Imports only what it needs."""

import json
import os
import sys

PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def field(lines, label):
    for number, line in enumerate(lines):
        if line.startswith(label):
            return number, int(line[len(label):])
    return None, 0


def open_features(directory):
    with open(os.path.join(directory, "feature_list.json"), encoding="utf-8") as file:
        features = json.load(file)["features"]
    left = [feature for feature in features if not feature["passes"]]
    if not left:
        return []
    said = [
        f"{len(left)} of {len(features)} features do not pass yet. "
        f"Next is {left[0]['id']}: {left[0]['description']}"
    ]
    return said + [f"{number}. {step}" for number, step in enumerate(left[0]["steps"], 1)]


def open_tasks(directory):
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except FileNotFoundError:
        return []
    subjects = []
    for name in names:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            task = json.load(file)
        if task["status"] != "completed":
            subjects.append(task["subject"])
    if not subjects:
        return []
    return [f"{len(subjects)} tasks are open"] + [f"- {subject}" for subject in subjects[:10]]


def main():
    event = json.load(sys.stdin)
    session = event.get("session_id", "")
    if event.get("hook_event_name") != "Stop" or not session or not PLAIN.issuperset(session):
        return 0
    home = os.environ["LOOP_HOME"]
    try:
        with open(os.path.join(home, "sessions", session), encoding="utf-8") as file:
            directory = file.read().strip()
    except FileNotFoundError:
        return 0

    progress = os.path.join(directory, "progress.txt")
    with open(progress, encoding="utf-8") as file:
        lines = file.read().splitlines()
    number, iteration = field(lines, "- Iteration: ")
    _, limit = field(lines, "- Max Iterations: ")
    if limit and iteration >= limit:
        return 0

    said = open_features(directory) + open_tasks(os.path.join(home, "state", session, "tasks"))
    if not said:
        return 0

    iteration += 1
    lines[number] = f"- Iteration: {iteration}"
    changed = os.path.join(directory, f".progress.{os.getpid()}")
    with open(changed, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(changed, progress)

    print(f"iteration {iteration}: the work is not done", *said, sep="\n", file=sys.stderr)
    return 2


sys.exit(main())
