//! `ralph memory`: lessons that ralph derived from runs, and notes that people and agents saved.

use super::init::{self, ConfirmationOptions};
use super::learn::{self, LearnArgs};
use super::memory_args::{
    MemoryCommand, MemoryExportArgs, MemoryForgetArgs, MemoryLearnArgs, MemoryShowArgs,
};
use super::{lesson_page, open_home, run_choice};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_core::id::RunId;
use ralph_core::lesson::{self, LearnedRun, Lesson, MemoryNote, MemoryQuery};
use ralph_core::record::RunChange;
use ralph_core::run::RunPhase;
use ralph_core::text::{self, count_noun};
use ralph_deck::RecallContext;
use ralph_deck::learning::{self, Learning};
use ralph_deck::view::learning_list::learning_view;
use ralph_deck::view::memory_list::{
    LearnedRunView, MemoryExportView, MemoryForgottenView, MemoryLearnedView, MemoryListView,
    lesson_detail_view, lesson_view,
};
use ralph_deck::wording::{self, safe_line};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::lesson_store::{self, LessonStoreError};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::CommandCaller;
use ralph_hook::project_scope::ProjectScope;
use ralph_hook::run_retrospective::{self, LearnRunError};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Ended runs that one call learns from, the newest.
const MAX_RUNS: usize = 1_000;
const MAX_EXPORT_BYTES: usize = 4 * 1024 * 1024;
const EXPORT_HEADING: &str = "## What ralph learned";
const LONGEST_ID: usize = 128;

pub(crate) fn run(env: &Env, asked: &MemoryCommand) -> Result<(), CommandFailure> {
    match asked {
        MemoryCommand::List(args) => {
            list(&open_memory(env, args.output.project.as_deref())?, args.output.json)
        }
        MemoryCommand::Show(args) => show(&open_memory(env, args.output.project.as_deref())?, args),
        MemoryCommand::Add(args) => learn::run(
            env,
            &LearnArgs {
                text: args.text.clone(),
                title: args.title.clone(),
                run: None,
                list: false,
                forget: None,
                project: args.output.project.clone(),
                json: args.output.json,
            },
        )
        .map_err(|failure| {
            if args.text.iter().all(|word| word.trim().is_empty()) {
                failure.with_hint("give the text: `ralph memory add \"…\"`")
            } else {
                failure
            }
        }),
        MemoryCommand::Forget(args) => {
            forget(env, &open_memory(env, args.output.project.as_deref())?, args)
        }
        MemoryCommand::Export(args) => {
            export(env, &open_memory(env, args.output.project.as_deref())?, args)
        }
        MemoryCommand::Learn(args) => learn_runs(env, args),
    }
}

/// The memory of a project.
struct OpenMemory {
    context: RecallContext,
    /// Most useful first.
    lessons: Vec<Lesson>,
    /// Newest first.
    notes: Vec<Learning>,
}

fn open_memory(env: &Env, project: Option<&Path>) -> Result<OpenMemory, CommandFailure> {
    let project = super::config::project_dir(env, project)?;
    let context = RecallContext::new(env, open_home(env)?, &project);
    let lessons = lesson_store::load_lessons(&context.home, &context.project)?;
    // Every lesson is relevant here.
    let requirements = lessons.iter().map(|it| it.requirement.clone()).collect();
    let query = MemoryQuery { goal: String::new(), requirements, now_ms: clock::now_ms() };
    let lessons = lesson::rank_lessons(&lessons, &query).into_iter().cloned().collect();
    let notes = learning::list(&context);
    Ok(OpenMemory { context, lessons, notes })
}

fn list(memory: &OpenMemory, json: bool) -> Result<(), CommandFailure> {
    let OpenMemory { context, lessons, notes } = memory;
    if json {
        return super::print_json(&MemoryListView {
            v: 1,
            project: context.project_name(),
            lessons: lessons.iter().map(lesson_view).collect(),
            notes: notes.iter().map(learning_view).collect(),
        })
        .map(drop);
    }
    term::out(&render_list(memory)).map(drop)
}

/// What `ralph memory list` prints about the project of the current directory.
pub(super) fn describe_memory(env: &Env) -> Result<String, CommandFailure> {
    open_memory(env, None).map(|memory| render_list(&memory))
}

fn render_list(memory: &OpenMemory) -> String {
    let OpenMemory { context, lessons, notes } = memory;
    let now_ms = clock::now_ms();
    let mut out = String::new();
    for lesson in lessons {
        let id = paint(term::BOLD, &safe_line(&lesson.id));
        let (name, finding) = (safe_line(&lesson.requirement), safe_line(&lesson.finding));
        let note = paint(term::DIM, &lesson_page::lesson_note(lesson, now_ms));
        out.push_str(&format!("{id}  {name}: {finding}\n          {note}\n"));
    }
    for note in notes {
        let id = paint(term::BOLD, &safe_line(&note.id));
        let when = paint(term::DIM, &wording::ago(now_ms, note.at_ms));
        out.push_str(&format!("{id}  note: {}   {when}\n", safe_line(&note.title)));
    }
    if out.is_empty() {
        let project = safe_line(&context.project_name());
        out = format!(
            "no lessons or notes for `{project}` yet\n  lessons  come from runs in which the agent was held; `ralph memory learn` derives them from earlier runs\n  notes    come from `ralph memory add \"…\"`\n"
        );
    }
    out
}

fn show(memory: &OpenMemory, args: &MemoryShowArgs) -> Result<(), CommandFailure> {
    if let Some(lesson) = memory.lessons.iter().find(|lesson| lesson.id == args.id) {
        if args.output.json {
            return super::print_json(&lesson_detail_view(lesson)).map(drop);
        }
        return term::out(&lesson_page::render_lesson(lesson)).map(drop);
    }
    let note = memory.notes.iter().find(|note| note.id == args.id);
    let note = note.ok_or_else(|| unknown_id(&args.id))?;
    if args.output.json {
        return super::print_json(&learning_view(note)).map(drop);
    }
    let body: Vec<_> = note.text.lines().map(|line| format!("  {}\n", safe_line(line))).collect();
    let id = paint(term::BOLD, &safe_line(&note.id));
    term::out(&format!("{id}  note: {}\n{}", safe_line(&note.title), body.concat())).map(drop)
}

fn unknown_id(id: &str) -> CommandFailure {
    let id = text::clean_line(id, LONGEST_ID);
    let what = format!("no lesson or note with the id `{id}`");
    CommandFailure::new(&what, "`ralph memory list` shows the ids")
}

/// The id of the lesson or note that has this id, or whose id alone begins so.
fn find_id(memory: &OpenMemory, start: &str) -> Result<String, CommandFailure> {
    let lessons = memory.lessons.iter().map(|lesson| &lesson.id);
    let known: Vec<&String> = lessons.chain(memory.notes.iter().map(|note| &note.id)).collect();
    if let Some(exact) = known.iter().find(|id| **id == start) {
        return Ok((*exact).clone());
    }
    let matching: Vec<_> =
        known.into_iter().filter(|id| !start.is_empty() && id.starts_with(start)).collect();
    match matching.as_slice() {
        [] => Err(unknown_id(start)),
        [id] => Ok((*id).clone()),
        several => {
            let start = text::clean_line(start, LONGEST_ID);
            let names: Vec<_> = several.iter().take(5).map(|id| safe_line(id)).collect();
            let what = format!("several ids begin with `{start}`");
            Err(CommandFailure::new(&what, &format!("name one of {}", names.join(", "))))
        }
    }
}

fn forget(env: &Env, memory: &OpenMemory, args: &MemoryForgetArgs) -> Result<(), CommandFailure> {
    let context = &memory.context;
    if learn::is_agent(env, &context.home)? {
        let hint = "ask a person to do this in their own terminal";
        return Err(CommandFailure::new("an agent may not forget lessons or notes", hint));
    }
    let is_lesson = |id: &String| memory.lessons.iter().any(|lesson| lesson.id == *id);
    // Nothing is forgotten if one of the ids is wrong.
    let ids: Vec<String> = if args.all {
        memory.lessons.iter().map(|lesson| lesson.id.clone()).collect()
    } else {
        args.ids.iter().map(|id| find_id(memory, id)).collect::<Result<_, _>>()?
    };
    if args.all && !ids.is_empty() {
        let (yes, json) = (args.yes, args.output.json);
        let (command, refusal) = ("memory forget --all", "nothing was forgotten");
        let question =
            format!("Forget {} of this project? [y/N] ", count_noun(ids.len() as u64, "lesson"));
        init::confirm(&ConfirmationOptions { yes, json, command, refusal }, &question)?;
    }
    if ids.iter().any(is_lesson) {
        let deadline = Deadline::after(LOCK_TIMEOUT);
        lesson_store::update_lessons(&context.home, &context.project, &deadline, |file| {
            file.forget(&ids, clock::now_ms());
        })?;
    }
    for id in ids.iter().filter(|id| !is_lesson(id)) {
        learning::forget(context, id)?;
    }
    if args.output.json {
        return super::print_json(&MemoryForgottenView { v: 1, forgotten: &ids }).map(drop);
    }
    let mut out = String::new();
    for id in &ids {
        out.push_str(&format!("{}  forgotten\n", paint(term::BOLD, &safe_line(id))));
    }
    if ids.is_empty() {
        out.push_str("this project has no lessons\n");
    }
    term::out(&out).map(drop)
}

fn export(env: &Env, memory: &OpenMemory, args: &MemoryExportArgs) -> Result<(), CommandFailure> {
    let context = &memory.context;
    let notes: Vec<_> = memory
        .notes
        .iter()
        .map(|note| MemoryNote {
            id: note.id.clone(),
            title: note.title.clone(),
            text: note.text.clone(),
            at_ms: note.at_ms,
        })
        .collect();
    let body = lesson::render_markdown(
        &memory.lessons.iter().collect::<Vec<_>>(),
        &notes.iter().collect::<Vec<_>>(),
        clock::local_date,
        context.redactor(),
    );
    let body = if body.is_empty() { "Nothing yet.\n".to_string() } else { body };
    let markdown = format!("{EXPORT_HEADING}\n\n{body}");
    let written = match &args.to {
        Some(to) => {
            if learn::is_agent(env, &context.home)? {
                let hint = "ask a person, or print it: `ralph memory export`";
                return Err(CommandFailure::new("an agent may not use `--to`", hint));
            }
            Some(write_export(&context.project, to, &markdown)?)
        }
        None => None,
    };
    if args.output.json {
        let path = written.map(|path| path.display().to_string());
        return super::print_json(&MemoryExportView { v: 1, path, markdown: &markdown }).map(drop);
    }
    match written {
        Some(path) => term::out(&format!("wrote `{}`\n", path.display())).map(drop),
        None => term::out(&markdown).map(drop),
    }
}

/// Writes the section into a Markdown file inside the project, and returns its path.
fn write_export(project: &Path, to: &Path, section: &str) -> Result<PathBuf, CommandFailure> {
    let refuse = |why: &str| {
        let hint = "give a path such as `docs/plans/parser/MEMORY.md`";
        CommandFailure::new(why, hint)
    };
    let name = to.file_name().ok_or_else(|| refuse("`--to` is not a file"))?;
    if to.extension().is_none_or(|ending| ending != "md") {
        return Err(refuse("`--to` is not a Markdown file"));
    }
    let parent = project.join(to);
    let parent = parent.parent().unwrap_or(project);
    let parent = fs::resolve(parent).ok_or_else(|| {
        let what = format!("the directory `{}` does not exist", parent.display());
        CommandFailure::new(&what, "create it first")
    })?;
    if !parent.starts_with(project) {
        return Err(refuse("`--to` is outside the project"));
    }
    let path = parent.join(name);
    if fs::stat_no_follow(&path).is_some_and(|stat| stat.kind != fs::FileKind::File) {
        return Err(refuse("`--to` is a link or a directory"));
    }
    let before = fs::read_if_exists(&path, MAX_EXPORT_BYTES)?.unwrap_or_default();
    let before = String::from_utf8(before)
        .map_err(|_| refuse("the file is not UTF-8 text, so it was left as it is"))?;
    fs::replace_user_file(&path, lesson::with_export(&before, section).as_bytes())?;
    Ok(path)
}

fn learn_runs(env: &Env, args: &MemoryLearnArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let project = super::config::project_dir(env, args.output.project.as_deref())?;
    let context = RecallContext::new(env, home, &project);
    if args.in_background {
        learn_in_background(&context, args.run.as_deref().unwrap_or_default());
        return Ok(());
    }
    let is_agent = super::identify_caller(env) != CommandCaller::Person;
    let runs = match &args.run {
        name if is_agent => {
            vec![super::declare::named_or_own_run(env, &context.home, name.as_deref())?]
        }
        Some(name) => vec![run_choice::find_run(&context.home, name, run_choice::unowned_session)?],
        None => ended_runs(&context.home, &context.project)?,
    };
    let mut learned = Vec::new();
    for run in runs {
        match run_retrospective::learn_from_run(&context.home, &run, context.redactor()) {
            Ok(one) => learned.push((run, one)),
            // One run that cannot be learned does not keep the others from it.
            Err(error) if args.run.is_none() && !is_agent => {
                term::err(&format!("note: {}\n", describe_error(&error)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if is_agent {
        record_retrospective(&context, &learned)?;
    }
    print_learned(args, &learned)
}

/// Counts as the retrospective of an orchestrated run: its lessons are measured, and can be found again.
fn record_retrospective(
    context: &RecallContext,
    learned: &[(RunId, LearnedRun)],
) -> Result<(), CommandFailure> {
    for (run, LearnedRun { lessons, .. }) in learned {
        if let Some(id) = lessons.first() {
            let title = format!("{} from ralph's own record", lesson_count(lessons.len()));
            let change = RunChange::Learned { id: id.clone(), title };
            super::declare::record_action(&context.home, run, change)?;
        }
    }
    Ok(())
}

fn print_learned(
    args: &MemoryLearnArgs,
    learned: &[(RunId, LearnedRun)],
) -> Result<(), CommandFailure> {
    if args.output.json {
        let runs = learned.iter().map(|(run, LearnedRun { lessons, new })| LearnedRunView {
            run: run.as_str(),
            lessons,
            new: *new,
        });
        return super::print_json(&MemoryLearnedView { v: 1, runs: runs.collect() }).map(drop);
    }
    let mut out = String::new();
    for (run, LearnedRun { lessons, new }) in
        learned.iter().filter(|(_, it)| !it.lessons.is_empty())
    {
        let what = lesson_count(lessons.len());
        let run = paint(term::BOLD, run.as_str());
        out.push_str(&format!("{run}  {what}, {new} new: {}\n", lessons.join(", ")));
    }
    if out.is_empty() {
        out.push_str("no lessons: no measured finding held an agent\n");
    }
    term::out(&out).map(drop)
}

fn lesson_count(count: usize) -> String {
    count_noun(count, "lesson")
}

/// Runs after the end of a run, without a terminal: a failure becomes a fault.
fn learn_in_background(context: &RecallContext, name: &str) {
    let Some(run) = RunId::parse(name) else { return };
    if let Err(error) = run_retrospective::learn_from_run(&context.home, &run, context.redactor()) {
        // A person sees the edit of the run in its end.
        if matches!(error, LearnRunError::Tampered(_)) {
            return;
        }
        let what = format!(
            "no lessons were derived: {}; `ralph memory learn {run}` tries again",
            describe_error(&error)
        );
        faults::record_fault(&context.home, &Fault::new(FaultKind::File, &what).with_run(&run));
    }
}

/// The ended runs of the project, oldest first.
fn ended_runs(home: &RalphHome, project: &Path) -> Result<Vec<RunId>, CommandFailure> {
    let scope = ProjectScope::of_directory(project);
    let mut runs = Vec::new();
    for id in store::list_runs(home)? {
        let Ok(opened) = store::load_run(home, &id) else { continue };
        if matches!(opened.state.phase, RunPhase::Ended(_)) && scope.contains_run(&opened.run) {
            runs.push((opened.state.last_seen_ms, id));
        }
    }
    runs.sort();
    let older = runs.len().saturating_sub(MAX_RUNS);
    Ok(runs.into_iter().skip(older).map(|(_, id)| id).collect())
}

impl From<LessonStoreError> for CommandFailure {
    fn from(error: LessonStoreError) -> Self {
        let hint = match &error {
            LessonStoreError::Newer { .. } => "use the newer ralph",
            LessonStoreError::Garbled { .. } => {
                "`ralph memory learn` puts the file aside and derives the lessons again"
            }
            LessonStoreError::File(_) => "check the permissions of ralph's home",
            LessonStoreError::Lock(_) => "try again in a moment",
        };
        Self::new(&describe_error(&error), hint)
    }
}

impl From<LearnRunError> for CommandFailure {
    fn from(error: LearnRunError) -> Self {
        match error {
            LearnRunError::Store(error) => error.into(),
            LearnRunError::Lessons(error) => error.into(),
            LearnRunError::File(error) => error.into(),
            LearnRunError::Tampered(_) => {
                Self::new(&error.to_string(), "`ralph log` shows what happened in the run")
            }
        }
    }
}
