//! `ralph hook`: bytes in, bytes out. Never exits 2 except to block, and never leaves an agent waiting.

use crate::{FAILURE, SUCCESS, person, report, term};
use ralph_core::host::{Host, Reply, Style};
use ralph_core::id::RunId;
use ralph_core::limits;
use ralph_exec::clock::Deadline;
use ralph_exec::env::Env;
use ralph_exec::faults::{self, Fault, Kind};
use ralph_exec::paths::Home;
use ralph_exec::pipeline::{self, Call};
use ralph_exec::stdin;
use ralph_exec::stdio::Descriptors;
use ralph_exec::world::World;
use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Claude Code kills a hook after ten minutes and lets the agent stop without a word. What gates have not said by
/// then they say at the next stop.
const DEADLINE: Duration = Duration::from_secs(570);

pub(crate) const HELP: &str = "\
Answer one hook event of a coding agent

Reads the event as JSON from stdin and answers the way the host understands. A session that no
run holds gets no output and exit code 0.

Usage: ralph hook <HOST> [--style <STYLE>] [--deadline <DURATION>]

Arguments:
  <HOST>  The agent that calls: claude

Options:
      --style <STYLE>        How a block is said [default: exit2]
                             exit2:   exit code 2, the reason on stderr, `{}` on stdout
                             context: exit code 0, `additionalContext` (clients from 2.1.163)
                             json:    exit code 0, one `{\"decision\":\"block\"}` object
      --deadline <DURATION>  Answer within this time, whatever happens: less than the time the host
                             gives the hook [default: 9m30s]
  -h, --help                 Print help

Exit codes: 0 allow, 2 block, 1 wrong usage (the agent may stop)

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
        // An event that cannot be read, or an answer that cannot be heard: then nobody is held.
        Parsed::Run(_) if descriptors == Descriptors::Missing => SUCCESS,
        Parsed::Run(options) => answer(env, &options),
        Parsed::Help => {
            // Nobody waits for help that cannot be written.
            drop(term::out(HELP));
            SUCCESS
        }
        // 2 is the host's word for "block"; a mistake in its settings must not hold an agent for ever.
        Parsed::Wrong(why) => {
            term::err(&report::plain(&why, "`ralph hook --help` shows how it is called"));
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
    // A block whose reason nobody can read would hold the agent without a word.
    if term::bytes(&reply.stderr, &reply.stdout) { reply.exit } else { SUCCESS }
}

/// Our bug is not the agent's trouble: it is written down, and the agent may stop.
fn contain_panics(home: Home, in_hand: Arc<OnceLock<RunId>>) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or("no message");
        let what = format!("ralph itself failed at {place}: {said}");
        let run = in_hand.get().map(ToString::to_string);
        faults::record(&home, &Fault { run, ..Fault::new(Kind::Controller, &what) });
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "unwinding would end in another exit code"
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
                    None => return wrong("the style can be exit2, context or json, not", &value),
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
                None => return wrong("the host can be claude, not", name),
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
