//! A program of the user as a judge: the case as JSON on stdin, the answer as JSON on stdout.
//!
//! For a run it is started in a checkout of the base, because the agent can write to the work tree: a module beside the
//! script, or forged byte code, would answer in the judge's place. The candidate is in another checkout, whose path is in
//! the case and in a variable. The judge has the variables of a gate, so it gets no key unless the policy names it, and
//! the home of the user, for logins, but `curl` and Python load nothing from it by themselves.
//! `RALPH_OFF` is set: if it starts an agent, ralph does not hold that one, and no judge is asked about it.

use super::BackendModel;
use crate::answer_parser;
use crate::call_ledger::estimate_tokens;
use crate::case_text::QuestionRole;
use crate::judge_call::{ModelCall, ModelReply, ReplyUsage, TokenCounts, UnreportedCall};
use ralph_core::judge::{CaseEvidence, JudgeCase, JudgeFinding};
use ralph_core::text;
use ralph_gates::environment;
use ralph_sys::clock;
use ralph_sys::proc::job::{
    self, CaptureLimits, CommandInput, JobEnd, JobResult, JobSpec, StderrCapture,
};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub(super) const OUTPUT_BYTES: usize = 512 * 1024;
pub(super) const ERROR_BYTES: usize = 4 * 1024;
const SHOWN_ERROR_CHARS: usize = 160;
pub(super) const KILL_GRACE: Duration = Duration::from_millis(500);
/// Off, so that no hook of ralph acts in a session that a judge starts.
pub(super) const OFF_VARIABLE: (&str, &str) = ("RALPH_OFF", "1");
/// No call uses so many tokens or costs a million dollars: such a figure is a mistake.
const MAX_FIGURE: f64 = 1e12;
/// Names the directory with the files of the candidate.
const CANDIDATE_VARIABLE: &str = "RALPH_CANDIDATE";

/// The case, and what is asked about it.
#[derive(Serialize)]
struct CommandCase<'a> {
    #[serde(flatten)]
    case: &'a JudgeCase,
    /// The directory with the files of the candidate. Paths in the case are relative to it.
    files: Cow<'a, str>,
    /// What a model would be told, for programs that pass the case on to one.
    instructions: &'a str,
    /// The facts as a fenced text, for the same.
    facts: &'a str,
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reviewer: Option<u8>,
    /// A finding of another reviewer to confirm: the verdict is `unmet` if it is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm: Option<&'a JudgeFinding>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    gates: &'a [String],
    #[serde(skip_serializing_if = "<[CaseEvidence]>::is_empty")]
    gate_results: &'a [CaseEvidence],
}

/// What a program reported about itself, next to its answer. A field that is none counts as not reported, and takes no
/// other one with it.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommandReport {
    model: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    micro_usd: Option<u64>,
}

impl CommandReport {
    /// The largest figures, if there are several reports.
    fn read(printed: &str) -> Self {
        let reports = answer_parser::find_reports(printed, "usage");
        reports.iter().fold(Self::default(), |known, fields| {
            let figure = |name: &str| fields.get("usage")?.get(name).and_then(parse_figure);
            let model = fields.get("model").and_then(Value::as_str).map(ToString::to_string);
            Self {
                model: model.or(known.model),
                input_tokens: figure("input_tokens").max(known.input_tokens),
                output_tokens: figure("output_tokens").max(known.output_tokens),
                micro_usd: figure("micro_usd").max(known.micro_usd),
            }
        })
    }

    /// With estimates for what is missing, if tokens were reported at all.
    fn tokens(&self, call: &ModelCall<'_>, answer: &str) -> Option<TokenCounts> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let sent =
            || estimate_tokens(call.instructions).saturating_add(estimate_tokens(call.facts));
        Some(TokenCounts {
            input: self.input_tokens.unwrap_or_else(sent),
            output: self.output_tokens.unwrap_or_else(|| estimate_tokens(answer)),
            ..TokenCounts::default()
        })
    }
}

/// A number of tokens or micro-dollars; a fraction is rounded up.
fn parse_figure(figure: &Value) -> Option<u64> {
    let Value::Number(number) = figure else { return None };
    let number = number.as_f64()?;
    // Whole numbers of this size are exact.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in this range"
    )]
    (0.0..=MAX_FIGURE).contains(&number).then(|| number.ceil() as u64)
}

pub(super) fn call_command(
    backend: &BackendModel<'_>,
    argv: &[String],
    call: &ModelCall<'_>,
) -> ModelReply {
    let request = backend.request;
    let case = command_case(call, request.files);
    let Ok(input) = serde_json::to_vec(&case) else {
        return ModelReply::unsent("the case cannot be encoded");
    };
    let place = request.place;
    // Removed when this function returns.
    let curl_home = request.scratch.join(format!("judge-{:016x}", clock::nonce()));
    let curl_home = match environment::create_curl_home(curl_home) {
        Ok(directory) => directory,
        Err(error) => return ModelReply::unsent(format!("{error}")),
    };
    let mut variables = environment::measuring_environment(
        request.env,
        place.environment,
        &[],
        request.search_path,
        curl_home.path(),
    );
    variables.retain(|(name, _)| name != OFF_VARIABLE.0 && name != CANDIDATE_VARIABLE);
    variables.push((OFF_VARIABLE.0.into(), OFF_VARIABLE.1.into()));
    variables.push((CANDIDATE_VARIABLE.into(), request.files.into()));
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let finished = job::run_job(&JobSpec {
        program: request.supervisor,
        argv: &argv,
        cwd: &place.directory,
        env: &variables,
        input: CommandInput::Bytes(&input),
        stderr: StderrCapture::Separate,
        capture_limits: CaptureLimits { head: OUTPUT_BYTES, tail: ERROR_BYTES },
        secrets: &request.env.secrets(),
        deadline: call.deadline,
        grace: KILL_GRACE,
        mounts: place.mounts,
        ..JobSpec::with_defaults(backend.cancel)
    });
    let answer = job_output(&finished, "the command");
    // What was spent is spent, however the program ended.
    let printed = String::from_utf8_lossy(&finished.output.head);
    let report = CommandReport::read(&printed);
    let usage = ReplyUsage {
        tokens: report.tokens(call, &printed),
        micro_usd: report.micro_usd,
        unreported: unreported_call(&finished.end),
    };
    ModelReply { answer, usage, model: report.model }
}

/// What is known about a call whose process ended like this and reported nothing.
pub(super) fn unreported_call(end: &JobEnd) -> UnreportedCall {
    match end {
        JobEnd::CouldNotStart(_) => UnreportedCall::Unsent,
        JobEnd::Exited(_)
        | JobEnd::Signalled(_)
        | JobEnd::TimedOut
        | JobEnd::Cancelled
        | JobEnd::Lost => UnreportedCall::Billed,
    }
}

fn command_case<'a>(call: &ModelCall<'a>, files: &'a Path) -> CommandCase<'a> {
    let question = call.question;
    let (reviewer, confirm) = match &question.role {
        QuestionRole::Verdict => (None, None),
        QuestionRole::Reviewer { number, .. } => (Some(*number), None),
        QuestionRole::Confirm(claim) => (None, Some(&claim.finding)),
    };
    CommandCase {
        case: call.case,
        files: files.to_string_lossy(),
        instructions: call.instructions,
        facts: call.facts,
        max_output_tokens: call.max_output_tokens,
        reviewer,
        confirm,
        gates: &question.gates,
        gate_results: &question.gate_results,
    }
}

/// The whole output of a process that exited with 0, or why there is none. R-L7c: a program that cannot be started gives
/// no result, whatever its exit code.
pub(super) fn job_output(finished: &JobResult, what: &str) -> Result<String, String> {
    let why = match &finished.end {
        JobEnd::Exited(0) => {
            let head = &finished.output.head;
            if finished.output.total > head.len() as u64 {
                return Err(format!("{what} printed more than {OUTPUT_BYTES} bytes"));
            }
            return Ok(String::from_utf8_lossy(head).into_owned());
        }
        JobEnd::Exited(code) => format!("exited with code {code}{}", shown_errors(finished)),
        JobEnd::Signalled(signal) => format!("was killed by signal {signal}"),
        JobEnd::TimedOut => "took too long".to_string(),
        JobEnd::Cancelled => "was cancelled".to_string(),
        JobEnd::Lost => "ended, and its exit code is unknown".to_string(),
        JobEnd::CouldNotStart(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            return Err(format!("{error}{cause}"));
        }
    };
    Err(format!("{what} {why}"))
}

fn shown_errors(finished: &JobResult) -> String {
    let written = [&finished.stderr, &finished.output];
    let lines = written.into_iter().map(|output| {
        let bytes = if output.tail.is_empty() { &output.head } else { &output.tail };
        text::clean_line(&String::from_utf8_lossy(bytes), SHOWN_ERROR_CHARS)
    });
    lines
        .into_iter()
        .find(|line| !line.is_empty())
        .map(|line| format!(": {line}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-K1c: a cost is read from the answer that counts, wherever it stands, and field by field.
    #[test]
    fn a_report_is_read_field_by_field() {
        let all = r#""model": "m", "usage": {"input_tokens": 1200, "output_tokens": 80, "micro_usd": 900}"#;
        let answer = format!(r#"{{"verdict": "met", {all}}}"#);
        let with = |usage: &str| format!(r#"{{"verdict": "met", "usage": {usage}}}"#);
        let cost = "{\"usage\": {\"micro_usd\": 5}}";
        for (printed, expected) in [
            (answer.clone(), "m 1200 80 900"),
            (format!("```json\n{answer}\n```\n"), "m 1200 80 900"),
            (format!("I looked at all of it.\n{cost}\n{answer}"), "m 1200 80 900"),
            (format!("{answer}\nDone."), "m 1200 80 900"),
            (format!("{cost}\n{answer}\n{answer}"), "m 1200 80 900"),
            (format!("{{{all}}}"), "m 1200 80 900"),
            (with(r#"{"input_tokens": 10, "output_tokens": 80.5, "micro_usd": 1.5}"#), "- 10 81 2"),
            (with(r#"{"input_tokens": -5, "output_tokens": "8", "micro_usd": 7}"#), "- - - 7"),
            (
                with(
                    r#"{"input_tokens": 1e300, "output_tokens": null, "micro_usd": 18446744073709551615}"#,
                ),
                "- - - -",
            ),
            (with("7"), "- - - -"),
            (r#"{"verdict": "met", "model": 7, "usage": {"micro_usd": 7}}"#.to_string(), "- - - 7"),
            (String::new(), "- - - -"),
        ] {
            let report = CommandReport::read(&printed);
            let figures = [report.input_tokens, report.output_tokens, report.micro_usd];
            let shown = figures.map(|figure| figure.map_or("-".to_string(), |it| it.to_string()));
            let model = report.model.unwrap_or("-".to_string());
            assert_eq!(format!("{model} {}", shown.join(" ")), expected, "{printed}");
        }
    }
}
