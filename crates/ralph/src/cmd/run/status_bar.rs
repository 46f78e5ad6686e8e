//! The status bar at the bottom of the terminal: the current activity and the progress of the run.

use crate::term::{self, paint, text_width};
use ralph_core::limits::{LimitKind, LimitUsage, RUN_LIMITS};
use ralph_core::proof::ProofStep;
use ralph_core::text;
use ralph_deck::gate_wording::SHORTEST_USUAL_MS;
use ralph_deck::view::run_report::open_text;
use ralph_deck::wording::{self, safe_line};
use ralph_drive::run_event::RunProgress;

/// Separates two parts of the bar.
const SEPARATOR: &str = " · ";
const MAX_GATE_NAME: usize = 24;

/// The state that the bar shows between two events.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusBar {
    /// The last progress report, and when it came.
    progress: Option<(RunProgress, u64)>,
    /// The running gates.
    gates: Vec<RunningGate>,
    /// The current wait, with its end.
    wait: Option<(&'static str, u64)>,
}

#[derive(Clone, Debug)]
struct RunningGate {
    name: String,
    since_ms: u64,
    /// How long it usually takes.
    expected_ms: Option<u64>,
}

impl StatusBar {
    pub(super) fn set_progress(&mut self, standing: &RunProgress, now_ms: u64) {
        self.progress = Some((standing.clone(), now_ms));
    }

    pub(super) fn gate_started(&mut self, name: &str, now_ms: u64, expected_ms: Option<u64>) {
        let name = text::clean_line(name, MAX_GATE_NAME);
        self.gates.push(RunningGate { name, since_ms: now_ms, expected_ms });
    }

    pub(super) fn gate_ended(&mut self, name: &str) {
        let name = text::clean_line(name, MAX_GATE_NAME);
        self.gates.retain(|gate| gate.name != name);
    }

    /// A step of the proof takes the place of a gate; a later call replaces its text.
    pub(super) fn set_proof(&mut self, step: ProofStep, progress: &str, now_ms: u64) {
        let label = format!("{}{progress}", step.describe());
        let known = self.gates.iter_mut().find(|gate| gate.name.starts_with(step.describe()));
        match known {
            Some(gate) => gate.name = label,
            None => {
                self.gates.push(RunningGate { name: label, since_ms: now_ms, expected_ms: None });
            }
        }
    }

    pub(super) fn clear_proof(&mut self) {
        let is_step =
            |name: &str| ProofStep::ALL.iter().any(|step| name.starts_with(step.describe()));
        self.gates.retain(|gate| !is_step(&gate.name));
    }

    pub(super) fn set_wait(&mut self, until: Option<(&'static str, u64)>) {
        self.wait = until;
    }

    /// As many parts as fit. The last column stays free, because some terminals wrap when it is written. Empty while
    /// nothing is known.
    pub(super) fn line(&self, now_ms: u64, columns: usize) -> String {
        let out = join_fitting(
            self.current_activity(now_ms).into_iter().chain(self.progress_parts(now_ms)),
            columns,
        );
        if out.is_empty() { out } else { paint(term::DIM, &out) }
    }

    fn current_activity(&self, now_ms: u64) -> Option<String> {
        if let Some((what, until_ms)) = self.wait {
            let left = until_ms.saturating_sub(now_ms);
            return Some(format!("{what} {}", countdown(left)));
        }
        let RunningGate { name, since_ms, expected_ms } = self.gates.first()?;
        let more = match self.gates.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let took = wording::short_duration(now_ms.saturating_sub(*since_ms));
        let usual = expected_ms.filter(|ms| *ms >= SHORTEST_USUAL_MS);
        let usual = usual.map(|ms| format!(" of about {}", wording::short_duration(ms)));
        Some(format!("▸ {}{more} {took}{}", safe_line(name), usual.unwrap_or_default()))
    }

    /// The most important first, because the last ones may not fit.
    fn progress_parts(&self, now_ms: u64) -> Vec<String> {
        let Some((standing, reported_ms)) = &self.progress else { return Vec::new() };
        let RunProgress { limits, .. } = standing;
        let elapsed = standing.usage.elapsed_ms.saturating_add(now_ms.saturating_sub(*reported_ms));
        // Avoids milliseconds that change with every redraw.
        let usage = LimitUsage { elapsed_ms: elapsed.max(1000), ..standing.usage };
        let progress = |kind: LimitKind| kind.row().progress(limits, &usage);
        let mut parts: Vec<_> = progress(LimitKind::MaxIterations).into_iter().collect();
        parts.extend(standing.context_permille.map(|it| format!("context {} %", it / 10)));
        parts.extend(progress(LimitKind::MaxCost));
        parts.extend(progress(LimitKind::MaxDuration));
        parts.extend(open_text(standing));
        if let (Some(used), Some(most)) = (usage.tokens, limits.max_tokens) {
            parts.push(format!("{} of {} tokens", short_count(used), short_count(most)));
        }
        let others = RUN_LIMITS.iter().filter(|limit| !SHOWN_LIMITS.contains(&limit.kind));
        parts.extend(others.filter_map(|limit| limit.progress(limits, &usage)));
        if standing.sessions > 1 {
            parts.push(format!("session {}", standing.sessions));
        }
        parts
    }
}

/// The limits that have a place of their own in the bar.
const SHOWN_LIMITS: [LimitKind; 4] =
    [LimitKind::MaxIterations, LimitKind::MaxCost, LimitKind::MaxDuration, LimitKind::MaxTokens];

/// Joins as many whole parts as fit. A part is never cut, because a cut number would be another number.
pub(super) fn join_fitting(parts: impl IntoIterator<Item = String>, columns: usize) -> String {
    let mut room = columns.saturating_sub(1);
    let mut out = String::new();
    for part in parts {
        let joint = if out.is_empty() { "" } else { SEPARATOR };
        let width = text_width(joint) + text_width(&part);
        let Some(left) = room.checked_sub(width) else { break };
        room = left;
        out.push_str(joint);
        out.push_str(&part);
    }
    out
}

/// `4:05`, `1:04:05`.
fn countdown(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// `900`, `41k`, `1.2M`.
fn short_count(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}k", tokens / 1_000),
        1_000_000.. if tokens % 1_000_000 < 100_000 => format!("{}M", tokens / 1_000_000),
        1_000_000.. => format!("{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::limits::RunLimits;
    use ralph_core::requirement_tally::RequirementTally;
    fn standing() -> RunProgress {
        RunProgress {
            limits: RunLimits { max_tokens: Some(2_000_000), ..RunLimits::DEFAULT },
            usage: LimitUsage {
                iterations: 3,
                elapsed_ms: 14 * 60_000,
                micro_usd: Some(1_820_000),
                tokens: Some(1_240_000),
                ..LimitUsage::default()
            },
            context_permille: Some(410),
            sessions: 2,
            open: Some(2),
            total: Some(5),
            tally: Some(RequirementTally { unmet: 2, total: 5, ..RequirementTally::default() }),
        }
    }

    /// The bar never wraps, and parts that do not fit are left out as a whole.
    #[test]
    fn bar_fits_the_terminal() {
        let mut bar = StatusBar::default();
        assert_eq!(bar.line(0, 100), "");
        bar.set_progress(&standing(), 1_000);
        let mut output = String::new();
        for columns in [140, 100, 60, 40, 20, 10, 0] {
            let line = term::strip_styles(&bar.line(61_000, columns));
            assert!(text_width(&line) < columns.max(1), "{columns}: {line}");
            output.push_str(&format!("{columns:>3} {line}\n"));
        }
        bar.gate_started("tests", 50_000, Some(40_000));
        bar.gate_started("clippy", 51_000, None);
        output.push_str(&format!("    {}\n", term::strip_styles(&bar.line(62_500, 60))));
        bar.gate_ended("tests");
        output.push_str(&format!("    {}\n", term::strip_styles(&bar.line(62_500, 60))));
        bar.set_wait(Some(("waits", 3_907_000)));
        output.push_str(&format!("    {}\n", term::strip_styles(&bar.line(62_500, 60))));
        bar.set_wait(Some(("asks", 1)));
        output.push_str(&format!("    {}\n", term::strip_styles(&bar.line(62_500, 60))));
        bar = StatusBar::default();
        bar.set_progress(
            &RunProgress {
                limits: RunLimits {
                    max_iterations: None,
                    max_duration_ms: None,
                    max_cost_micro_usd: None,
                    ..RunLimits::DEFAULT
                },
                usage: LimitUsage { micro_usd: Some(0), ..LimitUsage::default() },
                context_permille: None,
                sessions: 0,
                open: Some(0),
                total: Some(5),
                tally: Some(RequirementTally { unmet: 0, total: 5, ..RequirementTally::default() }),
            },
            0,
        );
        output.push_str(&format!("    {}\n", term::strip_styles(&bar.line(0, 60))));
        insta::assert_snapshot!(output, @"
        140 iteration 3 of 25 · context 41 % · $1.82 of $20 · 15 min of 8 h · 2 of 5 not met · 1.2M of 2M tokens · session 2
        100 iteration 3 of 25 · context 41 % · $1.82 of $20 · 15 min of 8 h · 2 of 5 not met
         60 iteration 3 of 25 · context 41 % · $1.82 of $20
         40 iteration 3 of 25 · context 41 %
         20 iteration 3 of 25
         10 
          0 
            ▸ tests and 1 more 12 s of about 40 s · iteration 3 of 25
            ▸ clippy 11 s · iteration 3 of 25 · context 41 %
            waits 1:04:05 · iteration 3 of 25 · context 41 %
            asks 0:00 · iteration 3 of 25 · context 41 % · $1.82 of $20
            iteration 0 · $0 · 1 s · all 5 met
        ");
    }
}
