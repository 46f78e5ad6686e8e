//! `ralph notify`: tests the configured notifications, and sends them in the background when a run ends or asks.

use super::print_json;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::{FAILURE, SUCCESS};
use clap::Args;
use ralph_core::id::RunId;
use ralph_deck::wording::safe_line;
use ralph_home::world::World;
use ralph_hook::notify::{
    self, NotificationResult, NotificationStatus, NotifiedEvent, NotifyError,
};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Serialize;
use std::time::Duration;

/// More than all channels together may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// Send a test notification
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  ralph notify --test
  ralph notify --test --json | jq '.told[].how'

Notifications are configured only in your own `~/.ralph/config.toml`:

  [notify]
  bell = true
  desktop = true
  command = [\"say-it\", \"--loud\"]
  webhook = \"https://hooks.example.org/T0/B0\"
  on = [\"verified\", \"stuck\", \"question\"]

The exit code is 0 if every channel worked, else 1."
)]
pub(crate) struct NotifyArgs {
    /// Send a test notification through every configured channel
    #[arg(long, required_unless_present = "about")]
    pub test: bool,
    /// Notify about the recorded end of this run
    #[arg(long, value_name = "RUN", hide = true, conflicts_with = "test")]
    pub about: Option<String>,
    /// Notify about this question of the run
    #[arg(long, value_name = "SEQ", hide = true, requires = "about")]
    pub question: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct NotifyJson<'a> {
    v: u8,
    told: &'a [NotificationResult],
}

pub(crate) fn run(env: &Env, args: &NotifyArgs) -> Result<u8, CommandFailure> {
    let home = super::open_home(env)?;
    let unknown = || CommandFailure::new("cannot determine ralph's home directory", "set `HOME`");
    let world = World::new(env.clone(), Deadline::after(DEADLINE)).ok_or_else(unknown)?;
    if let Some(run) = &args.about {
        let hint = "`ralph status --all` lists all runs";
        let run =
            RunId::parse(run).ok_or_else(|| CommandFailure::new("there is no such run", hint))?;
        let event = args.question.map_or(NotifiedEvent::End, NotifiedEvent::Question);
        notify::deliver_notification(&world, &run, event);
        return Ok(SUCCESS);
    }
    let deliveries = notify::send_test_message(&world).map_err(notify_failure)?;
    let worked = deliveries.iter().all(|delivery| delivery.how == NotificationStatus::Sent)
        && !deliveries.is_empty();
    if args.json {
        print_json(&NotifyJson { v: 1, told: &deliveries })?;
    } else if deliveries.is_empty() {
        let hint = format!(
            "add `[notify]` with `bell = true` to `{}`; `ralph notify --help` shows all settings",
            home.user_config().display()
        );
        return Err(CommandFailure::new("no notification is configured", &hint));
    } else {
        term::out(&deliveries.iter().map(channel_line).collect::<String>())?;
    }
    Ok(if worked { SUCCESS } else { FAILURE })
}

fn channel_line(delivery: &NotificationResult) -> String {
    let (mark, what) = match &delivery.how {
        NotificationStatus::Sent => (paint(term::GOOD, "✓"), "sent".to_string()),
        NotificationStatus::Skipped { why } => {
            (paint(term::DIM, "·"), format!("skipped: {}", safe_line(why)))
        }
        NotificationStatus::Failed { why } => {
            (paint(term::BAD, "✗"), format!("failed: {}", safe_line(why)))
        }
    };
    format!("{mark} {:<8} {what}\n", delivery.way)
}

fn notify_failure(error: NotifyError) -> CommandFailure {
    match error {
        NotifyError::Config(error) => error.into(),
        NotifyError::File(error) => error.into(),
        error @ (NotifyError::Spawn(_) | NotifyError::Garbled(_) | NotifyError::Start(_)) => {
            CommandFailure::caused_by("the message could not be sent", &error)
        }
    }
}
