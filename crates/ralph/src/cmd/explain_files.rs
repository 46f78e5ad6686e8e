//! `ralph explain`: the class of each file, and why.

use super::{open_home, print_json};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::text;
use ralph_deck::view::file_classes::{FileClassView, file_classes_view};
use ralph_hook::contract;
use ralph_policy::config::{self, ProjectConfig};
use ralph_proof::ClassRules;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Component, Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph explain src/lib.rs tests/it.rs
  ralph explain Makefile --json | jq -r '.files[].why'

A file is code, tests, harness (it decides how tests run) or
environment (installed dependencies and build products). To change a
class, name the file in `[tests] paths`, `[tests] harness` or `tests` of
a gate. The files need not exist.")]
pub(crate) struct ExplainArgs {
    /// Explain these files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &ExplainArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let directory = super::config::project_dir(env, args.project.as_deref())?;
    let config = config::load(&directory, &home)?;
    let rules = class_rules(&config)?;
    // Paths are relative to the working directory, unless that is outside of a project that was named.
    let here = env
        .current_dir()
        .filter(|here| args.project.is_none() || here.starts_with(&config.project));
    let here = here.unwrap_or_else(|| config.project.clone());
    // A pattern such as `tests/*` names directories too.
    let (directories, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.files.iter().partition(|file| fs::is_directory(&here.join(file)));
    for directory in &directories {
        let name = text::clean_line(&directory.to_string_lossy(), 200);
        term::err(&format!("note: `{name}` is a directory; name the files in it\n"));
    }
    if files.is_empty() {
        return Err(CommandFailure::new("no file is named", "name the files in the directories"));
    }
    let paths: Result<Vec<String>, CommandFailure> =
        files.into_iter().map(|file| path_in_project(&config.project, &here, file)).collect();
    let project = config.project.to_string_lossy();
    let view = file_classes_view(&project, &config.policy, &rules, &paths?);
    if args.json {
        return print_json(&view).map(drop);
    }
    let shown: Vec<String> = view.files.iter().map(render_file).collect();
    term::out(&shown.join("\n"))?;
    Ok(())
}

/// The rules of the policy, and the files that its commands name.
pub(super) fn class_rules(config: &ProjectConfig) -> Result<ClassRules, CommandFailure> {
    Ok(contract::class_rules(&config.policy, &config.project, &[])?)
}

/// The path relative to the project, with `/`. A link at its end is not followed, because it has its own class.
fn path_in_project(project: &Path, here: &Path, file: &Path) -> Result<String, CommandFailure> {
    let shown = text::clean_line(&file.to_string_lossy(), 200);
    let whole = here.join(file);
    let mut path = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => path.push(part),
        }
    }
    // The project's path has no links, but the shell may have come here through one.
    let parent = path.parent().and_then(fs::resolve);
    let path = match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path,
    };
    let inside = path.strip_prefix(project).ok().and_then(Path::to_str);
    inside.filter(|inside| !inside.is_empty()).map(str::to_string).ok_or_else(|| {
        let what = format!("`{shown}` is not in the project `{}`", project.display());
        CommandFailure::new(
            &what,
            "name files in this project, or choose another project with `--project`",
        )
    })
}

fn render_file(file: &FileClassView<'_>) -> String {
    let goes_with = match file.goes_with {
        "neither" => "goes with neither code nor tests".to_string(),
        side if side == file.class => String::new(),
        side => format!("goes with the {side}"),
    };
    let class = if goes_with.is_empty() {
        file.class.to_string()
    } else {
        format!("{} ({goes_with})", file.class)
    };
    let gates = if file.gates.is_empty() { "no gate".to_string() } else { file.gates.join(", ") };
    let mut rows = vec![("class", class), ("because", file.why.clone()), ("read by", gates)];
    if let Some(glob) = file.protected_by {
        rows.push(("protected", format!("`[protect] paths` contains `{glob}`")));
    }
    let mut out = format!("{}\n", paint(term::BOLD, &text::clean_line(&file.path, 400)));
    for (label, value) in rows {
        out.push_str(&format!("  {label:<9}  {}\n", text::clean_line(&value, 2000)));
    }
    out
}
