//! `/ralph:verify`: checks the requirements now, without a stop.

use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::safe;
use ralph_core::id::{RunId, SessionId};
use ralph_core::reason;
use ralph_core::record::Known;
use ralph_core::redact::Redactor;
use ralph_home::world::World;
use ralph_hook::verify;

pub(crate) fn shown(
    world: &World,
    session: &SessionId,
    run: Option<&RunId>,
) -> Result<String, Failure> {
    let Some(run) = run else {
        let hint = "`ralph gate run` runs the gates without a run; `/ralph:goal …` starts one";
        return Err(Failure::new("no run holds this session", hint));
    };
    let evidence = verify::run(world, session, run)?;
    let redactor = Redactor::new(world.env.secrets());
    let report = reason::report(&evidence.requirements, &redactor);
    let mut out = match report.open() {
        0 => format!("run {run}: all {} requirements are met in the current tree\n", report.total),
        1 => format!("run {run}: 1 of {} requirements is not met\n", report.total),
        open => format!("run {run}: {open} of {} requirements are not met\n", report.total),
    };
    for line in &report.lines {
        let mark = match line.standing {
            Known::Unmet => paint(term::BAD, "✗"),
            Known::Unknown => paint(term::ODD, "?"),
            Known::Pending | Known::Advisory => paint(term::DIM, "·"),
        };
        out.push_str(&format!(
            "  {mark} {} ({}): {}\n",
            safe(&line.name),
            line.stage,
            safe(&line.note)
        ));
        if let Some(first) = &line.first {
            out.push_str(&format!("      {}\n", safe(first)));
        }
    }
    if !report.met.is_empty() {
        let names: Vec<_> = report.met.iter().map(|name| safe(name)).collect();
        out.push_str(&format!("  {} {}\n", paint(term::GOOD, "✓"), names.join("  ✓ ")));
    }
    Ok(out)
}
