//! Steps with checks as plain text, for a person to edit:
//!
//! ```text
//! - Quoted fields may contain commas
//!   check: cargo test quoted_commas
//! ```

use super::plan_answer::MAX_STEPS;
use ralph_core::text;

const MAX_STEP_CHARS: usize = 400;
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// A step as a person wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenStep {
    pub description: String,
    /// The command line of its check.
    pub check: String,
    /// The line of its check, from 1.
    pub line: usize,
}

/// A mistake in the text, with its line from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct PlanTextError {
    pub line: usize,
    pub why: String,
}

/// A step of the text with what is known about its check.
#[derive(Clone, Debug)]
pub struct AnnotatedStep<'a> {
    pub description: &'a str,
    pub check: &'a str,
    pub note: Option<&'a str>,
}

/// Writes the text that [`parse_plan_text`] reads. Notes are comments below their steps.
pub fn render_plan_text(goal: &str, steps: &[AnnotatedStep<'_>]) -> String {
    let mut out = String::from(
        "# One item per step, with the command that checks it: it has to fail now\n\
         # and pass once the step is done. Lines that begin with # are ignored.\n",
    );
    for line in goal.lines().take(20) {
        out.push_str(&format!("# goal: {}\n", text::clean_line(line, MAX_STEP_CHARS)));
    }
    for AnnotatedStep { description, check, note } in steps {
        out.push_str(&format!("\n- {description}\n  check: {check}\n"));
        if let Some(note) = note {
            out.push_str(&format!("  # {}\n", text::clean_line(note, MAX_STEP_CHARS)));
        }
    }
    if steps.is_empty() {
        out.push_str(
            "\n# - Quoted fields may contain commas\n#   check: cargo test quoted_commas\n",
        );
    }
    out
}

/// Parses the text. Every step has a check.
pub fn parse_plan_text(text: &str) -> Result<Vec<WrittenStep>, PlanTextError> {
    let mut steps: Vec<(usize, WrittenStep)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let error = |why: &str| PlanTextError { line: at + 1, why: why.to_string() };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(description) = line.strip_prefix("- ") {
            let description = description.trim();
            if description != text::clean_line(description, MAX_STEP_CHARS) {
                return Err(error("the step is too long or has a control character"));
            }
            let (description, check) = (description.to_string(), String::new());
            steps.push((at, WrittenStep { description, check, line: at + 1 }));
        } else if let Some(check) = line.strip_prefix("check:") {
            let step = steps.last_mut().map(|(_, step)| step);
            let step = step.ok_or_else(|| error("a check comes after its step"))?;
            if !step.check.is_empty() {
                return Err(error("the step has a check already; join them with `&&`"));
            }
            step.check = check.trim().to_string();
            step.line = at + 1;
        } else {
            return Err(error("expected `- STEP`, `check: COMMAND` or a comment"));
        }
    }
    if steps.len() > MAX_STEPS {
        let why = format!("there are {} steps, and at most {MAX_STEPS} are allowed", steps.len());
        return Err(PlanTextError { line: 1, why });
    }
    if let Some((at, _)) = steps.iter().find(|(_, step)| step.check.is_empty()) {
        let why = "the step has no check; add `check: COMMAND` below it".to_string();
        return Err(PlanTextError { line: at + 1, why });
    }
    Ok(steps.into_iter().map(|(_, step)| step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str) -> String {
        match parse_plan_text(text) {
            Ok(steps) => {
                let lines = steps
                    .iter()
                    .map(|step| format!("{}: {} ({})", step.description, step.check, step.line));
                lines.collect::<Vec<_>>().join("; ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_step_has_one_check() {
        for (text, expected) in [
            ("", ""),
            (
                "# x\n\n- a\n  check: cargo test a | tail\n- b\ncheck: t\n",
                "a: cargo test a | tail (4); b: t (6)",
            ),
            ("- a\n", "line 1: the step has no check; add `check: COMMAND` below it"),
            ("- a\n  check:\n", "line 1: the step has no check; add `check: COMMAND` below it"),
            ("check: t\n", "line 1: a check comes after its step"),
            (
                "- a\ncheck: t\ncheck: u\n",
                "line 3: the step has a check already; join them with `&&`",
            ),
            ("a\n", "line 1: expected `- STEP`, `check: COMMAND` or a comment"),
            ("- a\u{1b}[2J\n", "line 1: the step is too long or has a control character"),
        ] {
            assert_eq!(describe(text), expected, "{text:?}");
        }
        let many = "- a\n  check: t\n".repeat(10_000);
        assert_eq!(describe(&many), "line 1: there are 10000 steps, and at most 30 are allowed");
    }

    #[test]
    fn a_rendered_text_is_read_again() {
        let steps = [
            AnnotatedStep {
                description: "a",
                check: "sh -c 'x | y'",
                note: Some("passes already"),
            },
            AnnotatedStep { description: "b", check: "t", note: None },
        ];
        assert_eq!(
            describe(&render_plan_text("two\nlines", &steps)),
            "a: sh -c 'x | y' (7); b: t (11)"
        );
        assert_eq!(describe(&render_plan_text("", &[])), "");
    }
}
