//! The answer of an agent that was asked for a plan, as JSON. It is parsed strictly: an answer with anything unexpected
//! is an error that the agent reads before it answers again.

use ralph_core::source::item_check::ItemCheck;
use ralph_core::text;
use serde::Deserialize;

pub const MAX_QUESTIONS: usize = 5;
pub const MAX_STEPS: usize = 30;
/// The client's answers are cut off at this length.
const MAX_ANSWER_CHARS: usize = 20_000;
const MAX_TEXT_CHARS: usize = 400;
const MAX_WORDS: usize = 40;
const MAX_WORD_BYTES: usize = 1_000;
const MAX_QUOTED_CHARS: usize = 120;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanAnswer {
    pub questions: Vec<PlanQuestion>,
    pub steps: Vec<ProposedStep>,
}

/// A question for the person, with the answer that the agent assumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanQuestion {
    pub question: String,
    pub default: String,
}

/// A step and the command that fails until it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedStep {
    pub description: String,
    pub check: ItemCheck,
}

/// Why an answer is not a plan, in words for the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanAnswerError {
    #[error("the answer is empty")]
    Empty,
    #[error("the answer is longer than {MAX_ANSWER_CHARS} characters")]
    TooLong,
    #[error("the answer is not one JSON object: {0}")]
    NotJson(String),
    #[error("there are {count} {what}, and at most {most} are allowed")]
    TooMany { what: &'static str, count: usize, most: usize },
    #[error("there are no steps")]
    NoSteps,
    #[error("{place}: {why}")]
    Invalid { place: String, why: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerWire {
    #[serde(default)]
    questions: Vec<QuestionWire>,
    steps: Vec<StepWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionWire {
    question: String,
    default: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepWire {
    step: String,
    check: CheckWire,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`check` is neither a list of words nor {\"shell\": LINE}")]
enum CheckWire {
    Words(Vec<String>),
    Line(ShellLineWire),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellLineWire {
    shell: String,
}

/// Parses an answer: a JSON object, alone or as the only fenced block of the text.
pub fn parse_plan_answer(answer: &str) -> Result<PlanAnswer, PlanAnswerError> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(PlanAnswerError::Empty);
    }
    if answer.chars().count() >= MAX_ANSWER_CHARS {
        return Err(PlanAnswerError::TooLong);
    }
    let object = find_object(answer)?;
    let wire: AnswerWire = serde_json::from_str(object)
        .map_err(|error| PlanAnswerError::NotJson(quote(&error.to_string())))?;
    check_count("questions", wire.questions.len(), MAX_QUESTIONS)?;
    check_count("steps", wire.steps.len(), MAX_STEPS)?;
    if wire.steps.is_empty() {
        return Err(PlanAnswerError::NoSteps);
    }
    let questions = wire.questions.into_iter().enumerate();
    let steps = wire.steps.into_iter().enumerate();
    Ok(PlanAnswer {
        questions: questions.map(|(at, wire)| wire.check(at)).collect::<Result<_, _>>()?,
        steps: steps.map(|(at, wire)| wire.check(at)).collect::<Result<_, _>>()?,
    })
}

fn find_object(answer: &str) -> Result<&str, PlanAnswerError> {
    if answer.starts_with('{') {
        return Ok(answer);
    }
    let mut parts = answer.split("```");
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(block), Some(_), None) => {
            Ok(block.strip_prefix("json").unwrap_or(block).trim())
        }
        _ => Err(PlanAnswerError::NotJson(format!("it begins with \"{}\"", quote(answer)))),
    }
}

fn check_count(what: &'static str, count: usize, most: usize) -> Result<(), PlanAnswerError> {
    if count > most { Err(PlanAnswerError::TooMany { what, count, most }) } else { Ok(()) }
}

/// Text of the answer that is repeated in an error.
fn quote(text: &str) -> String {
    text::clean_line(text, MAX_QUOTED_CHARS)
}

impl QuestionWire {
    fn check(self, at: usize) -> Result<PlanQuestion, PlanAnswerError> {
        let place = format!("question {}", at + 1);
        Ok(PlanQuestion {
            question: checked_text(&self.question, &place)?,
            default: checked_text(&self.default, &format!("{place}, default"))?,
        })
    }
}

impl StepWire {
    fn check(self, at: usize) -> Result<ProposedStep, PlanAnswerError> {
        let place = format!("step {}", at + 1);
        let description = checked_text(&self.step, &place)?;
        let invalid =
            |why: String| PlanAnswerError::Invalid { place: format!("{place}, check"), why };
        let check = match self.check {
            CheckWire::Words(words) => check_words(&words).map(|()| ItemCheck::Argv(words)),
            CheckWire::Line(ShellLineWire { shell }) => {
                check_line(&shell).map(|()| ItemCheck::Shell { shell })
            }
        };
        Ok(ProposedStep { description, check: check.map_err(invalid)? })
    }
}

/// Text that is shown on one line. What a terminal would not show as it is, is refused rather than removed: the person
/// decides about exactly the text that the agent wrote.
fn checked_text(text: &str, place: &str) -> Result<String, PlanAnswerError> {
    let invalid = |why: String| PlanAnswerError::Invalid { place: place.to_string(), why };
    let text = text.trim();
    if text.is_empty() {
        return Err(invalid("is empty".to_string()));
    }
    if text.chars().count() > MAX_TEXT_CHARS {
        return Err(invalid(format!("has more than {MAX_TEXT_CHARS} characters")));
    }
    if text != text::clean_line(text, usize::MAX) {
        return Err(invalid("has a line break or a control character".to_string()));
    }
    Ok(text.to_string())
}

/// The words of a check are shown before they are run, so each must be visible as it is.
fn check_words(words: &[String]) -> Result<(), String> {
    if words.first().is_none_or(|program| program.trim().is_empty()) {
        return Err("names no program".to_string());
    }
    if words.len() > MAX_WORDS {
        return Err(format!("has {} words, and at most {MAX_WORDS} are allowed", words.len()));
    }
    words.iter().try_for_each(|word| check_visible(word))
}

/// A line for a shell, as visible as words.
fn check_line(line: &str) -> Result<(), String> {
    if line.trim().is_empty() {
        return Err("is empty".to_string());
    }
    check_visible(line)
}

fn check_visible(text: &str) -> Result<(), String> {
    if text.len() > MAX_WORD_BYTES {
        return Err(format!("has more than {MAX_WORD_BYTES} bytes in one piece; use a script"));
    }
    if text != text::clean_line(text, usize::MAX) {
        return Err("has a line break, a control character or outer spaces".to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEP: &str = r#"{"step": "Export", "check": ["sh", "check.sh"]}"#;

    fn describe(answer: &str) -> String {
        match parse_plan_answer(answer) {
            Ok(plan) => format!("{} questions, {} steps", plan.questions.len(), plan.steps.len()),
            Err(error) => {
                let error = error.to_string();
                error.split(" at line ").next().unwrap_or_default().to_string()
            }
        }
    }

    #[test]
    fn an_answer_is_one_object_with_the_known_fields() {
        let with = |step: &str| format!("{{\"steps\": [{step}]}}");
        for (answer, expected) in [
            (with(STEP), "0 questions, 1 steps"),
            (format!("Here it is:\n```json\n{}\n```\nDone.", with(STEP)), "0 questions, 1 steps"),
            (format!("```\n{}\n```", with(STEP)), "0 questions, 1 steps"),
            (
                format!(
                    r#"{{"questions": [{{"question": "Which?", "default": "a"}}], "steps": [{STEP}]}}"#
                ),
                "1 questions, 1 steps",
            ),
            (String::new(), "the answer is empty"),
            (with(""), "there are no steps"),
            (
                "I cannot help with that.".to_string(),
                "the answer is not one JSON object: it begins with \"I cannot help with that.\"",
            ),
            (
                format!("```{}``` and ```{}```", with(STEP), with(STEP)),
                "the answer is not one JSON object: it begins with \"```{\"steps\": [{\"step\": \"Export\", \"check\": [\"sh\", \"check.sh\"]}]}``` and ```{\"steps\": [{\"step\": \"Export\", \"check\": [\"sh\",…\"",
            ),
            ("{}".to_string(), "the answer is not one JSON object: missing field `steps`"),
            (
                format!("{} {{}}", with(STEP)),
                "the answer is not one JSON object: trailing characters",
            ),
            (
                with(r#"{"step": "a", "check": "sh check.sh"}"#),
                "the answer is not one JSON object: `check` is neither a list of words nor {\"shell\": LINE}",
            ),
            (
                with(r#"{"step": "a", "check": ["x"], "approve": true}"#),
                "the answer is not one JSON object: unknown field `approve`, expected `step` or `check`",
            ),
            (
                r#"{"steps": [], "approved": true}"#.to_string(),
                "the answer is not one JSON object: unknown field `approved`, expected `questions` or `steps`",
            ),
        ] {
            assert_eq!(describe(&answer), expected, "{answer}");
        }
    }

    #[test]
    fn hostile_text_is_refused() {
        let step = |text: &str, check: &str| {
            format!(r#"{{"steps": [{{"step": "{text}", "check": {check}}}]}}"#)
        };
        for (answer, expected) in [
            (step(r"a\u001b[2Jb", r#"["x"]"#), "step 1: has a line break or a control character"),
            (step(r"a\nb", r#"["x"]"#), "step 1: has a line break or a control character"),
            (step(r"a\u202eb", r#"["x"]"#), "step 1: has a line break or a control character"),
            (step("  ", r#"["x"]"#), "step 1: is empty"),
            (step(&"a".repeat(401), r#"["x"]"#), "step 1: has more than 400 characters"),
            (step("a", "[]"), "step 1, check: names no program"),
            (step("a", r#"[" "]"#), "step 1, check: names no program"),
            (
                step("a", r#"["sh", "-c", "a\u0000b"]"#),
                "step 1, check: has a line break, a control character or outer spaces",
            ),
            (
                step("a", r#"["sh", "-c", "a\rrm -rf /"]"#),
                "step 1, check: has a line break, a control character or outer spaces",
            ),
            (
                step("a", &format!("[{}\"x\"]", r#""x","#.repeat(40))),
                "step 1, check: has 41 words, and at most 40 are allowed",
            ),
            (
                step("a", &format!(r#"["{}"]"#, "x".repeat(1_001))),
                "step 1, check: has more than 1000 bytes in one piece; use a script",
            ),
            // It is not run here, and the person reads it before it is.
            (step("a", r#"["rm", "-rf", "/"]"#), "0 questions, 1 steps"),
            (
                format!(r#"{{"steps": [{}{STEP}]}}"#, format!("{STEP},").repeat(30)),
                "there are 31 steps, and at most 30 are allowed",
            ),
            (
                format!(r#"{{"steps": [{}{STEP}]}}"#, format!("{STEP},").repeat(10_000)),
                "the answer is longer than 20000 characters",
            ),
            (
                "[".repeat(10_000),
                "the answer is not one JSON object: it begins with \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[…\"",
            ),
        ] {
            assert_eq!(describe(&answer), expected);
        }
    }

    proptest! {
        /// No answer panics, and an accepted one is within its bounds.
        #[test]
        fn any_text_is_an_error_or_within_bounds(text in ".{0,200}", step in ".{0,60}", word in ".{0,60}") {
            let plan = serde_json::json!({ "steps": [{ "step": step, "check": [word] }] });
            for answer in [text, plan.to_string()] {
                if let Ok(plan) = parse_plan_answer(&answer) {
                    for ProposedStep { description, check } in plan.steps {
                        prop_assert_eq!(&text::clean_line(&description, MAX_TEXT_CHARS), &description);
                        let line = check.command_line();
                        prop_assert_eq!(&text::clean_line(&line, usize::MAX), &line);
                    }
                }
            }
        }
    }
}
