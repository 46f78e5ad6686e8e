//! `ralph trust`: shows the commands that gates and checks would run, and records a person's approval.

use super::open_home;
use super::trust_question::render_question;
use crate::failure::CommandFailure;
use crate::term;
use crate::typed_consent;
use clap::Args;
use ralph_core::gate::Gate;
use ralph_core::record::ListKind;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use ralph_deck::view::approvals::{
    ApprovalQuestion, ApprovalStatus, TrustRevokedView, approval_status, trust_view,
};
use ralph_home::paths::RalphHome;
use ralph_lists::loops::{FeatureError, FeatureLoop};
use ralph_lists::plan;
use ralph_lists::run_lists::{self, ListFile};
use ralph_lists::{list_approval, loop_directory};
use ralph_policy::config::{self, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject, ProgramSearch};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The longest text of a feature that is shown.
const MAX_FEATURE_CHARS: usize = 300;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph trust
  ralph trust --features .claude/data/ralph-loops/csv
  ralph trust --hash 3f9a1c07d2e4
  ralph trust --revoke

Without options, covers the policy, every list of the project that has
checks, and the loop `current`, which holds a session that stops in the
project. A hash covers the policy file or the checks of one list, and
every file of the project that their commands name, or the features of
the loop. A change of any of them needs a new approval. While a run
holds an agent, type the word that is shown at the terminal, also with
`--hash`. Exit codes: 0 approved, 3 not approved, 1 anything else.")]
pub(crate) struct TrustArgs {
    /// Approve only the feature list in DIR (repeatable)
    #[arg(long, value_name = "DIR")]
    pub features: Vec<PathBuf>,
    /// Approve only the checks of this plan (repeatable)
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<PathBuf>,
    /// Approve this hash, or its first 12 or more characters, without asking
    #[arg(long, value_name = "HASH")]
    pub hash: Option<String>,
    /// Revoke every approval of this project
    #[arg(long, conflicts_with_all = ["hash", "features", "plan"])]
    pub revoke: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &TrustArgs) -> Result<(), CommandFailure> {
    super::refuse_agent(env, "an agent may not approve its own gates", super::ASK_A_PERSON)?;
    let home = open_home(env)?;
    let project = super::config::project_dir(env, args.project.as_deref())?;
    if args.revoke {
        return revoke_approvals(&home, args, &project);
    }
    let config = config::load(&project, &home)?;
    let policy = policy_question(env, &home, &config)?;
    let mut lists = list_questions(env, &home, args, &config)?;
    if let Some(question) = loop_question(env, &home, args, &config)? {
        lists.retain(|one| one.list != question.list || one.subject.needs_approval());
        lists.push(question);
    }
    // A script that approves whatever `--json` showed needs no policy; a person who types `ralph trust` expects one.
    let is_script = args.json || args.hash.is_some();
    let has_policy = config.file.is_some()
        || !config.policy.gates.is_empty()
        || !config.policy.judges.is_empty();
    if !is_script && !has_policy && lists.is_empty() {
        let what = format!("there is no `ralph.toml` in `{}`", config.project.display());
        return Err(CommandFailure::new(&what, "`ralph init` proposes one"));
    }
    let is_about_policy = args.features.is_empty() && args.plan.is_empty();
    // A policy that needs no approval is only shown if there are no lists to show.
    let is_worth_it = policy.before != ApprovalStatus::NotNeeded || lists.is_empty();
    let asked: Vec<&ApprovalQuestion> =
        std::iter::once(&policy).filter(|_| is_about_policy && is_worth_it).chain(&lists).collect();
    let agreed = ask_for_approvals(&home, &asked, args);
    if args.json {
        super::print_json(&trust_view(&home, &policy, &lists))?;
    }
    agreed
}

/// Shows each question before it asks, and asks for each separately.
fn ask_for_approvals(
    home: &RalphHome,
    asked: &[&ApprovalQuestion],
    args: &TrustArgs,
) -> Result<(), CommandFailure> {
    if let Some(given) = &args.hash {
        for question in asked.iter().filter(|_| !args.json) {
            term::out(&render_question(question))?;
        }
        return approve_by_hash(home, asked, given, args);
    }
    let mut first = Ok(());
    for question in asked {
        if !args.json {
            term::out(&render_question(question))?;
        }
        let agreed = match question.before {
            ApprovalStatus::NotNeeded | ApprovalStatus::Revoked | ApprovalStatus::Approved => {
                Ok(())
            }
            ApprovalStatus::Untrusted => {
                ask_person(home, question, args).and_then(|()| print_approved(args))
            }
        };
        first = first.and(agreed);
    }
    first
}

fn print_approved(args: &TrustArgs) -> Result<(), CommandFailure> {
    if !args.json {
        let word = term::paint(term::GOOD, "approved");
        term::out(&format!("{word}; any change needs a new approval\n"))?;
    }
    Ok(())
}

fn policy_question(
    env: &Env,
    home: &RalphHome,
    config: &ProjectConfig,
) -> Result<ApprovalQuestion, CommandFailure> {
    let subject = trust::policy_subject(home, config, env)?;
    let search_path = trust::find_programs(config, env);
    let question = new_question(home, None, subject, search_path)?;
    Ok(ApprovalQuestion {
        sets_ci: config.policy.environment.ci,
        judges: config.policy.judges.clone(),
        ci_gates: config.policy.gates.iter().filter(|gate| gate.is_ci()).cloned().collect(),
        ..question
    })
}

/// The loop that holds a session without having been started in it. A finished or unreadable one is not adopted.
fn loop_question(
    env: &Env,
    home: &RalphHome,
    args: &TrustArgs,
    config: &ProjectConfig,
) -> Result<Option<ApprovalQuestion>, CommandFailure> {
    let here = env.current_dir().unwrap_or_default();
    let directory = if args.features.is_empty() && args.plan.is_empty() {
        Some(config.project.join(loop_directory::DEFAULT_DIRECTORY))
    } else {
        let mut named = args.features.iter().map(|directory| here.join(directory));
        named.find(|directory| directory.ends_with(loop_directory::DEFAULT_DIRECTORY))
    };
    let Some(directory) = directory.and_then(|directory| fs::resolve(&directory)) else {
        return Ok(None);
    };
    let list =
        ListFile { path: directory.join(loop_directory::FEATURES_FILE), kind: ListKind::Features };
    let Ok(sealed) = run_lists::seal_list(&config.project, &list) else {
        return Ok(None);
    };
    let subject = list_approval::adoption_subject(&config.project, &sealed);
    let search_path = trust::find_programs_of(config, &[], env);
    let name = list_name(&config.project, &list);
    let question = new_question(home, Some(name), subject, search_path)?;
    let feature_line = |item: &ListItem| {
        // Prose, in which a no-break space is typography.
        let line = text::reveal(&text::with_plain_spaces(&item.text));
        let line = text::clean_line(&line, MAX_FEATURE_CHARS);
        format!("{}  {line}", text::clean_line(&text::reveal(&item.name), MAX_FEATURE_CHARS))
    };
    let loop_features = sealed.items.iter().map(feature_line).collect();
    Ok(Some(ApprovalQuestion { loop_features, ..question }))
}

fn list_name(project: &Path, list: &ListFile) -> String {
    list.path.strip_prefix(project).unwrap_or(&list.path).to_string_lossy().into_owned()
}

fn new_question(
    home: &RalphHome,
    list: Option<String>,
    subject: ApprovalSubject,
    search_path: ProgramSearch,
) -> Result<ApprovalQuestion, CommandFailure> {
    let before = approval_status(home, &subject);
    let approval = match before {
        ApprovalStatus::Untrusted => {
            trust::check_approval_file(home, &subject)?;
            trust::last_approval(home, &subject)?
        }
        ApprovalStatus::Approved | ApprovalStatus::NotNeeded | ApprovalStatus::Revoked => None,
    };
    let loop_features = Vec::new();
    Ok(ApprovalQuestion {
        list,
        loop_features,
        subject,
        before,
        search_path,
        sets_ci: false,
        judges: Vec::new(),
        ci_gates: Vec::new(),
        last: approval,
    })
}

/// The named lists, or all lists of the project that have checks.
fn list_questions(
    env: &Env,
    home: &RalphHome,
    args: &TrustArgs,
    config: &ProjectConfig,
) -> Result<Vec<ApprovalQuestion>, CommandFailure> {
    let project = config.project.as_path();
    let here = env.current_dir().unwrap_or_default();
    let mut named = Vec::new();
    for directory in &args.features {
        let path = ralph_hook::control::list_directory(directory, &here)?
            .join(loop_directory::FEATURES_FILE);
        named.push(ListFile { path, kind: ListKind::Features });
    }
    for plan in &args.plan {
        let path = ralph_hook::control::plan_file(plan, &here)?;
        named.push(ListFile { path, kind: ListKind::Plan });
    }
    let is_named = !named.is_empty();
    if !is_named {
        named = default_lists(env, project)?;
    }
    let mut questions: Vec<ApprovalQuestion> = Vec::new();
    for one in &named {
        let checked = match run_lists::read_list_checks(project, one) {
            Ok(checked) => checked,
            Err(error) if is_named => return Err(FeatureError::from(error).into()),
            // `ralph list loops` and `ralph start` report lists that cannot be read.
            Err(_) => continue,
        };
        if !is_named && checked.gates.is_empty() {
            continue;
        }
        let called = checked.gates.iter().zip(&checked.subject.commands);
        let gates: Vec<Gate> = called
            .map(|(gate, command)| Gate { name: command.gate.clone(), ..gate.clone() })
            .collect();
        let search_path = trust::find_programs_of(config, &gates, env);
        let name = list_name(project, one);
        questions.push(new_question(home, Some(name), checked.subject, search_path)?);
    }
    Ok(questions)
}

/// The lists in the usual places of the project.
fn default_lists(env: &Env, project: &Path) -> Result<Vec<ListFile>, CommandFailure> {
    let mut lists: Vec<ListFile> =
        super::feature::find_loops(env, project)?.iter().map(FeatureLoop::list).collect();
    let plans =
        plan::find_plans(project)?.into_iter().filter_map(|path| fs::resolve(&project.join(path)));
    lists.extend(plans.map(|path| ListFile { path, kind: ListKind::Plan }));
    Ok(lists)
}

fn approve_by_hash(
    home: &RalphHome,
    asked: &[&ApprovalQuestion],
    given: &str,
    args: &TrustArgs,
) -> Result<(), CommandFailure> {
    if asked.iter().all(|question| question.before == ApprovalStatus::NotNeeded) {
        return Ok(());
    }
    if given.len() < trust::MIN_HASH_PREFIX {
        let what = format!("`--hash` needs at least {} characters", trust::MIN_HASH_PREFIX);
        return Err(CommandFailure::untrusted(&what, "`ralph trust` prints the hash"));
    }
    let meant = asked.iter().find(|question| question.subject.matches_hash(given));
    let Some(question) = meant else {
        let what = match asked {
            [ApprovalQuestion { list: None, .. }] => {
                "the policy has another hash; nothing was approved"
            }
            [ApprovalQuestion { list: Some(_), .. }] => {
                "the list has another hash; nothing was approved"
            }
            [..] => "nothing here has that hash; nothing was approved",
        };
        return Err(CommandFailure::untrusted(
            what,
            "review the changes, then give the hash above",
        ));
    };
    typed_consent::require_while_held(home, "approve it")?;
    trust::approve(home, &question.subject, &question.search_path)?;
    if question.before == ApprovalStatus::Untrusted { print_approved(args) } else { Ok(()) }
}

fn ask_person(
    home: &RalphHome,
    question: &ApprovalQuestion,
    args: &TrustArgs,
) -> Result<(), CommandFailure> {
    if args.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = format!("review it, then run `ralph trust --hash {}`", question.subject.hash);
        let what = match question.list {
            None => "this policy is not approved; not a terminal, so I can't ask",
            Some(_) if !question.loop_features.is_empty() => {
                "this loop is not approved; not a terminal, so I can't ask"
            }
            Some(_) => "these checks are not approved; not a terminal, so I can't ask",
        };
        return Err(CommandFailure::untrusted(what, &hint));
    }
    let project = text::clean_line(&question.subject.project.to_string_lossy(), 500);
    term::out(&format!("approve this for `{project}`? [y/N] "))?;
    if !term::is_confirmed().unwrap_or(false) {
        let (what, hint) = ("not approved; none of it will run", "`ralph trust` asks again");
        return Err(CommandFailure::untrusted(what, hint));
    }
    typed_consent::require_while_held(home, "approve it")?;
    trust::approve(home, &question.subject, &question.search_path)?;
    Ok(())
}

fn revoke_approvals(
    home: &RalphHome,
    args: &TrustArgs,
    project: &Path,
) -> Result<(), CommandFailure> {
    // Approvals are stored under the path without symbolic links.
    let project = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
    let revoked = trust::revoke_approvals(home, &project)?;
    let name = text::clean_line(&project.to_string_lossy(), 500);
    if args.json {
        super::print_json(&TrustRevokedView {
            v: 1,
            project: name,
            status: ApprovalStatus::Revoked,
            revoked,
        })?;
    } else if revoked == 0 {
        term::out(&format!("`{name}` had no approvals\n"))?;
    } else {
        term::out(&format!("all approvals of `{name}` are revoked\n"))?;
    }
    Ok(())
}
