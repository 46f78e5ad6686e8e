//! Runs a registered command as the client would, with a temporary home, so that no real run is counted or held.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::registered::{From, Registered};
use super::{Scene, payload};
use ralph_core::id::SessionId;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_hook::control::{self, Order};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::job::{self, Captured, Errors, Finished, How, Input, Job, Keep};
use serde_json::Value;

/// An idle hook answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_millis(200);
const KEEP: Keep = Keep { head: 64 * 1024, tail: 1024 };
/// The `PATH` of a client that was started without the person's shell profile.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How a hook answered an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Fired,
    NotFired(String),
    /// It timed out.
    Late,
    WrongShape(String),
}

/// A temporary home with one run, and two sessions to stop in it.
pub(super) struct Rehearsal<'a> {
    scene: &'a Scene<'a>,
    home: Home,
    /// No run holds this session.
    idle: SessionId,
    /// A run holds this session; `None` if the run could not be started.
    armed: Option<SessionId>,
    /// The variables that settings give to hooks.
    variables: Vec<(OsString, OsString)>,
}

impl<'a> Rehearsal<'a> {
    /// Creates the home; `None` if that fails.
    pub(super) fn prepare(
        scene: &'a Scene<'a>,
        settings: &[(String, String, PathBuf)],
    ) -> Option<Self> {
        let nonce = clock::nonce();
        let home = Home::new(scene.scratch.join(format!("{nonce:016x}")));
        let named = |what: &str| SessionId::parse(&format!("doctor-{what}-{nonce:016x}"));
        let idle = named("idle")?;
        // The tombstone keeps this session from adopting a loop directory of the project.
        let tombstone = home.tombstone(idle.as_str());
        fs::create_dir(tombstone.parent()?).ok()?;
        fs::replace(&tombstone, b"", Durability::Cached).ok()?;
        let armed = named("armed").filter(|session| arm(scene, &home, session));
        // Another check reports whether the settings turn ralph off.
        let variables = settings
            .iter()
            .filter(|(name, ..)| !name.starts_with("RALPH_"))
            .map(|(name, value, _)| (name.into(), value.into()))
            .collect();
        Some(Self { scene, home, idle, armed, variables })
    }

    /// Sends an event of the session that no run holds.
    pub(super) fn idle(&self, hook: &Registered) -> Answer {
        let finished = self.run(hook, &self.idle);
        match judged(&finished) {
            Err(answer) => answer,
            Ok(0) if finished.output.total == 0 => Answer::Fired,
            Ok(0) if !is_stop(hook) && object(&finished.output).is_some() => Answer::Fired,
            Ok(0) => Answer::WrongShape(format!(
                "it prints `{}`, but should print nothing",
                excerpt(&finished.output)
            )),
            Ok(2) => Answer::WrongShape(format!(
                "exit code 2, which blocks, in a session that no run holds: `{}`",
                excerpt(&finished.errors)
            )),
            Ok(code) => Answer::WrongShape(format!(
                "exit code {code}, which the client treats as an error: `{}`",
                excerpt(&finished.errors)
            )),
        }
    }

    /// Sends a stop of the session that a run holds; `None` if there is no such run.
    pub(super) fn armed(&self, hook: &Registered) -> Option<Answer> {
        let finished = self.run(hook, self.armed.as_ref()?);
        let code = match judged(&finished) {
            Err(answer) => return Some(answer),
            Ok(code) => code,
        };
        let answer = object(&finished.output);
        let text = |value: Option<&Value>| {
            value.and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        };
        let held = match (code, &answer) {
            (2, Some(answer)) => {
                answer.as_object().is_some_and(serde_json::Map::is_empty)
                    && finished.errors.total > 0
            }
            (0, Some(answer)) => {
                let is_block = answer.get("decision").and_then(Value::as_str) == Some("block");
                let context = answer.pointer("/hookSpecificOutput/additionalContext");
                (is_block && text(answer.get("reason"))) || text(context)
            }
            (_, _) => false,
        };
        Some(if held {
            Answer::Fired
        } else {
            Answer::WrongShape(format!(
                "it did not hold an unfinished run: exit code {code}, `{}`",
                excerpt(&finished.output)
            ))
        })
    }

    fn run(&self, hook: &Registered, session: &SessionId) -> Finished {
        let scene = self.scene;
        let payload = payload::of(&hook.hook.event, session.as_str(), scene.project);
        let timeout = hook.hook.timeout.map(Duration::try_from_secs_f64);
        let timeout = timeout.and_then(Result::ok).unwrap_or(PATIENCE).min(PATIENCE);
        let secrets = self.secrets();
        job::supervise(&Job {
            program: scene.program,
            argv: &argv(scene, hook),
            cwd: scene.project,
            env: &self.environment(hook, session),
            input: Input::Bytes(&payload),
            errors: Errors::Apart,
            keep: KEEP,
            secrets: &secrets,
            deadline: Deadline::after(timeout),
            grace: GRACE,
            ..Job::blank(scene.cancel)
        })
    }

    fn secrets(&self) -> Vec<String> {
        let secret = self.variables.iter().filter(|(name, _)| env::is_secret_name(name));
        secret.filter_map(|(_, value)| value.clone().into_string().ok()).collect()
    }

    fn environment(&self, hook: &Registered, session: &SessionId) -> Vec<(OsString, OsString)> {
        let scene = self.scene;
        let home = scene.env.home().unwrap_or_default();
        let mut all: Vec<(OsString, OsString)> =
            vec![("HOME".into(), home.into()), ("PATH".into(), SEARCH_PATH.into())];
        all.extend(self.variables.iter().cloned());
        all.extend([
            ("CLAUDECODE".into(), "1".into()),
            ("CLAUDE_PROJECT_DIR".into(), scene.project.into()),
            ("CLAUDE_CODE_SESSION_ID".into(), session.as_str().into()),
            ("CLAUDE_CODE_ENTRYPOINT".into(), "cli".into()),
            (ralph_sys::env::REHEARSAL_VARIABLE.into(), self.home.root().into()),
        ]);
        if let From::Plugin { root, .. } = &hook.from {
            all.push(("CLAUDE_PLUGIN_ROOT".into(), root.into()));
        }
        // The last value of a variable wins.
        let mut names: Vec<OsString> = Vec::new();
        all.reverse();
        all.retain(|(name, _)| {
            let is_new = !names.contains(name);
            names.push(name.clone());
            is_new
        });
        all
    }
}

/// Starts a run with only a goal, which never counts as done.
fn arm(scene: &Scene<'_>, home: &Home, session: &SessionId) -> bool {
    let goal = b"see whether the hook holds an agent\n";
    let order = Order::of_goal(session, scene.scratch, goal);
    control::start(home, scene.env, &order, &Deadline::after(PATIENCE)).is_ok()
}

fn argv(scene: &Scene<'_>, hook: &Registered) -> Vec<OsString> {
    let root = match &hook.from {
        From::Plugin { root, .. } => root.to_string_lossy().into_owned(),
        From::Layer { .. } => String::new(),
    };
    let project = scene.project.to_string_lossy();
    let filled = |word: &str| {
        let word = word.replace("${CLAUDE_PLUGIN_ROOT}", &root);
        word.replace("${CLAUDE_PROJECT_DIR}", &project).into()
    };
    let Some(args) = &hook.hook.args else {
        let line = hook.hook.command.replace("${CLAUDE_PLUGIN_ROOT}", &root);
        return vec!["/bin/sh".into(), "-c".into(), line.into()];
    };
    let args = args.iter().map(|word| filled(word));
    std::iter::once(filled(&hook.hook.command)).chain(args).collect()
}

fn is_stop(hook: &Registered) -> bool {
    matches!(hook.hook.event.as_str(), "Stop" | "SubagentStop")
}

/// The exit code of the command; an error if it did not run to its end.
fn judged(finished: &Finished) -> Result<i32, Answer> {
    match &finished.how {
        How::Exited(127) => Err(Answer::NotFired(format!(
            "exit code 127, not found: `{}`",
            excerpt(&finished.errors)
        ))),
        How::Exited(126) => Err(Answer::NotFired(format!(
            "exit code 126, not executable: `{}`",
            excerpt(&finished.errors)
        ))),
        // A shell exits with 128 plus the signal that killed its child.
        How::Exited(code @ 129..=159) => {
            Err(Answer::NotFired(format!("killed by signal {}", code - 128)))
        }
        How::Exited(code) => Ok(*code),
        How::Signalled(signal) => Err(Answer::NotFired(format!("killed by signal {signal}"))),
        How::TimedOut => Err(Answer::Late),
        How::Cancelled => Err(Answer::NotFired("it was interrupted".to_string())),
        How::CouldNotStart(error) => Err(Answer::NotFired(ralph_home::faults::describe(error))),
        How::Lost => Err(Answer::NotFired("its exit code is unknown".to_string())),
    }
}

fn object(output: &Captured) -> Option<Value> {
    let value: Value = serde_json::from_slice(output.head.trim_ascii()).ok()?;
    value.is_object().then_some(value)
}

fn excerpt(output: &Captured) -> String {
    text::line(&String::from_utf8_lossy(&output.head), 120)
}

/// The output of `--version`; `None` if the program fails.
pub(super) fn version(scene: &Scene<'_>, program: &Path) -> Option<String> {
    let home = scene.env.home().unwrap_or_default();
    let path = scene.env.search_path().unwrap_or_else(|| SEARCH_PATH.into());
    let finished = job::supervise(&Job {
        program: scene.program,
        argv: &[program.into(), "--version".into()],
        cwd: scene.scratch,
        env: &[("HOME".into(), home.into()), ("PATH".into(), path)],
        errors: Errors::Apart,
        keep: KEEP,
        deadline: Deadline::after(PATIENCE),
        grace: GRACE,
        ..Job::blank(scene.cancel)
    });
    match finished.how {
        How::Exited(0) => Some(excerpt(&finished.output)),
        How::Exited(_)
        | How::Signalled(_)
        | How::TimedOut
        | How::Cancelled
        | How::CouldNotStart(_)
        | How::Lost => None,
    }
}
