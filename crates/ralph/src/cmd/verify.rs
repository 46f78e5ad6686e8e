//! `/ralph:verify`: checks the requirements now, without a stop.

use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::id::{RunId, SessionId};
use ralph_core::reason;
use ralph_core::record::ReportedStatus;
use ralph_core::redact::Redactor;
use ralph_deck::wording::safe_line;
use ralph_home::world::World;
use ralph_hook::verify;

pub(crate) fn render_verification(
    world: &World,
    session: &SessionId,
    run: Option<&RunId>,
) -> Result<String, CommandFailure> {
    let Some(run) = run else {
        let hint = "`ralph gate run` runs the gates without a run; `/ralph:goal …` starts one";
        return Err(CommandFailure::new("no run holds this session", hint));
    };
    let evidence = verify::verify_run(world, session, run)?;
    let redactor = Redactor::new(world.env.secrets());
    let report = reason::build_stop_report(&evidence.requirements, &redactor);
    // The same count as in the reason for a block.
    let mut out = match reason::describe_unmet(&evidence.requirements) {
        None => {
            format!("run {run}: all {} requirements are met in the current tree\n", report.total)
        }
        Some(unmet) => format!("run {run}: {unmet}\n"),
    };
    for line in &report.lines {
        let mark = match line.standing {
            ReportedStatus::Unmet => paint(term::BAD, "✗"),
            ReportedStatus::Unknown => paint(term::WARN, "?"),
            ReportedStatus::Pending | ReportedStatus::Advisory => paint(term::DIM, "·"),
        };
        out.push_str(&format!(
            "  {mark} {} ({}): {}\n",
            safe_line(&line.name),
            line.stage,
            safe_line(&line.note)
        ));
        for finding in line.first.iter().chain(&line.listed) {
            out.push_str(&format!("      {}\n", safe_line(finding)));
        }
    }
    if !report.met.is_empty() {
        let names: Vec<_> = report.met.iter().map(|name| safe_line(name)).collect();
        out.push_str(&format!("  {} {}\n", paint(term::GOOD, "✓"), names.join("  ✓ ")));
    }
    Ok(out)
}
