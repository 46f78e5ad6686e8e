//! `ralph hook`: reads one event from stdin and writes the answer. Exits 2 only to block a stop, and always answers
//! before the deadline. Parses its own arguments, because setting up clap would cost time at every stop.

use crate::{FAILURE, SUCCESS, person, report, term};
use ralph_core::id::RunId;
use ralph_core::limits;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::paths::Home;
use ralph_home::world::World;
use ralph_hook::pipeline::{self, Call};
use ralph_host::{Host, Reply, Style};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::stdin;
use ralph_sys::stdio::Descriptors;
use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Claude Code kills a hook after ten minutes, and the agent then stops unchecked. Results of gates that take longer
/// are used at the next stop.
const DEADLINE: Duration = Duration::from_secs(570);

pub(crate) const HELP: &str = "\
Answer one hook event of a coding agent

Reads the event as JSON from stdin and answers in the host's format. If no
run holds the session, prints nothing and exits 0.

Usage: ralph hook <HOST> [--style <STYLE>] [--deadline <DURATION>]

Arguments:
  <HOST>  Name the host that calls: claude

Options:
      --style <STYLE>        Choose how a block is reported [default: exit2]
                             exit2:   exit code 2, the reason on stderr, `{}` on stdout
                             context: exit code 0, `additionalContext` (clients from 2.1.163)
                             json:    exit code 0, one `{\"decision\":\"block\"}` object
      --deadline <DURATION>  Answer within this time in any case; must be less
                             than the host's timeout [default: 9m30s]
  -h, --help                 Print help

Exit codes: 0 allow, 2 block, 1 usage error (the agent may stop)

Examples:
  ralph hook claude < event.json
  echo '{\"hook_event_name\":\"Stop\",\"session_id\":\"abc\"}' | ralph hook claude --style json
";

struct Options {
    call: Call,
    deadline: Duration,
}

enum Parsed {
    Run(Options),
    Help,
    Wrong(String),
}

pub(crate) fn run(env: Env, args: &[OsString], descriptors: Descriptors) -> u8 {
    match parse(args) {
        // Without stdin there is no event, and without stdout no answer: allow the stop.
        Parsed::Run(_) if descriptors == Descriptors::Missing => SUCCESS,
        Parsed::Run(options) => answer(env, &options),
        Parsed::Help => {
            // A failed write of the help text is not worth an error.
            drop(term::out(HELP));
            SUCCESS
        }
        // Not 2, which means "block" to the host: a mistake in its settings must not hold an agent forever.
        Parsed::Wrong(why) => {
            term::err(&report::plain(&why, "run `ralph hook --help`"));
            FAILURE
        }
    }
}

fn answer(env: Env, options: &Options) -> u8 {
    let Some(world) = World::new(env, Deadline::after(options.deadline)) else {
        return SUCCESS;
    };
    contain_panics(world.home.clone(), world.in_hand.clone());
    let reply = match stdin::read(std::io::stdin(), &world.deadline()) {
        Ok(input) => pipeline::run(&world, options.call, &input),
        Err(error) => {
            let what = format!("the event on stdin could not be read: {error}");
            faults::record(&world.home, &Fault::new(Kind::Input, &what));
            Reply::default()
        }
    };
    // A block whose reason was not written would hold the agent without an explanation.
    if term::bytes(&reply.stderr, &reply.stdout) { reply.exit } else { SUCCESS }
}

/// Records a panic as a fault and exits 0: a bug of ours must not hold the agent.
fn contain_panics(home: Home, in_hand: Arc<OnceLock<RunId>>) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        let what = format!("ralph itself failed at {place}: {message}");
        let run = in_hand.get().map(ToString::to_string);
        faults::record(&home, &Fault { run, ..Fault::new(Kind::Controller, &what) });
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "unwinding would exit with another code"
        )]
        std::process::exit(0);
    }));
}

fn parse(args: &[OsString]) -> Parsed {
    let mut host = None;
    let mut style = Style::Exit2;
    let mut deadline = DEADLINE;
    let mut args = args.iter().map(|arg| arg.to_string_lossy());
    while let Some(arg) = args.next() {
        let (name, attached) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
            Some(_) | None => (arg.as_ref(), None),
        };
        match name {
            "-h" | "--help" => return Parsed::Help,
            "--style" => match attached.or_else(|| args.next().map(Into::into)) {
                Some(value) => match Style::parse_name(&value) {
                    Some(known) => style = known,
                    None => return wrong("the style must be exit2, context or json, not", &value),
                },
                None => return wrong("no value for", "--style"),
            },
            "--deadline" => match attached.or_else(|| args.next().map(Into::into)) {
                Some(value) => match limits::parse_duration(&value) {
                    Some(ms) if ms > 0 => deadline = Duration::from_millis(ms),
                    Some(_) | None => return wrong("not a duration such as `5s`:", &value),
                },
                None => return wrong("no value for", "--deadline"),
            },
            _ if name.starts_with('-') => return wrong("unknown option", name),
            name if host.is_none() => match Host::parse_name(name) {
                Some(known) => host = Some(known),
                None => return wrong("the host must be claude, not", name),
            },
            _ => return wrong("unexpected argument", name),
        }
    }
    match host {
        Some(host) => {
            Parsed::Run(Options { call: Call { host, style, person: person::answer }, deadline })
        }
        None => Parsed::Wrong("the host is missing".to_string()),
    }
}

fn wrong(what: &str, word: &str) -> Parsed {
    Parsed::Wrong(format!("{what} `{}`", ralph_core::text::line(word, 80)))
}
