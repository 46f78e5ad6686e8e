//! `ralph accept`: a person makes a run that ended without proof count as verified.

use crate::sandbox::{SESSION, Sandbox, run_command};
use insta::assert_snapshot;
use std::fs;

const PROMISE: &str = r#","last_assistant_message":"<promise>DONE</promise>""#;

/// A run that ended `needs_review`, because its files were edited.
pub fn run_to_review() -> (Sandbox, String) {
    let sandbox = Sandbox::new().env("USER", "kim");
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let count = sandbox.ralph_home("runs").join(&run).join("count");
    fs::write(count, "0000000009").unwrap();
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert!(sandbox.send_stop(SESSION, PROMISE).notice().starts_with("ralph: needs_review"));
    (sandbox, run)
}

fn shown(sandbox: &Sandbox, run: &str, text: &str) -> String {
    let text = sandbox.normalize(text).replace(run, "[run]");
    let time = regex::Regex::new(r"\d\d:\d\d:\d\d").unwrap();
    let span = regex::Regex::new(r"\b\d+ (ms|s)\b").unwrap();
    span.replace_all(&time.replace_all(&text, "[time]"), "[span]").into_owned()
}

/// R-V1b: an accepted run counts as verified, and everything that shows it names the person and the reason.
#[test]
fn an_accepted_run_counts_as_verified_and_names_the_person() {
    let (sandbox, run) = run_to_review();
    let (done, terminal) =
        sandbox.ralph_typing(["accept", "--why", "read every line"], str::to_string);
    assert_snapshot!(shown(&sandbox, &run, &done.to_string()), @"
    exit 0
    --- stdout
    [run]  verified (accepted by kim: read every line)
    ");
    let word = regex::Regex::new("type [a-z]{4} to").unwrap();
    assert_snapshot!(word.replace(&shown(&sandbox, &run, &terminal), "type [word] to"), @"run `[run]` (“make it work”) ended needs_review, so ralph asks a person; type [word] to accept its work as verified:");
    assert_eq!(sandbox.run_status(&run).0, "verified");
    let accepted = &sandbox.status()["runs"][0]["accepted"];
    assert_eq!(
        (&accepted["by"], &accepted["why"], &accepted["was"]),
        (&"kim".into(), &"read every line".into(), &"needs_review".into())
    );
    let mut texts = String::new();
    for args in [&["status", &run][..], &["why", "--last", "1", &run], &["log", &run]] {
        texts.push_str(&shown(&sandbox, &run, &sandbox.ralph(args).stdout));
        texts.push('\n');
    }
    assert_snapshot!(texts, @"
    [run]  accepted      make it work  (just now, 10 iterations)
          ✓ verified (accepted by kim: read every line); it had ended needs_review
    ✓ verified (accepted by kim: read every line); it had ended needs_review
    [time]  needs_review rule `tampered`     1 requirement is met after 10 iterations and [span], but ralph's own files were changed meanwhile   not charged · [span]
              ✓ promise
    [time]  restored   the journal was damaged or missing; its remains are kept next to it
    [time]  held       `count` is higher than the journal's count; 1 not met (rule `tampered`)
    [time]  needs_review 1 requirement is met after 10 iterations and [span], but ralph's own files were changed meanwhile (rule `tampered`)
    [time]  verified   accepted by kim: read every line
    ");
    let board = sandbox.ralph(["watch", "--json"]).stdout;
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    let row = &board["ended"][0];
    let report = sandbox.ralph(["report", &run]).stdout;
    let report = report.lines().take(11).filter(|line| !line.is_empty() && !line.contains(" to "));
    let report: Vec<_> = report.collect();
    let screens = format!(
        "{} {}: {}\n{}\n{}",
        row["status"],
        row["accepted_by"],
        row["note"],
        report.join("\n"),
        sandbox.ralph(["stats"]).stdout
    );
    assert_snapshot!(shown(&sandbox, &run, &screens), @r#"
    "verified" "kim": "accepted by kim; it had ended needs_review: 1 requirement is met after 10 iterations and [span], but ralph's own files were changed meanwhile"
    # verified (accepted by kim): make it work
    accepted by kim without proof, 1 of 1 requirement met, none measured: all are claims, 10 iterations, [span]
    Run `[run]` of `project`
    ## What that rests on
    - **Result** Accepted by kim, without proof
    - **Measured** 1 of 1 requirement met, none measured: all are claims, at stop 2 ([time])
    1 run ended, 1 verified
    With fewer than 10 ended runs, they are listed instead of compared. 1 of the verified ones was accepted without proof. `promise` holds agents most.

    Runs
      Run   State     Goal            Held     Cost     Ended
      [run]  accepted  make it work  1 of 2  unknown  just now
      → `ralph why RUN` explains each of them

    What holds agents: 1 of 2 stops were held
      Requirement  Stops  Share  Until met  Waived  False holds
      promise          1  100 %          1       0            0
      → `ralph why [run]` shows how `promise` held an agent
    "#);
    let why = sandbox.ralph(["why", "--json", "--last", "1", &run]).stdout;
    assert!(why.contains(r#""accepted":{"by":"kim","why":"read every line","at":"#), "{why}");
    let again = sandbox.ralph_at_terminal(["accept", &run]);
    assert_snapshot!(shown(&sandbox, &run, &again.to_string()), @"
    exit 1
    --- stderr
    error: run `[run]` ended verified, which cannot be accepted
      hint: only `green` and `needs_review` can be accepted; `ralph why [run]` explains its state
    ");
}

/// No script, pipe or agent accepts; a refusal changes nothing.
#[test]
fn only_a_person_at_a_terminal_accepts() {
    let (sandbox, run) = run_to_review();
    let piped = sandbox.ralph_without_terminal(&["accept", &run]);
    assert_snapshot!(shown(&sandbox, &run, &piped.to_string()), @"
    exit 3
    --- stderr
    error: run `[run]` (“make it work”) ended needs_review, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run it in the foreground of your own terminal
    ");
    let (wrong, _) = sandbox.ralph_typing(["accept", &run], |_| "yes".to_string());
    assert_snapshot!(shown(&sandbox, &run, &wrong.to_string()), @"
    exit 3
    --- stderr
    error: that was another word; nothing was changed
      hint: run the command again and type the word that it shows
    ");
    let mut agent = sandbox.command();
    agent.args(["accept", &run]).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", SESSION);
    assert_snapshot!(run_command(&mut agent, b""), @"
    exit 1
    --- stderr
    error: the agent may not accept the run that holds it
      hint: ask a person to do this in their own terminal
    ");
    assert_eq!(sandbox.run_status(&run).0, "needs_review");
    let json = sandbox.ralph_at_terminal(["accept", &run, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["status"], &json["accepted"]["by"]), (&"verified".into(), &"kim".into()));
}

/// The error says what can be accepted.
#[test]
fn other_runs_cannot_be_accepted() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-", "--completion-promise", "DONE"]);
    assert_snapshot!(shown(&sandbox, &run, &sandbox.ralph(["accept", &run]).to_string()), @"
    exit 1
    --- stderr
    error: run `[run]` has not ended, so there is nothing to accept yet
      hint: only `green` and `needs_review` can be accepted; `ralph why [run]` explains its state
    ");
    sandbox.send_stop(SESSION, PROMISE);
    assert_snapshot!(shown(&sandbox, &run, &sandbox.ralph(["accept", &run]).to_string()), @"
    exit 1
    --- stderr
    error: run `[run]` ended claimed, which cannot be accepted
      hint: only `green` and `needs_review` can be accepted; `ralph why [run]` explains its state
    ");
}
