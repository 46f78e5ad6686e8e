//! `ralph gate add`: adds a command to `ralph.toml` as a gate, and approves the result.

use crate::cmd::{ASK_A_PERSON, init_text, open_home, print_json, refuse_agent};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::typed_consent;
use clap::Args;
use ralph_core::gate::{Gate, shell_quote};
use ralph_core::requirement::RequirementStage;
use ralph_core::text;
use ralph_deck::wording::safe_line;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_install::doctor;
use ralph_install::install::file_change;
use ralph_install::install::install_plan::InstallContext;
use ralph_policy::config::{self, POLICY_FILE_NAMES, ProjectConfig};
use ralph_policy::detect::ProposedGate;
use ralph_policy::detect::typed_command::{self, TypedCommand};
use ralph_policy::policy_edit;
use ralph_policy::trust;
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph gate add \"sh test.sh\"
  ralph gate add \"npm run lint\" --name lint --stage quality
  ralph gate add \"./e2e.sh\" --yes --json | jq .gate

Appends to `ralph.toml`, keeps every byte that is there, and creates the
file if necessary. Approves the result if the policy was approved
before; otherwise `ralph trust` shows all of it. Exit codes: 0 added, 3
added but not approved, 1 anything else.")]
pub(crate) struct GateAddArgs {
    /// Run this command; exit code 0 means that the gate passes
    #[arg(value_name = "CMD")]
    pub command: String,
    /// Name the gate [default: derived from the command]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Choose the stage [default: derived from the command]
    #[arg(long, value_name = "STAGE", value_parser = super::gate_args::parse_stage)]
    pub stage: Option<RequirementStage>,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
}

#[derive(Serialize)]
struct GateAddJson {
    v: u8,
    project: String,
    file: String,
    gate: AddedGateJson,
    /// Whether the policy with the new gate is approved.
    approved: bool,
    hash: String,
    diff: String,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct AddedGateJson {
    name: String,
    stage: &'static str,
    command: String,
}

/// A policy with one more gate, not written yet.
struct PolicyAddition {
    path: PathBuf,
    before: Option<String>,
    after: String,
    config: ProjectConfig,
    /// Whether everything in the policy but the new gate is approved.
    is_approvable: bool,
}

pub(crate) fn run(env: &Env, args: &GateAddArgs) -> Result<(), CommandFailure> {
    refuse_agent(env, "an agent may not choose its own gates", ASK_A_PERSON)?;
    let home = open_home(env)?;
    let project = crate::cmd::config::project_dir(env, args.project.as_deref())?;
    let project = fs::resolve(&project).unwrap_or(project);
    let proposal = propose_gate(env, &project, args)?;
    let addition = plan_addition(env, &home, &project, &proposal)?;
    let diff = file_change::unified_diff(
        &addition.path,
        addition.before.as_deref().map(str::as_bytes),
        Some(addition.after.as_bytes()),
    );
    let mut notes: Vec<String> = missing_script_note(&project, &proposal).into_iter().collect();
    let shown = notes.len();
    if !args.json {
        term::out(&format!("{}\n", init_text::render_diff(&diff)))?;
        print_notes(&notes)?;
    }
    confirm(env, args, &addition)?;
    typed_consent::require_while_held(&home, "add and approve this gate")?;
    write_addition(&addition)?;
    let subject = trust::policy_subject(&home, &addition.config, env)?;
    if addition.is_approvable {
        trust::approve(&home, &subject, &trust::find_programs(&addition.config, env))?;
    }
    let gates_ms = addition
        .config
        .policy
        .gates
        .iter()
        .fold(0, |total: u64, gate| total.saturating_add(gate.timeout_ms));
    let host = host_env::calling_host(env);
    notes.extend(doctor::short_timeout_note(env, host, &project, gates_ms));
    if args.json {
        print_json(&GateAddJson {
            v: 1,
            project: project.display().to_string(),
            file: addition.path.display().to_string(),
            gate: AddedGateJson {
                name: proposal.gate.name.clone(),
                stage: proposal.gate.stage.name(),
                command: trust::display_command(&proposal.gate.command),
            },
            approved: addition.is_approvable,
            hash: subject.hash,
            diff,
            notes: notes.clone(),
        })?;
    }
    let name = &proposal.gate.name;
    if !addition.is_approvable {
        let what = format!("added gate `{name}`, but the policy was not approved before");
        return Err(CommandFailure::untrusted(&what, "`ralph trust` shows all of it and asks"));
    }
    if !args.json {
        let word = paint(term::GOOD, "approved");
        term::out(&format!(
            "added gate `{name}` and {word} it; `ralph gate run {name}` runs it\n"
        ))?;
        print_notes(notes.get(shown..).unwrap_or_default())?;
    }
    Ok(())
}

fn print_notes(notes: &[String]) -> Result<(), CommandFailure> {
    for line in init_text::note_lines(notes) {
        term::out(&format!("{line}\n"))?;
    }
    Ok(())
}

/// The gate of the typed command. A program that is not on `PATH` could never pass.
pub(crate) fn typed_proposal(
    env: &Env,
    project: &Path,
    typed: TypedCommand<'_>,
) -> Result<ProposedGate, CommandFailure> {
    let hint = "name a command that ends with exit code 0 if the work is right";
    let proposal = typed_command::typed_gate(project, env, typed)
        .map_err(|error| CommandFailure::new(&error.to_string(), hint))?;
    match typed_command::missing_program(&proposal) {
        Some(program) => {
            let what = format!("`{}` is not on PATH", safe_line(program));
            Err(CommandFailure::new(&what, hint))
        }
        None => Ok(proposal),
    }
}

/// A gate that runs a script which does not exist fails until it does.
pub(crate) fn missing_script_note(project: &Path, proposal: &ProposedGate) -> Option<String> {
    let script = typed_command::missing_script(project, proposal)?;
    let script = safe_line(script);
    Some(format!("`{script}` does not exist in the project: the gate fails until it does"))
}

/// The gates of `ralph init --gate`. An existing policy is not changed by `ralph init`.
pub(crate) fn typed_proposals(
    context: &InstallContext<'_>,
    commands: &[String],
) -> Result<Vec<ProposedGate>, CommandFailure> {
    let current = config::load(context.project, context.home)?;
    if let (Some(file), Some(first)) = (&current.file, commands.first()) {
        let what = format!("`{}` exists already", safe_line(&file.path.to_string_lossy()));
        let hint = format!("`ralph gate add {}` adds the gate", shell_quote(&safe_line(first)));
        return Err(CommandFailure::new(&what, &hint));
    }
    let mut proposals: Vec<ProposedGate> = Vec::new();
    for command in commands {
        let typed = TypedCommand { command, name: None, stage: None };
        let proposal = typed_proposal(context.env, context.project, typed)
            .map_err(|failure| failure.with_subject("`--gate`"))?;
        let gates: Vec<Gate> = proposals.iter().map(|one| one.gate.clone()).collect();
        refuse_duplicate(&gates, &proposal.gate)?;
        proposals.push(proposal);
    }
    Ok(proposals)
}

fn propose_gate(
    env: &Env,
    project: &Path,
    args: &GateAddArgs,
) -> Result<ProposedGate, CommandFailure> {
    let name = args.name.as_deref();
    typed_proposal(env, project, TypedCommand { command: &args.command, name, stage: args.stage })
}

fn plan_addition(
    env: &Env,
    home: &RalphHome,
    project: &Path,
    proposal: &ProposedGate,
) -> Result<PolicyAddition, CommandFailure> {
    let current = config::load(project, home)?;
    refuse_duplicate(&current.policy.gates, &proposal.gate)?;
    let is_approvable = match &current.file {
        None => true,
        Some(_) => trust::is_approved(home, &trust::policy_subject(home, &current, env)?),
    };
    let before = current.file.as_ref().map(|file| file.text.to_string());
    let path = current
        .file
        .as_ref()
        .map_or_else(|| project.join(POLICY_FILE_NAMES[0]), |file| file.path.clone());
    let after = policy_edit::add_gate(before.as_deref(), proposal);
    let config = config::load_with_text(project, home, &after)?;
    Ok(PolicyAddition { path, before, after, config, is_approvable })
}

/// Two gates of one name cannot be told apart, and two of one command measure nothing more than one.
fn refuse_duplicate(gates: &[Gate], new: &Gate) -> Result<(), CommandFailure> {
    if let Some(same) = gates.iter().find(|gate| gate.command == new.command && gate.cwd == new.cwd)
    {
        let name = text::clean_line(&same.name, 80);
        let what = format!("gate `{name}` runs this command already");
        return Err(CommandFailure::new(&what, &format!("`ralph gate run {name}` runs it")));
    }
    if gates.iter().any(|gate| gate.name == new.name) {
        let is_taken = |name: &String| gates.iter().any(|gate| gate.name == *name);
        let mut names = (2..).map(|number: u32| format!("{}-{number}", new.name));
        let free = names.find(|name| !is_taken(name)).unwrap_or_default();
        let what = format!("there is a gate `{}` already, with another command", new.name);
        return Err(CommandFailure::new(
            &what,
            &format!("choose another name, such as `--name {free}`"),
        ));
    }
    Ok(())
}

fn confirm(env: &Env, args: &GateAddArgs, addition: &PolicyAddition) -> Result<(), CommandFailure> {
    if args.yes {
        return Ok(());
    }
    if args.json || !term::can_ask() {
        let words = env.args();
        let words = term::ColorWhen::without_option(&words).iter().skip(2);
        let words: Vec<_> =
            words.map(|word| shell_quote(&safe_line(&word.to_string_lossy()))).collect();
        let hint = format!("paste `ralph gate add --yes {}`", words.join(" "));
        let why =
            if args.json { "`--json` does not ask" } else { "not a terminal, so I can't ask" };
        let what = format!("{why}; nothing was written");
        return Err(CommandFailure::untrusted(&what, &hint));
    }
    term::out(if addition.is_approvable {
        "write this and approve it? [y/N] "
    } else {
        "write this? [y/N] "
    })?;
    if term::is_confirmed().unwrap_or(false) {
        return Ok(());
    }
    Err(CommandFailure::chosen("nothing was written", "`ralph gate add` asks again"))
}

/// Writes the file if it still has the content that was shown.
fn write_addition(addition: &PolicyAddition) -> Result<(), CommandFailure> {
    let bytes = addition.after.as_bytes();
    let is_written = match &addition.before {
        None => fs::create_new_user_file(&addition.path, bytes)?,
        Some(before) => {
            let now = fs::read(&addition.path, super::MAX_POLICY_BYTES)?;
            let is_same = now == before.as_bytes();
            if is_same {
                fs::replace_user_file(&addition.path, bytes)?;
            }
            is_same
        }
    };
    if is_written {
        return Ok(());
    }
    let what = format!("`{}` was just changed by another process", addition.path.display());
    Err(CommandFailure::new(&what, "run the command again"))
}
