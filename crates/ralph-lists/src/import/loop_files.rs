//! Renders the files of an imported loop and creates them. Existing files are never overwritten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ralph_core::run_terms::{self, GoalTooLong};
use ralph_core::text;
use serde::Serialize;

use super::{ImportSource, ImportedFeature, MergedImport};
use crate::loop_directory::{self, LOOPS_DIR, PROMPT_FILE};
use ralph_policy::config::{self, toml_string};
use ralph_policy::detect::{self, DeclaredCommand, DetectedGates};
use ralph_sys::fs::{self, FileError};

const NOTES_FILE: &str = "NOTES.md";
const MAX_NOTES_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_CHARS: usize = 300;

const POLICY_HEADER: &str = "\
# Checks found by `ralph import`. Nothing in this file runs until a person approves it with `ralph trust`.
";

/// A file to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Relative to the project.
    pub path: PathBuf,
    pub text: String,
}

#[derive(Serialize)]
struct ImportedListWire<'f> {
    features: &'f [ImportedFeature],
}

/// Why the files of a loop cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ImportRenderError {
    #[error(transparent)]
    Goal(#[from] GoalTooLong),
    #[error("cannot serialize the features")]
    Serialize(#[from] serde_json::Error),
}

/// The files of a loop. A loop without features has only a prompt and notes. The prompt is the goal of a run, so it
/// must not be longer than one.
pub fn render_files(
    name: &str,
    merged: &MergedImport,
    notes: &str,
) -> Result<Vec<NewFile>, ImportRenderError> {
    let directory = Path::new(LOOPS_DIR).join(name);
    let prompt = render_prompt(name, merged, notes);
    run_terms::check_goal_length(prompt.as_bytes())?;
    let mut files = vec![NewFile { path: directory.join(PROMPT_FILE), text: prompt }];
    if !merged.features.is_empty() {
        let list = ImportedListWire { features: &merged.features };
        let text = format!("{}\n", serde_json::to_string_pretty(&list)?);
        files.push(NewFile { path: directory.join(loop_directory::FEATURES_FILE), text });
        files.push(NewFile {
            path: directory.join(loop_directory::PROGRESS_FILE),
            text: render_progress(name, merged),
        });
    }
    if !notes.is_empty() {
        files.push(NewFile { path: directory.join(NOTES_FILE), text: notes.to_string() });
    }
    Ok(files)
}

fn render_prompt(name: &str, merged: &MergedImport, notes: &str) -> String {
    let mut out = format!("# {name}\n\n");
    for paragraph in &merged.goal {
        out.push_str(&format!("{paragraph}\n\n"));
    }
    if !merged.features.is_empty() {
        out.push_str("Make every feature in `feature_list.json`, next to this file, pass: in order, one at a time.\n");
    }
    if !merged.references.is_empty() {
        out.push_str("Read these documents first; they belong to the work:\n\n");
        for path in &merged.references {
            out.push_str(&format!("- `{path}`\n"));
        }
        out.push('\n');
    }
    if !notes.is_empty() {
        out.push_str(
            "Everything else from the imported files is in `NOTES.md`, next to this file.\n",
        );
    }
    out
}

/// The lines that ralph parses come first, because the imported progress may contain similar ones.
fn render_progress(name: &str, merged: &MergedImport) -> String {
    let mut out = format!("# Progress of {name}\n\n- Iteration: 0\n");
    if let Some(count) = merged.limits.iterations {
        out.push_str(&format!("- Max Iterations: {count}\n"));
    }
    out.push_str("- Status: IN_PROGRESS\n");
    if merged.features.is_empty() {
        return out;
    }
    for (path, text) in &merged.progress {
        out.push_str(&format!("\n## Earlier progress, from `{path}`\n\n{}\n", text.trim_end()));
    }
    out
}

/// Everything without a counterpart in ralph, verbatim and with its source.
pub fn render_notes(
    sources: &[ImportSource],
    merged: &MergedImport,
    without_gate: &[usize],
) -> String {
    let mut out = String::new();
    for source in sources {
        let Ok(content) = &source.content else { continue };
        for kept in &content.kept {
            let line = kept.line.map(|line| format!(", line {line}")).unwrap_or_default();
            let key = text::clean_line(&kept.key, 200);
            let text = &kept.text;
            out.push_str(&format!("\n## `{}`: {key}{line}\n\n{text}\n", source.path));
        }
        // Otherwise it is in `progress.txt`.
        if merged.features.is_empty()
            && let Some(progress) = &content.progress
        {
            out.push_str(&format!("\n## `{}`\n\n{progress}\n", source.path));
        }
    }
    let commands = without_gate.iter().filter_map(|number| merged.commands.get(*number));
    push_section(
        &mut out,
        "Commands without a gate of their own",
        commands.map(|(path, command)| {
            let label = match command.label.as_str() {
                "" => String::new(),
                label => format!(" ({})", text::clean_line(label, 80)),
            };
            format!("- `{path}`{label}: `{}`\n", command.text)
        }),
    );
    push_section(
        &mut out,
        "Files not to be changed",
        merged.protect.iter().map(|glob| format!("- `{glob}`\n")),
    );
    let read = sources.iter().filter_map(|source| Some((source, source.content.as_ref().ok()?)));
    push_section(
        &mut out,
        "Checks that were not understood",
        read.flat_map(|(source, content)| {
            content.not_understood().map(|(line, why)| {
                format!("- `{}:{}`: {}: {why}\n", source.path, line.line, line.text)
            })
        }),
    );
    let ignored = sources.iter().filter_map(|source| Some((source, source.content.as_ref().ok()?)));
    push_section(
        &mut out,
        "Not imported",
        ignored.flat_map(|(source, content)| {
            content.ignored.iter().map(move |ignored| {
                let text = text::clean_line(&ignored.text, 200);
                format!("- `{}`: `{}` {text}: {}\n", source.path, ignored.key, ignored.why)
            })
        }),
    );
    let troubles = merged.conflicts.iter().map(|trouble| format!("- {trouble}\n"));
    push_section(&mut out, "Conflicts", troubles);
    if out.is_empty() {
        return out;
    }
    let head =
        "# Notes\n\nContent that `ralph import` read and could not place elsewhere, verbatim.\n";
    truncate_notes(format!("{head}{out}"))
}

fn push_section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: String = lines.collect();
    if !lines.is_empty() {
        out.push_str(&format!("\n## {title}\n\n{lines}"));
    }
}

fn truncate_notes(mut notes: String) -> String {
    let whole = notes.len();
    if whole > MAX_NOTES_BYTES {
        let mut end = MAX_NOTES_BYTES;
        while !notes.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        notes.truncate(end);
        let more = whole.saturating_sub(end);
        notes.push_str(&format!("\n\n… and {more} more bytes, in the files named above\n"));
    }
    notes
}

/// The commands that check the whole project, for [`detect::import_declared`].
pub fn declared_commands(merged: &MergedImport) -> Vec<DeclaredCommand> {
    let declared = merged.commands.iter().map(|(source, command)| DeclaredCommand {
        source: source.clone(),
        label: command.label.clone(),
        command: command.text.clone(),
    });
    declared.collect()
}

/// Renders a `ralph.toml` with these gates and the imported protected files.
pub fn render_import_policy(mut detected: DetectedGates, merged: &MergedImport) -> String {
    for glob in merged.protect.iter().filter(|glob| config::check_glob(glob).is_ok()) {
        let is_ours = glob.starts_with(".git/") || glob.starts_with("node_modules");
        if !is_ours && !detected.protect_globs.contains(glob) && text::clean(glob) == **glob {
            detected.protect_globs.push(glob.clone());
        }
    }
    let policy = detect::render_policy::render_with_header(POLICY_HEADER, &detected);
    policy + &render_line_rules(merged)
}

/// The imported rules, to be added to an existing policy by hand.
pub fn render_rules(merged: &MergedImport) -> String {
    let mut out = String::new();
    if !merged.protect.is_empty() {
        let globs: Vec<String> = merged.protect.iter().map(|glob| toml_string(glob)).collect();
        out.push_str(&format!("\n[protect]\npaths = [{}]\n", globs.join(", ")));
    }
    out + &render_line_rules(merged)
}

fn render_line_rules(merged: &MergedImport) -> String {
    let mut out = String::new();
    let mut names = BTreeSet::new();
    for rule in &merged.line_rules {
        let wanted = config_name(&rule.name);
        let mut numbers = 2_u32..;
        let mut name = wanted.clone();
        while !names.insert(name.clone()) {
            name = format!("{wanted}-{}", numbers.next().unwrap_or_default());
        }
        out.push_str(&format!(
            "\n[[lines.pattern]]\nname = {}\npattern = {}\nmessage = {}\n",
            toml_string(&name),
            toml_string(&rule.pattern),
            toml_string(&text::clean_line(&rule.message, MAX_MESSAGE_CHARS)),
        ));
    }
    out
}

/// A name with the characters that a policy allows.
fn config_name(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    let name: String =
        name.chars().map(|char| if is_plain(char) { char } else { '-' }).take(50).collect();
    if name.is_empty() { "imported".to_string() } else { name }
}

/// The error that kept some files from being created, and the files that were.
#[derive(Debug, thiserror::Error)]
#[error("only {} of the files could be created", made.len())]
pub struct ImportWriteError {
    pub made: Vec<PathBuf>,
    pub source: FileError,
}

/// Creates the files, in order.
pub fn create_files(project: &Path, files: &[NewFile]) -> Result<(), ImportWriteError> {
    let mut made = Vec::new();
    for file in files {
        if let Err(source) = create_file(project, file) {
            return Err(ImportWriteError { made, source });
        }
        made.push(file.path.clone());
    }
    Ok(())
}

fn create_file(project: &Path, file: &NewFile) -> Result<(), FileError> {
    let path = project.join(&file.path);
    let above = path.ancestors().skip(1).find(|above| fs::exists(above));
    let is_inside = above.and_then(fs::resolve).is_some_and(|above| above.starts_with(project));
    if !is_inside {
        return Err(FileError::refused(
            &path,
            "its directory resolves to a path outside the project",
        ));
    }
    if let Some(directory) = path.parent() {
        fs::create_user_dir(directory)?;
    }
    if fs::create_new_user_file(&path, file.text.as_bytes())? {
        Ok(())
    } else {
        Err(FileError::refused(&path, "it was created in the meantime"))
    }
}
