//! `ralph hook`: reads one event from stdin and writes the answer. Exits 2 only to block a stop, and always answers
//! before the deadline. Parses its own arguments, because setting up clap would cost time at every stop.

use crate::{FAILURE, SUCCESS, failure, prompt_commands, term};
use ralph_core::id::RunId;
use ralph_core::units;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::paths::RalphHome;
use ralph_home::world::World;
use ralph_hook::dispatch::{self, HookCall};
use ralph_host::{BlockStyle, HookReply, HostProfile};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::stdin;
use ralph_sys::stdio::StandardStreams;
use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long before the host's timeout a hook answers. Results of gates that take longer are used at the next stop.
const ANSWER_MARGIN_SECS: u32 = 30;

pub(crate) const HELP: &str = "\
Answer one hook event of a coding agent

Reads the event as JSON from stdin and answers in the host's format. If no
run holds the session, prints nothing and exits 0.

Usage: ralph hook <HOST> [--style <STYLE>] [--deadline <DURATION>]

Arguments:
  <HOST>  Name the calling host: HOSTS

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

struct HookOptions {
    host: &'static HostProfile,
    call: HookCall,
    deadline: Duration,
}

enum ParsedHookArgs {
    Run(HookOptions),
    Help,
    Wrong(String),
}

pub(crate) fn run(env: Env, args: &[OsString], descriptors: StandardStreams) -> u8 {
    match parse_args(args) {
        // Without stdin there is no event, and without stdout no answer: allow the stop.
        ParsedHookArgs::Run(_) if descriptors == StandardStreams::SomeWereClosed => SUCCESS,
        ParsedHookArgs::Run(options) => answer_event(env, &options),
        ParsedHookArgs::Help => {
            // A failed write of the help text is not worth an error.
            drop(term::out(&HELP.replace("HOSTS", &host_names())));
            SUCCESS
        }
        // Not 2, which means "block" to the host: a mistake in its settings must not hold an agent forever.
        ParsedHookArgs::Wrong(why) => {
            term::err(&failure::plain_usage_error(&why, "run `ralph hook --help`"));
            FAILURE
        }
    }
}

fn host_names() -> String {
    ralph_host::HOSTS.map(|host| host.name).join(" or ")
}

fn answer_event(env: Env, options: &HookOptions) -> u8 {
    let Some(world) = World::new(env, Deadline::after(options.deadline)) else {
        return SUCCESS;
    };
    let world = World { host: options.host, ..world };
    contain_panics(world.home.clone(), world.current_run.clone());
    let reply = match stdin::read_event(std::io::stdin(), &world.step_deadline()) {
        Ok(input) => dispatch::handle_event(&world, options.call, &input),
        Err(error) => {
            let what = format!("the event on stdin could not be read: {error}");
            faults::record_fault(&world.home, &Fault::new(FaultKind::Input, &what));
            HookReply::default()
        }
    };
    // A block whose reason was not written would hold the agent without an explanation.
    if term::write_bytes(&reply.stderr, &reply.stdout) { reply.exit } else { SUCCESS }
}

/// Records a panic as a fault and exits 0: a bug of ours must not hold the agent.
fn contain_panics(home: RalphHome, in_hand: Arc<OnceLock<RunId>>) {
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        let what = format!("ralph itself failed at {place}: {message}");
        let run = in_hand.get().map(ToString::to_string);
        faults::record_fault(&home, &Fault { run, ..Fault::new(FaultKind::Controller, &what) });
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "unwinding would exit with another code"
        )]
        std::process::exit(0);
    }));
}

fn parse_args(args: &[OsString]) -> ParsedHookArgs {
    let mut host = None;
    let mut style = BlockStyle::Exit2;
    let mut deadline = None;
    let mut args = args.iter().map(|arg| arg.to_string_lossy());
    while let Some(arg) = args.next() {
        let (name, attached) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
            Some(_) | None => (arg.as_ref(), None),
        };
        match name {
            "-h" | "--help" => return ParsedHookArgs::Help,
            "--style" => match attached.or_else(|| args.next().map(Into::into)) {
                Some(value) => match BlockStyle::parse_name(&value) {
                    Some(known) => style = known,
                    None => {
                        return usage_error(
                            "the style must be exit2, context or json, not",
                            &value,
                        );
                    }
                },
                None => return usage_error("no value for", "--style"),
            },
            "--deadline" => match attached.or_else(|| args.next().map(Into::into)) {
                Some(value) => match units::parse_duration(&value) {
                    Some(ms) if ms > 0 => deadline = Some(Duration::from_millis(ms)),
                    Some(_) | None => return usage_error("not a duration such as `5s`:", &value),
                },
                None => return usage_error("no value for", "--deadline"),
            },
            _ if name.starts_with('-') => return usage_error("unknown option", name),
            name if host.is_none() => {
                host = ralph_host::host_named(name);
                if host.is_none() {
                    let known = host_names();
                    return usage_error(&format!("the host must be {known}, not"), name);
                }
            }
            _ => return usage_error("unexpected argument", name),
        }
    }
    match host {
        Some(host) => ParsedHookArgs::Run(HookOptions {
            host,
            call: HookCall { style, execute_command: prompt_commands::run_prompt_command },
            deadline: deadline.unwrap_or_else(|| {
                let timeout = host.hooks.default_timeout_secs;
                Duration::from_secs(timeout.saturating_sub(ANSWER_MARGIN_SECS).into())
            }),
        }),
        None => ParsedHookArgs::Wrong("the host is missing".to_string()),
    }
}

fn usage_error(what: &str, word: &str) -> ParsedHookArgs {
    ParsedHookArgs::Wrong(format!("{what} `{}`", ralph_core::text::clean_line(word, 80)))
}
