//! What the approval of a policy covers, with the programs that the `PATH` of its gates leads to.

use super::{
    ApprovalSubject, GateCommand, GateSearch, ReferencedContent, TrustError, display_command,
    find_approval, gate_search, hash_references, judge_references, list_subjects,
    project_approvals, recordable_path, referenced_contents, references,
};
use crate::config::ProjectConfig;
use ralph_core::gate::Gate;
use ralph_core::sealed_file::SealedFile;
use ralph_home::paths::RalphHome;
use ralph_sys::env::Env;
use std::ffi::OsString;

/// What a person has to approve before any gate of this policy runs. The hash covers the programs of the project that
/// the `PATH` of the gates leads to.
pub fn policy_subject(
    home: &RalphHome,
    config: &ProjectConfig,
    env: &Env,
) -> Result<ApprovalSubject, TrustError> {
    let programs = judge_references::policy_programs(&config.policy);
    let mut files = references::find_references(&config.project, &programs)?;
    let prompts = judge_references::prompt_files(&config.project, &config.policy.judges)?;
    judge_references::merge_files(&mut files, prompts);
    let with_path = |path: Option<String>| {
        let environment = &config.policy.environment;
        let search = GateSearch { env, environment, path: path.map(OsString::from) };
        subject_with_programs(config, &search, files.clone())
    };
    let own = with_path(recordable_path(env.search_path().as_deref()))?;
    // Gates run with the `PATH` of the approval, so that one decides whether it covers the present content.
    if let Some(approval) = find_approval(home, &own)
        && with_path(approval.path)?.hash == own.hash
    {
        return Ok(own);
    }
    // Approvals that cannot be listed approve nothing.
    let mut approvals = project_approvals(home, &config.project).unwrap_or_default();
    approvals.retain(|approval| list_subjects::topic(&approval.called).is_none());
    approvals.sort_by(|one, other| other.approved_at.cmp(&one.approved_at));
    for approval in approvals {
        let subject = with_path(approval.path)?;
        if subject.hash == approval.hash {
            return Ok(subject);
        }
    }
    Ok(own)
}

/// The command as a person reads it before the approval, with the variable whose value it sends to a CI provider.
fn shown_command(gate: &Gate) -> String {
    let command = display_command(&gate.command);
    match &gate.ci {
        Some(query) if !query.token.is_empty() => {
            format!("{command} (token from ${})", query.token)
        }
        Some(_) | None => command,
    }
}

fn subject_with_programs(
    config: &ProjectConfig,
    search: &GateSearch<'_>,
    mut files: Vec<SealedFile>,
) -> Result<ApprovalSubject, TrustError> {
    let programs = judge_references::policy_programs(&config.policy);
    gate_search::add_searched_programs(&config.project, &programs, search, &mut files)?;
    let mut called = referenced_contents(&files);
    if let Some(file) = &config.file {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hash = blake3::hash(file.text.as_bytes()).to_hex().to_string();
        called.retain(|called| called.name != name);
        called.insert(0, ReferencedContent { name, hash });
    }
    let commands = config
        .policy
        .gates
        .iter()
        .map(|gate| GateCommand { gate: gate.name.clone(), command: shown_command(gate) });
    Ok(ApprovalSubject {
        project: config.project.clone(),
        hash: hash_references(&called),
        commands: commands.chain(judge_references::judge_commands(&config.policy)).collect(),
        references: called,
        files,
    })
}
