//! `ralph simulate`.

pub(crate) mod args;

use self::args::Simulate as Args;
use super::print_json;
use crate::report::Failure;
use crate::story::{Judged, Story};
use crate::term::{self, Reader};
use crate::{FAILURE, SUCCESS, excerpt, wording};
use ralph_core::redact::Redactor;
use ralph_exec::clock::{self, Stopwatch};
use ralph_exec::env::{self, Env};
use ralph_exec::fs;
use ralph_exec::proc::cancel::Cancel;
use ralph_exec::proc::signals;
use ralph_sim::check::{Check, Counts, Mismatch};
use ralph_sim::client::{self, Client, ClientError};
use ralph_sim::query::{self, Options};
use ralph_sim::scenario::{self, Expect, Hook, Layer, Mistakes, Run, Scenario};
use ralph_sim::stage::{self, Stage, StageError, Tools};
use ralph_sim::timeline::{Entry, Watcher};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Interrupted by the person, as shells say it.
pub(super) const INTERRUPTED: u8 = 130;
const LARGEST_SETTINGS: usize = 4 * 1024 * 1024;

#[derive(Serialize)]
struct SummaryJson<'a> {
    kind: &'static str,
    v: u8,
    scenario: &'a str,
    /// Whether everything that it expects came true.
    came_true: bool,
    counts: Counts,
    mismatches: &'a [Mismatch],
    exit: i32,
    ms: u64,
    /// Where the files are, if they were kept.
    kept: Option<String>,
}

pub(crate) fn run(env: &Env, args: &Args) -> Result<u8, Failure> {
    if let Some(transcript) = &args.record {
        return record(transcript);
    }
    let mut scenario = read(args.scenario.as_deref().unwrap_or(Path::new("")))?;
    let scripts = add_hooks(env, &mut scenario, args)?;
    let cancel = Cancel::new().map(Arc::new);
    let cancel = cancel.map_err(|error| Failure::because("cannot wait for hooks", &error))?;
    // From before the first file is there: whatever ends us first gives us the time to clear away.
    signals::wish_on_signals(&cancel)
        .and_then(|()| signals::outlive_readers())
        .map_err(|error| Failure::because("cannot listen for signals", &error))?;
    let root = scratch(env, "ralph-sim")
        .map_err(|failure| failure.with_hint("`TMPDIR` can name another place"))?;
    let place = Place { root: &root, scripts: scripts.as_deref(), cancel: &cancel };
    let played = play(env, args, &scenario, &place);
    if !args.keep {
        fs::remove_made_dir(&root)?;
    } else if !args.json {
        let kept = format!("the files are in {}\n", root.display());
        if played.is_ok() { term::out(&kept).map(drop)? } else { term::err(&kept) }
    }
    if cancel.is_wished() { Ok(INTERRUPTED) } else { played }
}

/// Where it all happens.
struct Place<'a> {
    root: &'a Path,
    /// Scripts beside the settings that the person gave.
    scripts: Option<&'a Path>,
    cancel: &'a Arc<Cancel>,
}

/// A new directory that nobody else may enter.
pub(super) fn scratch(env: &Env, name: &str) -> Result<PathBuf, Failure> {
    let root = env.temporary_dir().join(format!("{name}-{:016x}", clock::nonce()));
    fs::create_dir(&root)?;
    Ok(fs::resolve(&root).unwrap_or(root))
}

/// The exit code of a real client.
fn real(
    scenario: &Scenario,
    stage: &Stage,
    client: &Client<'_>,
    watcher: &mut Watcher<'_>,
) -> Result<i32, Failure> {
    let played = client::play(scenario, stage, client, watcher);
    played.map(|outcome| outcome.code).map_err(|error| not_played(&error))
}

fn locate(env: &Env, name: &Path) -> Result<PathBuf, Failure> {
    let found = client::locate(Some(name), env.search_path().as_deref());
    let program = found.map_err(|error| not_played(&error))?;
    client::version(&program).map_err(|error| not_played(&error))?;
    Ok(program)
}

fn not_played(error: &ClientError) -> Failure {
    let failure = Failure::because("the scenario was not played", error);
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// What was said may hold secrets, and whatever a terminal obeys; TOML escapes the one, and the other is taken out.
fn record(transcript: &Path) -> Result<u8, Failure> {
    let recording = ralph_sim::record::record(transcript).map_err(|error| {
        Failure::because("the transcript cannot be made into a scenario", &error)
    })?;
    let text = Redactor::new(Vec::new()).redact(&scenario::write(&recording.scenario));
    for note in &recording.notes {
        term::err(&format!("note: {}\n", wording::safe(note)));
    }
    if recording.broken > 0 {
        term::err(&format!("note: {} lines could not be read\n", recording.broken));
    }
    term::out(&text)?;
    Ok(SUCCESS)
}

fn read(path: &Path) -> Result<Scenario, Failure> {
    scenario::read(path).map_err(|mistakes| failure(&mistakes))
}

pub(super) fn failure(mistakes: &Mistakes) -> Failure {
    match mistakes {
        Mistakes::Found(problems) => {
            Failure::in_file("the scenario has mistakes", excerpt::render(problems, 0))
        }
        Mistakes::NotText(_) | Mistakes::File(_) => {
            Failure::because("the scenario cannot be read", mistakes)
        }
    }
}

/// Hooks that the person names come instead of the scenario's own. Where the scripts are that their settings may name.
fn add_hooks(env: &Env, scenario: &mut Scenario, args: &Args) -> Result<Option<PathBuf>, Failure> {
    if args.hook.is_empty() && args.settings.is_none() {
        return Ok(None);
    }
    scenario.hooks.clear();
    scenario.plugins.clear();
    let here = env.current_dir().unwrap_or_default();
    for command in &args.hook {
        scenario.hooks.push(Hook {
            event: "Stop".to_owned(),
            run: Run::Command(seen_from(&here, command)),
            layer: Layer::Flag,
            ..Hook::default()
        });
    }
    let Some(path) = &args.settings else { return Ok(None) };
    let bytes = fs::read(path, LARGEST_SETTINGS)?;
    let settings = serde_json::from_slice::<Map<String, Value>>(&bytes).map_err(|error| {
        Failure::because(&format!("`{}` is no settings file", path.display()), &error)
    })?;
    scenario.settings.project = Some(Value::Object(settings));
    let scripts = here.join(path).parent().map(|directory| directory.join("hooks"));
    Ok(scripts.filter(|scripts| fs::is_directory(scripts)))
}

/// A hook is started in the scratch project. A person who names a script means it from where they are.
fn seen_from(here: &Path, command: &str) -> String {
    let words = command.split(' ').map(|word| match file(here, word) {
        Some(path) => Cow::Owned(quoted(&path)),
        None => Cow::Borrowed(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The file that a word names, if it is nothing but the relative path of one.
fn file(here: &Path, word: &str) -> Option<String> {
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+@%,".contains(char);
    if !word.contains('/') || word.starts_with('/') || !word.chars().all(is_plain) {
        return None;
    }
    let path = here.join(word.trim_start_matches("./"));
    let is_file = fs::stat(&path).is_some_and(|found| found.kind == fs::Kind::File);
    path.into_os_string().into_string().ok().filter(|_| is_file)
}

/// As a shell reads it.
fn quoted(path: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-".contains(char);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

fn play(env: &Env, args: &Args, scenario: &Scenario, place: &Place<'_>) -> Result<u8, Failure> {
    let Place { root, scripts, cancel } = *place;
    let failed = |error: StageError| Failure::because("the scenario cannot be set up", &error);
    let stage = stage::build(scenario, root).map_err(failed)?;
    if let Some(scripts) = scripts {
        stage::lend(&stage, scripts).map_err(failed)?;
    }
    let program = env::this_program();
    let search_path = search_path(env, &program);
    let tools = Tools { program: &program, search_path: &search_path, cancel };
    stage::set_up(scenario, &stage, &tools).map_err(failed)?;
    let options = Options { program: &program, search_path, cancel: Arc::clone(cancel) };
    let watch = Stopwatch::start();
    let mut check = Check::new(&scenario.expect);
    let mut show = Show::new(args, &stage);
    let mut watcher = |entry: &Entry| {
        check.watch(entry);
        // What ends because the person wants it to is no answer.
        if !cancel.is_wished() {
            show.entry(entry);
        }
    };
    let exit = match &args.client {
        None => {
            query::play(scenario, &stage, &options, &mut watcher)
                .map_err(|error| Failure::because("the scenario cannot be played", &error))?
                .exit
        }
        Some(name) => {
            let program = locate(env, name)?;
            let client = Client { program: &program, cancel };
            real(scenario, &stage, &client, &mut watcher)?
        }
    };
    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (counts, mismatches) = check.finish(&stage);
    if cancel.is_wished() {
        return Ok(INTERRUPTED);
    }
    if args.json {
        print_json(&SummaryJson {
            kind: "summary",
            v: 1,
            scenario: &scenario.name,
            came_true: mismatches.is_empty(),
            counts,
            mismatches: &mismatches,
            exit,
            ms,
            kept: args.keep.then(|| root.display().to_string()),
        })?;
    } else {
        let judged = match mismatches.as_slice() {
            [] if scenario.expect == Expect::default() => Judged::NothingExpected,
            [] => Judged::AsExpected,
            mismatches => Judged::Otherwise(mismatches),
        };
        let summary = show.story.summary(&counts, judged, ms);
        term::out(&if args.quiet { summary } else { format!("\n{summary}") })?;
    }
    Ok(if mismatches.is_empty() { SUCCESS } else { FAILURE })
}

/// Who calls `ralph` in a scenario means this one.
pub(super) fn search_path(env: &Env, program: &Path) -> OsString {
    let usual = env.search_path().unwrap_or_default();
    let program = fs::resolve(program).unwrap_or_else(|| program.to_owned());
    match program.parent() {
        Some(directory) if program.file_name().is_some_and(|name| name == "ralph") => {
            let mut path = directory.as_os_str().to_owned();
            path.push(":");
            path.push(&usual);
            path
        }
        Some(_) | None => usual,
    }
}

/// Prints entries as they come.
struct Show<'a> {
    args: &'a Args,
    story: Story,
    lines: usize,
    reader: Reader,
}

/// Nobody reads more; `--json` has it all.
const MOST_LINES: usize = 2_000;

impl<'a> Show<'a> {
    fn new(args: &'a Args, stage: &Stage) -> Self {
        Self { args, story: Story::of(stage), lines: 0, reader: Reader::There }
    }

    fn entry(&mut self, entry: &Entry) {
        if self.args.quiet || self.reader == Reader::Gone {
            return;
        }
        let printed = if self.args.json {
            print_json(entry)
        } else {
            let text = self.story.tell(entry);
            let before = self.lines;
            self.lines += text.lines().count();
            match () {
                () if before >= MOST_LINES => return,
                () if self.lines >= MOST_LINES => {
                    term::out("            … and so on; `--json` tells all of it\n")
                }
                () => term::out(&text),
            }
        };
        // Whoever cannot be printed to is not printed to again.
        self.reader = printed.unwrap_or(Reader::Gone);
    }
}
