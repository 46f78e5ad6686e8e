//! `ralph export`: runs for other programs, as a trace or as metrics.

use super::why::{HistoryScope, find_history};
use super::{open_home, print_json};
use crate::failure::CommandFailure;
use crate::term;
use clap::{Args, Subcommand};
use ralph_core::id::RunId;
use ralph_core::limits::LimitUsage;
use ralph_core::redact::Redactor;
use ralph_core::run::RunPhase;
use ralph_deck::otlp::{self, ExportedRun, METRICS_PATH, TRACES_PATH};
use ralph_deck::page::metrics::{metric_families, prometheus_text};
use ralph_deck::wording::{self, safe_line};
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control;
use ralph_hook::notify::{NotificationStatus, post_json};
use ralph_hook::overview;
use ralph_policy::config;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::curl_call::CurlSchemes;
use ralph_sys::proc::worker::ParentLink;
use serde::Serialize;
use std::sync::Arc;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph export prometheus > ralph.prom
  ralph export otlp k7f2 --to http://127.0.0.1:4318

`ralph sql --csv` and `ralph sql --json` export tables.";

#[derive(Subcommand)]
pub(crate) enum ExportCommand {
    /// Print metrics of all runs in the text format of Prometheus
    #[command(after_help = "\
Examples:
  ralph export prometheus
  ralph export prometheus > ralph.prom

All metrics are gauges over the runs that are kept: `ralph clean` removes
old ones.")]
    Prometheus,
    /// Send a run to an OpenTelemetry collector, as a trace and metrics
    Otlp(OtlpArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph export otlp
  ralph export otlp k7f2 --to http://127.0.0.1:4318
  ralph export otlp k7f2 --dry-run | jq '.resourceSpans[]?.scopeSpans[]'

Sends OTLP/HTTP JSON with `curl`. To send every run when it ends, name
the collector in your own `~/.ralph/config.toml`:

  [export]
  otlp = \"http://127.0.0.1:4318\"

Goals, reasons and the names of gates are sent without secrets; code,
prompts and output of tools are not sent. A run that is sent again gives
the same spans.")]
pub(crate) struct OtlpArgs {
    /// Send this run [default: the last one here]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Send to this address [default: `[export] otlp`]
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    pub to: Option<String>,
    /// Print what would be sent, one request per line, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,
    /// Record failures instead of printing them
    #[arg(long, hide = true, requires = "run")]
    pub in_background: bool,
}

#[derive(Serialize)]
struct OtlpJson<'a> {
    v: u8,
    run: &'a str,
    requests: usize,
}

/// One request: where to, below the endpoint, and its body.
struct OtlpRequest {
    path: &'static str,
    body: String,
}

fn parse_endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
    if is_plain && rest.is_some_and(|rest| !rest.is_empty()) {
        Ok(text.to_string())
    } else {
        Err("expected a URL such as `http://127.0.0.1:4318`".to_string())
    }
}

pub(crate) fn run(env: &Env, asked: &ExportCommand) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    match asked {
        ExportCommand::Prometheus => {
            let rows = super::stats::stats_data::load_rows(&home)?;
            term::out(&prometheus_text(&metric_families(rows))).map(drop)
        }
        ExportCommand::Otlp(args) if args.in_background => {
            if let Err(failure) = export_run(env, &home, args) {
                record_failure(&home, args, &failure);
            }
            Ok(())
        }
        ExportCommand::Otlp(args) => export_run(env, &home, args),
    }
}

fn export_run(env: &Env, home: &RalphHome, args: &OtlpArgs) -> Result<(), CommandFailure> {
    let run = find_run(env, home, args.run.as_deref())?;
    let requests = build_requests(env, home, &run)?;
    if args.dry_run {
        let bodies: Vec<_> = requests.iter().map(|request| request.body.as_str()).collect();
        return term::out(&format!("{}\n", bodies.join("\n"))).map(drop);
    }
    let endpoint = match &args.to {
        Some(endpoint) => endpoint.clone(),
        None => config::load_otlp_endpoint(home)?.ok_or_else(|| {
            let hint = "use `--to http://127.0.0.1:4318`, or set `[export] otlp` in your own `config.toml`";
            CommandFailure::new("no collector is configured", hint)
        })?,
    };
    send_requests(env, args, &endpoint, &requests)?;
    if args.json {
        print_json(&OtlpJson { v: 1, run: run.as_str(), requests: requests.len() })?;
    } else if !args.in_background {
        let requests = wording::count_noun(requests.len(), "request");
        term::out(&format!("sent {run} in {requests}\n"))?;
    }
    Ok(())
}

fn find_run(env: &Env, home: &RalphHome, named: Option<&str>) -> Result<RunId, CommandFailure> {
    let hint = "`ralph status --all` lists all runs";
    let none = || CommandFailure::new("there is no run yet", hint);
    let history = find_history(env, home, named, HistoryScope::from_flag(false))?;
    let history = history.ok_or_else(none)?;
    let no_run = || CommandFailure::new("only runs can be exported", hint);
    RunId::parse(&history.name).ok_or_else(no_run)
}

/// The trace of the run, then the metrics of all runs.
fn build_requests(
    env: &Env,
    home: &RalphHome,
    run: &RunId,
) -> Result<Vec<OtlpRequest>, CommandFailure> {
    let redactor = Redactor::new(env.secrets());
    let opened = store::load_run(home, run)?;
    let history = overview::run_history(home, run)?;
    let now_ms = clock::now_ms();
    let usage = LimitUsage::recorded(&opened.state, now_ms);
    let phase = control::effective_phase(home, &opened);
    let exported = ExportedRun {
        run: &opened.run,
        status: wording::standing(&opened.state, phase),
        has_ended: matches!(phase, RunPhase::Ended(_)) || opened.state.driving.parked.is_some(),
        micro_usd: usage.micro_usd,
        cost_basis: usage.cost_basis,
        parked_because: opened.state.driving.parked.as_ref().map(|parked| parked.why.as_str()),
        tokens: usage.tokens,
        iterations: usage.iterations,
        entries: &history.entries,
    };
    let traces = otlp::trace_requests(&exported, &redactor);
    let mut requests: Vec<_> =
        traces.into_iter().map(|body| OtlpRequest { path: TRACES_PATH, body }).collect();
    let families = metric_families(super::stats::stats_data::load_rows(home)?);
    let body = otlp::metric_request(&families, &redactor, now_ms);
    requests.push(OtlpRequest { path: METRICS_PATH, body });
    Ok(requests)
}

fn send_requests(
    env: &Env,
    args: &OtlpArgs,
    endpoint: &str,
    requests: &[OtlpRequest],
) -> Result<(), CommandFailure> {
    let failed = |error| CommandFailure::caused_by("cannot watch the parent process", &error);
    let cancel = Arc::new(CancelToken::new().map_err(failed)?);
    let _link =
        if args.in_background { Some(ParentLink::attach(&cancel).map_err(failed)?) } else { None };
    for OtlpRequest { path, body } in requests {
        let address = format!("{}{path}", endpoint.trim_end_matches('/'));
        let sent = post_json(env, &address, CurlSchemes::HttpOrHttps, body, &cancel);
        if let NotificationStatus::Failed { why } | NotificationStatus::Skipped { why } = sent {
            let what = format!("the collector did not take the run: {}", safe_line(&why));
            return Err(CommandFailure::new(&what, "`--dry-run` prints what would be sent"));
        }
    }
    Ok(())
}

fn record_failure(home: &RalphHome, args: &OtlpArgs, failure: &CommandFailure) {
    let run = args.run.as_deref().and_then(RunId::parse);
    let what = format!("it was not exported: {}", failure.message());
    let mut fault = Fault::new(FaultKind::Notification, &what);
    if let Some(run) = &run {
        fault = fault.with_run(run);
    }
    faults::record_fault(home, &fault);
}
