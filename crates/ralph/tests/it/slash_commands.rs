//! Slash commands and other prompts that a person types in a session, as the hook receives them.

use crate::sandbox::{CommandOutcome, SESSION, Sandbox, json_string, run_command, write_file};
use std::fs;

const PROMPT_ID: &str = "0d7f2f52-1111-4222-8333-444455556666";

impl Sandbox {
    /// Sends an event of the session, with `more` fields.
    pub fn send_event(&self, name: &str, session: &str, more: &str) -> CommandOutcome {
        self.run_hook(self.event(name, session, more))
    }

    /// Sends a prompt, as the client that this process stands for: without a client, a prompt cannot loosen a run.
    pub fn send_prompt(&self, session: &str, prompt: &str) -> CommandOutcome {
        let more = format!(r#","prompt_id":"{PROMPT_ID}","prompt":{}"#, json_string(prompt));
        let starts_run = ["/ralph:goal", "/ralph:loop", "/ralph-loop", "/ralph:orchestrator"]
            .iter()
            .any(|start| prompt.starts_with(start));
        if starts_run || self.has_variable("CLAUDE_PID") {
            return self.send_event("UserPromptSubmit", session, &more);
        }
        let mut hook = self.command();
        hook.args(["hook", "claude"]).env("CLAUDE_PID", std::process::id().to_string());
        run_command(&mut hook, self.event("UserPromptSubmit", session, &more).as_bytes())
    }

    fn event(&self, name: &str, session: &str, more: &str) -> String {
        let cwd = json_string(&self.project().display().to_string());
        format!(
            r#"{{"session_id":{},"hook_event_name":"{name}","cwd":{cwd}{more}}}"#,
            json_string(session)
        )
    }

    fn send_expansion(&self, session: &str, prompt: &str) -> CommandOutcome {
        let more = format!(r#","prompt_id":"{PROMPT_ID}","prompt":{}"#, json_string(prompt));
        self.send_event("UserPromptExpansion", session, &more)
    }

    /// Writes a transcript below the host's directory and returns its path.
    pub fn write_transcript(&self, name: &str, lines: &[&str]) -> String {
        let path = self.home().join(".claude/projects/p").join(format!("{name}.jsonl"));
        let text = [lines, &[""]].concat().join("\n");
        write_file(&path, text).display().to_string()
    }
}

impl CommandOutcome {
    /// The text that the client shows in place of the prompt.
    pub fn prompt_answer(&self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        let answer: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(answer["decision"], "block", "{self}");
        assert_eq!(answer["hookSpecificOutput"]["suppressOriginalPrompt"], true, "{self}");
        answer["reason"].as_str().unwrap().to_string()
    }

    /// The context for the agent, and the notice for the person.
    pub fn context_and_notice(&self) -> (String, Option<String>) {
        assert_eq!(self.code, Some(0), "{self}");
        let answer: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
        (context.to_string(), answer["systemMessage"].as_str().map(str::to_string))
    }
}

fn first_run_id(sandbox: &Sandbox) -> String {
    sandbox.status()["runs"][0]["run"].as_str().unwrap().to_string()
}

/// R-L1c, R-U2b: a goal holds the session it was typed in, and the notice names the run, its limits and how to cancel.
#[test]
fn a_goal_holds_the_session_it_was_typed_in() {
    let sandbox = Sandbox::new();
    let (context, notice) = sandbox
        .send_prompt(SESSION, "/ralph:goal handle nested quotes --max-iterations 5")
        .context_and_notice();
    let run = first_run_id(&sandbox);
    let show = |text: &str| text.replace(&run, "[run]");
    insta::assert_snapshot!(show(&context), @r#"
    ralph holds this session from now on (run [run]): you can stop when it finds the work done in the current tree, not when you say so.
    limits  5 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    Work on what the person asked for. If only a person can decide something, run `ralph ask "…"` and stop; to wait for something outside, run `ralph wait "…" --for 20m` and stop; if a requirement is wrong, run `ralph dispute REQUIREMENT "…"` and go on with the rest. `ralph status` shows the state of the run.
    "#);
    insta::assert_snapshot!(show(&notice.unwrap()), @"
    ralph: run [run] holds this session: handle nested quotes
    limits  5 iterations · 8 h · $20 · stuck at the 3rd stop without progress
    note: nothing measures this goal: the run ends as `claimed` when the agent says so, or at a limit
    `/ralph:status` shows its state, `/ralph:cancel` ends it
    ");
    assert!(sandbox.send_stop("another", "").is_allow());
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let status = sandbox.status();
    assert_eq!(
        (&status["runs"][0]["session"], &status["runs"][0]["max_iterations"]),
        (&SESSION.into(), &5.into())
    );
}

/// R-D2b, R-L1c: a hook that is registered twice, or for both prompt events, starts one run and announces it once.
#[test]
fn one_prompt_starts_one_run() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    assert!(sandbox.send_prompt(SESSION, "/ralph:goal fix it").is_allow());
    assert!(sandbox.send_expansion(SESSION, "/ralph:goal fix it").is_allow());
    assert_eq!(sandbox.status()["runs"].as_array().unwrap().len(), 1);
}

/// Even if the hook is registered only for `UserPromptExpansion`.
#[test]
fn an_expansion_alone_starts_a_run() {
    let sandbox = Sandbox::new();
    sandbox.send_expansion(SESSION, "/ralph:goal fix it").context_and_notice();
    assert!(sandbox.send_stop(SESSION, "").is_block());
}

/// R-L2c: a misspelt option starts no run and gets a suggestion.
#[test]
fn a_misspelt_option_starts_no_run() {
    let sandbox = Sandbox::new();
    let answer =
        sandbox.send_prompt(SESSION, "/ralph-loop \"fix it\" --max-iteration 3").prompt_answer();
    insta::assert_snapshot!(answer, @"
    ralph: unknown option `--max-iteration`; nothing was done
      hint: did you mean `--max-iterations`?
    ");
    assert_eq!(sandbox.status()["runs"].as_array().unwrap().len(), 0);
    assert!(sandbox.send_stop(SESSION, "").is_allow());
}

/// R-S1a: no part of a hostile goal of 1 MB is executed, and it is stored unchanged.
#[test]
fn a_hostile_goal_is_stored_unchanged() {
    let sandbox = Sandbox::new();
    let trap = sandbox.root().join("trap");
    let line = format!(
        "\"; touch {0}; $(touch {0}) `touch {0}` ' \\ --- | & > {0}\n\t\u{202e}\u{1b}[31m{{}}\r\n",
        trap.display()
    );
    let goal = format!("{}end", line.repeat(1024 * 1024 / line.len()));
    sandbox.send_prompt(SESSION, &format!("/ralph:goal {goal}")).context_and_notice();
    let run = first_run_id(&sandbox);
    let kept = fs::read(sandbox.ralph_home("runs").join(&run).join("goal.txt")).unwrap();
    assert!(kept == goal.as_bytes(), "{} bytes of {}", kept.len(), goal.len());
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert!(!trap.exists());
}

/// An unapproved policy starts no run, and the answer contains a hint.
#[test]
fn an_unapproved_policy_starts_no_run() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n");
    insta::assert_snapshot!(sandbox.send_prompt(SESSION, "/ralph:goal fix it").prompt_answer(), @"
    ralph: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
    sandbox.approve_policy();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
}

/// R-L4a, R-U2a: why, verify, pause, resume and cancel work in the session.
#[test]
fn a_run_is_inspected_paused_and_cancelled_from_its_session() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    let say = |command: &str| {
        let answer = sandbox.send_prompt(SESSION, command).prompt_answer();
        sandbox.normalize(&answer.replace(&run, "[run]"))
    };
    assert!(sandbox.send_stop(SESSION, "").is_block());
    insta::assert_snapshot!(say("/ralph:pause"), @"ralph: run [run] is paused; `/ralph:resume` holds the agent again");
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    insta::assert_snapshot!(say("/ralph:pause"), @"ralph: run [run] is paused; `/ralph:resume` holds the agent again");
    assert_eq!(sandbox.run_status(&run).0, "paused");
    say("/ralph:resume");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(say("/ralph:why").lines().filter(|line| line.contains("rule `")).count(), 3);
    insta::assert_snapshot!(say("/ralph:verify"), @"
    run [run]: 1 of 1 requirement is not met
      ✗ goal (correctness): nothing measures this goal; it ends as claimed when the agent declares it done, or at a limit
    ");
    // A terminal shows the same, with and without a name.
    for args in [&["verify"][..], &["verify", &run]] {
        let shown = sandbox.ralph(args);
        assert_eq!(sandbox.normalize(&shown.stdout).trim_end(), say("/ralph:verify"), "{shown}");
    }
    insta::assert_snapshot!(say("/ralph:cancel"), @"ralph: run [run] is cancelled; the session is free, and nothing was deleted");
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert_eq!(sandbox.run_status(&run).0, "cancelled");
    insta::assert_snapshot!(say("/ralph:cancel"), @"
    ralph: no run holds this session
      hint: `/ralph:goal …` starts a run, `ralph status` lists the runs
    ");
    let refused = sandbox.ralph(["verify"]).stderr.replace("error: ", "ralph: ");
    assert_eq!(refused.trim_end(), say("/ralph:verify"));
    assert_eq!(
        sandbox.send_prompt("no-run", "/ralph:status").prompt_answer(),
        "ralph: no run holds this session; `/ralph:goal …` starts one"
    );
}

/// R-S6b, R-L4f: a prompt that the agent scheduled looks like a person's, so once one exists, commands typed in the
/// session no longer control the run.
#[test]
fn a_command_scheduled_by_the_agent_has_no_effect() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    let crons = r#","session_crons":[{"id":"1","schedule":"* * * * *","recurring":false,"prompt":" /ralph:cancel"}]"#;
    assert!(sandbox.send_stop(SESSION, crons).is_allow(), "a scheduled prompt is pending");
    for command in ["/ralph:cancel", "/ralph:pause", "/cancel-ralph"] {
        let answer = sandbox.send_prompt(SESSION, command).prompt_answer();
        assert!(answer.starts_with("ralph: the agent scheduled ralph commands"), "{answer}");
    }
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0), "a terminal still can cancel it");
}

/// R-S6b: a client that the agent starts in its shell is not the process that owns the run.
#[test]
fn a_second_client_of_the_session_cannot_control_the_run() {
    let host = std::process::id().to_string();
    let sandbox = Sandbox::new().env("CLAUDE_PID", &host);
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let nested = sandbox.env("CLAUDE_PID", "1");
    let answer = nested.send_prompt(SESSION, "/ralph:cancel").prompt_answer();
    assert!(answer.starts_with("ralph: the run belongs to another client process"), "{answer}");
    let back = nested.env("CLAUDE_PID", &host);
    assert!(back.send_stop(SESSION, "").is_block());
    back.send_prompt(SESSION, "/ralph:cancel").prompt_answer();
    assert!(back.send_stop(SESSION, "").is_allow());
}

/// R-L5b: an agent's question to a person ends its run, and the agent is not held without an answer.
#[test]
fn an_agent_may_ask_a_person() {
    let sandbox = Sandbox::new().env("CLAUDE_CODE_SESSION_ID", SESSION).env("CLAUDECODE", "1");
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let asked = sandbox.ralph(["ask", "shall the old format", "still be read?"]);
    insta::assert_snapshot!(asked.stdout.replace(&run, "[run]"), @"[run]  asks a person; stop now; the run ends as `needs_human`");
    let notice = sandbox.send_stop(SESSION, "").notice();
    assert!(
        notice.contains("needs_human") && notice.contains("shall the old format still be read?"),
        "{notice}"
    );
    assert_eq!(sandbox.run_status(&run).0, "needs_human");
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    let late = sandbox.ralph(["ask", "and now?"]);
    assert_eq!(late.code, Some(1), "{late}");
}

/// R-L5a: stops during a declared wait are allowed and not charged, until the wait is over.
#[test]
fn an_agent_may_declare_a_wait() {
    let sandbox = Sandbox::new().env("CLAUDE_CODE_SESSION_ID", SESSION).env("CLAUDECODE", "1");
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    for (why, span) in [("x", "0s"), ("x", "13h"), ("x", "soon"), (" ", "5m")] {
        assert_eq!(sandbox.ralph(["wait", why, "--for", span]).code, Some(1), "{why:?} {span}");
    }
    assert_eq!(sandbox.ralph(["wait", "no duration"]).code, Some(1));
    assert_eq!(sandbox.ralph(["wait", "the", "deployment", "--for", "2h"]).code, Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    assert_eq!(sandbox.run_status(&run).1, 0);
    assert_eq!(sandbox.fired_rules(&run), ["waiting"]);
    assert_eq!(sandbox.ralph(["wait", "no", "more", "--for", "1ms"]).code, Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_block());
}

/// R-L11a, R-L11b: a person's prompt after an interrupt pauses the run until it is resumed, once for each interrupt.
#[test]
fn a_prompt_after_an_interrupt_pauses_the_run() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    let prompt_line =
        r#"{"type":"user","message":{"role":"user","content":"fix it"},"promptSource":"typed"}"#;
    let interrupt_line = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
    let transcript = sandbox.write_transcript(SESSION, &[prompt_line]);
    let path = format!(r#","transcript_path":{}"#, json_string(&transcript));
    let say = |prompt: &str| {
        let more = format!(r#"{path},"prompt_id":"p","prompt":{}"#, json_string(prompt));
        sandbox.send_event("UserPromptSubmit", SESSION, &more)
    };
    assert!(sandbox.send_stop(SESSION, &path).is_block());
    assert!(say("go on").is_allow(), "no interrupt");
    assert_eq!(sandbox.run_status(&run).0, "held");
    sandbox.write_transcript(SESSION, &[prompt_line, interrupt_line]);
    assert!(say("<task-notification>\n…").is_allow(), "prompts of the host are not a person's");
    let notice = say("do something else").notice();
    insta::assert_snapshot!(notice.replace(&run, "[run]"), @"ralph: run [run] is paused because you interrupted the agent; `/ralph:resume` continues it, `/ralph:cancel` ends it");
    assert!(sandbox.send_stop(SESSION, &path).is_allow());
    assert!(say("and more").is_allow());
    sandbox.send_prompt(SESSION, "/ralph:resume").prompt_answer();
    assert!(say("now go on").is_allow(), "the same interrupt pauses once");
    assert!(sandbox.send_stop(SESSION, &path).is_block());
}

/// R-L9a: if the host ends a turn despite a block, the run ends `overridden`, never `verified`.
#[test]
fn an_override_by_the_host_ends_the_run() {
    let capped = r#"{"type":"system","subtype":"informational","content":"A hook blocked the turn from ending 9 consecutive times — overriding and ending turn. Set","level":"warning"}"#;
    for at_the_end in [true, false] {
        let sandbox = Sandbox::new();
        sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
        let run = first_run_id(&sandbox);
        let transcript = sandbox.write_transcript(SESSION, &["{}"]);
        let path = format!(r#","transcript_path":{}"#, json_string(&transcript));
        assert!(sandbox.send_stop(SESSION, &path).is_block());
        sandbox.write_transcript(SESSION, &["{}", capped]);
        if at_the_end {
            let ended =
                sandbox.send_event("SessionEnd", SESSION, &format!(r#"{path},"reason":"other""#));
            assert!(ended.is_allow(), "{ended}");
        } else {
            let more = format!(r#"{path},"prompt_id":"p","prompt":"and now?""#);
            let notice = sandbox.send_event("UserPromptSubmit", SESSION, &more).notice();
            assert!(notice.starts_with("ralph: overridden: "), "{notice}");
        }
        assert_eq!(sandbox.run_status(&run).0, "overridden");
        assert!(sandbox.send_stop(SESSION, &path).is_allow());
    }
}

/// R-L4a: a command typed while the agent works reaches ralph only after the turn, so the turn may end.
#[test]
fn a_queued_command_lets_the_turn_end() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it --stuck-after 9").context_and_notice();
    let run = first_run_id(&sandbox);
    let queued = |content: &str| {
        format!(
            r#"{{"type":"queue-operation","operation":"enqueue","content":{}}}"#,
            json_string(content)
        )
    };
    let transcript = sandbox.write_transcript(SESSION, &["{}"]);
    let path = format!(r#","transcript_path":{}"#, json_string(&transcript));
    assert!(sandbox.send_stop(SESSION, &path).is_block());
    let message = queued("use tabs");
    sandbox.write_transcript(SESSION, &["{}", &message]);
    assert!(sandbox.send_stop(SESSION, &path).is_block(), "it may be the prompt of this turn");
    sandbox.write_transcript(SESSION, &["{}", &message, "{}"]);
    assert!(sandbox.send_stop(SESSION, &path).is_allow(), "it is still queued");
    let taken = r#"{"type":"queue-operation","operation":"dequeue"}"#;
    sandbox.write_transcript(SESSION, &["{}", &message, "{}", taken]);
    assert!(sandbox.send_stop(SESSION, &path).is_block());
    let cancel = queued("/ralph:cancel");
    sandbox.write_transcript(SESSION, &["{}", &message, "{}", taken, &cancel]);
    assert!(
        sandbox.send_stop(SESSION, &path).is_allow(),
        "a command is never the prompt of a turn"
    );
    assert_eq!(sandbox.fired_rules(&run), ["block", "block", "waiting", "block", "waiting"]);
}

/// R-S6b: the owner's process is recorded when the run starts, before the first stop.
#[test]
fn a_second_client_cannot_control_the_run_in_its_first_turn() {
    let host = std::process::id().to_string();
    let sandbox = Sandbox::new().env("CLAUDE_PID", &host);
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let nested = sandbox.env("CLAUDE_PID", "1");
    for command in ["/ralph:cancel", "/ralph:pause"] {
        let answer = nested.send_prompt(SESSION, command).prompt_answer();
        assert!(answer.starts_with("ralph: the run belongs to another client process"), "{answer}");
    }
    let run = first_run_id(&nested);
    let below = nested.ralph(["pause", &run]);
    assert_eq!(below.code, Some(1), "{below}");
}

/// R-L4f, R-S6b: an event sent by a descendant of the client is not trusted as the client's.
#[test]
fn a_forged_event_has_no_effect() {
    let host = std::process::id().to_string();
    let sandbox = Sandbox::new().env("CLAUDE_PID", &host);
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    let script = sandbox.write("x.sh", format!("{} hook claude; :\n", env!("CARGO_BIN_EXE_ralph")));
    let forge = |event: String| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("sh '{}'; :", script.display())]);
        shell.current_dir(sandbox.project()).env_clear();
        shell.env("HOME", sandbox.home()).env("PATH", "/usr/bin:/bin").env("CLAUDE_PID", &host);
        crate::sandbox::run_command(&mut shell, event.as_bytes())
    };
    let cwd = json_string(&sandbox.project().display().to_string());
    let event = |session: &str, name: &str, more: &str| {
        format!(r#"{{"session_id":"{session}","cwd":{cwd},"hook_event_name":"{name}",{more}}}"#)
    };
    let cancelled =
        forge(event(SESSION, "UserPromptSubmit", r#""prompt":"/ralph:cancel""#)).prompt_answer();
    assert!(
        cancelled.starts_with("ralph: the command did not come directly from the client"),
        "{cancelled}"
    );
    let input = sandbox
        .write("event.json", event(SESSION, "UserPromptSubmit", r#""prompt":"/ralph:pause""#));
    let answer = sandbox.root().join("answer");
    let detached = format!(
        "(sh '{}' < '{}' > '{}.part' 2>&1; mv '{2}.part' '{2}') & :",
        script.display(),
        input.display(),
        answer.display()
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &detached]).current_dir(sandbox.project()).env_clear();
    shell.env("HOME", sandbox.home()).env("PATH", "/usr/bin:/bin").env("CLAUDE_PID", &host);
    assert!(shell.status().unwrap().success());
    let paused = crate::sandbox::eventually(|| std::fs::read_to_string(&answer).ok());
    assert!(paused.contains("the command did not come directly from the client"), "{paused}");
    assert!(forge(event(SESSION, "SessionEnd", r#""reason":"clear""#)).is_allow());
    assert!(forge(event("ghost", "SessionStart", r#""source":"clear""#)).is_allow());
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.run_status(&run).0, "held");
}

/// R-S6b: without a client that sent it, a prompt loosens nothing, and the answer names the command for a terminal.
#[test]
fn a_prompt_without_a_client_cannot_loosen_the_run() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    let forge = |prompt: &str| {
        let prompt = format!(r#","prompt":{}"#, json_string(prompt));
        let answer = sandbox.send_event("UserPromptSubmit", SESSION, &prompt).prompt_answer();
        answer.replace(&run, "[run]")
    };
    insta::assert_snapshot!(forge("/ralph:waive tests --until 2h --why flaky"), @r"
    ralph: no client process is known, so this may not come from a person; nothing was done
      hint: run `ralph waive … --run [run]` in a terminal of your own, outside of any sandbox
    ");
    for (prompt, command) in [
        ("/ralph:pause", "ralph pause [run]"),
        ("/ralph:resume", "ralph resume [run]"),
        ("/ralph:cancel", "ralph cancel [run]"),
        ("/ralph:approve", "ralph approve [run]"),
        ("/ralph:tell use tabs", "ralph tell [run] …"),
        ("/ralph:limits --max-iterations 7", "ralph limits [run] …"),
    ] {
        let answer = forge(prompt);
        assert!(answer.contains(&format!("hint: run `{command}` in a terminal")), "{answer}");
    }
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.fired_rules(&run), ["block"]);
}

/// R-S6b: a client below the agent's shell is not a person's, even if no other client is known or it sent the last stop.
#[test]
fn a_client_in_an_agents_shell_cannot_loosen_the_run() {
    let sandbox = Sandbox::new();
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    let prompt = sandbox.event("UserPromptSubmit", SESSION, r#","prompt":"/ralph:cancel""#);
    let prompt = write_file(&sandbox.root().join("prompt"), prompt);
    let stop = write_file(&sandbox.root().join("stop"), sandbox.stop_event(SESSION, ""));
    let hook = format!("CLAUDE_PID=$$ {} hook claude", env!("CARGO_BIN_EXE_ralph"));
    let (prompt, stop) = (prompt.display(), stop.display());
    for script in [
        format!("{hook} < '{prompt}'; :"),
        format!("{hook} < '{stop}' > /dev/null 2>&1; {hook} < '{prompt}'; :"),
    ] {
        let client = write_file(&sandbox.root().join("client"), &script);
        let nested = format!("env -u CLAUDECODE sh '{}'; :", client.display());
        let mut shell = sandbox.tool_command("sh");
        shell.args(["-c", &nested]).env("CLAUDECODE", "1");
        let answer = run_command(&mut shell, b"").prompt_answer();
        assert_eq!(
            answer.lines().next(),
            Some(
                "ralph: an agent or a runner started the client that sent the command; nothing was done"
            ),
            "{script}"
        );
    }
    assert_eq!(sandbox.fired_rules(&run), ["block"]);
}

/// R-L4a, R-D2b: a cancel that is delivered twice at once takes effect once, and both answers confirm it.
#[test]
fn a_cancel_delivered_twice_takes_effect_once() {
    for _ in 0..5 {
        let sandbox = Sandbox::new();
        sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
        let run = first_run_id(&sandbox);
        let cwd = json_string(&sandbox.project().display().to_string());
        let event = format!(
            r#"{{"session_id":"{SESSION}","hook_event_name":"UserPromptSubmit","cwd":{cwd},"prompt_id":"{PROMPT_ID}","prompt":"/ralph:cancel"}}"#
        );
        let spawn = || {
            let mut command = sandbox.command();
            command.args(["hook", "claude"]).env("CLAUDE_PID", std::process::id().to_string());
            crate::sandbox::spawn_with_input(&mut command, event.as_bytes())
        };
        let both = [spawn(), spawn()];
        let answers = both
            .map(|child| CommandOutcome::from(child.wait_with_output().unwrap()).prompt_answer());
        for answer in answers {
            let done = format!(
                "ralph: run {run} is cancelled; the session is free, and nothing was deleted"
            );
            assert!(
                answer == done || answer.starts_with("ralph: no run holds this session"),
                "{answer}"
            );
        }
        assert!(sandbox.ralph_home("cancelled").join(&run).exists());
        assert!(sandbox.send_stop(SESSION, "").is_allow());
    }
}

/// R-L11b: a person's prompt ends the agent's wait. An agent cannot wait or ask for the run of another session.
#[test]
fn a_prompt_ends_the_agents_wait() {
    let sandbox = Sandbox::new().env("CLAUDE_CODE_SESSION_ID", SESSION).env("CLAUDECODE", "1");
    sandbox.send_prompt(SESSION, "/ralph:goal fix it").context_and_notice();
    let run = first_run_id(&sandbox);
    assert_eq!(sandbox.ralph(["wait", "nothing", "--for", "12h"]).code, Some(0));
    assert!(sandbox.send_stop(SESSION, "").is_allow());
    let status = sandbox.ralph(["status", &run]).stdout;
    assert!(status.contains("\n      waits until "), "{status}");
    assert!(sandbox.send_prompt(SESSION, "go on please").is_allow());
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let other = sandbox.env("CLAUDE_CODE_SESSION_ID", "another");
    for command in
        [vec!["wait", "x", "--for", "1h", "--run", &run], vec!["ask", "x", "--run", &run]]
    {
        assert_eq!(other.ralph(&command).code, Some(1), "{command:?}");
    }
}

const PASSING_POLICY: &str =
    "[run]\nchange = \"optional\"\n[[gate]]\nname = \"tests\"\nshell = \"echo 1 passed\"\n";

/// R-S4c: removed features hold the run, even if everything else passes.
#[test]
fn a_shortened_feature_list_holds() {
    let two =
        r#"{"features":[{"description":"a","passes":true},{"description":"b","passes":false}]}"#;
    let one = r#"{"features":[{"description":"a","passes":true}]}"#;
    let gone = "│ feature 2 was removed\n";
    let both = "│ feature 1 was removed\n│ feature 2 was removed\n";
    for (shorter, findings) in [(one, gone), (r#"{"features":[]}"#, both)] {
        let sandbox = Sandbox::new();
        sandbox.write("ralph.toml", PASSING_POLICY);
        sandbox.write("list/feature_list.json", two);
        sandbox.commit();
        sandbox.approve_policy();
        sandbox.send_prompt(SESSION, "/ralph:goal do them --features list").context_and_notice();
        assert!(sandbox.send_stop(SESSION, "").is_block());
        sandbox.write("list/feature_list.json", shorter);
        let held = sandbox.send_stop(SESSION, "");
        assert!(held.is_block(), "{held}");
        let quoted: String = held
            .stderr
            .lines()
            .filter(|line| line.starts_with("│ feature"))
            .fold(String::new(), |all, line| all + line + "\n");
        assert_eq!(quoted, findings);
    }
}

/// R-L11a: an interrupt from before the start or the resume of the run does not pause it.
#[test]
fn an_old_interrupt_does_not_pause_the_run() {
    let sandbox = Sandbox::new().env("CLAUDE_PID", &std::process::id().to_string());
    let interrupt_line = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
    let transcript = sandbox.write_transcript(SESSION, &[interrupt_line]);
    let say = |prompt: &str| {
        let path = json_string(&transcript);
        let more = format!(
            r#","transcript_path":{path},"prompt_id":"p","prompt":{}"#,
            json_string(prompt)
        );
        sandbox.send_event("UserPromptSubmit", SESSION, &more)
    };
    say("/ralph:goal fix it").context_and_notice();
    assert!(say("go on").is_allow());
    sandbox.write_transcript(SESSION, &[interrupt_line, interrupt_line]);
    say("/ralph:pause").prompt_answer();
    say("/ralph:resume").prompt_answer();
    assert!(say("and on").is_allow());
    sandbox.write_transcript(SESSION, &[interrupt_line, interrupt_line, interrupt_line]);
    assert!(say("but this").notice().contains("is paused because you interrupted"));
}
