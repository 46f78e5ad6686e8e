//! The `[runner]` section of a scenario: `ralph run` drives the client instead of a person, and its events form the
//! timeline.

use super::expectations::{RUN_STATUSES, RUNNER_EVENTS};
use super::scenario_parser::ScenarioReader;
use super::{ScenarioPlayer, file_format};
use std::ops::Range;
use toml::Spanned;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioRunner {
    /// Arguments of `ralph plan`, which asks the same agent before the run starts; empty without a plan. If it fails, no
    /// run starts.
    pub plan: Vec<String>,
    /// Arguments of `ralph run`: a goal, limits, and flags of the agent after `--`. Empty if there is only a plan.
    pub args: Vec<String>,
    /// Arguments of further runs in the same project, started at the same time.
    pub beside: Vec<Vec<String>>,
    /// Flags that the agent's program adds to its own command line, as a user's wrapper script may.
    pub wrapper: Vec<String>,
    /// How often the run is resumed after its runner was killed or left the run to a person.
    pub resumes: u32,
    pub interventions: Vec<RunnerIntervention>,
}

/// An action on the runner or its agent while the run is going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerIntervention {
    /// Number of the request to the model that triggers the action, counted over all sessions.
    pub request: u64,
    /// Delay after that request.
    pub after_ms: u64,
    pub action: InterventionAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterventionAction {
    /// Sends SIGKILL to the runner.
    KillRunner,
    /// Sends SIGKILL to the latest process of the client.
    KillAgent,
    /// Presses Ctrl-C in the runner's terminal.
    CtrlC,
    /// Runs a command in the project, as a person in another terminal would.
    Command(String),
}

/// Options of `ralph run` that `ralph lab simulate` sets.
const RESERVED_OPTIONS: [&str; 3] = ["--agent-program", "--json", "--resume"];

impl ScenarioReader {
    pub(super) fn read_runner(
        &mut self,
        runner: file_format::ScenarioRunnerToml,
    ) -> ScenarioRunner {
        for args in runner.args.iter().chain(&runner.beside).chain(&runner.plan) {
            self.check_runner_args(args);
        }
        ScenarioRunner {
            plan: runner.plan.map(Spanned::into_inner).unwrap_or_default(),
            args: runner.args.map(Spanned::into_inner).unwrap_or_default(),
            beside: runner.beside.into_iter().map(Spanned::into_inner).collect(),
            wrapper: runner.wrapper,
            resumes: runner.resumes,
            interventions: runner
                .at
                .into_iter()
                .filter_map(|moment| self.read_intervention(moment))
                .collect(),
        }
    }

    fn check_runner_args(&mut self, args: &Spanned<Vec<String>>) {
        let own = args.as_ref().iter().take_while(|word| *word != "--");
        let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
        for word in own.map(name).filter(|word| RESERVED_OPTIONS.contains(&word.as_str())) {
            let message = format!("`{word}` is set by `ralph lab simulate`");
            self.add_problem(args.span(), message, None);
        }
    }

    fn read_intervention(
        &mut self,
        moment: Spanned<file_format::RunnerInterventionToml>,
    ) -> Option<RunnerIntervention> {
        let span = moment.span();
        let moment = moment.into_inner();
        if *moment.request.as_ref() == 0 {
            let message = "requests are counted from 1".to_owned();
            self.add_problem(moment.request.span(), message, None);
        }
        let act = match (moment.kill, moment.press, moment.run) {
            (Some(file_format::KillTargetToml::Runner), None, None) => {
                InterventionAction::KillRunner
            }
            (Some(file_format::KillTargetToml::Agent), None, None) => InterventionAction::KillAgent,
            (None, Some(file_format::PressedKeyToml::CtrlC), None) => InterventionAction::CtrlC,
            (None, None, Some(command)) => InterventionAction::Command(command),
            _ => {
                let hint = "use one of `kill`, `press` and `run`";
                self.add_problem(span, "expected exactly one action".to_owned(), Some(hint));
                return None;
            }
        };
        let request = moment.request.into_inner();
        Some(RunnerIntervention { request, after_ms: moment.after_ms, action: act })
    }

    /// Rejects keys for a person if a runner drives the client, and keys for a runner otherwise.
    pub(super) fn check_driver_keys(&mut self, file: &file_format::ScenarioFile) {
        if file.runner.is_some() {
            self.reject_person_keys(file);
        } else {
            self.reject_runner_keys(&file.expect);
        }
        for name in file.expect.told.keys() {
            self.require_one_of(name, &RUNNER_EVENTS, "runner event");
        }
        if let Some(status) = &file.expect.status {
            self.require_one_of(status, &RUN_STATUSES, "status");
        }
    }

    fn reject_person_keys(&mut self, file: &file_format::ScenarioFile) {
        let runner = file.runner.as_ref().map(Spanned::span).unwrap_or_default();
        if matches!(file.only, Some(ScenarioPlayer::Simulator | ScenarioPlayer::Terminal)) {
            let message = "a runner can drive neither the simulator nor a terminal";
            let hint = "set `only` to `client` or `pretend`, or leave it out";
            self.add_problem(runner.clone(), message.to_owned(), Some(hint));
        }
        if file.runner.as_ref().is_some_and(|runner| lacks_args(runner.as_ref())) {
            let hint = "only a scenario whose runner has a `plan`, and no `beside`, can do without";
            self.add_problem(runner.clone(), "missing key `args`".to_owned(), Some(hint));
        }
        let client = &file.client;
        let is_started = client.session.is_some()
            || client.model.is_some()
            || client.autocompact.is_some()
            || client.max_turns.is_some();
        if is_started {
            let hint = "use `args` of the runner; options of the client follow `--`";
            let message = "a runner does not use these options of `[client]`".to_owned();
            self.add_problem(runner, message, Some(hint));
        }
        let steps = file.step.iter().filter(|step| {
            let step = step.as_ref();
            step.person.is_some()
                || step.session.is_some()
                || step.screen.is_some()
                || step.shell.is_some()
                || step.interrupt.is_some()
        });
        for span in steps.map(Spanned::span) {
            let hint = "use `[[runner.at]]` for what a person does during the run";
            let message = "this step is not allowed with a runner".to_owned();
            self.add_problem(span, message, Some(hint));
        }
        let expect = &file.expect;
        let foreign = [
            ("endings", first_span(expect.endings.as_ref())),
            ("results", expect.results.as_ref().map(Spanned::span)),
            ("stops", expect.stops.as_ref().map(Spanned::span)),
            ("events", first_span(expect.events.as_ref())),
            ("screen", expect.screen.as_ref().map(Spanned::span)),
        ];
        for (key, span) in foreign {
            let Some(span) = span else { continue };
            let hint = "use `status`, `exit`, `iterations`, `sessions`, `output` or `told`";
            self.add_problem(span, format!("`{key}` is not available with a runner"), Some(hint));
        }
    }

    fn reject_runner_keys(&mut self, expect: &file_format::ScenarioExpectationsToml) {
        let spans = [
            expect.status.as_ref().map(Spanned::span),
            expect.iterations.as_ref().map(Spanned::span),
            expect.sessions.as_ref().map(Spanned::span),
            expect.output.as_ref().map(Spanned::span),
            expect.told.keys().next().map(Spanned::span),
        ];
        for span in spans.into_iter().flatten() {
            let message = "this needs a runner".to_owned();
            self.add_problem(span, message, Some("add `[runner]` with `args`"));
        }
    }
}

/// A plan can be all that is played. Runs beside others have a first one.
fn lacks_args(runner: &file_format::ScenarioRunnerToml) -> bool {
    runner.args.is_none() && (runner.plan.is_none() || !runner.beside.is_empty())
}

fn first_span(list: Option<&Vec<Spanned<String>>>) -> Option<Range<usize>> {
    list.map(|list| list.first().map(Spanned::span).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::tests::mistakes;
    use super::super::{
        Scenario, ScenarioExpectations, ScenarioStep, ScriptedRateLimit, ScriptedTurn, parse, write,
    };
    use super::*;
    use std::path::Path;

    #[test]
    fn errors_in_a_runner_section() {
        let cases = [
            "[runner]",
            "[runner]\nplan = ['go']\nbeside = [['go']]",
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
            "step = [{ person = 'x' }]\n[expect]\nstatus = 'stuck'\noutput = ['x']\ntold = { held = 1 }",
        ];
        let shown = cases.map(|case| format!("{}\n", mistakes(case)));
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_runner_section_round_trips() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let moment = |request, after_ms, act| RunnerIntervention { request, after_ms, action: act };
        let limit = ScriptedRateLimit {
            status: "rejected".to_owned(),
            kind: "five_hour".to_owned(),
            resets_in_ms: Some(10),
            used_percent: Some(97),
        };
        let scenario = Scenario {
            name: "a long run".to_owned(),
            runner: Some(Box::new(ScenarioRunner {
                plan: vec!["a goal".to_owned(), "--yes".to_owned()],
                args: words(&["go \"on\"", "--", "--permission-mode", "plan"]),
                beside: vec![words(&["another"])],
                wrapper: words(&["--bare"]),
                resumes: 2,
                interventions: vec![
                    moment(1, 0, InterventionAction::KillRunner),
                    moment(2, 30, InterventionAction::KillAgent),
                    moment(3, 0, InterventionAction::CtrlC),
                    moment(4, 0, InterventionAction::Command("ralph status".to_owned())),
                ],
            })),
            steps: vec![ScenarioStep::Agent(ScriptedTurn {
                rate_limit: Some(Box::new(limit)),
                ..ScriptedTurn::default()
            })],
            summary: super::super::scenario_parser::DEFAULT_SUMMARY.to_owned(),
            expect: ScenarioExpectations {
                status: Some("verified".to_owned()),
                iterations: Some(3),
                sessions: Some(2),
                output: words(&["red", "wrote `x`"]),
                told: [("held".to_owned(), 1)].into(),
                ..ScenarioExpectations::default()
            },
            ..Scenario::default()
        };
        let text = write(&scenario);
        assert_eq!(parse(&text, Path::new("one.toml")).unwrap(), scenario);
        insta::assert_snapshot!(text, @r#"
        name = "a long run"

        [runner]
        args = ['go "on"', "--", "--permission-mode", "plan"]
        beside = [["another"]]
        plan = ["a goal", "--yes"]
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
        output = ["red", "wrote `x`"]
        told = { held = 1 }
        "#);
    }
}
