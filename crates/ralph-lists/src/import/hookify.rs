//! hookify rules: `.claude/hookify.*.local.md`. A rule that blocks edits of files becomes a protected path, one that
//! blocks added text a line rule; every other rule is kept as a note.

use ralph_core::text;

use super::data_tree::{DataNode, UnreadFields};
use super::{ImportedContent, LineRule, front_matter};

/// Characters that mean more than themselves in a regular expression or in a glob.
const REGEX_CHARACTERS: [char; 14] =
    ['(', ')', '[', ']', '{', '}', '+', '?', '\\', '*', '.', '^', '$', '!'];
const GLOB_CHARACTERS: [char; 6] = ['*', '?', '[', '{', '\\', '!'];
const MAX_PATTERN_BYTES: usize = 1_000;

pub(super) fn import_rule(source: &str) -> Result<ImportedContent, String> {
    let (front, body, before) = front_matter::split_front_matter(source)
        .ok_or("it does not start with settings between `---`")?;
    let node = front_matter::parse_settings(front);
    let mut understood = ImportedContent::default();
    let mut fields = UnreadFields::from_node(&node);
    let name = fields.take_text(&["name"]).unwrap_or("rule").to_string();
    let is_enabled = fields.take_text(&["enabled"]) != Some("false");
    let event = fields.take_text(&["event"]).unwrap_or("all");
    let blocks = fields.take_text(&["action"]) == Some("block");
    let condition = condition_of(&mut fields);
    let message = body.trim();
    understood.keep_text(&format!("{name}: rule"), Some(1), front);
    understood.keep_text(&format!("{name}: message"), Some(before.saturating_add(1)), message);
    let why = match (is_enabled, blocks, event, &condition) {
        (false, ..) => "the rule is disabled",
        (true, false, ..) => "it only warns",
        (true, true, "file", Some(condition)) => {
            if add_rule(&name, condition, message, &mut understood) {
                return Ok(understood);
            }
            "its pattern has no counterpart"
        }
        (true, true, "stop", _) => "use a gate instead: `ralph gate detect`",
        (true, true, "bash", _) => "ralph guards protected files, not commands",
        (true, true, ..) => "its conditions have no counterpart",
    };
    understood.ignore_entry(&name, event, why);
    Ok(understood)
}

/// The one condition of a rule.
struct RuleCondition<'n> {
    field: &'n str,
    operator: &'n str,
    pattern: &'n str,
}

fn condition_of<'n>(fields: &mut UnreadFields<'n>) -> Option<RuleCondition<'n>> {
    let pattern = fields.take_text(&["pattern"]);
    match (pattern, fields.take(&["conditions"]).map(DataNode::items)) {
        (Some(pattern), None) => {
            Some(RuleCondition { field: "new_text", operator: "regex_match", pattern })
        }
        (None, Some([only])) => Some(RuleCondition {
            field: only.get("field").and_then(DataNode::text)?,
            operator: only.get("operator").and_then(DataNode::text).unwrap_or("regex_match"),
            pattern: only.get("pattern").and_then(DataNode::text)?,
        }),
        _ => None,
    }
}

/// Adds the counterpart of a rule, if it has one.
fn add_rule(
    name: &str,
    condition: &RuleCondition<'_>,
    message: &str,
    into: &mut ImportedContent,
) -> bool {
    match (condition.field, condition.operator) {
        ("file_path", "regex_match") => {
            let globs: Option<Vec<_>> =
                condition.pattern.split('|').map(globs_of_pattern).collect();
            into.protect.extend(globs.iter().flatten().flatten().cloned());
            globs.is_some()
        }
        ("file_path", "contains" | "equals" | "starts_with" | "ends_with") => {
            let (pattern, operator) = (condition.pattern, condition.operator);
            let is_plain = !pattern.is_empty() && !pattern.contains(GLOB_CHARACTERS);
            if is_plain {
                into.protect.extend(match operator {
                    "equals" => vec![pattern.to_string()],
                    "starts_with" => globs_from_start(pattern),
                    "ends_with" => vec![format!("**/*{pattern}")],
                    _ => globs_anywhere(pattern),
                });
            }
            is_plain
        }
        ("new_text" | "content" | "new_string", "regex_match") => {
            let is_valid = condition.pattern.len() <= MAX_PATTERN_BYTES
                && !condition.pattern.chars().any(text::is_hidden)
                && regex::Regex::new(condition.pattern).is_ok();
            into.line_rules.extend(is_valid.then(|| LineRule {
                name: name.to_string(),
                pattern: condition.pattern.to_string(),
                message: message.to_string(),
            }));
            is_valid
        }
        _ => false,
    }
}

/// The globs for a simple regular expression that is searched for in a path: `\.env$`, `^src/gen/`, `secrets`.
fn globs_of_pattern(pattern: &str) -> Option<Vec<String>> {
    let from_start = pattern.strip_prefix('^');
    let rest = from_start.unwrap_or(pattern);
    let to_end = rest.strip_suffix('$');
    let literal = to_end.unwrap_or(rest).replace("\\.", "\0");
    if literal.is_empty() || literal.contains(REGEX_CHARACTERS) {
        return None;
    }
    let literal = literal.replace('\0', ".");
    Some(match (from_start.is_some(), to_end.is_some()) {
        (true, true) => vec![literal],
        (true, false) => globs_from_start(&literal),
        (false, true) => vec![format!("**/*{literal}")],
        (false, false) => globs_anywhere(&literal),
    })
}

fn globs_from_start(text: &str) -> Vec<String> {
    if text.ends_with('/') {
        return vec![format!("{text}**")];
    }
    vec![format!("{text}*"), format!("{text}*/**")]
}

/// The globs for paths that contain a text.
fn globs_anywhere(text: &str) -> Vec<String> {
    let text = text.trim_start_matches('/');
    if let Some(directory) = text.strip_suffix('/') {
        return vec![format!("**/*{directory}/**")];
    }
    vec![format!("**/*{text}*"), format!("**/*{text}*/**")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_globs() {
        for (pattern, expected) in [
            (r"\.env$", Some("**/*.env")),
            (r"^src/gen/", Some("src/gen/**")),
            (r"^src/gen", Some("src/gen* src/gen*/**")),
            (r"^package-lock\.json$", Some("package-lock.json")),
            ("secrets", Some("**/*secrets* **/*secrets*/**")),
            ("migrations/", Some("**/*migrations/**")),
            (r"^src/.*\.lock$", None),
            (r"a.b", None),
            (r"(a|b)", None),
            ("", None),
        ] {
            let found = globs_of_pattern(pattern).map(|globs| globs.join(" "));
            assert_eq!(found.as_deref(), expected, "{pattern}");
        }
    }
}
