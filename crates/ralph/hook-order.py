#!/usr/bin/env python3
"""Prints `hook.ld`: the functions that an idle stop runs, for the linker to put side by side.

    CARGO_PROFILE_RELEASE_STRIP=none cargo build --release
    crates/ralph/hook-order.py target/<host>/release/ralph > crates/ralph/hook.ld

Runs the program one instruction at a time (x86-64 Linux) and names what it came by, without the hashes that differ
from build to build. A name that is no longer there does no harm.
"""

import bisect
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TRACE_ME, PEEK_USER, SINGLE_STEP = 0, 3, 9
INSTRUCTION_POINTER = 16 * 8
# Names that stand for so many parts of the C library that they tell nothing.
AMBIGUOUS = 4

HEADER = """\
/* The functions that an idle stop runs, side by side: each 64 KB of code that it touches is a page fault, and page
 * faults are most of what it costs. Made by `hook-order.py`, which says how to make it anew. */
"""


def addresses(program, arguments, stdin, home):
    libc = ctypes.CDLL(None)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    child = os.fork()
    if child == 0:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        libc.ptrace(TRACE_ME, 0, None, None)
        os.execve(program, [program, *arguments], {"HOME": home, "RALPH_HOME": home + "/.ralph"})
    seen = set()
    _, status = os.waitpid(child, 0)
    while os.WIFSTOPPED(status):
        seen.add(libc.ptrace(PEEK_USER, child, INSTRUCTION_POINTER, None))
        libc.ptrace(SINGLE_STEP, child, None, None)
        _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"`{program}` ended with status {status}")
    return seen


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(program, seen):
    """By name, in the order of their addresses."""
    known = []
    for line in said("nm", "--numeric-sort", "--defined-only", program).splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in "tTwWiI":
            known.append((int(address, 16), name))
    starts = [address for address, _ in known]
    found = {bisect.bisect_right(starts, address) - 1 for address in seen}
    # Beyond the last one are the stack and what the kernel maps.
    return [known[at][1] for at in sorted(found) if 0 <= at < len(known) - 1]


def members(names):
    """The parts of the C library that define these."""
    archive = said("cc", "-print-file-name=libc.a").strip()
    defined = {}
    for line in said("nm", "--print-file-name", "--defined-only", archive).splitlines():
        match = re.fullmatch(r".*:([^:]+\.o):\S* [tTwWiI] (\S+)", line)
        if match:
            defined.setdefault(match[2], set()).add(match[1])
    parts = (defined.get(name, set()) for name in names)
    return sorted(set().union(*(part for part in parts if len(part) < AMBIGUOUS)))


def pattern(name):
    name = re.sub(r"17h[0-9a-f]{16}E.*", "17h*", name)
    return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name)


def main():
    program = os.path.abspath(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parents[2]
    event = root / "fixtures/hosts/claude-code/2.1.325/stdin/Stop.first.json"
    with tempfile.TemporaryDirectory() as home:
        seen = addresses(program, ["hook", "claude"], event, home)
    names = functions(program, seen)
    ours = sorted({pattern(name) for name in names if name.startswith(("_ZN", "_R"))})
    if not ours:
        sys.exit(f"`{program}` has no symbols; build it without stripping")
    print(HEADER + "SECTIONS {\n  .text.hook : {\n    *(.text.main)")
    for name in ours:
        print(f"    *(.text.{name})")
    for member in members(names):
        print(f"    *libc.a:{member}(.text .text.*)")
    print("  }\n} INSERT BEFORE .text;")


main()
