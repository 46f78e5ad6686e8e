//! The part of ralph that does. [`pipeline`] is the way of an event; read it first.
//!
//! The outside has one door each: nothing but [`clock`], [`mod@env`], [`fs`] and [`proc`] touches the clock, the
//! environment, a file or a process. Everything is synchronous and bounded: every wait takes a
//! [`clock::Deadline`] and every read a size.

pub mod adopt;
pub mod aftermath;
pub mod agents;
pub mod anchored;
pub mod checkpoint;
pub mod clock;
pub mod config;
pub mod contract;
pub mod control;
pub mod detect;
pub mod doctor;
pub mod driven;
pub mod env;
pub mod environment;
pub mod faults;
pub mod features;
pub mod findings;
pub mod forge;
pub mod fs;
pub mod gates;
pub mod git;
pub mod heard;
pub mod held;
pub mod holder;
pub mod import;
pub mod install;
pub mod journal;
pub mod ledger;
pub mod lists;
pub mod notify;
pub mod observe;
pub mod orchestrator;
pub mod overview;
pub mod owner;
pub mod paths;
pub mod pipeline;
pub mod plan;
pub mod proc;
pub mod prompts;
pub mod rehearsal;
pub mod sessions;
pub mod sources;
pub mod stages;
pub mod stdin;
pub mod stdio;
pub mod store;
pub mod succession;
pub mod surroundings;
pub mod tail;
pub mod tasks;
pub mod tools;
pub mod trail;
pub mod tree;
pub mod trust;
pub mod verify;
pub mod words;
pub mod worktree;
pub mod world;
