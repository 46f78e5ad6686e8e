//! Plans with boxes to tick: `fix_plan.md`, `IMPLEMENTATION_PLAN.md`, `tasks.md`, `.ralph/ralph-tasks.md`,
//! `docs/plans/*.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ralph_core::requirement::RequirementWeight;
use ralph_core::source::item_check::ItemCheck;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;

use super::data_tree::UnreadFields;
use super::item_checks::{self, ItemChecks};
use super::{
    ImportedContent, ImportedFeature, ProjectCommand, front_matter, loom_plan, work_item,
    yaml_files,
};
use crate::list_marker::list_item_text;

const MAX_TEXT_CHARS: usize = 2000;
const VALIDATION_HEADING: &str = "validation commands";

/// The items of a plan.
pub(super) fn parse_task_items(bytes: &[u8]) -> Vec<ListItem> {
    TaskItemReader::default().read(&String::from_utf8_lossy(bytes))
}

pub(super) fn import_plan(text: &str) -> Result<ImportedContent, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_string());
    }
    if let Some(understood) = loom_plan::import_stages(text) {
        return understood;
    }
    let mut understood = ImportedContent::default();
    let (front, body, before) = front_matter::split_front_matter(text).unwrap_or(("", text, 0));
    let node = front_matter::parse_settings(front);
    let mut fields = UnreadFields::from_node(&node);
    let name = fields.take_text(&["spec", "name", "title", "plan"]);
    understood.name = name.map(str::to_string);
    understood.limits.take_from(&mut fields);
    let counts = ["totalTasks", "created", "generated", "phase", "updated"];
    understood.ignore_state(&mut fields, &counts);
    understood.keep_rest(text, fields);
    yaml_files::keep_dropped_text(front, &mut understood);
    let rest = take_items(body, before, &mut understood);
    let first = rest.first().map(|(number, _)| number.saturating_add(before));
    let rest: Vec<&str> = rest.into_iter().map(|(_, line)| line).collect();
    if understood.features.is_empty() && understood.commands.is_empty() {
        // A document without items stays where it is, for the agent to read.
        understood.is_reference = true;
    } else {
        understood.keep_text("text", first, &rest.join("\n"));
    }
    Ok(understood)
}

/// Takes tasks and validation commands, and returns all other lines with their numbers in the body. `before` is the number
/// of lines before the body.
pub(super) fn take_items<'t>(
    body: &'t str,
    before: u32,
    understood: &mut ImportedContent,
) -> Vec<(u32, &'t str)> {
    let validation = validation_commands(body);
    for command in &validation.commands {
        understood.commands.push(ProjectCommand { label: String::new(), text: command.clone() });
    }
    let is_task = |item: &ListItem| {
        let line = item.line.unwrap_or_default();
        item.weight == RequirementWeight::Required && !validation.lines.contains(&line)
    };
    let items = parse_task_items(body.as_bytes());
    let items: Vec<ListItem> = items.into_iter().filter(is_task).collect();
    let mut checks = item_checks::find_item_checks(body, &items);
    let rest = unused_lines(body, &items, &validation, &checks);
    for mut line in std::mem::take(&mut checks.lines) {
        line.line = line.line.saturating_add(before);
        understood.check_lines.push(line);
    }
    let to_feature = |item: ListItem| {
        let check = checks.take(item.line.unwrap_or_default());
        to_feature(item, check)
    };
    understood.features.extend(items.into_iter().map(to_feature));
    rest
}

fn to_feature(item: ListItem, verify: Option<ItemCheck>) -> ImportedFeature {
    let category = item_heading(&item).map(str::to_string);
    let (id, _) = item.text.split_once(' ').unwrap_or_default();
    let id = id.trim_matches(['*', ':', '.', '`']);
    let is_id = id.bytes().any(|byte| byte.is_ascii_digit())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && id.bytes().filter(u8::is_ascii_alphabetic).count() <= 8;
    ImportedFeature {
        id: if is_id { id.to_string() } else { String::new() },
        verify,
        description: item.text,
        steps: item.steps,
        passes: item.done,
        category,
        ..ImportedFeature::default()
    }
}

/// The heading above an item, which its name starts with.
fn item_heading(item: &ListItem) -> Option<&str> {
    item.name.split_once(&format!(": {}", item.text)).map(|(heading, _)| heading)
}

/// The section `## Validation Commands`.
#[derive(Default)]
struct ValidationSection {
    commands: Vec<String>,
    /// The lines of the section.
    lines: Range<u32>,
    /// The lines that contain only a command.
    taken: BTreeSet<u32>,
}

/// Reads the listed or fenced commands under `## Validation Commands`.
fn validation_commands(body: &str) -> ValidationSection {
    let mut found = ValidationSection::default();
    let mut is_there = false;
    let mut is_fenced = false;
    for (number, line) in (1..).zip(body.lines()) {
        let line = line.trim();
        if line.starts_with("```") && is_there {
            is_fenced = !is_fenced;
            found.taken.insert(number);
            continue;
        }
        if line.starts_with('#') && !is_fenced {
            if is_there {
                break;
            }
            is_there = line.trim_start_matches('#').trim().eq_ignore_ascii_case(VALIDATION_HEADING);
            if is_there {
                found.lines.start = number;
            }
        }
        if !is_there {
            continue;
        }
        found.lines.end = number.saturating_add(1);
        let command = if is_fenced { fenced_command(line) } else { listed_command(line) };
        if let Some(command) = command {
            if command.len().saturating_add(16) > line.len() {
                found.taken.insert(number);
            }
            found.commands.push(command.to_string());
        }
    }
    found
}

fn fenced_command(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("$ ").trim();
    (!line.is_empty() && !line.starts_with('#')).then_some(line)
}

/// The part of an item in backticks, or the whole item if it is a command.
fn listed_command(line: &str) -> Option<&str> {
    let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?;
    let item = item.trim_start_matches("[ ] ").trim_start_matches("[x] ");
    match item.split_once('`').and_then(|(_, rest)| rest.split_once('`')) {
        Some((command, _)) => Some(command),
        None => work_item::is_command(item).then_some(item),
    }
}

/// All non-empty lines that belong to no item, heading of an item, or command.
fn unused_lines<'t>(
    body: &'t str,
    items: &[ListItem],
    validation: &ValidationSection,
    checks: &ItemChecks,
) -> Vec<(u32, &'t str)> {
    let mut by_line: BTreeMap<u32, &ListItem> = BTreeMap::new();
    let mut headings: BTreeSet<&str> = BTreeSet::new();
    for item in items {
        by_line.insert(item.line.unwrap_or_default(), item);
        headings.extend(item_heading(item));
    }
    let is_imported = |number: u32, line: &str| {
        let plain = strip_markers(line);
        if plain.is_empty() {
            return true;
        }
        if line.trim_start().starts_with('#') && headings.contains(&*plain) {
            return true;
        }
        let item = by_line.range(..=number).next_back();
        item.is_some_and(|(_, item)| {
            item.text.contains(&plain) || item.steps.iter().any(|step| step.contains(&plain))
        })
    };
    let lines = (1..).zip(body.lines());
    let lines = lines.filter(|(number, _)| {
        let is_title = *number == validation.lines.start;
        !is_title && !validation.taken.contains(number) && !checks.taken.contains(number)
    });
    lines.filter(|(number, line)| !is_imported(*number, line)).collect()
}

/// A line without the markers of an item or a heading.
fn strip_markers(line: &str) -> String {
    let line = line.trim().trim_start_matches('#').trim_start();
    let line = list_item_text(line).unwrap_or(line);
    let line = after_box(line).map_or(line, |(_, rest)| rest);
    text::clean_line(line, MAX_TEXT_CHARS)
}

#[derive(Default)]
struct TaskItemReader {
    items: Vec<ListItem>,
    taken: BTreeMap<String, u32>,
    heading: String,
    is_optional: bool,
    /// The indentation of the item that following lines belong to.
    open: Option<usize>,
}

impl TaskItemReader {
    fn read(mut self, markdown: &str) -> Vec<ListItem> {
        let mut fence: Option<String> = None;
        for (number, line) in (1..).zip(markdown.lines()) {
            let trimmed = line.trim();
            let marks: String =
                trimmed.chars().take_while(|char| matches!(char, '`' | '~')).collect();
            match &fence {
                Some(open) if marks.starts_with(open.as_str()) => fence = None,
                Some(_) => {}
                None if marks.len() >= 3 => fence = Some(marks),
                None => self.read_line(number, line),
            }
        }
        self.items
    }

    fn read_line(&mut self, number: u32, line: &str) {
        let indent = line.len().saturating_sub(line.trim_start().len());
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return;
        }
        let hashes = trimmed.bytes().take_while(|byte| *byte == b'#').count();
        let heading = trimmed.get(hashes..).unwrap_or_default();
        if (1..=6).contains(&hashes) && heading.starts_with(' ') {
            self.heading = text::clean_line(heading, MAX_TEXT_CHARS);
            self.is_optional = self.heading.to_lowercase().contains("optional");
            self.open = None;
            return;
        }
        let after = list_item_text(trimmed);
        if let Some((is_done, text)) = after.and_then(after_box) {
            self.open = Some(indent);
            self.add_item(number, is_done, text);
            return;
        }
        let Some(item) = self.open.filter(|open| indent > *open).and(self.items.last_mut()) else {
            self.open = None;
            return;
        };
        match (after, item.steps.last_mut()) {
            (Some(step), _) => item.steps.push(text::clean_line(step, MAX_TEXT_CHARS)),
            (None, Some(step)) => {
                step.push_str(&format!(" {}", text::clean_line(trimmed, MAX_TEXT_CHARS)));
            }
            (None, None) => {
                item.text.push_str(&format!(" {}", text::clean_line(trimmed, MAX_TEXT_CHARS)));
                item.name.push_str(&format!(" {}", text::clean_line(trimmed, MAX_TEXT_CHARS)));
            }
        }
    }

    fn add_item(&mut self, number: u32, done: bool, text: &str) {
        let text = text::clean_line(text, MAX_TEXT_CHARS);
        let name = match self.heading.as_str() {
            "" => text.clone(),
            heading => format!("{heading}: {text}"),
        };
        let count = self.taken.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
        let name = if *count == 1 { name } else { format!("{name} ({count})") };
        self.items.push(ListItem {
            name,
            text,
            steps: Vec::new(),
            done,
            check: None,
            weight: if self.is_optional {
                RequirementWeight::Advisory
            } else {
                RequirementWeight::Required
            },
            line: Some(number),
            names: Vec::new(),
        });
    }
}

/// Whether a box is ticked, and the text after it. Tools mark items in progress in several ways.
fn after_box(line: &str) -> Option<(bool, &str)> {
    let mut chars = line.strip_prefix('[')?.chars();
    let done = match chars.next()? {
        'x' | 'X' => true,
        ' ' | '/' | '-' | '~' | '>' | '!' => false,
        _ => return None,
    };
    let rest = chars.as_str().strip_prefix(']')?;
    // `[x](address)` is a link.
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| (done, rest.trim_start()))
}
