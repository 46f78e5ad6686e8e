//! Parses every loop file below directories as `ralph import` does, and counts what became of each. Nothing is written,
//! and no command runs.

use crate::{ImportSurveyOptions, disk, print};
use anyhow::{Context, Result};
use ralph_lists::import::{self, ImportSource};
use ralph_sys::fs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MAX_ENTRIES: usize = 20_000;
const MAX_DEPTH: usize = 12;
/// How the specifications of smart-ralph begin the line with a check.
const VERIFY_LABEL: &str = "**Verify**";
const HEADINGS: [&str; 13] = [
    "files",
    "not read",
    "items",
    "done",
    "checks",
    "commands",
    "limits",
    "prompts",
    "documents",
    "notes",
    "left out",
    "check lines",
    "of these named with a reason",
];

/// The figures of one or more files.
#[derive(Default)]
struct ImportFigures {
    counts: [usize; HEADINGS.len()],
    /// Lines with the label, and how many of them became a check, have a reason, or are neither.
    labelled: [usize; 4],
    reasons: BTreeMap<&'static str, usize>,
    lines: Vec<String>,
}

pub(crate) fn run(options: &ImportSurveyOptions) -> Result<()> {
    let mut rows = Vec::new();
    for directory in &options.directories {
        let root = fs::resolve(directory)
            .with_context(|| format!("`{}` does not exist", directory.display()))?;
        let mut files = Vec::new();
        collect_files(&root, &root, 0, &mut files)?;
        files.sort();
        let mut figures = ImportFigures::default();
        for path in &files {
            let name = path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
            figures.add_file(&root, path, &name)?;
        }
        rows.push((directory.to_string_lossy().into_owned(), figures));
    }
    for (name, figures) in &rows {
        if !options.markdown {
            print::print_line(&figures.describe(name, options.reasons));
        }
    }
    if options.markdown {
        print::print_line(&markdown_table(&rows));
    }
    Ok(())
}

/// The files that belong to a loop by their place.
fn collect_files(root: &Path, at: &Path, depth: usize, into: &mut Vec<PathBuf>) -> Result<()> {
    for name in fs::list(at, MAX_ENTRIES)? {
        let path = at.join(&name);
        let is_hidden_tree = name == ".git" || name == "node_modules" || name == "target";
        if fs::is_directory(&path) && !is_hidden_tree && depth < MAX_DEPTH {
            collect_files(root, &path, depth + 1, into)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str)
            && import::known_family(name).is_some()
        {
            into.push(path);
        }
    }
    Ok(())
}

impl ImportFigures {
    fn add_file(&mut self, root: &Path, path: &Path, name: &str) -> Result<()> {
        for source in import::find_sources(root, path).into_iter().filter(|one| one.path == name) {
            self.add_source(&source, path)?;
        }
        Ok(())
    }

    fn add_source(&mut self, source: &ImportSource, path: &Path) -> Result<()> {
        let content = match &source.content {
            Ok(content) => content,
            Err(why) => {
                self.add_counts([1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                self.lines.push(format!("{}: not read: {why}", source.path));
                return Ok(());
            }
        };
        let count = |is_counted: bool| usize::from(is_counted);
        self.add_counts([
            1,
            0,
            content.features.len(),
            content.features.iter().filter(|feature| feature.passes).count(),
            content.features.iter().filter(|feature| feature.verify.is_some()).count(),
            content.commands.len(),
            content.limits.to_options().len(),
            count(!content.goal.is_empty()),
            count(content.is_reference),
            content.kept.len(),
            content.ignored.len(),
            content.check_lines.len(),
            content.not_understood().count(),
        ]);
        for (line, why) in content.not_understood() {
            *self.reasons.entry(why).or_default() += 1;
            self.lines.push(format!("{}:{}: {}: {why}", source.path, line.line, line.text));
        }
        // The items are elsewhere.
        if content.is_reference {
            return Ok(());
        }
        let text = disk::read_text(path)?;
        for (number, line) in (1_u32..).zip(text.lines()) {
            if !line.contains(VERIFY_LABEL) {
                continue;
            }
            let found = content.check_lines.iter().find(|check| check.line == number);
            let kind = match found.map(|check| check.why_not) {
                Some(None) => 1,
                Some(Some(_)) => 2,
                None => {
                    let text = line.trim();
                    self.lines.push(format!("{}:{number}: {text}: no item has it", source.path));
                    3
                }
            };
            for at in [0, kind] {
                self.labelled[at] += 1;
            }
        }
        Ok(())
    }

    fn add_counts(&mut self, more: [usize; HEADINGS.len()]) {
        for (count, more) in self.counts.iter_mut().zip(more) {
            *count += more;
        }
    }

    fn describe(&self, name: &str, with_lines: bool) -> String {
        let mut out = format!("{name}\n");
        for (heading, count) in HEADINGS.iter().zip(self.counts) {
            out.push_str(&format!("  {heading:<28}  {count}\n"));
        }
        let [lines, checks, reasons, others] = self.labelled;
        if lines > 0 {
            out.push_str(&format!(
                "  {lines} lines with `{VERIFY_LABEL}`: {checks} checks, {reasons} with a reason, {others} outside items\n"
            ));
        }
        for (why, count) in &self.reasons {
            out.push_str(&format!("  {count:>5}  {why}\n"));
        }
        if with_lines {
            self.lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
        out
    }
}

fn markdown_table(rows: &[(String, ImportFigures)]) -> String {
    let mut out =
        format!("| | {} |\n|---|{}\n", HEADINGS.join(" | "), "--:|".repeat(HEADINGS.len()));
    for (name, figures) in rows {
        let name = name.rsplit('/').next().unwrap_or(name);
        let counts: Vec<String> = figures.counts.iter().map(ToString::to_string).collect();
        out.push_str(&format!("| {name} | {} |\n", counts.join(" | ")));
    }
    out
}
