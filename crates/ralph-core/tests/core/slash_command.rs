//! Slash commands: goals are kept byte for byte, and misspelt options are errors.

use proptest::prelude::*;
use ralph_core::limits::{LimitKind, LimitOverrides};
use ralph_core::run_terms::RunTerms;
use ralph_core::slash_command::{CommandMistake, SlashCommand, parse};
use std::fmt::Write;

fn shown(prompt: &str) -> String {
    match parse(prompt) {
        None => "not for ralph".to_owned(),
        Some(Err(CommandMistake { what, hint })) => format!("mistake: {what} ({hint})"),
        Some(Ok(SlashCommand::Start(terms))) => terms_shown(&terms),
        Some(Ok(SlashCommand::Limits(bounds))) => bounds_shown(&bounds),
        Some(Ok(other)) => format!("{other:?}"),
    }
}

fn bounds_shown(bounds: &LimitOverrides) -> String {
    let named = bounds.given().map(|(limit, value)| format!("{} {value}", limit.key));
    format!("limits: {}", named.collect::<Vec<_>>().join(", "))
}

fn terms_shown(terms: &RunTerms) -> String {
    let mut out = format!("hold to {:?}", String::from_utf8_lossy(&terms.goal));
    for (limit, value) in terms.limits.given() {
        write!(out, ", {} {value}", limit.key).unwrap();
    }
    if let Some(complexity) = terms.complexity {
        write!(out, ", complexity {complexity}").unwrap();
    }
    if let Some(promise) = &terms.promise {
        write!(out, ", promise {promise:?}").unwrap();
    }
    for list in &terms.lists.features {
        write!(out, ", features {list:?}").unwrap();
    }
    if terms.lists.checklist {
        out.push_str(", checklist");
    }
    if terms.phases {
        out.push_str(", in phases");
    }
    out
}

fn table(prompts: &[&str]) -> String {
    prompts.iter().fold(String::new(), |mut out, prompt| {
        writeln!(out, "{prompt:?}\n    {}", shown(prompt)).unwrap();
        out
    })
}

#[test]
fn messages_and_limits_are_parsed() {
    insta::assert_snapshot!(table(&[
        "/ralph:tell the old format may go",
        "/ralph:tell \"the old format may go\"",
        "/ralph:tell --max-iterations is too low, I know\nbut go on",
        "/ralph:tell  ",
        "/ralph:limits",
        "/ralph:limits --max-iterations 40 --max-cost=50 --max-duration 0 --stuck-after 5 --min-iterations 2",
        "/ralph:limits --max-tokens 2M --handover-at 60%",
        "/ralph:limits --max-tokens many",
        "/ralph:limits --max-iterations lots",
        "/ralph:limits --max-iterations 99999999999",
        "/ralph:limits --max-cost 1 --max-cost-usd 2",
        "/ralph:limits --max-iteration 4",
        "/ralph:limits --features x",
        "/ralph:limits 40",
    ]), @r#"
    "/ralph:tell the old format may go"
        Tell("the old format may go")
    "/ralph:tell \"the old format may go\""
        Tell("the old format may go")
    "/ralph:tell --max-iterations is too low, I know\nbut go on"
        Tell("--max-iterations is too low, I know\nbut go on")
    "/ralph:tell  "
        mistake: no message given (type the message for the agent's next stop: `/ralph:tell …`)
    "/ralph:limits"
        limits: 
    "/ralph:limits --max-iterations 40 --max-cost=50 --max-duration 0 --stuck-after 5 --min-iterations 2"
        limits: max_iterations 40, min_iterations 2, max_duration 0, max_cost_usd 50000000, stuck_after 5
    "/ralph:limits --max-tokens 2M --handover-at 60%"
        limits: max_tokens 2000000, handover_at 600
    "/ralph:limits --max-tokens many"
        mistake: `--max-tokens` needs a number such as `500k` or `2M` (type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them)
    "/ralph:limits --max-iterations lots"
        mistake: `--max-iterations` needs a whole number (type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them)
    "/ralph:limits --max-iterations 99999999999"
        mistake: `--max-iterations` needs a smaller number: 4294967295 or less (type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them)
    "/ralph:limits --max-cost 1 --max-cost-usd 2"
        mistake: `--max-cost-usd` is given more than once (type `/ralph:limits --max-iterations 40`, or `/ralph:limits` to show them)
    "/ralph:limits --max-iteration 4"
        mistake: `--max-iteration` is not a limit (did you mean `--max-iterations`?)
    "/ralph:limits --features x"
        mistake: `--features` is not a limit (available: --max-iterations, --min-iterations, --max-duration, --max-cost-usd, --max-cost, --max-tokens, --stuck-after, --handover-at)
    "/ralph:limits 40"
        mistake: `40` is not a limit (available: --max-iterations, --min-iterations, --max-duration, --max-cost-usd, --max-cost, --max-tokens, --stuck-after, --handover-at)
    "#);
}

#[test]
fn waivers_need_a_reason_and_an_end() {
    insta::assert_snapshot!(table(&[
        "/ralph:waive",
        "/ralph:waive --list",
        "/ralph:waive tests --until 2h --why the service is down",
        "/ralph:waive --why \"it's down\" --until=2026-11-20 feature 4",
        "/ralph:waive feature 4 --until 2026-11-20 --why next release",
        "/ralph:waive tests --until 2h",
        "/ralph:waive tests --why slow",
        "/ralph:waive --until 2h --why slow",
        "/ralph:waive --undo feature 4",
        "/ralph:waive --undo",
        "/ralph:waive --undo tests --why no",
        "/ralph:waive --list tests",
        "/ralph:waive tests --untill 2h",
    ]), @r#"
    "/ralph:waive"
        Waive(List)
    "/ralph:waive --list"
        Waive(List)
    "/ralph:waive tests --until 2h --why the service is down"
        Waive(Requirement { name: "tests", why: "the service is down", until: "2h" })
    "/ralph:waive --why \"it's down\" --until=2026-11-20 feature 4"
        mistake: no requirement given (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive feature 4 --until 2026-11-20 --why next release"
        Waive(Requirement { name: "feature 4", why: "next release", until: "2026-11-20" })
    "/ralph:waive tests --until 2h"
        mistake: no reason given (`--why`) (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive tests --why slow"
        mistake: no end given (`--until`) (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive --until 2h --why slow"
        mistake: no requirement given (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive --undo feature 4"
        Waive(Undo("feature 4"))
    "/ralph:waive --undo"
        mistake: no requirement given (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive --undo tests --why no"
        mistake: `--undo` and `--list` cannot be combined with other arguments (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive --list tests"
        mistake: `--undo` and `--list` cannot be combined with other arguments (type `/ralph:waive REQUIREMENT --until 2h --why "…"`, `/ralph:waive --undo REQUIREMENT`, or `/ralph:waive` to list waivers)
    "/ralph:waive tests --untill 2h"
        mistake: unknown option `--untill` (did you mean `--until`?)
    "#);
}

#[test]
fn commands_are_recognised_at_the_start_of_a_prompt() {
    insta::assert_snapshot!(table(&[
        "fix the parser",
        "/goal fix the parser",
        "please /ralph:cancel",
        "/ralph:status",
        "/ralph:why ",
        "/ralph:verify",
        "/ralph:pause",
        "/ralph:resume",
        "/ralph:resume k7f2",
        "/ralph:resume k7f2 now",
        "/ralph:cancel",
        "/cancel-ralph",
        "/ralph-loop:cancel-ralph",
        "/ralph:cancel k7f2",
        "/ralph:ask what now?",
        "/ralph:approve",
        "/ralph:approve the plan",
        "/ralph:stat",
        "/ralph:frobnicate",
        "/ralph-looping around",
        "/ralph:",
    ]), @r#"
    "fix the parser"
        not for ralph
    "/goal fix the parser"
        not for ralph
    "please /ralph:cancel"
        not for ralph
    "/ralph:status"
        Status
    "/ralph:why "
        Why
    "/ralph:verify"
        Verify
    "/ralph:pause"
        Pause
    "/ralph:resume"
        Resume(None)
    "/ralph:resume k7f2"
        Resume(Some("k7f2"))
    "/ralph:resume k7f2 now"
        mistake: `/ralph:resume` takes at most one run (type `/ralph:resume` or `/ralph:resume RUN`)
    "/ralph:cancel"
        Cancel
    "/cancel-ralph"
        Cancel
    "/ralph-loop:cancel-ralph"
        Cancel
    "/ralph:cancel k7f2"
        mistake: `/ralph:cancel` takes no arguments (type `/ralph:cancel` alone; it applies to this session's run)
    "/ralph:ask what now?"
        Ask
    "/ralph:approve"
        Approve
    "/ralph:approve the plan"
        mistake: `/ralph:approve` takes no arguments (type `/ralph:approve` alone; it applies to this session's run)
    "/ralph:stat"
        mistake: unknown command `/ralph:stat` (did you mean `/ralph:status`?)
    "/ralph:frobnicate"
        mistake: unknown command `/ralph:frobnicate` (available: goal, plan, loop, orchestrator, status, why, verify, pause, resume, cancel, off, on, ask, approve, tell, waive, limits)
    "/ralph-looping around"
        not for ralph
    "/ralph:"
        mistake: unknown command `/ralph:` (available: goal, plan, loop, orchestrator, status, why, verify, pause, resume, cancel, off, on, ask, approve, tell, waive, limits)
    "#);
}

#[test]
fn options_may_come_before_or_after_the_goal() {
    insta::assert_snapshot!(table(&[
        "/ralph:goal make the parser handle nested quotes",
        "/ralph:goal --max-iterations 5 fix it",
        "/ralph:goal fix it --max-iterations 5 --max-duration 90m --max-cost-usd 1.50",
        "/ralph:goal fix it --max-cost 2",
        "/ralph-loop \"fix all type errors\" --max-iterations 25 --completion-promise \"ALL DONE\"",
        "/ralph-loop 'fix it' --completion-promise=DONE",
        "/ralph:loop fix it --stuck-after 4 --complexity 7",
        "/ralph:orchestrator implement auth",
        "/ralph:goal --features csv --features docs/list",
        "/ralph:goal --checklist",
        "/ralph:goal say \"--max-iterations 3\" in the help",
        "/ralph:goal explain `--frob` in the help --max-iterations 2",
        "/ralph:goal --max-iterations 2 -- fix --frob and --max-iteration",
        "/ralph:goal it's done when the user's tests pass",
        "/ralph:goal \"a\" and \"b\"",
    ]), @r#"
    "/ralph:goal make the parser handle nested quotes"
        hold to "make the parser handle nested quotes"
    "/ralph:goal --max-iterations 5 fix it"
        hold to "fix it", max_iterations 5
    "/ralph:goal fix it --max-iterations 5 --max-duration 90m --max-cost-usd 1.50"
        hold to "fix it", max_iterations 5, max_duration 5400000, max_cost_usd 1500000
    "/ralph:goal fix it --max-cost 2"
        hold to "fix it", max_cost_usd 2000000
    "/ralph-loop \"fix all type errors\" --max-iterations 25 --completion-promise \"ALL DONE\""
        hold to "fix all type errors", max_iterations 25, promise "ALL DONE"
    "/ralph-loop 'fix it' --completion-promise=DONE"
        hold to "fix it", promise "DONE"
    "/ralph:loop fix it --stuck-after 4 --complexity 7"
        hold to "fix it", stuck_after 4, complexity 7
    "/ralph:orchestrator implement auth"
        hold to "implement auth", in phases
    "/ralph:goal --features csv --features docs/list"
        hold to "", features "csv", features "docs/list"
    "/ralph:goal --checklist"
        hold to "", checklist
    "/ralph:goal say \"--max-iterations 3\" in the help"
        hold to "say \"--max-iterations 3\" in the help"
    "/ralph:goal explain `--frob` in the help --max-iterations 2"
        hold to "explain `--frob` in the help", max_iterations 2
    "/ralph:goal --max-iterations 2 -- fix --frob and --max-iteration"
        hold to "fix --frob and --max-iteration", max_iterations 2
    "/ralph:goal it's done when the user's tests pass"
        hold to "it's done when the user's tests pass"
    "/ralph:goal \"a\" and \"b\""
        hold to "\"a\" and \"b\""
    "#);
}

/// R-L2c: an option that is misspelt, unknown or without its value is an error and never part of the goal.
#[test]
fn an_invalid_option_is_an_error() {
    insta::assert_snapshot!(table(&[
        "/ralph:goal fix it --max-iteration 3",
        "/ralph:goal --max-iterations=three fix it",
        "/ralph:goal fix it --max-iterations",
        "/ralph:goal fix it --max-iterations --checklist",
        "/ralph:goal fix it --frobnicate",
        "/ralph:goal --unlimited fix it",
        "/ralph:goal fix --max-iterations 3 the parser",
        "/ralph:goal fix it --checklist=yes",
        "/ralph:goal fix it --completion-promise \"<b>\"",
        "/ralph:goal fix it --max-duration soon",
        "/ralph:goal fix it --complexity 11",
        "/ralph:goal --max-iterations 3\nfirst line\nsecond --max-iteration 4",
        "/ralph:goal first --max-iterations 3 line\nsecond line",
        "/ralph:goal",
        "/ralph:goal   ",
        "/ralph:goal --max-iterations 3",
    ]), @r#"
    "/ralph:goal fix it --max-iteration 3"
        mistake: unknown option `--max-iteration` (did you mean `--max-iterations`?)
    "/ralph:goal --max-iterations=three fix it"
        mistake: `--max-iterations` needs a whole number (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix it --max-iterations"
        mistake: `--max-iterations` needs a whole number (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix it --max-iterations --checklist"
        mistake: `--max-iterations` needs a whole number (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix it --frobnicate"
        mistake: unknown option `--frobnicate` (if it is part of the goal, put `--` before the goal)
    "/ralph:goal --unlimited fix it"
        mistake: unknown option `--unlimited` (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix --max-iterations 3 the parser"
        mistake: unexpected `the` after an option (quote the goal, or put all options before it)
    "/ralph:goal fix it --checklist=yes"
        mistake: `--checklist` needs no value (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix it --completion-promise \"<b>\""
        mistake: `--completion-promise` needs a phrase without `<` and `>`, in quotes if it has spaces (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix it --max-duration soon"
        mistake: `--max-duration` needs a duration such as `90m` or `8h` (if it is part of the goal, put `--` before the goal)
    "/ralph:goal fix it --complexity 11"
        mistake: `--complexity` needs a number from 0 to 10 (if it is part of the goal, put `--` before the goal)
    "/ralph:goal --max-iterations 3\nfirst line\nsecond --max-iteration 4"
        mistake: unknown option `--max-iteration` (did you mean `--max-iterations`?)
    "/ralph:goal first --max-iterations 3 line\nsecond line"
        mistake: `--max-iterations` is in the middle of the goal (put options before the goal or at its end; everything after `--` is the goal)
    "/ralph:goal"
        mistake: no goal given (type the goal: `/ralph:goal make the parser handle nested quotes`)
    "/ralph:goal   "
        mistake: no goal given (type the goal: `/ralph:goal make the parser handle nested quotes`)
    "/ralph:goal --max-iterations 3"
        mistake: no goal given (type the goal: `/ralph:goal make the parser handle nested quotes`)
    "#);
}

/// R-S1a: quotes, substitutions, newlines and anything else in a goal are kept byte for byte, at any size.
#[test]
fn a_goal_is_kept_byte_for_byte() {
    let hostile = "fix `rm -rf /`; $(touch /tmp/x) \"quoted\" 'and' \\ --- \u{202e}\n--\n\tmiddle --frob line\r\n$HOME ~ !! \u{0} end";
    for goal in [hostile.to_owned(), hostile.repeat(8_000), "x\n--verbose\ny".to_owned()] {
        let typed = parse(&format!("/ralph:goal {goal}"));
        let Some(Ok(SlashCommand::Start(request))) = typed else { panic!("{}", shown(&goal)) };
        assert!(
            request == RunTerms { goal: goal.into_bytes(), ..RunTerms::default() },
            "{}",
            terms_shown(&request)
        );
    }
}

proptest! {
    #[test]
    fn no_prompt_panics(prompt in ".{0,200}", command in "(/ralph:(goal|loop|resume|ask)|/ralph-loop) ") {
        drop(parse(&prompt));
        drop(parse(&format!("{command}{prompt}")));
    }

    #[test]
    fn everything_after_two_dashes_is_the_goal(goal in "[ -~\n]{1,200}") {
        prop_assume!(!goal.trim().is_empty());
        let typed = parse(&format!("/ralph:goal --max-iterations 3 -- {goal}"));
        let Some(Ok(SlashCommand::Start(request))) = typed else { return Err(TestCaseError::fail(format!("{typed:?}"))) };
        prop_assert_eq!(request.goal, goal.trim().as_bytes());
        prop_assert_eq!(request.limits.get(LimitKind::MaxIterations), Some(3));
    }
}
