//! `ralph run` in the place of the person: it drives the client, and what it tells is what happened.

use super::expect::{STATUSES, TOLD};
use super::raw;
use super::read::Reader;
use std::ops::Range;
use toml::Spanned;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runner {
    /// What follows `ralph run`: a goal, limits, flags of the agent behind `--`.
    pub args: Vec<String>,
    /// Further runs in the same project, started at the same moment.
    pub beside: Vec<Vec<String>>,
    /// Flags that the agent's program adds to its command line itself, as a person's wrapper of it may.
    pub wrapper: Vec<String>,
    /// How often the run is gone on with when its runner was killed, or left it for a person.
    pub resumes: u32,
    pub moments: Vec<Moment>,
}

/// Something that happens to the runner while it is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When the model is asked for so many times, all sessions together.
    pub request: u64,
    /// And so long after it.
    pub after_ms: u64,
    pub act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// With SIGKILL.
    KillRunner,
    /// The latest process of the client, with SIGKILL.
    KillAgent,
    /// A person presses Ctrl-C in the runner's terminal.
    CtrlC,
    /// A person types this elsewhere, in the project.
    Command(String),
}

/// What `ralph simulate` says itself.
const OURS: [&str; 3] = ["--agent-program", "--json", "--resume"];

impl Reader {
    pub(super) fn runner(&mut self, runner: raw::Runner) -> Runner {
        for args in std::iter::once(&runner.args).chain(&runner.beside) {
            self.arguments(args);
        }
        Runner {
            args: runner.args.into_inner(),
            beside: runner.beside.into_iter().map(Spanned::into_inner).collect(),
            wrapper: runner.wrapper,
            resumes: runner.resumes,
            moments: runner.at.into_iter().filter_map(|moment| self.moment(moment)).collect(),
        }
    }

    fn arguments(&mut self, args: &Spanned<Vec<String>>) {
        let own = args.as_ref().iter().take_while(|word| *word != "--");
        let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
        for word in own.map(name).filter(|word| OURS.contains(&word.as_str())) {
            let message = format!("`{word}` is given by whoever plays it");
            self.problem(args.span(), message, None);
        }
    }

    fn moment(&mut self, moment: Spanned<raw::Moment>) -> Option<Moment> {
        let span = moment.span();
        let moment = moment.into_inner();
        if *moment.request.as_ref() == 0 {
            let message = "requests are counted from 1".to_owned();
            self.problem(moment.request.span(), message, None);
        }
        let act = match (moment.kill, moment.press, moment.run) {
            (Some(raw::Killed::Runner), None, None) => Act::KillRunner,
            (Some(raw::Killed::Agent), None, None) => Act::KillAgent,
            (None, Some(raw::Key::CtrlC), None) => Act::CtrlC,
            (None, None, Some(command)) => Act::Command(command),
            _ => {
                let hint = "give it one of `kill`, `press` and `run`";
                self.problem(span, "this is not one thing that happens".to_owned(), Some(hint));
                return None;
            }
        };
        let request = moment.request.into_inner();
        Some(Moment { request, after_ms: moment.after_ms, act })
    }

    /// What belongs to a person who talks to the client, or to a runner, and not to the other.
    pub(super) fn nothing_of_another_driver(&mut self, file: &raw::File) {
        if file.runner.is_some() {
            self.nothing_of_a_person(file);
        } else {
            self.nothing_of_a_runner(&file.expect);
        }
        for name in file.expect.told.keys() {
            self.one_of(name, &TOLD, "event of a runner");
        }
        if let Some(status) = &file.expect.status {
            self.one_of(status, &STATUSES, "status");
        }
    }

    fn nothing_of_a_person(&mut self, file: &raw::File) {
        let runner = file.runner.as_ref().map(Spanned::span).unwrap_or_default();
        if matches!(file.only, Some(raw::Player::Simulator | raw::Player::Terminal)) {
            let message = "who is driven by a runner is neither simulated nor at a terminal";
            let hint = "`only = \"client\"` or `only = \"pretend\"`, or neither";
            self.problem(runner.clone(), message.to_owned(), Some(hint));
        }
        let client = &file.client;
        let is_started = client.session.is_some()
            || client.model.is_some()
            || client.autocompact.is_some()
            || client.max_turns.is_some();
        if is_started {
            let hint = "say it in `args` of the runner, behind `--` where it is the client's";
            let message = "the runner starts the client, not `[client]`".to_owned();
            self.problem(runner, message, Some(hint));
        }
        let steps = file.step.iter().filter(|step| {
            let step = step.as_ref();
            step.person.is_some()
                || step.session.is_some()
                || step.screen.is_some()
                || step.interrupt.is_some()
        });
        for span in steps.map(Spanned::span) {
            let hint = "`[[runner.at]]` says what a person does meanwhile";
            let message = "only the runner talks to the client here".to_owned();
            self.problem(span, message, Some(hint));
        }
        let expect = &file.expect;
        let foreign = [
            ("endings", first(expect.endings.as_ref())),
            ("results", expect.results.as_ref().map(Spanned::span)),
            ("stops", expect.stops.as_ref().map(Spanned::span)),
            ("events", first(expect.events.as_ref())),
            ("screen", expect.screen.as_ref().map(Spanned::span)),
        ];
        for (key, span) in foreign {
            let Some(span) = span else { continue };
            let hint = "a run has `status`, `exit`, `iterations`, `sessions` and `told`";
            self.problem(span, format!("nobody looks for `{key}` here"), Some(hint));
        }
    }

    fn nothing_of_a_runner(&mut self, expect: &raw::Expect) {
        let spans = [
            expect.status.as_ref().map(Spanned::span),
            expect.iterations.as_ref().map(Spanned::span),
            expect.sessions.as_ref().map(Spanned::span),
            expect.told.keys().next().map(Spanned::span),
        ];
        for span in spans.into_iter().flatten() {
            let message = "there is no runner here".to_owned();
            self.problem(span, message, Some("`[runner]` with `args` is one"));
        }
    }
}

fn first(list: Option<&Vec<Spanned<String>>>) -> Option<Range<usize>> {
    list.map(|list| list.first().map(Spanned::span).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::tests::mistakes;
    use super::super::{AgentTurn, Expect, RateLimit, Scenario, Step, parse, write};
    use super::*;
    use std::path::Path;

    #[test]
    #[expect(clippy::too_many_lines, reason = "everything that can be wrong with one, in one look")]
    fn what_a_runner_cannot_be_given_is_shown_where_it_is() {
        let cases = [
            "[runner]",
            "[runner]\nargs = 'go'",
            "[runner]\nargs = ['go', '--json', '--agent-program=x', '--', '--resume']",
            "[runner]\nargs = ['go']\nbeside = [['--resume', 'x']]",
            "[runner]\nargs = ['go']\n[[runner.at]]\nrequest = 0\nkill = 'runner'",
            "[runner]\nargs = ['go']\n[[runner.at]]\nrequest = 1\nkill = 'host'",
            "[runner]\nargs = ['go']\n[[runner.at]]\nrequest = 1",
            "[runner]\nargs = ['go']\n[[runner.at]]\nrequest = 1\nkill = 'agent'\npress = 'ctrl-c'",
            "only = 'simulator'\n[runner]\nargs = ['go']",
            "[client]\nmodel = 'x'\n[runner]\nargs = ['go']",
            "[runner]\nargs = ['go']\n[[step]]\nperson = 'x'\n[[step]]\nagent = 'x'\ninterrupt = 'answer'",
            "[runner]\nargs = ['go']\n[[step]]\nhang = 'answer'",
            "[runner]\nargs = ['go']\n[expect]\nstops = 1\nevents = ['Stop']\nendings = ['completed']",
            "[runner]\nargs = ['go']\n[expect]\nstatus = 'done'\ntold = { hold = 1 }",
            "step = [{ person = 'x' }]\n[expect]\nstatus = 'stuck'\ntold = { held = 1 }",
        ];
        let shown = cases.map(|case| format!("{}\n", mistakes(case)));
        insta::assert_snapshot!(shown.join("\n"), @r#"
        1: "[runner]"
           `args` is missing here

        2: "'go'"
           this is the text "go", not a list

        2: "['go', '--json', '--agent-program=x', '--', '--resume']"
           `--json` is given by whoever plays it
        2: "['go', '--json', '--agent-program=x', '--', '--resume']"
           `--agent-program` is given by whoever plays it

        3: "['--resume', 'x']"
           `--resume` is given by whoever plays it

        4: "0"
           requests are counted from 1

        5: "'host'"
           `host` is none of what can stand here
           there is `runner`, `agent`

        3: "[[runner.at]]"
           this is not one thing that happens
           give it one of `kill`, `press` and `run`

        3: "[[runner.at]]"
           this is not one thing that happens
           give it one of `kill`, `press` and `run`

        2: "[runner]"
           who is driven by a runner is neither simulated nor at a terminal
           `only = "client"` or `only = "pretend"`, or neither

        3: "[runner]"
           the runner starts the client, not `[client]`
           say it in `args` of the runner, behind `--` where it is the client's

        3: "[[step]]"
           only the runner talks to the client here
           `[[runner.at]]` says what a person does meanwhile
        5: "[[step]]"
           only the runner talks to the client here
           `[[runner.at]]` says what a person does meanwhile

        4: "'answer'"
           only a pretended client can do this
           `only = "pretend"` makes it one

        4: "1"
           nobody looks for `stops` here
           a run has `status`, `exit`, `iterations`, `sessions` and `told`
        5: "'Stop'"
           nobody looks for `events` here
           a run has `status`, `exit`, `iterations`, `sessions` and `told`
        6: "'completed'"
           nobody looks for `endings` here
           a run has `status`, `exit`, `iterations`, `sessions` and `told`
        6: "'completed'"
           there cannot be more endings (1) than prompts (0)

        4: "'done'"
           there is no status `done`
           one of verified, claimed, exhausted, stuck, needs_human, needs_review, gate_broken, rate_limited, overridden, crashed, cancelled
        5: "hold"
           there is no event of a runner `hold`
           did you mean `held`?

        3: "'stuck'"
           there is no runner here
           `[runner]` with `args` is one
        4: "held"
           there is no runner here
           `[runner]` with `args` is one
        "#);
    }

    #[test]
    fn a_runner_is_written_as_it_is_read() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let moment = |request, after_ms, act| Moment { request, after_ms, act };
        let limit = RateLimit {
            status: "rejected".to_owned(),
            kind: "five_hour".to_owned(),
            resets_in_ms: Some(10),
            used_percent: Some(97),
        };
        let scenario = Scenario {
            name: "a night".to_owned(),
            runner: Some(Box::new(Runner {
                args: words(&["go \"on\"", "--", "--permission-mode", "plan"]),
                beside: vec![words(&["another"])],
                wrapper: words(&["--bare"]),
                resumes: 2,
                moments: vec![
                    moment(1, 0, Act::KillRunner),
                    moment(2, 30, Act::KillAgent),
                    moment(3, 0, Act::CtrlC),
                    moment(4, 0, Act::Command("ralph status".to_owned())),
                ],
            })),
            steps: vec![Step::Agent(AgentTurn {
                rate_limit: Some(Box::new(limit)),
                ..AgentTurn::default()
            })],
            summary: super::super::read::SUMMARY.to_owned(),
            expect: Expect {
                status: Some("verified".to_owned()),
                iterations: Some(3),
                sessions: Some(2),
                told: [("held".to_owned(), 1)].into(),
                ..Expect::default()
            },
            ..Scenario::default()
        };
        let text = write(&scenario);
        assert_eq!(parse(&text, Path::new("one.toml")).unwrap(), scenario);
        insta::assert_snapshot!(text, @r#"
        name = "a night"

        [runner]
        args = ['go "on"', "--", "--permission-mode", "plan"]
        beside = [["another"]]
        wrapper = ["--bare"]
        resumes = 2

        [[runner.at]]
        request = 1
        kill = "runner"

        [[runner.at]]
        request = 2
        after_ms = 30
        kill = "agent"

        [[runner.at]]
        request = 3
        press = "ctrl-c"

        [[runner.at]]
        request = 4
        run = "ralph status"

        [[step]]
        rate_limit = { status = "rejected", type = "five_hour", resets_in_ms = 10, used_percent = 97 }

        [expect]
        status = "verified"
        iterations = 3
        sessions = 2
        told = { held = 1 }
        "#);
    }
}
