//! `ralph serve`: the board on a web page. The actions of the page are the commands of the same names.

use super::{open_home, person_actions, print_json};
use crate::failure::CommandFailure;
use crate::term::{self, OutputReader, paint};
use crate::value_parsers::{parse_ip_address, parse_port};
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::text;
use ralph_deck::person_action::PersonAction;
use ralph_deck::wording;
use ralph_home::paths::RalphHome;
use ralph_home::world::World;
use ralph_hook::control::ASK_A_PERSON;
use ralph_hook::notify::{self, NotificationStatus};
use ralph_serve::{
    EntryReport, ListenRequest, PageServer, PageServerError, RunCommands, USUAL_PORT,
};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::foreground;
use serde::Serialize;
use std::ffi::OsString;
use std::io::ErrorKind;
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
  ralph serve --port 7391 --metrics

Prints a link that opens one browser, and the next link once it was used.
The page shows which runs wait for you, which are working and which ended,
and updates by itself. There you can answer, approve, pause, resume, waive,
change limits, cancel and accept. It is served until Ctrl-C, and only to this
machine unless you use `--bind`. `--metrics` also prints a token that lets
Prometheus read `/metrics`, and nothing else.

From another machine, forward the port instead of using `--bind`:
  ssh -L 7391:127.0.0.1:7391 HOST")]
pub(crate) struct ServeArgs {
    /// Listen on this port [default: 7391, or any free port]
    #[arg(long, value_name = "N", value_parser = parse_port)]
    pub port: Option<u16>,
    /// Listen on this address instead of 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = parse_ip_address)]
    pub bind: Option<IpAddr>,
    /// Print a token with which a scraper may read `/metrics`
    #[arg(long)]
    pub metrics: bool,
    /// Open the page in your browser
    #[arg(long)]
    pub open: bool,
    /// Print JSON: one object, and one for each further link
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
    metrics: Option<MetricsJson<'a>>,
}

/// The link for another browser, once one has entered.
#[derive(Serialize)]
struct NextLinkJson<'a> {
    v: u8,
    link: &'a str,
}

/// Where a scraper reads, and with which bearer token.
#[derive(Serialize)]
struct MetricsJson<'a> {
    url: String,
    token: &'a str,
}

pub(crate) fn run(env: &Env, args: &ServeArgs) -> Result<(), CommandFailure> {
    super::refuse_agent(env, "an agent may not serve the board", ASK_A_PERSON)?;
    let home = open_home(env)?;
    let cancel = super::cancel_on_signals()?;
    let address = args.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let commands = PageCommands { env: env.clone(), home: home.clone(), is_json: args.json };
    let request = ListenRequest { address, port: args.port, has_metrics: args.metrics };
    let server = PageServer::bind(request, env.clone(), home, commands, cancel)
        .map_err(|error| serve_failure(&error))?;
    let (url, link) = (server.url().to_string(), server.link());
    let metrics =
        server.metrics_token().map(|token| MetricsJson { url: format!("{url}metrics"), token });
    let printed = if args.json {
        let loopback = server.is_loopback();
        print_json(&ServeJson { v: 1, url: &url, link: &link, loopback, metrics })?
    } else {
        let metrics = metrics
            .map(|MetricsJson { url, token }| format!("{url}  Authorization: Bearer {token}\n"));
        let link = paint(term::BOLD, &link);
        term::out(&format!("{link}\n{}", metrics.unwrap_or_default()))?
    };
    if printed == OutputReader::Closed {
        return Ok(());
    }
    if server.has_other_port() {
        term::err(&format!(
            "port {USUAL_PORT} is not free, so the board is at {url}; `--port N` chooses a port\n"
        ));
    }
    if !server.is_loopback() {
        let place = if server.is_at_every_address() {
            format!("port {} of this machine, at its own address", server.port())
        } else {
            url.clone()
        };
        term::err(&format!(
            "{}: other machines can reach {place}, and nothing is encrypted. Anyone with the link, also from the network traffic,\n\
             can read every goal, question, finding and diff, and answer, approve, pause, resume, cancel, waive and change limits.\n",
            paint(term::WARN, "warning")
        ));
        if server.is_at_every_address() {
            term::err(
                "the link is for a browser on this machine; elsewhere, write the address of this machine in place of the one in it\n",
            );
        }
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
        PageServerError::Listen { source, .. } => {
            let kind = source.kind();
            failure.with_hint(if kind == ErrorKind::AddrInUse {
                "another program uses this port, perhaps another `ralph serve`; choose another one, or omit `--port` to use any free port"
            } else if kind == ErrorKind::AddrNotAvailable {
                "this machine does not have this address; omit `--bind` to listen on 127.0.0.1"
            } else if kind == ErrorKind::PermissionDenied {
                "choose a port above 1023, or omit `--port`"
            } else {
                "omit `--bind` and `--port` to listen on 127.0.0.1 at any free port"
            })
        }
        PageServerError::NoRandomNumbers | PageServerError::Start(_) => failure,
    }
}

/// Every user of this machine sees the arguments of a program, so this link is not the printed one and expires soon.
fn open_browser(server: &PageServer) {
    let Some(link) = server.short_link() else { return };
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
    is_json: bool,
}

impl RunCommands for PageCommands {
    fn carry_out(&self, run: &RunId, action: &PersonAction) -> Result<String, String> {
        let done = person_actions::carry_out(&self.env, &self.home, run, action);
        done.map(|done| confirmation(action, done)).map_err(|failure| failure.to_plain_text())
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
            0 => Ok("A test notification was sent".to_string()),
            count => Err(format!(
                "{} failed; `ralph notify --test` shows why",
                text::count_noun(count, "channel")
            )),
        }
    }

    fn report_entry(&self, report: &EntryReport) {
        match report {
            EntryReport::NextLink(link) if self.is_json => {
                // Without a reader, the person wants no other browser.
                let _printed = print_json(&NextLinkJson { v: 1, link });
            }
            EntryReport::NextLink(link) => {
                term::err("a browser has entered; the link for another one:\n");
                let _printed = term::out(&format!("{}\n", paint(term::BOLD, link)));
            }
            EntryReport::LinkReused => term::err(&format!(
                "{}: a used link was opened in another browser, so the session that it had opened has ended.\n\
                 If that was not you, another program reads your links. The newest link is still valid.\n",
                paint(term::WARN, "warning")
            )),
        }
    }
}

/// The confirmation as a sentence, unless it begins with the name of a requirement.
fn confirmation(action: &PersonAction, done: String) -> String {
    match action {
        PersonAction::Waive { .. }
        | PersonAction::Require { .. }
        | PersonAction::Approve { .. } => done,
        PersonAction::Pause
        | PersonAction::Resume
        | PersonAction::Cancel
        | PersonAction::Tell { .. }
        | PersonAction::SetLimits { .. }
        | PersonAction::Accept { .. } => wording::capitalized(&done),
    }
}
