//! `ralph ci generate`: the workflow that runs the gates of the project at a CI provider.

mod workflow_text;

use super::gate::load_policy;
use super::open_home;
use crate::failure::CommandFailure;
use crate::term;
use clap::{Args, Subcommand, ValueEnum};
use ralph_core::gate::Gate;
use ralph_core::policy::ProofMode;
use ralph_core::text;
use ralph_git::git;
use ralph_policy::trust;
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::path::{Path, PathBuf};
use workflow_text::WorkflowTerms;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ralph ci generate github
  ralph ci generate gitlab --write --output .gitlab/ralph.yml";

#[derive(Subcommand)]
pub(crate) enum CiCommand {
    /// Print or write the workflow that runs the gates in CI
    Generate(CiGenerateArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph ci generate github
  ralph ci generate github --write
  ralph ci generate gitlab --write --output .gitlab/ralph.yml

The workflow installs ralph at a fixed commit and runs `ralph gate run`
by the hash of the policy as it is now: after a change of the policy,
generate it again. Pull requests are proved too, unless the policy
turns proofs off. Gates of `[[ci]]` do not run there. In a project below
the root of its repository, the file is written at the root, and the
steps start in the project.")]
pub(crate) struct CiGenerateArgs {
    /// Choose the provider
    #[arg(value_name = "PROVIDER", value_enum)]
    pub provider: WorkflowProvider,
    /// Write the file instead of printing it
    #[arg(long)]
    pub write: bool,
    /// Replace a file that exists
    #[arg(long, requires = "write")]
    pub force: bool,
    /// Write to this file of the repository
    #[arg(long, value_name = "FILE", requires = "write")]
    pub output: Option<PathBuf>,
    /// Install ralph from this repository [default: a variable of the CI]
    #[arg(long, value_name = "URL", value_parser = parse_source)]
    pub source: Option<String>,
    /// Install this commit of ralph [default: that of this program]
    #[arg(long, value_name = "COMMIT", value_parser = parse_commit)]
    pub rev: Option<String>,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkflowProvider {
    Github,
    Gitlab,
}

impl WorkflowProvider {
    fn name(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
        }
    }

    fn usual_file(self) -> &'static str {
        match self {
            Self::Github => ".github/workflows/ralph.yml",
            Self::Gitlab => ".gitlab-ci.yml",
        }
    }
}

#[derive(Serialize)]
struct WorkflowJson<'a> {
    v: u8,
    provider: &'static str,
    file: String,
    /// Whether the file was written.
    written: bool,
    hash: &'a str,
    text: &'a str,
}

pub(crate) fn run(env: &Env, command: &CiCommand) -> Result<(), CommandFailure> {
    let CiCommand::Generate(args) = command;
    generate(env, args)
}

fn generate(env: &Env, args: &CiGenerateArgs) -> Result<(), CommandFailure> {
    if args.write {
        super::refuse_agent(env, "an agent may not write its own CI", super::ASK_A_PERSON)?;
    }
    let home = open_home(env)?;
    let config = load_policy(env, &home, args.project.as_deref())?;
    if config.policy.gates.iter().all(Gate::is_ci) {
        let what = format!("no gates are set up for `{}`", config.project.display());
        return Err(CommandFailure::new(&what, "`ralph gate detect --write` sets some up"));
    }
    let subject = trust::policy_subject(&home, &config, env)?;
    let built = env!("RALPH_COMMIT");
    let own = Some(built.to_string()).filter(|commit| parse_commit(commit).is_ok());
    let below = git::path_in_work_tree(&config.project);
    let directory = plain_directory(below)?;
    let root = git::work_tree_root(&config.project).unwrap_or(&config.project);
    let page = workflow_text::render_workflow(&WorkflowTerms {
        provider: args.provider,
        directory,
        hash: &subject.hash,
        source: args.source.as_deref(),
        commit: args.rev.as_deref().or(own.as_deref()),
        is_proved: config.policy.verify.proof != ProofMode::Off
            && config.policy.gates.iter().any(Gate::takes_part_in_proof),
    });
    let relative = match &args.output {
        Some(path) => path.clone(),
        None => PathBuf::from(args.provider.usual_file()),
    };
    let path = root.join(&relative);
    if args.write {
        write_workflow(args, root, &path, &page)?;
    }
    if args.json {
        super::print_json(&WorkflowJson {
            v: 1,
            provider: args.provider.name(),
            file: path.display().to_string(),
            written: args.write,
            hash: &subject.hash,
            text: &page,
        })?;
    } else if args.write {
        let shown = text::clean_line(&relative.to_string_lossy(), 200);
        term::out(&format!("wrote `{shown}`{}\n", next_step(directory)))?;
    } else {
        term::out(&page)?;
    }
    if args.write && args.source.is_none() {
        term::err(
            "note: the job installs ralph from the repository in the CI variable `RALPH_REPOSITORY`: set it, or use `--source URL`\n",
        );
    }
    if !trust::is_approved(&home, &subject) {
        term::err("note: this policy is not approved yet; `ralph trust` shows what would run\n");
    }
    Ok(())
}

/// A policy can protect files of its project only.
fn next_step(directory: &str) -> &'static str {
    if directory.is_empty() {
        "; commit it. If you add it to `[protect] paths`, run `ralph trust`, then generate it again: \
         it runs only the policy that it names"
    } else {
        " at the root of the repository; commit it. It lies outside of the project, so `[protect] paths` cannot name it"
    }
}

/// The path of the project in its repository, if it needs no escapes in YAML, in a shell and for the provider.
fn plain_directory(below: &Path) -> Result<&str, CommandFailure> {
    let is_plain_char = |char: char| char.is_alphanumeric() || "-._~/@+=, ".contains(char);
    let path = below.to_str().filter(|path| path.chars().all(is_plain_char));
    path.filter(|path| !path.starts_with('-')).ok_or_else(|| {
        let shown = text::clean_line(&below.to_string_lossy(), 200);
        let what = format!("a workflow cannot name the directory `{shown}`");
        CommandFailure::new(&what, "rename it: use letters, digits, blanks and `-._~/@+=,`")
    })
}

fn write_workflow(
    args: &CiGenerateArgs,
    root: &Path,
    path: &Path,
    page: &str,
) -> Result<(), CommandFailure> {
    let shown = text::clean_line(&path.to_string_lossy(), 200);
    let is_inside =
        !path.components().any(|part| part.as_os_str() == "..") && path.starts_with(root);
    if !is_inside {
        let what = format!("`{shown}` is not in the repository");
        return Err(CommandFailure::new(&what, "name a file of the repository"));
    }
    if let Some(parent) = path.parent() {
        fs::create_user_dir(parent)?;
    }
    if args.force {
        fs::replace_user_file(path, page.as_bytes())?;
        return Ok(());
    }
    if fs::create_new_user_file(path, page.as_bytes())? {
        return Ok(());
    }
    let what = format!("`{shown}` exists");
    let hint = match args.provider {
        WorkflowProvider::Github => "`--force` replaces it; `--output FILE` writes another",
        WorkflowProvider::Gitlab => {
            "`--force` replaces it; with `--output .gitlab/ralph.yml` it can include the new file"
        }
    };
    Err(CommandFailure::new(&what, hint))
}

/// An address that needs no quoting in YAML and in a shell.
fn parse_source(text: &str) -> Result<String, String> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/:@+".contains(&byte));
    let is_address = text.starts_with("https://") || text.starts_with("ssh://");
    if is_plain && is_address && text.len() <= 500 {
        Ok(text.to_string())
    } else {
        Err("expected an address such as `https://example.com/ralph.git`".to_string())
    }
}

fn parse_commit(text: &str) -> Result<String, String> {
    let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(text.to_string()) } else { Err("expected the full id of a commit".to_string()) }
}
