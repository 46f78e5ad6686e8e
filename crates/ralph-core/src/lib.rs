//! The part of ralph that makes decisions. It performs no I/O.
//!
//! `no_std` is a guard, not an optimisation: files, processes, clocks and the environment do not resolve here, so
//! everything a decision depends on must be passed in as a value. Start reading at [`decide`].
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod approval;
mod bounded_text;
pub mod ci_query;
pub mod claim;
pub mod closed_run;
pub mod cost_reading;
pub mod coverage;
pub mod decide;
pub mod digest64;
pub mod dispute;
pub mod drive;
pub mod ending;
pub mod event;
pub mod facts;
pub mod gate;
pub mod goal_origin;
pub mod hint;
pub mod hold;
pub mod host_name;
pub mod id;
pub mod input_bounds;
pub mod judge;
pub mod judge_requirement;
pub mod lesson;
pub mod limits;
pub mod line_set;
pub mod message_question;
pub mod model_price;
pub mod part_stop;
pub mod pipeline;
pub mod policy;
pub mod proof;
pub mod proof_summary;
pub mod reason;
pub mod record;
pub mod redact;
pub mod reminder;
pub mod request_address;
pub mod requirement;
pub mod requirement_tally;
pub mod retention;
pub mod run;
pub mod run_terms;
pub mod sealed_file;
mod serde_skip;
pub mod slash_command;
pub mod source;
pub mod status;
pub mod test_cases;
pub mod text;
pub mod units;
pub mod verdict;
pub mod waiver;
pub mod wildcard;
mod yes_no;
