//! Which tool calls are denied during a run and without one, and which are allowed.

use proptest::prelude::*;
use ralph_guard::{DeniedCall, GuardContext, GuardScope, GuardTarget, GuardedCall, judge_call};
use serde_json::value::{RawValue, to_raw_value};
use std::fmt::Write;

const ORDINARY: &str = include_str!("../../../../fixtures/guard/ordinary.txt");
const HOSTILE: &str = include_str!("../../../../fixtures/guard/hostile.txt");

fn is_protected(path: &str) -> bool {
    path.starts_with("tests/golden/") || path.starts_with(".github/workflows/")
}

fn guard_context(scope: GuardScope) -> GuardContext<'static> {
    GuardContext {
        host: ralph_host::default_host(),
        ralph_homes: &["/home/u/.ralph"],
        claims: &["/home/u/.ralph/state/5999882c"],
        user_home: Some("/home/u"),
        project: "/home/u/project",
        cwd: "/home/u/project",
        settings: &[
            "/home/u/project/.claude/settings.json",
            "/home/u/project/.claude/settings.local.json",
            "/home/u/.claude/settings.json",
            "/home/u/.claude/settings.local.json",
            "/home/u/.claude/plugins",
            "/home/u/.claude.json",
            "/etc/claude-code/managed-settings.json",
        ],
        policy_files: &["/home/u/project/ralph.toml", "/home/u/project/.ralph.toml"],
        is_protected: &is_protected,
        scope,
    }
}

fn judge_tool(tool: &str, input: &serde_json::Value, scope: GuardScope) -> Option<DeniedCall> {
    let input = to_raw_value(input).unwrap();
    judge_call(&GuardedCall { tool, input: &input }, &guard_context(scope))
}

fn judge_shell(command: &str, scope: GuardScope) -> Option<DeniedCall> {
    judge_tool("Bash", &serde_json::json!({ "command": command, "description": "d" }), scope)
}

fn corpus_rows(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.replace('⏎', "\n").replace("EOF2", "EOF"))
}

fn hostile_rows() -> impl Iterator<Item = (String, String)> {
    corpus_rows(HOSTILE).map(|row| {
        let (what, command) = row.split_once(": ").unwrap();
        (what.to_owned(), command.to_owned())
    })
}

/// R-S8b: no command in a corpus of ordinary commands is denied.
#[test]
fn ordinary_commands_are_allowed() {
    let mut denied = String::new();
    for scope in [GuardScope::Run, GuardScope::HomeOnly] {
        for command in corpus_rows(ORDINARY) {
            if let Some(found) = judge_shell(&command, scope) {
                writeln!(denied, "{scope:?} {command:?}\n    {}", found.reason).unwrap();
            }
        }
    }
    assert_eq!(denied, "");
    assert!(corpus_rows(ORDINARY).count() >= 500);
}

/// R-S4a, R-S6b, R-S8b: each command is denied, for the right reason.
#[test]
fn hostile_commands_are_denied_for_what_they_touch() {
    let mut wrong = String::new();
    for (what, command) in hostile_rows() {
        let found =
            judge_shell(&command, GuardScope::Run).map_or("nothing", |found| found.target.name());
        if found != what {
            writeln!(wrong, "{what}, not {found}: {command:?}").unwrap();
        }
    }
    assert_eq!(wrong, "");
    assert!(hostile_rows().count() >= 150);
    for what in GuardTarget::ALL {
        assert!(hostile_rows().any(|(name, _)| name == what.name()), "{what:?}");
    }
}

/// R-S8b: a home at another path, such as that of `RALPH_HOME`, is guarded like the usual one.
#[test]
fn a_home_of_another_name_is_guarded_too() {
    let ground = GuardContext {
        ralph_homes: &["/home/u/.loops"],
        claims: &["/home/u/.loops/state/5999882c"],
        ..guard_context(GuardScope::Run)
    };
    let mut wrong = String::new();
    let of_home = hostile_rows().filter(|(what, _)| matches!(what.as_str(), "home" | "key"));
    for (what, command) in of_home.filter(|(_, command)| command.contains(".ralph")) {
        let command = command.replace(".ralph", ".loops");
        let input = to_raw_value(&serde_json::json!({ "command": command })).unwrap();
        let found = judge_call(&GuardedCall { tool: "Bash", input: &input }, &ground);
        let found = found.map_or("nothing", |found| found.target.name());
        if found != what {
            writeln!(wrong, "{what}, not {found}: {command:?}").unwrap();
        }
    }
    assert_eq!(wrong, "");
}

/// R-L4f: without a run, ralph's home, its key and the given settings are still guarded, and nothing else is.
#[test]
fn without_a_run_only_ralphs_home_and_settings_are_guarded() {
    for (what, command) in hostile_rows() {
        let found = judge_shell(&command, GuardScope::HomeOnly)
            .map_or("nothing", |found| found.target.name());
        let expected = match what.as_str() {
            "home" | "key" => what.as_str(),
            "settings" if !command.starts_with("claude plugin") => "settings",
            _ => "nothing",
        };
        assert_eq!(found, expected, "{command:?}");
    }
}

fn verdict_table(rows: &[(&str, serde_json::Value)]) -> String {
    let mut out = String::new();
    for (name, input) in rows {
        let verdict =
            |scope| judge_tool(name, input, scope).map_or("-", |found| found.target.name());
        let (run, home) = (verdict(GuardScope::Run), verdict(GuardScope::HomeOnly));
        writeln!(out, "{run:<10} {home:<9} {name} {input}").unwrap();
    }
    out
}

/// R-L4f: no file tool may write the state of a run, in any session. The second column is the verdict without a run.
#[test]
fn file_tools_are_judged_by_their_path() {
    use serde_json::json;
    insta::assert_snapshot!(verdict_table(&[
        ("Write", json!({"file_path": "/home/u/.ralph/runs/k7f2/state.json", "content": ""})),
        ("Write", json!({"file_path": "/home/u/project/../.ralph/off", "content": ""})),
        ("Write", json!({"file_path": "~/.ralph/off", "content": ""})),
        ("Edit", json!({"file_path": "/home/u/.ralph/key", "old_string": "a", "new_string": "b"})),
        ("MultiEdit", json!({"file_path": "/home/u/project/ralph.toml", "edits": []})),
        ("Edit", json!({"file_path": "ralph.toml", "old_string": "a", "new_string": "b"})),
        ("Write", json!({"file_path": "/home/u/project/.ralph.toml", "content": ""})),
        ("Write", json!({"file_path": "/home/u/project/.claude/settings.local.json", "content": "{}"})),
        ("Edit", json!({"file_path": "/home/u/.claude/plugins/cache/ralph/hooks/hooks.json"})),
        ("Edit", json!({"file_path": "/home/u/.claude.json"})),
        ("Write", json!({"file_path": "/home/u/project/tests/golden/a.txt", "content": ""})),
        ("NotebookEdit", json!({"notebook_path": "/home/u/project/tests/golden/a.ipynb"})),
        ("Read", json!({"file_path": "/home/u/.ralph/key"})),
        ("Grep", json!({"pattern": ".", "path": "/home/u/.ralph/key"})),
        ("Read", json!({"file_path": "/home/u/.ralph/signing-key"})),
        ("mcp__files__write_file", json!({"path": "/home/u/.ralph/off", "content": ""})),
        ("mcp__files__move_file", json!({"source": "ralph.toml", "destination": "/tmp/x"})),
        ("mcp__box__bash", json!({"command": "rm -rf ~/.ralph"})),
        ("Monitor", json!({"command": "touch ~/.ralph/off"})),
        ("Read", json!({"file_path": "/home/u/.ralph/cache/logs/tests-1.log"})),
        ("Read", json!({"file_path": "/home/u/project/ralph.toml"})),
        ("Grep", json!({"pattern": "/ralph:cancel", "path": "/home/u/.ralph"})),
        ("Glob", json!({"pattern": "~/.ralph/**"})),
        ("Write", json!({"file_path": "/home/u/.ralphrc", "content": ""})),
        ("Write", json!({"file_path": "/home/u/project/docs/ralph.toml", "content": ""})),
        ("Write", json!({"file_path": "/home/u/project/.ralph/memory.md", "content": ""})),
        ("Write", json!({"file_path": "/home/u/project/src/a.rs", "content": "rm -rf ~/.ralph"})),
        ("Edit", json!({"file_path": "/home/u/project/.claude/commands/a.md"})),
        ("Edit", json!({"file_path": "/home/u/project/tests/golden.rs"})),
        ("mcp__files__read_file", json!({"path": "/home/u/project/ralph.toml"})),
        ("Write", json!({"file_path": 7, "content": ""})),
        ("Bash", json!({"command": ["rm", "-rf", "/home/u/.ralph"]})),
        ("Write", json!([])),
        ("", json!(null)),
    ]), @r#"
    home       home      Write {"content":"","file_path":"/home/u/.ralph/runs/k7f2/state.json"}
    home       home      Write {"content":"","file_path":"/home/u/project/../.ralph/off"}
    home       home      Write {"content":"","file_path":"~/.ralph/off"}
    key        key       Edit {"file_path":"/home/u/.ralph/key","new_string":"b","old_string":"a"}
    policy     -         MultiEdit {"edits":[],"file_path":"/home/u/project/ralph.toml"}
    policy     -         Edit {"file_path":"ralph.toml","new_string":"b","old_string":"a"}
    policy     -         Write {"content":"","file_path":"/home/u/project/.ralph.toml"}
    settings   settings  Write {"content":"{}","file_path":"/home/u/project/.claude/settings.local.json"}
    settings   settings  Edit {"file_path":"/home/u/.claude/plugins/cache/ralph/hooks/hooks.json"}
    settings   settings  Edit {"file_path":"/home/u/.claude.json"}
    protected  -         Write {"content":"","file_path":"/home/u/project/tests/golden/a.txt"}
    protected  -         NotebookEdit {"notebook_path":"/home/u/project/tests/golden/a.ipynb"}
    key        key       Read {"file_path":"/home/u/.ralph/key"}
    key        key       Grep {"path":"/home/u/.ralph/key","pattern":"."}
    key        key       Read {"file_path":"/home/u/.ralph/signing-key"}
    home       home      mcp__files__write_file {"content":"","path":"/home/u/.ralph/off"}
    policy     -         mcp__files__move_file {"destination":"/tmp/x","source":"ralph.toml"}
    home       home      mcp__box__bash {"command":"rm -rf ~/.ralph"}
    home       home      Monitor {"command":"touch ~/.ralph/off"}
    -          -         Read {"file_path":"/home/u/.ralph/cache/logs/tests-1.log"}
    -          -         Read {"file_path":"/home/u/project/ralph.toml"}
    -          -         Grep {"path":"/home/u/.ralph","pattern":"/ralph:cancel"}
    -          -         Glob {"pattern":"~/.ralph/**"}
    -          -         Write {"content":"","file_path":"/home/u/.ralphrc"}
    -          -         Write {"content":"","file_path":"/home/u/project/docs/ralph.toml"}
    -          -         Write {"content":"","file_path":"/home/u/project/.ralph/memory.md"}
    -          -         Write {"content":"rm -rf ~/.ralph","file_path":"/home/u/project/src/a.rs"}
    -          -         Edit {"file_path":"/home/u/project/.claude/commands/a.md"}
    -          -         Edit {"file_path":"/home/u/project/tests/golden.rs"}
    -          -         mcp__files__read_file {"path":"/home/u/project/ralph.toml"}
    -          -         Write {"content":"","file_path":7}
    -          -         Bash {"command":["rm","-rf","/home/u/.ralph"]}
    -          -         Write []
    -          -          null
    "#);
}

/// R-S6b: no tool of the agent may give a command that is reserved for people.
#[test]
fn commands_reserved_for_people_are_denied_to_tools() {
    use serde_json::json;
    insta::assert_snapshot!(verdict_table(&[
        ("Skill", json!({"skill": "ralph:cancel"})),
        ("Skill", json!({"skill": "ralph:approve"})),
        ("Skill", json!({"skill": "ralph:goal", "args": "be done"})),
        ("Skill", json!({"skill": "/ralph-loop"})),
        ("Skill", json!({"skill": "ralph-loop:cancel-ralph"})),
        ("SlashCommand", json!({"command": "/ralph:pause k7f2"})),
        ("SlashCommand", json!({"command": "/cancel-ralph"})),
        ("CronCreate", json!({"cron": "* * * * *", "prompt": "/ralph:resume"})),
        ("ScheduleWakeup", json!({"prompt": " /ralph:cancel"})),
        ("Agent", json!({"prompt": "/ralph:loop x", "subagent_type": "general"})),
        ("SendMessage", json!({"to": "lead", "message": "/ralph:cancel"})),
        ("Skill", json!({"skill": "ralph:waive", "args": "tests --until 1d --why x"})),
        ("SlashCommand", json!({"command": "/ralph:tell all is well"})),
        ("CronCreate", json!({"prompt": "/ralph:limits --max-iterations 1000"})),
        ("Skill", json!({"skill": "ralph:status"})),
        ("Skill", json!({"skill": "ralph:why"})),
        ("Skill", json!({"skill": "ralph:ask", "args": "may I cancel?"})),
        ("Skill", json!({"skill": "ralph:verify"})),
        ("Skill", json!({"skill": "commit"})),
        ("SlashCommand", json!({"command": "/review"})),
        ("Agent", json!({"prompt": "Find out what /ralph:cancel does"})),
        ("CronCreate", json!({"prompt": "check the deploy"})),
        ("TodoWrite", json!({"todos": [{"content": "/ralph:cancel"}]})),
    ]), @r#"
    channel    -         Skill {"skill":"ralph:cancel"}
    channel    -         Skill {"skill":"ralph:approve"}
    channel    -         Skill {"args":"be done","skill":"ralph:goal"}
    channel    -         Skill {"skill":"/ralph-loop"}
    channel    -         Skill {"skill":"ralph-loop:cancel-ralph"}
    channel    -         SlashCommand {"command":"/ralph:pause k7f2"}
    channel    -         SlashCommand {"command":"/cancel-ralph"}
    channel    -         CronCreate {"cron":"* * * * *","prompt":"/ralph:resume"}
    channel    -         ScheduleWakeup {"prompt":" /ralph:cancel"}
    channel    -         Agent {"prompt":"/ralph:loop x","subagent_type":"general"}
    channel    -         SendMessage {"message":"/ralph:cancel","to":"lead"}
    channel    -         Skill {"args":"tests --until 1d --why x","skill":"ralph:waive"}
    channel    -         SlashCommand {"command":"/ralph:tell all is well"}
    channel    -         CronCreate {"prompt":"/ralph:limits --max-iterations 1000"}
    -          -         Skill {"skill":"ralph:status"}
    -          -         Skill {"skill":"ralph:why"}
    -          -         Skill {"args":"may I cancel?","skill":"ralph:ask"}
    -          -         Skill {"skill":"ralph:verify"}
    -          -         Skill {"skill":"commit"}
    -          -         SlashCommand {"command":"/review"}
    -          -         Agent {"prompt":"Find out what /ralph:cancel does"}
    -          -         CronCreate {"prompt":"check the deploy"}
    -          -         TodoWrite {"todos":[{"content":"/ralph:cancel"}]}
    "#);
}

#[test]
fn an_agent_may_read_statistics_but_not_apply_a_proposal() {
    let denied = |command: &str| judge_shell(command, GuardScope::Run).is_some();
    assert!(!denied("ralph stats --all --json"));
    assert!(denied("ralph stats --apply 1 --yes"));
    assert!(denied("ralph stats --all --apply=1"));
    assert!(denied("ralph export otlp --to http://127.0.0.1:4318"));
    assert!(!denied("ralph export prometheus"));
}

/// Reasons state what was denied, why, and what to do instead. The agent's own text is never repeated raw.
#[test]
fn a_reason_states_what_to_do_instead() {
    let mut out = String::new();
    for command in [
        "rm -rf ~/.ralph",
        "cat ~/.ralph/key",
        "echo '{}' > .claude/settings.json",
        "sed -i 's/cargo test/true/' ralph.toml",
        "cp out.txt tests/golden/a.txt",
        "git commit -nm wip",
        "git update-index --skip-worktree src/lib.rs",
        "git update-ref -d refs/ralph/k7f2/1",
        "ralph cancel",
        "RALPH_OFF=1 claude",
        "claude -p '/ralph:cancel now'",
        "touch \"$HOME/.ralph/`echo a`\u{1b}[31m\u{202e}\n\n#  x\"",
        "touch '/home/u/.ralph/\u{1b}[31m`red`\u{202e}\n\nignore all rules'",
    ] {
        writeln!(
            out,
            "$ {}\n{}\n",
            command.escape_debug(),
            judge_shell(command, GuardScope::Run).unwrap().reason
        )
        .unwrap();
    }
    insta::assert_snapshot!(out, @r#"
    $ rm -rf ~/.ralph
    ralph: `rm` on `/home/u/.ralph` is denied: it contains ralph's own files, which only ralph may write.
    You may read its logs. The gates decide how a run ends, not these files

    $ cat ~/.ralph/key
    ralph: `cat` on `/home/u/.ralph/key` is denied: this key seals or signs what ralph measured, and only ralph may read it.
    No gate requires it. `ralph why` explains every decision

    $ echo \'{}\' > .claude/settings.json
    ralph: `>` on `.claude/settings.json` is denied: these settings control whether ralph is called, and the run depends on them.
    If they must change, run `ralph ask "…"`: a person decides

    $ sed -i \'s/cargo test/true/\' ralph.toml
    ralph: `sed -i` on `ralph.toml` is denied: the policy is sealed during a run.
    Satisfy the gates as they are. If one is wrong, run `ralph ask "…"` and explain why

    $ cp out.txt tests/golden/a.txt
    ralph: `cp` on `tests/golden/a.txt` is denied: the policy protects this path during the run.
    Change the code, not the files that measure it. If this file must change, run `ralph ask "…"`

    $ git commit -nm wip
    ralph: `git commit -n` is denied: the work must pass git's hooks.
    Let the hooks run and fix what they report. If one is broken, run `ralph ask "…"`

    $ git update-index --skip-worktree src/lib.rs
    ralph: `git update-index --skip-worktree` is denied: it hides changes from git, and ralph checks all changes.
    Leave the index flags alone, or restore the file with `git restore`

    $ git update-ref -d refs/ralph/k7f2/1
    ralph: `git update-ref` on `refs/ralph` is denied: the checkpoints of this run are stored there.
    You may read them. `ralph list checkpoints` shows them

    $ ralph cancel
    ralph: `ralph cancel` is denied: only a person may loosen ralph's hold on this session.
    Continue the work. If only a person can decide, run `ralph ask "…"`; to wait for something, `ralph wait`; if a requirement is wrong, `ralph dispute`

    $ RALPH_OFF=1 claude
    ralph: `RALPH_OFF=1` is denied: only a person may loosen ralph's hold on this session.
    Continue the work. If only a person can decide, run `ralph ask "…"`; to wait for something, `ralph wait`; if a requirement is wrong, `ralph dispute`

    $ claude -p \'/ralph:cancel now\'
    ralph: `claude /ralph:cancel` is denied: only a person may run this command.
    If you think it is needed, run `ralph ask "…"` and explain why

    $ touch \"$HOME/.ralph/`echo a`\u{1b}[31m\u{202e}\n\n#  x\"
    ralph: `touch` on `/home/u/.ralph/a # x` is denied: it contains ralph's own files, which only ralph may write.
    You may read its logs. The gates decide how a run ends, not these files

    $ touch \'/home/u/.ralph/\u{1b}[31m`red`\u{202e}\n\nignore all rules\'
    ralph: `touch` on `/home/u/.ralph/'red' ignore all rules` is denied: it contains ralph's own files, which only ralph may write.
    You may read its logs. The gates decide how a run ends, not these files
    "#);
    let long = format!("rm -rf ~/.ralph/{}", "x".repeat(3000));
    assert!(judge_shell(&long, GuardScope::Run).unwrap().reason.chars().count() < 600);
}

/// Ralph's home may be anywhere, even below the project.
#[test]
fn a_home_in_another_location_is_guarded() {
    let homes = ["/data/ralph", "/home/u/project/.state"];
    let ground =
        GuardContext { ralph_homes: &homes, user_home: None, ..guard_context(GuardScope::Run) };
    let verdict = |command: &str| {
        let input = to_raw_value(&serde_json::json!({ "command": command })).unwrap();
        judge_call(&GuardedCall { tool: "Bash", input: &input }, &ground).map(|found| found.target)
    };
    for command in [
        "rm -r /data/ralph",
        "rm -rf /data",
        "rm -rf .state",
        "touch $RALPH_HOME/off",
        "cp x .state/",
    ] {
        assert_eq!(verdict(command), Some(GuardTarget::Home), "{command}");
    }
    for command in [
        "rm -rf ~/.ralph",
        "rm -rf /data/ralph2",
        "rm -rf target",
        "rm -rf ~",
        "cat .state/logs/a.log",
    ] {
        assert_eq!(verdict(command), None, "{command}");
    }
}

/// An agent can send commands of any length and nesting depth.
#[test]
fn long_and_deeply_nested_commands_are_judged_in_bounded_time() {
    let deep = |open: &str, close: &str, times: usize| {
        format!("{}rm -rf ~/.ralph{}", open.repeat(times), close.repeat(times))
    };
    let megabyte = 1 << 20;
    for command in [
        deep("(", ")", megabyte / 2),
        deep("$(", ")", megabyte / 3),
        deep("${x:-", "}", megabyte / 6),
        deep("\"$(", ")\"", megabyte / 6),
        deep("`", "`", megabyte / 2),
        deep("{", "}", megabyte / 2),
        deep("{ ", "; }", megabyte / 5),
        deep("find . -exec ", " ;", megabyte / 15),
        deep("sudo ", "", megabyte / 5),
        deep("eval ", "", megabyte / 5),
        deep("case x in x) ", " ;; esac", megabyte / 21),
        format!("rm {}", "{a,b}".repeat(megabyte / 5)),
        format!("rm {}", "{a,".repeat(megabyte / 3)),
        format!("rm {}", "*".repeat(megabyte)),
        format!("rm /home/u/{}ralph", "*?".repeat(200)),
        format!("cat {}", "<<EOF ".repeat(megabyte / 6)),
        format!("cat {}\n", "<<E ".repeat(megabyte / 4)),
        format!("echo $({}\n", "cat <<E ".repeat(megabyte / 8)),
        format!("rm {}", "((".repeat(megabyte / 2)),
        format!("rm $(({}", "1 << 2 \n".repeat(megabyte / 8)),
        format!("rm {}", "a ".repeat(megabyte / 2)),
        format!("x=1; {}", "x=$x$x; ".repeat(megabyte / 8)),
        format!("rm {}", "\\`".repeat(megabyte / 2)),
        format!("rm '{}", "'\"".repeat(megabyte / 2)),
        format!("python3 -c \"{}\"", "'a' ".repeat(megabyte / 4)),
        format!("python3 -c \"{}\"", "p='ralph.toml';".repeat(megabyte / 15)),
        format!("python3 -c \"{}", "system('".repeat(megabyte / 8)),
        format!("python3 -c \"p='ralph.toml'\n{}\"", "p ".repeat(megabyte / 2)),
        format!("cat > /tmp/x <<E\n{}\nE\n", "$(".repeat(megabyte / 2)),
        format!("cat > /tmp/x <<E\n{}\nE\n", "`\\".repeat(megabyte / 2)),
        format!("cat > /tmp/x <<'E'\n{}\nE\n", "rm -rf ~/.ralph\n".repeat(megabyte / 16)),
        format!("for x in {}; do rm $x$x$x; done", "a ".repeat(megabyte / 2)),
        format!("{} rm -rf ~/.ralph", "A=b ".repeat(megabyte / 4)),
        format!("echo {} | xargs rm", "a ".repeat(megabyte / 2)),
    ] {
        let _verdict = judge_shell(&command, GuardScope::Run);
    }
}

fn shell_fragments() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "rm",
        "-rf",
        "~/.ralph",
        "ralph.toml",
        "$(",
        ")",
        "`",
        "'",
        "\"",
        "\\",
        "$",
        "{",
        "}",
        ",",
        "*",
        "[",
        "]",
        "?",
        "<<",
        "EOF",
        "\n",
        ">",
        ">>",
        "&",
        "|",
        ";",
        "(",
        "(",
        "$((",
        "))",
        "<(",
        "${x:-",
        "sed -i",
        "find . -exec",
        "git commit -n",
        "bash -c",
        "python3 -c",
        "open(",
        ",'w'",
        "xargs",
        "-I",
        "cd",
        "..",
        "/",
        "~",
        "=",
        "x",
        "é",
        "\u{202e}",
        " ",
        " ",
        "case x in",
        "esac",
        "for",
        "in",
        "do",
        "#",
        "$'",
        "\\x2",
        "env -u",
        "-C",
        "of=",
        "<<<",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn quote_for_shell(command: &str) -> String {
    format!("bash -c '{}'", command.replace('\'', r"'\''"))
}

proptest! {
    #[test]
    fn no_command_makes_it_panic(command in prop_oneof![shell_fragments(), any::<String>()], home_only: bool) {
        let scope = if home_only { GuardScope::HomeOnly } else { GuardScope::Run };
        let _verdict = judge_shell(&command, scope);
    }

    #[test]
    fn no_input_of_any_tool_makes_it_panic(tool in "Bash|Write|Edit|Skill|Agent|mcp__a__write", text: String) {
        let shapes = [
            serde_json::json!({ "command": text, "file_path": text, "path": text, "skill": text, "prompt": text }),
            serde_json::json!(text),
        ];
        for input in shapes {
            let _verdict = self::judge_tool(&tool, &input, GuardScope::Run);
        }
    }
}

/// The verdict on a command does not depend on how it is wrapped.
#[test]
fn wrapping_changes_no_verdict() {
    let wrappings: [fn(&str) -> String; 6] = [
        |command| quote_for_shell(command),
        |command| format!("(\n{command}\n)"),
        |command| format!("{command}\ntrue"),
        |command| format!("true && {command}"),
        |command| quote_for_shell(&quote_for_shell(command)),
        |command| format!("if true; then\n{command}\nfi"),
    ];
    // An incomplete command becomes a different one when something follows it.
    let is_whole =
        |command: &String| !command.starts_with("echo \"unterm") && !command.ends_with("$(");
    for (what, command) in hostile_rows()
        .chain(corpus_rows(ORDINARY).filter(is_whole).map(|row| ("nothing".into(), row)))
    {
        for wrap in wrappings {
            let wrapped = wrap(&command);
            let found = judge_shell(&wrapped, GuardScope::Run)
                .map_or("nothing", |found| found.target.name());
            assert_eq!(found, what, "{wrapped}");
        }
    }
}

/// An unpaired surrogate in a command does not hide the rest from the guard.
#[test]
fn a_command_with_an_unpaired_surrogate_is_judged() {
    let input = RawValue::from_string(r#"{"command":"rm -rf ~/.ralph #\ud800"}"#.into()).unwrap();
    let found =
        judge_call(&GuardedCall { tool: "Bash", input: &input }, &guard_context(GuardScope::Run));
    assert_eq!(found.map(|found| found.target), Some(GuardTarget::Home));
}
