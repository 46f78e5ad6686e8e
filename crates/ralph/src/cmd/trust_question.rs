//! What `ralph trust` shows before it asks: the commands of gates, CI checks and judges, their environment, and the files
//! that the hash covers.

use crate::term;
use ralph_core::text;
use ralph_deck::view::approvals::{ApprovalQuestion, ApprovalStatus};
use ralph_policy::trust::{
    DifferenceKind, GateCommand, GateProgram, GateVariables, ProgramSearch, SetVariable,
    ShownEnvironment, judge_label,
};

/// A command with what a person has to know about it.
struct ShownCommand<'a> {
    name: &'a str,
    command: &'a GateCommand,
    facts: Option<String>,
    /// The address on this machine that it asks.
    loopback: Option<&'a str>,
}

#[derive(Default)]
struct CommandSections<'a> {
    /// Of the policy, or the checks of a list.
    gates: Vec<ShownCommand<'a>>,
    ci_checks: Vec<ShownCommand<'a>>,
    judges: Vec<ShownCommand<'a>>,
}

fn command_sections(question: &ApprovalQuestion) -> CommandSections<'_> {
    let mut sections = CommandSections::default();
    for command in &question.subject.commands {
        let name = &command.gate;
        let asks_ci = question.ci_gates.iter().find(|gate| gate.name == *name);
        if let Some(judge) = question.judges.iter().find(|judge| judge_label(judge) == *name) {
            let facts = Some(judge.describe_limits());
            let loopback = judge.backend.loopback_authority();
            sections.judges.push(ShownCommand { name: &judge.name, command, facts, loopback });
        } else if let Some((gate, query)) = asks_ci.and_then(|gate| Some((gate, gate.ci.as_ref()?)))
        {
            let facts = Some(query.describe(gate.timeout_ms));
            let loopback = query.provider.loopback_authority();
            sections.ci_checks.push(ShownCommand { name, command, facts, loopback });
        } else {
            sections.gates.push(ShownCommand { name, command, facts: None, loopback: None });
        }
    }
    sections
}

fn render_command(shown: &ShownCommand<'_>, search_path: &ProgramSearch) -> String {
    let ShownCommand { name, command, facts, loopback } = shown;
    let literal = command.command.replace('\n', "\n    ");
    let mut out = format!("  {}\n    {literal}\n", term::paint(term::BOLD, name));
    let facts = facts.iter().map(|facts| term::paint(term::DIM, &format!("    {facts}")));
    facts.for_each(|facts| out.push_str(&format!("{facts}\n")));
    if let Some(authority) = loopback {
        let authority = text::clean_line(&text::reveal(authority), 200);
        let line = format!("    a process of the agent can answer at {authority}");
        out.push_str(&format!("{}\n", term::paint(term::WARN, &line)));
    }
    let programs = search_path.programs.iter().filter(|program| program.gate == command.gate);
    programs.for_each(|program| out.push_str(&render_program(program)));
    out
}

/// Where a program of a gate was found. An absolute path needs no line.
fn render_program(program: &GateProgram) -> String {
    let name = text::clean_line(&text::reveal(&program.program), 200);
    match &program.found {
        Some(found) if *found == program.program => String::new(),
        Some(found) => {
            let found = text::clean_line(&text::reveal(found), 500);
            format!("{}\n", term::paint(term::DIM, &format!("    {name} → {found}")))
        }
        None => {
            let missing = format!("    {name}: not found on PATH");
            format!("{}\n", term::paint(term::WARN, &missing))
        }
    }
}

/// What the policy adds to the environment of gates, and where in the project they look for programs.
fn render_environment(environment: &ShownEnvironment) -> String {
    let shown = |text: &str| text::clean_line(&text::reveal(text), 500);
    let mut lines = Vec::new();
    for SetVariable { name, value } in &environment.set {
        lines.push(format!("{}={}", shown(name), shown(value)));
    }
    if !environment.pass.is_empty() {
        lines.push(format!("from your environment: {}", shown(&environment.pass.join(", "))));
    }
    for GateVariables { gate, names } in &environment.env {
        lines.push(format!(
            "from your environment, for {}: {}",
            shown(gate),
            shown(&names.join(", "))
        ));
    }
    for directory in &environment.project_directories {
        let directory = shown(directory);
        lines.push(format!(
            "`PATH` contains `{directory}` of the project: the hash covers its programs"
        ));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("\nenvironment of gates:\n  {}\n", lines.join("\n  "))
}

pub(super) fn render_question(question: &ApprovalQuestion) -> String {
    let ApprovalQuestion {
        list, loop_features, subject, before: standing, search_path, last, ..
    } = question;
    let name = match list {
        None => text::clean_line(&subject.project.to_string_lossy(), 500),
        Some(list) => text::clean_line(&text::reveal(list), 500),
    };
    let mut out = format!("{}\n", term::paint(term::BOLD, &name));
    let CommandSections { gates, ci_checks, judges } = command_sections(question);
    out.push_str(match (list, gates.is_empty()) {
        (None, true) => "\nno gates\n",
        (None, false) => "\ngates:\n",
        (Some(_), true) if !loop_features.is_empty() => {
            "\nholds the next session that stops in the project, until these are done:\n"
        }
        (Some(_), true) => "\nno checks\n",
        (Some(_), false) => "\nchecks:\n",
    });
    for feature in loop_features {
        out.push_str(&format!("  {feature}\n"));
    }
    for command in &gates {
        out.push_str(&render_command(command, search_path));
    }
    if question.sets_ci && !gates.is_empty() {
        out.push_str("\nthey run with CI=true (`[environment] ci = false` leaves it out)\n");
    }
    for (title, commands) in [("CI checks", &ci_checks), ("judges", &judges)] {
        if !commands.is_empty() {
            out.push_str(&format!("\n{title}:\n"));
        }
        for command in commands {
            out.push_str(&render_command(command, search_path));
        }
    }
    out.push_str(&render_environment(&search_path.environment));
    if *standing == ApprovalStatus::NotNeeded {
        out.push_str("\nnone of this comes from the repository; nothing to approve\n");
        return out;
    }
    out.push_str("\nthe hash covers:\n");
    for called in &subject.references {
        let name = text::clean_line(&text::reveal(&called.name), 500);
        let file = subject.files.iter().find(|file| file.name == called.name);
        let why = file.map(|file| {
            let why = text::clean_line(&text::reveal(&file.reason()), 500);
            term::paint(term::DIM, &format!(": {why}"))
        });
        out.push_str(&format!("  {name}{}\n", why.unwrap_or_default()));
    }
    if let Some(last) = last {
        out.push_str("\nsince the last approval:\n");
        for difference in subject.differences(last) {
            let how = match difference.kind {
                DifferenceKind::Added => "new    ",
                DifferenceKind::Changed => "changed",
                DifferenceKind::Removed => "gone   ",
            };
            let what = text::clean_line(&text::reveal(&difference.item), 500);
            out.push_str(&format!("  {} {what}\n", term::paint(term::WARN, how)));
        }
    }
    let standing = match standing {
        ApprovalStatus::Approved => term::paint(term::GOOD, "approved"),
        ApprovalStatus::Untrusted | ApprovalStatus::NotNeeded | ApprovalStatus::Revoked => {
            term::paint(term::WARN, "not approved")
        }
    };
    out.push_str(&format!("\nhash {}  {standing}\n", subject.hash));
    out
}
