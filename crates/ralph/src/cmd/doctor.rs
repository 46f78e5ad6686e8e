//! `ralph doctor`: checks whether ralph would hold an agent here, and repairs what is safe to repair.

use super::simulate::INTERRUPTED;
use super::{cancel_on_signals, create_scratch_dir, init, print_json, refuse_agent};
use crate::describe::paint_mark;
use crate::failure::CommandFailure;
use crate::host_arg::HostArg;
use crate::term::{self, paint};
use crate::{FAILURE, SUCCESS};
use clap::Args;
use ralph_deck::view::doctor_report::{self, DoctorDiagnosis, RepairMode, check_mark, clean_line};
use ralph_home::paths::RalphHome;
use ralph_install::doctor::{CheckStatus, DoctorCheck, DoctorContext};
use ralph_sys::env::{self, Env};
use ralph_sys::fs;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph doctor
  ralph doctor --fix
  ralph doctor --json | jq '.checks[] | select(.status == \"bad\")'

Calls every hook of ralph as the client would: through `/bin/sh`,
without your profile, for each of its events, and for a stop of an
unfinished run. This happens in a separate home: your runs are neither
counted nor held. Hooks of other tools are never run.

`--fix` makes only safe repairs: permissions of ralph's home, ralph's
own entries in the settings, leftovers of killed gates. For everything
else, the output says what to do.

Exit codes: 0 no problems, 1 problems found, 130 interrupted")]
pub(crate) struct DoctorArgs {
    /// Use this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    #[command(flatten)]
    pub host: HostArg,
    /// Repair what can be repaired safely, then check again
    #[arg(long)]
    pub fix: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &DoctorArgs) -> Result<u8, CommandFailure> {
    if args.fix {
        let hint = "ask a person to do this in their own terminal; without `--fix` nothing changes";
        refuse_agent(env, "an agent may not repair ralph", hint)?;
    }
    let hint = "set `HOME`, or `RALPH_HOME` to an absolute path";
    let unknown = || CommandFailure::new("cannot determine ralph's home directory", hint);
    // Not checked to be a directory here: the checks below report it.
    let home = RalphHome::new(env.ralph_home().ok_or_else(unknown)?);
    let project = init::resolved_project(env, args.project.as_deref())?;
    let cancel = cancel_on_signals()?;
    let root = create_scratch_dir(env, "ralph-doctor")?;
    let context = DoctorContext {
        env,
        host: args.host.profile(),
        home: &home,
        project: &project,
        program: &env::own_executable(),
        version: env!("CARGO_PKG_VERSION"),
        scratch: &root,
        cancel: &cancel,
    };
    let repairs = if args.fix { RepairMode::Repair } else { RepairMode::ReportOnly };
    let found = doctor_report::diagnose(&context, repairs);
    let removed = fs::remove_own_dir_tree(&root);
    if cancel.is_cancelled() {
        return Ok(INTERRUPTED);
    }
    removed?;
    let wrong = found.wrong_count();
    if args.json {
        print_json(&doctor_report::doctor_view(&found, &project))?;
    } else {
        term::out(&render_diagnosis(&found, args, wrong))?;
    }
    Ok(if wrong == 0 { SUCCESS } else { FAILURE })
}

fn render_diagnosis(found: &DoctorDiagnosis, args: &DoctorArgs, wrong: usize) -> String {
    let mut out = String::new();
    for what in &found.fixed {
        out.push_str(&format!("{}: {what}\n", paint(term::GOOD, "fixed")));
    }
    for what in &found.failed {
        out.push_str(&format!("{}: {what}\n", paint(term::BAD, "not fixed")));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    for check in &found.checks {
        let mark = paint_mark(check_mark(check.standing));
        out.push_str(&format!("{mark} {:<12}{}\n", check.name, clean_line(&check.what)));
        if let Some(fix) = &check.fix {
            out.push_str(&format!(
                "{:<14}{}\n",
                "",
                paint(term::DIM, &format!("→ {}", clean_line(fix)))
            ));
        }
    }
    let is_repairable =
        |check: &&DoctorCheck| check.standing == CheckStatus::Bad && check.repair.is_some();
    let repairable = found.checks.iter().filter(is_repairable).count();
    let (noun, them) = if wrong == 1 { ("problem", "it") } else { ("problems", "them") };
    out.push_str(&match (wrong, repairable, args.fix) {
        (0, _, _) => format!("\n{}\n", paint(term::GOOD, "no problems found")),
        (_, 0, _) | (_, _, true) => format!("\n{wrong} {noun} found\n"),
        (_, _, false) if repairable == wrong => {
            format!("\n{wrong} {noun} found; `ralph doctor --fix` repairs {them}\n")
        }
        (_, _, false) => {
            format!("\n{wrong} {noun} found; `ralph doctor --fix` repairs {repairable} of them\n")
        }
    });
    out
}
