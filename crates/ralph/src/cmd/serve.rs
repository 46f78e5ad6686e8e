//! `ralph serve`: the board on a web page. The actions of the page are the commands of the same names.

use super::{adjust, control as run_control, identify_caller, open_home, print_json};
use crate::driven_status;
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader, paint};
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::store;
use ralph_home::world::World;
use ralph_hook::adjustments::RunAdjustment;
use ralph_hook::control::{self, ASK_A_PERSON, CommandCaller, RunOrSession};
use ralph_hook::notify::{self, NotificationStatus};
use ralph_serve::{ListenRequest, PageServer, PageServerError, RunAction, RunCommands};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::foreground;
use serde::Serialize;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// A program that opens a browser answers soon; the browser itself keeps running.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
const NOTIFY_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph serve
  ralph serve --open
  ralph serve --port 8080 --json

Prints a link with a token. The page shows what waits for you, what works
and what ended, and updates by itself; there you can answer, pause,
resume, cancel and waive. It listens on this machine only, until Ctrl-C.

From another machine, forward the port instead of using `--bind`:
  ssh -L 7391:127.0.0.1:7391 HOST")]
pub(crate) struct ServeArgs {
    /// Listen on this port [default: 7391, or any free port]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Listen on this address instead of 127.0.0.1
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// Open the page in your browser
    #[arg(long)]
    pub open: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ServeJson<'a> {
    v: u8,
    url: &'a str,
    /// The link with the token.
    link: &'a str,
    loopback: bool,
}

pub(crate) fn run(env: &Env, args: &ServeArgs) -> Result<(), CommandFailure> {
    super::refuse_agent(env, "an agent may not serve the board", ASK_A_PERSON)?;
    let home = open_home(env)?;
    let cancel = super::cancel_on_signals()?;
    let address = args.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let commands = PageCommands { env: env.clone(), home: home.clone() };
    let request = ListenRequest { address, port: args.port };
    let server = PageServer::bind(request, env.clone(), home, commands, cancel)
        .map_err(|error| serve_failure(&error))?;
    let (url, link) = (server.url(), server.link());
    let printed = if args.json {
        print_json(&ServeJson { v: 1, url: &url, link: &link, loopback: server.is_loopback() })?
    } else {
        term::out(&format!("{}\n", paint(term::BOLD, &link)))?
    };
    if printed == OutputReader::Closed {
        return Ok(());
    }
    if !server.is_loopback() {
        term::err(&format!(
            "{}: other machines can reach {url}. Whoever has the link, or reads it or the page on the way (nothing is encrypted),\n\
             sees every goal, question, finding and diff, and can answer, pause, cancel and waive.\n",
            paint(term::WARN, "warning")
        ));
    }
    term::err("serving the board until Ctrl-C; the link is for you only\n");
    if args.open {
        open_browser(&server);
    }
    server.run().map_err(|error| serve_failure(&error))
}

fn serve_failure(error: &PageServerError) -> CommandFailure {
    let failure = CommandFailure::caused_by("cannot serve the board", error);
    match error {
        PageServerError::Listen { .. } => failure.with_hint(
            "the port may be in use, or the address not be of this machine; omit `--port` to use any free port",
        ),
        PageServerError::NoRandomNumbers | PageServerError::Start(_) => failure,
    }
}

/// Every user of this machine sees the arguments of a program, so the link works only once.
fn open_browser(server: &PageServer) {
    let Some(link) = server.single_use_link() else { return };
    let argv = ralph_sys::browser_command(&link).map(OsString::from);
    // In a thread of its own, because the browser waits for the server to answer.
    std::thread::spawn(move || {
        let opened = foreground::run_in_foreground(&argv, Deadline::after(OPEN_TIMEOUT));
        if !matches!(opened, Ok(Some(true) | None)) {
            term::err("no browser could be started; open the link yourself\n");
        }
    });
}

/// The actions of the page. The server was started by a person, and only browsers with its link reach these.
struct PageCommands {
    env: Env,
    home: RalphHome,
}

impl RunCommands for PageCommands {
    fn carry_out(&self, run: &RunId, action: &RunAction) -> Result<String, String> {
        self.act(run, action).map_err(|failure| failure.to_plain_text())
    }

    fn test_notification(&self) -> Result<String, String> {
        let world = World::new(self.env.clone(), Deadline::after(NOTIFY_TIMEOUT));
        let world = world.ok_or("cannot determine ralph's home directory")?;
        let sent = notify::send_test_message(&world).map_err(|error| error.to_string())?;
        if sent.is_empty() {
            return Err(
                "no notification is configured; `ralph notify --help` shows how".to_string()
            );
        }
        let failed = sent.iter().filter(|one| matches!(one.how, NotificationStatus::Failed { .. }));
        match failed.count() {
            0 => Ok("A test message was sent".to_string()),
            count => Err(format!(
                "{} failed; `ralph notify --test` says why",
                text::count_noun(count, "channel")
            )),
        }
    }
}

impl PageCommands {
    fn act(&self, run: &RunId, action: &RunAction) -> Result<String, CommandFailure> {
        let (env, home) = (&self.env, &self.home);
        let caller = identify_caller(env);
        let deadline = Deadline::after(run_control::LOCK_TIMEOUT);
        let control_failure = |error| driven_status::control_failure(home, error);
        let adjustment = RunAdjustment { home, run, caller, deadline: &deadline };
        match action {
            RunAction::Pause => {
                control::pause_run(home, run, caller, &deadline).map_err(control_failure)?;
                Ok("Paused; the agent may stop freely until you resume it".to_string())
            }
            RunAction::Resume => self.resume(run, caller, &deadline),
            RunAction::Cancel => {
                let name = RunOrSession::Run(run.clone());
                control::cancel_run_or_session(home, &name, caller, &deadline)?;
                Ok("Cancelled; its session is free, and nothing was deleted".to_string())
            }
            RunAction::Tell { text } => adjust::send_message(env, &adjustment, text).map(sentence),
            // While a run holds an agent, this asks for a word at the terminal of the server.
            RunAction::Waive { requirement, until, why } => {
                adjust::waive_requirement(env, &adjustment, requirement, why, until)
            }
            RunAction::Require { requirement } => adjust::withdraw_waiver(&adjustment, requirement),
        }
    }

    /// A run that ralph drives continues in a terminal, because its runner has to be somewhere.
    fn resume(
        &self,
        run: &RunId,
        caller: CommandCaller,
        deadline: &Deadline,
    ) -> Result<String, CommandFailure> {
        let is_driven = store::load_run(&self.home, run)?.run.drive.is_some();
        if is_driven && !run_process::may_be_driven(&self.home, run) {
            let what = format!("no runner drives run `{run}`, so it cannot be resumed from here");
            let hint = format!("`ralph resume {run}` in a terminal drives it there");
            return Err(CommandFailure::new(&what, &hint));
        }
        control::resume_held_run(&self.home, run, caller, deadline)
            .map_err(|error| driven_status::control_failure(&self.home, error))?;
        Ok("Resumed; the agent is held at its next stop".to_string())
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
