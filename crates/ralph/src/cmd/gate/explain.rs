//! `ralph gate explain`: what the result of a gate depends on, and its cached result.

use super::gate_args::GateExplainArgs;
use super::list::{self, GateDefinitionJson};
use super::{find_gate, load_policy, moment_names};
use crate::cmd::{open_home, print_json};
use crate::describe;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::gate::Gate;
use ralph_core::limits;
use ralph_core::requirement::RequirementWeight;
use ralph_core::text;
use ralph_gates::findings::write;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_gates::gates::result_cache::CachedResult;
use ralph_gates::gates::{self, GateContent, GateContext, GateExplanation};
use ralph_policy::trust;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use serde::Serialize;

#[derive(Serialize)]
struct GateExplainJson<'a> {
    v: u8,
    #[serde(rename = "gate")]
    definition: GateDefinitionJson<'a>,
    approved: bool,
    key: String,
    files: usize,
    tools: &'a [String],
    environment: &'a [String],
    known: &'static str,
    result: Option<write::GateReportJson<'a>>,
}

pub(crate) fn run(env: &Env, args: &GateExplainArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.project.as_deref())?;
    let gate = find_gate(&config, &args.name)?;
    let subject = trust::policy_subject(&config)?;
    let is_approved = trust::is_approved(&home, &subject);
    let path = trust::recorded_path(&home, &subject);
    let place = GateContext {
        home: &home,
        env,
        project: &config.project,
        content: GateContent::Tree { exclude: &[home.root().to_path_buf()] },
        environment: &config.policy.environment,
        path: path.as_deref(),
        deadline: Deadline::after(super::LISTING_TIMEOUT),
    };
    let explained = gates::explain_gate(&place, gate)
        .map_err(|error| CommandFailure::caused_by("cannot explain the gate", &error))?;
    let history = GateHistory::read(&home, &config.project);
    if args.json {
        let (known, result) = match &explained.cached {
            CachedResult::Result(report) => {
                let ran = write::ReportedGate { gate, report, cached: true };
                ("result", Some(write::gate_report_json(&ran)))
            }
            CachedResult::Running => ("running", None),
            CachedResult::Missing => ("nothing", None),
        };
        print_json(&GateExplainJson {
            v: 1,
            definition: list::gate_json(gate, &history),
            approved: is_approved,
            key: explained.key.hex(),
            files: explained.files,
            tools: &explained.tools,
            environment: &explained.environment,
            known,
            result,
        })?;
        return Ok(());
    }
    term::out(&render_explanation(gate, &explained, is_approved))?;
    Ok(())
}

fn render_explanation(gate: &Gate, explained: &GateExplanation, is_approved: bool) -> String {
    let place = if gate.cwd.is_empty() {
        String::new()
    } else {
        format!(", in `{}`", text::clean_line(&gate.cwd, 200))
    };
    let weight = match gate.weight {
        RequirementWeight::Required => "required",
        RequirementWeight::Advisory => "advisory",
    };
    let mut rows = vec![
        ("runs", format!("`{}`{place}", text::clean_line(&gate.command_line(), 400))),
        ("stage", format!("{}, {weight}, on {}", gate.stage.name(), moment_names(gate))),
        ("timeout", limits::format_duration(gate.timeout_ms)),
        ("reads", read_files_text(&gate.paths, explained.files)),
    ];
    if !gate.when.is_empty() {
        rows.push(("when", format!("something in {} changed", gate.when.join(", "))));
    }
    rows.push(("report", gate.report.name().to_string()));
    rows.push((
        "tools",
        if explained.tools.is_empty() {
            "not found on `PATH`".to_string()
        } else {
            explained.tools.join(", ")
        },
    ));
    rows.push(("sees", explained.environment.join(" ")));
    rows.push((
        "approved",
        if is_approved { "yes".to_string() } else { "no: run `ralph trust`".to_string() },
    ));
    rows.push(("known", cache_state(explained)));
    let mut out = format!("{}\n", paint(term::BOLD, &text::clean_line(&gate.name, 60)));
    for (label, value) in rows {
        out.push_str(&format!("  {label:<8}  {}\n", text::clean_line(&value, 2000)));
    }
    out
}

fn read_files_text(paths: &[String], files: usize) -> String {
    let noun = if files == 1 { "1 file".to_string() } else { format!("{files} files") };
    if paths.is_empty() {
        format!("everything: {noun}")
    } else {
        format!("{}: {noun}", paths.join(", "))
    }
}

fn cache_state(explained: &GateExplanation) -> String {
    match &explained.cached {
        CachedResult::Missing => "no result for this content yet: it would run".to_string(),
        CachedResult::Running => "it is running now".to_string(),
        CachedResult::Result(report) => {
            let note = describe::gate_note(report);
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            let ago = describe::ago(clock::now_ms(), report.at_ms);
            format!("{}{note} ({ago}, key {})", report.outcome.name(), &explained.key.hex()[..12])
        }
    }
}
