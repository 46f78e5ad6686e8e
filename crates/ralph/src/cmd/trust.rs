//! `ralph trust`: shows the commands that gates and checks would run, and records a person's approval.

use super::home;
use crate::report::Failure;
use crate::term;
use clap::Args;
use ralph_core::gate::Gate;
use ralph_core::record::ListKind;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_hook::control::Caller;
use ralph_lists::features::{FeatureError, Loop};
use ralph_lists::lists::{self, Named};
use ralph_lists::loop_directory;
use ralph_lists::plan;
use ralph_policy::config;
use ralph_policy::trust::{self, Approval, Called, How, Program, SearchPath, Subject};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The limit on an answer in bytes; an answer is one word.
const LONGEST_ANSWER: u64 = 100;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph trust
  ralph trust --features .claude/data/ralph-loops/csv
  ralph trust --hash 3f9a1c07d2e4
  ralph trust --revoke

Without options, covers the policy and every list of the project that
has checks. A hash covers the policy file or the checks of one list, and
every file of the project that their commands name. A change of any of
them needs a new approval. Exit codes: 0 approved, 3 not approved, 1
anything else.")]
pub(crate) struct Trust {
    /// Approve only the checks of the feature list in DIR (repeatable)
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    Approved,
    Untrusted,
    /// None of the commands come from the repository.
    NotNeeded,
    Revoked,
}

#[derive(Serialize)]
struct TrustJson<'a> {
    v: u8,
    project: String,
    #[serde(flatten)]
    policy: SubjectJson<'a>,
    lists: Vec<ListJson<'a>>,
}

#[derive(Serialize)]
struct ListJson<'a> {
    list: String,
    #[serde(flatten)]
    subject: SubjectJson<'a>,
}

#[derive(Serialize)]
struct SubjectJson<'a> {
    status: Standing,
    hash: &'a str,
    commands: Vec<CommandJson<'a>>,
    called: &'a [Called],
    programs: &'a [Program],
    changes: Vec<ChangeJson>,
}

#[derive(Serialize)]
struct CommandJson<'a> {
    gate: &'a str,
    command: &'a str,
}

#[derive(Serialize)]
struct ChangeJson {
    what: String,
    how: How,
}

#[derive(Serialize)]
struct RevokedJson {
    v: u8,
    project: String,
    status: Standing,
    revoked: usize,
}

/// What a person needs to see before they approve a policy or a list.
struct Question {
    /// The path of the list, relative to the project; `None` for the policy.
    list: Option<String>,
    subject: Subject,
    before: Standing,
    search_path: SearchPath,
    /// The last approval, if this version is not approved.
    last: Option<Approval>,
}

pub(crate) fn run(env: &Env, args: &Trust) -> Result<(), Failure> {
    if super::caller(env) == Caller::Agent {
        let hint = "ask a person to do this in their own terminal";
        return Err(Failure::new("an agent may not approve its own gates", hint));
    }
    let home = home(env)?;
    let project = super::config::project(env, args.project.as_deref())?;
    if args.revoke {
        return revoke(&home, args, &project);
    }
    let policy = policy(env, &home, &project)?;
    let lists = of_lists(env, &home, args, &policy.subject.project)?;
    let is_about_policy = args.features.is_empty() && args.plan.is_empty();
    // A policy that needs no approval is only shown if there are no lists to show.
    let is_worth_it = policy.before != Standing::NotNeeded || lists.is_empty();
    let asked: Vec<&Question> =
        std::iter::once(&policy).filter(|_| is_about_policy && is_worth_it).chain(&lists).collect();
    let agreed = agree(&home, &asked, args);
    if args.json {
        print_json(&home, &policy, &lists)?;
    }
    agreed
}

/// Shows each question before it asks, and asks for each separately.
fn agree(home: &Home, asked: &[&Question], args: &Trust) -> Result<(), Failure> {
    if let Some(given) = &args.hash {
        for question in asked.iter().filter(|_| !args.json) {
            term::out(&shown(question))?;
        }
        return by_hash(home, asked, given, args);
    }
    let mut first = Ok(());
    for question in asked {
        if !args.json {
            term::out(&shown(question))?;
        }
        let agreed = match question.before {
            Standing::NotNeeded | Standing::Revoked | Standing::Approved => Ok(()),
            Standing::Untrusted => ask(home, question, args).and_then(|()| approved(args)),
        };
        first = first.and(agreed);
    }
    first
}

fn approved(args: &Trust) -> Result<(), Failure> {
    if !args.json {
        let word = term::paint(term::GOOD, "approved");
        term::out(&format!("{word}; any change needs a new approval\n"))?;
    }
    Ok(())
}

fn policy(env: &Env, home: &Home, project: &Path) -> Result<Question, Failure> {
    let config = config::load(project, home)?;
    let subject = trust::subject(&config)?;
    let search_path = trust::search_path(&config, env.search_path().as_deref());
    question(home, None, subject, search_path)
}

fn question(
    home: &Home,
    list: Option<String>,
    subject: Subject,
    search_path: SearchPath,
) -> Result<Question, Failure> {
    let before = standing(home, &subject);
    let approval = match before {
        Standing::Untrusted => trust::last_approval(home, &subject)?,
        Standing::Approved | Standing::NotNeeded | Standing::Revoked => None,
    };
    Ok(Question { list, subject, before, search_path, last: approval })
}

/// The named lists, or all lists of the project that have checks.
fn of_lists(
    env: &Env,
    home: &Home,
    args: &Trust,
    project: &Path,
) -> Result<Vec<Question>, Failure> {
    let here = env.current_dir().unwrap_or_default();
    let mut named = Vec::new();
    for directory in &args.features {
        let path = super::start::list_directory(directory, &here)?.join(loop_directory::FEATURES);
        named.push(Named { path, kind: ListKind::Features });
    }
    for plan in &args.plan {
        let path = super::start::plan_file(plan, &here)?;
        named.push(Named { path, kind: ListKind::Plan });
    }
    let is_named = !named.is_empty();
    if !is_named {
        named = usual(env, project)?;
    }
    let mut questions: Vec<Question> = Vec::new();
    for one in &named {
        let checked = match lists::checked(project, one) {
            Ok(checked) => checked,
            Err(error) if is_named => return Err(FeatureError::from(error).into()),
            // `ralph loop list` and `ralph start` report lists that cannot be read.
            Err(_) => continue,
        };
        if !is_named && checked.gates.is_empty() {
            continue;
        }
        let path = env.search_path();
        let called = checked.gates.iter().zip(&checked.subject.commands);
        let gates: Vec<Gate> = called
            .map(|(gate, command)| Gate { name: command.gate.clone(), ..gate.clone() })
            .collect();
        let search_path = trust::search_path_of(project, &gates, path.as_deref());
        let name = one.path.strip_prefix(project).unwrap_or(&one.path).to_string_lossy();
        questions.push(question(home, Some(name.into_owned()), checked.subject, search_path)?);
    }
    Ok(questions)
}

/// The lists in the usual places of the project.
fn usual(env: &Env, project: &Path) -> Result<Vec<Named>, Failure> {
    let mut lists: Vec<Named> =
        super::feature::loops(env, project)?.iter().map(Loop::list).collect();
    let plans = plan::find(project).into_iter().filter_map(|path| fs::resolve(&project.join(path)));
    lists.extend(plans.map(|path| Named { path, kind: ListKind::Plan }));
    Ok(lists)
}

fn standing(home: &Home, subject: &Subject) -> Standing {
    if !subject.needs_approval() {
        Standing::NotNeeded
    } else if trust::is_approved(home, subject) {
        Standing::Approved
    } else {
        Standing::Untrusted
    }
}

fn by_hash(home: &Home, asked: &[&Question], given: &str, args: &Trust) -> Result<(), Failure> {
    if asked.iter().all(|question| question.before == Standing::NotNeeded) {
        return Ok(());
    }
    if given.len() < trust::SHORTEST_HASH {
        let what = format!("`--hash` needs at least {} characters", trust::SHORTEST_HASH);
        return Err(Failure::untrusted(&what, "`ralph trust` prints the hash"));
    }
    let meant = asked.iter().find(|question| question.subject.is_meant_by(given));
    let Some(question) = meant else {
        let what = match asked {
            [Question { list: None, .. }] => "the policy has another hash; nothing was approved",
            [Question { list: Some(_), .. }] => "the list has another hash; nothing was approved",
            [..] => "nothing here has that hash; nothing was approved",
        };
        return Err(Failure::untrusted(what, "review the changes, then give the hash above"));
    };
    trust::approve(home, &question.subject, &question.search_path)?;
    if question.before == Standing::Untrusted { approved(args) } else { Ok(()) }
}

fn ask(home: &Home, question: &Question, args: &Trust) -> Result<(), Failure> {
    if args.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = format!("review it, then run `ralph trust --hash {}`", question.subject.hash);
        let what = match question.list {
            None => "this policy is not approved; not a terminal, so I can't ask",
            Some(_) => "these checks are not approved; not a terminal, so I can't ask",
        };
        return Err(Failure::untrusted(what, &hint));
    }
    term::out("approve? [y/N] ")?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer);
    match (read, answer.trim().to_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => {
            trust::approve(home, &question.subject, &question.search_path)?;
            Ok(())
        }
        (Ok(_) | Err(_), _) => {
            Err(Failure::untrusted("not approved; none of it will run", "`ralph trust` asks again"))
        }
    }
}

fn revoke(home: &Home, args: &Trust, project: &Path) -> Result<(), Failure> {
    // Approvals are stored under the path without symbolic links.
    let project = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
    let revoked = trust::revoke(home, &project)?;
    let name = text::line(&project.to_string_lossy(), 500);
    if args.json {
        super::print_json(&RevokedJson {
            v: 1,
            project: name,
            status: Standing::Revoked,
            revoked,
        })?;
    } else if revoked == 0 {
        term::out(&format!("`{name}` had no approvals\n"))?;
    } else {
        term::out(&format!("all approvals of `{name}` are revoked\n"))?;
    }
    Ok(())
}

fn shown(question: &Question) -> String {
    let Question { list, subject, before: standing, search_path, last } = question;
    let name = match list {
        None => text::line(&subject.project.to_string_lossy(), 500),
        Some(list) => text::line(&text::reveal(list), 500),
    };
    let mut out = format!("{}\n", term::paint(term::BOLD, &name));
    out.push_str(match (list, subject.commands.is_empty()) {
        (None, true) => "\nno gates\n",
        (None, false) => "\ngates:\n",
        (Some(_), true) => "\nno checks\n",
        (Some(_), false) => "\nchecks:\n",
    });
    for (command, program) in subject.commands.iter().zip(&search_path.programs) {
        let literal = command.command.replace('\n', "\n    ");
        out.push_str(&format!("  {}\n    {literal}\n", term::paint(term::BOLD, &command.gate)));
        let where_from = text::line(&text::reveal(&program.program), 200);
        match &program.found {
            // An absolute path needs no second line.
            Some(found) if *found == program.program => {}
            Some(found) => {
                let found = text::line(&text::reveal(found), 500);
                out.push_str(&term::paint(term::DIM, &format!("    {where_from} → {found}")));
                out.push('\n');
            }
            None => {
                let missing = format!("    {where_from}: not found on PATH");
                out.push_str(&format!("{}\n", term::paint(term::ODD, &missing)));
            }
        }
    }
    if *standing == Standing::NotNeeded {
        out.push_str("\nnone of this comes from the repository; nothing to approve\n");
        return out;
    }
    out.push_str("\nthe hash covers:\n");
    for called in &subject.called {
        out.push_str(&format!("  {}\n", text::line(&text::reveal(&called.name), 500)));
    }
    if let Some(last) = last {
        out.push_str("\nsince the last approval:\n");
        for difference in subject.differences(last) {
            let how = match difference.how {
                How::Added => "new    ",
                How::Changed => "changed",
                How::Removed => "gone   ",
            };
            let what = text::line(&text::reveal(&difference.what), 500);
            out.push_str(&format!("  {} {what}\n", term::paint(term::ODD, how)));
        }
    }
    let standing = match standing {
        Standing::Approved => term::paint(term::GOOD, "approved"),
        Standing::Untrusted | Standing::NotNeeded | Standing::Revoked => {
            term::paint(term::ODD, "not approved")
        }
    };
    out.push_str(&format!("\nhash {}  {standing}\n", subject.hash));
    out
}

fn print_json(home: &Home, policy: &Question, lists: &[Question]) -> Result<(), Failure> {
    let lists = lists.iter().map(|question| ListJson {
        list: question.list.clone().unwrap_or_default(),
        subject: json(home, question),
    });
    super::print_json(&TrustJson {
        v: 1,
        project: policy.subject.project.display().to_string(),
        policy: json(home, policy),
        lists: lists.collect(),
    })?;
    Ok(())
}

fn json<'a>(home: &Home, question: &'a Question) -> SubjectJson<'a> {
    let Question { subject, search_path, last, .. } = question;
    let commands =
        subject.commands.iter().map(|one| CommandJson { gate: &one.gate, command: &one.command });
    let differences = last.iter().flat_map(|last| subject.differences(last));
    SubjectJson {
        status: standing(home, subject),
        hash: &subject.hash,
        commands: commands.collect(),
        called: &subject.called,
        programs: &search_path.programs,
        changes: differences
            .map(|difference| ChangeJson { what: difference.what, how: difference.how })
            .collect(),
    }
}
