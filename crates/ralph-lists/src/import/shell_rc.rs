//! `.ralphrc`: shell assignments, which are parsed and never executed.

use super::ImportedContent;
use super::limits;

pub(super) fn import_shell_rc(text: &str) -> Result<ImportedContent, String> {
    let mut understood = ImportedContent::default();
    let mut rest: Vec<&str> = Vec::new();
    let mut first = None;
    for (number, line) in (1..).zip(text.lines()) {
        let is_taken = parse_assignment(line)
            .is_some_and(|(name, value)| take_setting(name, value, &mut understood));
        if !is_taken && !line.trim().is_empty() {
            first = first.or(Some(number));
            rest.push(line);
        }
    }
    if understood == ImportedContent::default()
        && !rest.iter().any(|line| parse_assignment(line).is_some())
    {
        return Err("it has no settings".to_string());
    }
    understood.keep_text("settings", first, &rest.join("\n"));
    Ok(understood)
}

/// Parses `NAME=value`, and strips quotes, a trailing comment and a surrounding `${NAME:-…}`.
fn parse_assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().trim_start_matches("export ").trim_start();
    let (name, value) = line.split_once('=')?;
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_name(name) {
        return None;
    }
    let value = match value.trim_start() {
        quoted if quoted.starts_with('"') => quoted.get(1..)?.split_once('"')?.0,
        quoted if quoted.starts_with('\'') => quoted.get(1..)?.split_once('\'')?.0,
        plain => plain.split_once(" #").map_or(plain, |(value, _)| value).trim_end(),
    };
    let default = value.strip_prefix("${").and_then(|inner| inner.strip_suffix('}'));
    Some((name, default.and_then(|inner| inner.split_once(":-")).map_or(value, |it| it.1)))
}

/// Takes a setting; returns whether ralph has a counterpart for it.
fn take_setting(name: &str, value: &str, understood: &mut ImportedContent) -> bool {
    let limits = &mut understood.limits;
    let number = || value.parse::<u32>().ok().filter(|number| *number > 0);
    match name {
        "PROJECT_NAME" => {
            understood.name = Some(value.to_string()).filter(|name| !name.is_empty());
            understood.name.is_some()
        }
        "MAX_ITERATIONS" | "MAX_LOOPS" | "RALPH_MAX_ITERATIONS" => {
            limits.iterations = number();
            limits.iterations.is_some()
        }
        "CB_NO_PROGRESS_THRESHOLD" => {
            limits.stuck_after = number().filter(|count| *count > 1);
            limits.stuck_after.is_some()
        }
        "MAX_COST" | "MAX_COST_USD" => {
            limits.micro_usd = limits::parse_money(value);
            limits.micro_usd.is_some()
        }
        "COMPLETION_PROMISE" => {
            limits.promise = limits::parse_promise(value);
            limits.promise.is_some()
        }
        _ => take_command(name, value, understood),
    }
}

/// Takes `TEST_COMMAND` and similar settings.
fn take_command(name: &str, value: &str, understood: &mut ImportedContent) -> bool {
    let label = name.strip_suffix("_COMMAND").or_else(|| name.strip_suffix("_CMD"));
    let label = label.map(str::to_ascii_lowercase).filter(|label| {
        matches!(
            label.as_str(),
            "test" | "tests" | "lint" | "build" | "typecheck" | "check" | "verify"
        )
    });
    let Some(label) = label.filter(|_| !value.trim().is_empty()) else { return false };
    understood.commands.push(super::ProjectCommand { label, text: value.trim().to_string() });
    true
}
