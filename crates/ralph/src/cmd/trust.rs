//! `ralph trust`: shows what would run, and takes the person's word for it.

use super::home;
use crate::cli::Trust as Args;
use crate::report::Failure;
use crate::term;
use ralph_core::text;
use ralph_exec::config;
use ralph_exec::control::Caller;
use ralph_exec::env::Env;
use ralph_exec::paths::Home;
use ralph_exec::trust::{self, Approval, Called, How, Program, SearchPath, Subject};
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Read};

/// An answer is a word.
const LONGEST_ANSWER: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    Approved,
    Untrusted,
    /// Nothing of it comes from the repository.
    NotNeeded,
    Revoked,
}

#[derive(Serialize)]
struct TrustJson<'a> {
    v: u8,
    project: String,
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

/// All there is to know before one agrees.
struct Question {
    subject: Subject,
    search_path: SearchPath,
    /// While it is not approved: what was, if anything.
    last: Option<Approval>,
}

pub(crate) fn run(env: &Env, args: &Args) -> Result<(), Failure> {
    if super::caller(env) == Caller::Agent {
        let hint = "a person does this, in a terminal of their own";
        return Err(Failure::new("the agent may not approve what judges it", hint));
    }
    let home = home(env)?;
    let project = super::config::project(env, args.project.as_deref())?;
    if args.revoke {
        return revoke(&home, args, &project);
    }
    let config = config::load(&project, &home)?;
    let subject = trust::subject(&config)?;
    let before = standing(&home, &subject);
    let last = match before {
        Standing::Untrusted => trust::last_approval(&home, &config.project)?,
        Standing::Approved | Standing::NotNeeded | Standing::Revoked => None,
    };
    let search_path = trust::search_path(&config, env.search_path().as_deref());
    let question = Question { subject, search_path, last };
    if !args.json {
        term::out(&shown(&question, before))?;
    }
    let agreed = match (before, &args.hash) {
        (Standing::NotNeeded | Standing::Revoked, _) | (Standing::Approved, None) => Ok(()),
        (_, Some(given)) => by_hash(&home, &question, given),
        (Standing::Untrusted, None) => ask(&home, &question, args),
    };
    if args.json {
        print_json(&question, standing(&home, &question.subject))?;
    } else if agreed.is_ok() && before == Standing::Untrusted {
        term::out(&format!(
            "{}; a change of any of it asks again\n",
            term::paint(term::GOOD, "approved")
        ))?;
    }
    agreed
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

fn by_hash(home: &Home, question: &Question, given: &str) -> Result<(), Failure> {
    if given.len() < trust::SHORTEST_HASH {
        let what = format!("`--hash` needs at least {} characters", trust::SHORTEST_HASH);
        return Err(Failure::untrusted(&what, "`ralph trust` prints the hash"));
    }
    if !question.subject.is_meant_by(given) {
        let what = "the policy is not the one with that hash; nothing was approved";
        return Err(Failure::untrusted(what, "look at what changed, then give the hash above"));
    }
    trust::approve(home, &question.subject, &question.search_path)?;
    Ok(())
}

fn ask(home: &Home, question: &Question, args: &Args) -> Result<(), Failure> {
    if args.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let hint = format!("read it, then `ralph trust --hash {}`", question.subject.hash);
        return Err(Failure::untrusted(
            "nobody approved this policy, and nobody is here to ask",
            &hint,
        ));
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
            Err(Failure::untrusted("not approved; nothing of it runs", "`ralph trust` asks again"))
        }
    }
}

fn revoke(home: &Home, args: &Args, project: &std::path::Path) -> Result<(), Failure> {
    // Approvals are kept by the path without links.
    let project = ralph_exec::fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
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
        term::out(&format!("nothing of `{name}` was approved\n"))?;
    } else {
        term::out(&format!("nothing of `{name}` is approved any more\n"))?;
    }
    Ok(())
}

fn shown(question: &Question, standing: Standing) -> String {
    let Question { subject, search_path, last } = question;
    let name = text::line(&subject.project.to_string_lossy(), 500);
    let mut out = format!("{}\n", term::paint(term::BOLD, &name));
    if subject.commands.is_empty() {
        out.push_str("\nno gates\n");
    } else {
        out.push_str("\ngates run\n");
    }
    for (command, program) in subject.commands.iter().zip(&search_path.programs) {
        let literal = command.command.replace('\n', "\n    ");
        out.push_str(&format!("  {}\n    {literal}\n", term::paint(term::BOLD, &command.gate)));
        let where_from = text::line(&text::reveal(&program.program), 200);
        match &program.found {
            // A path that was written out needs no second line.
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
    if standing == Standing::NotNeeded {
        out.push_str(
            "\nnothing of this comes from the repository, so there is nothing to approve\n",
        );
        return out;
    }
    out.push_str("\nthe hash is over\n");
    for called in &subject.called {
        out.push_str(&format!("  {}\n", text::line(&text::reveal(&called.name), 500)));
    }
    if let Some(last) = last {
        out.push_str("\nsince the last approval\n");
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

fn print_json(question: &Question, status: Standing) -> Result<(), Failure> {
    let Question { subject, search_path, last } = question;
    let commands =
        subject.commands.iter().map(|one| CommandJson { gate: &one.gate, command: &one.command });
    let differences = last.iter().flat_map(|last| subject.differences(last));
    super::print_json(&TrustJson {
        v: 1,
        project: subject.project.display().to_string(),
        status,
        hash: &subject.hash,
        commands: commands.collect(),
        called: &subject.called,
        programs: &search_path.programs,
        changes: differences
            .map(|difference| ChangeJson { what: difference.what, how: difference.how })
            .collect(),
    })?;
    Ok(())
}
