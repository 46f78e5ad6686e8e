//! `ralph watch`: the board of all runs in a terminal.

use super::{open_home, person_actions, run_choice};
use crate::failure::CommandFailure;
use crate::foreground_editor;
use crate::term;
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::text;
use ralph_deck::person_action::PersonAction;
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability};
use ralph_sys::terminal;
use ralph_watch::{
    ColorDepth, GlyphSet, LoadRequest, LoadedPage, MouseUse, TerminalLook, WatchCommands,
    WatchEvent, WatchOptions, WatchPages, WatchStart, WatchState, buffer_text, local_minute,
    run_watch,
};

/// Ended runs are shown since the last look, but for at least this long.
const SHORTEST_LOOK_BACK_MS: u64 = 12 * 60 * 60 * 1000;
const LONGEST_LOOK_BACK_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// The frame that is printed where there is no terminal.
const PRINTED_COLUMNS: u16 = 80;
const PRINTED_ROWS: u16 = 24;
const LONGEST_MESSAGE: usize = 400;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph watch
  ralph watch k7f2
  ralph watch --project --no-bell
  ralph watch --once
  ralph watch --json | jq '.waiting[].question.text'

Shows which runs wait for you, which are working and which ended, and
updates by itself. Press ? for the keys: answer, tell, pause, waive,
cancel, filter. Quitting never stops a run. `ralph status --watch` is the
small form.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub(crate) struct WatchArgs {
    /// Open this run or session
    #[arg(value_name = "RUN|SESSION")]
    pub name: Option<String>,
    /// Show only the runs of this project
    #[arg(long, conflicts_with = "all")]
    pub project: bool,
    /// Show the runs of all projects (the default)
    #[arg(long)]
    pub all: bool,
    /// Select and open with the mouse; text is then selected with Shift
    #[arg(long)]
    pub mouse: bool,
    /// Do not ring the bell for questions and ends
    #[arg(long)]
    pub no_bell: bool,
    /// Print one frame as text and exit
    #[arg(long)]
    pub once: bool,
    /// Print the page as one JSON object and exit
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &WatchArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let opened = match &args.name {
        Some(name) => Some(run_choice::find_run(&home, name, |session| {
            let what = format!("no run owns session `{session}`");
            CommandFailure::new(&what, "`ralph watch` without a name shows all runs")
        })?),
        None => None,
    };
    let scope = if args.project { Some(run_choice::current_scope(env)?) } else { None };
    let seen_ms = shown_since(&home, clock::now_ms());
    let mut pages = WatchPages::open(env.clone(), home.clone(), scope, seen_ms)
        .map_err(|error| CommandFailure::caused_by("cannot open the board", &error))?;
    if args.json {
        return print_page(&mut pages, opened);
    }
    let glyphs = if env.supports_utf8() { GlyphSet::Unicode } else { GlyphSet::Ascii };
    if args.once || !terminal::is_interactive() || !env.can_move_cursor() {
        return print_frame(&mut pages, glyphs, opened);
    }
    let colors = if env.no_color() { ColorDepth::None } else { ColorDepth::Named };
    let options = WatchOptions {
        look: TerminalLook { glyphs, colors },
        mouse: if args.mouse { MouseUse::On } else { MouseUse::Off },
        has_bell: !args.no_bell,
    };
    let mut commands = BoardCommands { env, home: &home };
    let watched = run_watch(options, pages, &mut commands, opened);
    // A failure only makes the next board show older ends.
    drop(fs::create_private_dir(&home.deck()));
    drop(fs::replace(
        &home.last_look(),
        clock::now_ms().to_string().as_bytes(),
        Durability::Cached,
    ));
    watched.map_err(|error| CommandFailure::caused_by("cannot use the terminal", &error))
}

/// Since when ended runs are shown: since the last look, within limits.
fn shown_since(home: &RalphHome, now_ms: u64) -> u64 {
    let written = fs::read_if_exists(&home.last_look(), 64).ok().flatten();
    let last = written.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse::<u64>().ok());
    let (latest, earliest) =
        (now_ms.saturating_sub(SHORTEST_LOOK_BACK_MS), now_ms.saturating_sub(LONGEST_LOOK_BACK_MS));
    last.unwrap_or(latest).clamp(earliest, latest)
}

/// Prints the board, or the page of the run, as `ralph serve` has them.
fn print_page(pages: &mut WatchPages, opened: Option<RunId>) -> Result<(), CommandFailure> {
    let request = opened.map_or(LoadRequest::Board, LoadRequest::Run);
    let page = pages.load(&request);
    if let LoadedPage::Board(board) = page {
        super::print_json(&board)?;
    } else if let LoadedPage::Run(run) = page {
        super::print_json(&run)?;
    } else if let LoadedPage::Failed(why) = page {
        return Err(CommandFailure::new(
            &why,
            "`ralph status` reads the journals without an index",
        ));
    }
    Ok(())
}

/// Prints what the board shows, for scripts and for terminals that cannot move the cursor.
fn print_frame(
    pages: &mut WatchPages,
    glyphs: GlyphSet,
    opened: Option<RunId>,
) -> Result<(), CommandFailure> {
    let size = terminal::terminal_size().unwrap_or((PRINTED_COLUMNS, PRINTED_ROWS));
    let mut state = WatchState::new(&WatchStart {
        columns: size.0,
        rows: size.1,
        now_ms: clock::now_ms(),
        time_text: local_minute,
        look: TerminalLook { glyphs, colors: ColorDepth::None },
        is_live: false,
    });
    let request = opened.map_or(LoadRequest::Board, LoadRequest::Run);
    // The effects of a first load are bells and further loads, and one frame needs neither.
    drop(state.update(WatchEvent::Loaded(pages.load(&request))));
    let text = buffer_text(&state.draw());
    term::out(&format!("{}\n", text.trim_end()))?;
    Ok(())
}

/// The actions of the board, as the person at this terminal.
struct BoardCommands<'a> {
    env: &'a Env,
    home: &'a RalphHome,
}

impl WatchCommands for BoardCommands<'_> {
    fn carry_out(&mut self, run: &RunId, action: &PersonAction) -> Result<String, String> {
        let done = person_actions::carry_out(self.env, self.home, run, action);
        done.map(|done| format!("{run}  {done}")).map_err(|failure| one_line(&failure))
    }

    fn edit(&mut self, text: &str) -> Result<String, String> {
        let edited = foreground_editor::edit_text(self.env, self.home, "answer.txt", text);
        // An editor ends the last line, which a message does not need.
        edited.map(|text| text.trim_end().to_string()).map_err(|failure| one_line(&failure))
    }
}

fn one_line(failure: &CommandFailure) -> String {
    let text = failure.to_plain_text().replace("\n  ", "; ");
    text::clean_line(&text, LONGEST_MESSAGE)
}
