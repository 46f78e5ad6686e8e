//! `ralph gate explain`: what the result of a gate depends on, and its cached result.

use super::args::GateExplain;
use super::list::{self, GateJson};
use super::{moments, named, policy};
use crate::cmd::{home, print_json};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording;
use ralph_core::gate::Gate;
use ralph_core::limits;
use ralph_core::requirement::Weight;
use ralph_core::text;
use ralph_gates::findings::write;
use ralph_gates::gates::cache::Known;
use ralph_gates::gates::history::History;
use ralph_gates::gates::{self, Content, Explained, Place};
use ralph_policy::trust;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use serde::Serialize;

#[derive(Serialize)]
struct ExplainJson<'a> {
    v: u8,
    #[serde(rename = "gate")]
    definition: GateJson<'a>,
    approved: bool,
    key: String,
    files: usize,
    tools: &'a [String],
    environment: &'a [String],
    known: &'static str,
    result: Option<write::Told<'a>>,
}

pub(crate) fn run(env: &Env, args: &GateExplain) -> Result<(), Failure> {
    let home = home(env)?;
    let config = policy(env, &home, args.project.as_deref())?;
    let gate = named(&config, &args.name)?;
    let subject = trust::subject(&config)?;
    let is_approved = trust::is_approved(&home, &subject);
    let path = trust::recorded_path(&home, &subject);
    let place = Place {
        home: &home,
        env,
        project: &config.project,
        content: Content::Tree { exclude: &[home.root().to_path_buf()] },
        environment: &config.policy.environment,
        path: path.as_deref(),
        deadline: Deadline::after(super::LISTING),
    };
    let explained = gates::explain(&place, gate)
        .map_err(|error| Failure::because("cannot explain the gate", &error))?;
    let history = History::read(&home, &config.project);
    if args.json {
        let (known, result) = match &explained.known {
            Known::Result(report) => {
                let ran = write::Ran { gate, report, cached: write::Cached::Yes };
                ("result", Some(write::told(&ran)))
            }
            Known::Running => ("running", None),
            Known::Nothing => ("nothing", None),
        };
        print_json(&ExplainJson {
            v: 1,
            definition: list::json(gate, &history),
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
    term::out(&shown(gate, &explained, is_approved))?;
    Ok(())
}

fn shown(gate: &Gate, explained: &Explained, is_approved: bool) -> String {
    let place = if gate.cwd.is_empty() {
        String::new()
    } else {
        format!(", in `{}`", text::line(&gate.cwd, 200))
    };
    let weight = match gate.weight {
        Weight::Required => "required",
        Weight::Advisory => "advisory",
    };
    let mut rows = vec![
        ("runs", format!("`{}`{place}", text::line(&gate.shown(), 400))),
        ("stage", format!("{}, {weight}, on {}", gate.stage.name(), moments(gate))),
        ("timeout", limits::duration(gate.timeout_ms)),
        ("reads", reads(&gate.paths, explained.files)),
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
    rows.push(("known", known(explained)));
    let mut out = format!("{}\n", paint(term::BOLD, &text::line(&gate.name, 60)));
    for (label, value) in rows {
        out.push_str(&format!("  {label:<8}  {}\n", text::line(&value, 2000)));
    }
    out
}

fn reads(paths: &[String], files: usize) -> String {
    let noun = if files == 1 { "1 file".to_string() } else { format!("{files} files") };
    if paths.is_empty() {
        format!("everything: {noun}")
    } else {
        format!("{}: {noun}", paths.join(", "))
    }
}

fn known(explained: &Explained) -> String {
    match &explained.known {
        Known::Nothing => "no result for this content yet: it would run".to_string(),
        Known::Running => "it is running now".to_string(),
        Known::Result(report) => {
            let note = wording::gate_note(report);
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            let ago = wording::ago(clock::now_ms(), report.at_ms);
            format!("{}{note} ({ago}, key {})", report.outcome.name(), &explained.key.hex()[..12])
        }
    }
}
