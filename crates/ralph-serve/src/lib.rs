//! `ralph serve`: the board, the runs and the history on a web page, for the person at this machine.
//!
//! Pages are rendered from the views of `ralph-deck`, and updated by fragments of the same templates over server-sent events.
//! An action of a page is the command of the same name, carried out by [`RunCommands`]; the page has no power that the
//! terminal lacks. Everything works without script. The server listens on the loopback unless a person chose another address,
//! and answers only browsers that have the link it printed.

mod access;
mod allowed_hosts;
mod api;
mod assets;
mod board_source;
mod board_visit;
mod change_totals;
mod cookies;
mod error_page;
mod guard;
mod history_source;
mod listener;
mod live;
mod live_hub;
mod live_page;
mod open_connections;
mod page_actions;
mod page_region;
mod query;
mod refusal;
mod report_page;
mod router;
mod run_actions;
mod run_source;
mod server_state;
mod stats_source;
mod template;
mod timed_stream;

pub use listener::{ListenRequest, PageServer, PageServerError, USUAL_PORT};
pub use run_actions::{EntryReport, RunCommands};
